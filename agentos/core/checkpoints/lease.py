"""The lease that a claim gives. The rules about it are in claiming.py."""

from __future__ import annotations

from typing import NamedTuple


class Lease(NamedTuple):
    """The right to go on with a task, until another holder takes it. Good in the process that it was made in.

    `expires` is in seconds since the machine started, or None; `ttl` is what it was asked for with.
    """

    task_id: str
    holder: str
    token: int
    expires: float | None = None
    ttl: float | None = None
    process: str = ""
