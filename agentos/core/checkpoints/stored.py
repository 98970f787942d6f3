"""What recovery, claims and `once` keep in the registry. Plain data, as in ports.py; apart, because few processes need it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False, repr=False, match_args=False)
class Decision:
    """Who decided what about a step, a checkpoint or a task, and why. Kept for good."""

    by: str
    what: str
    about: str
    reason: str
    at: str


@dataclass(eq=False, repr=False, match_args=False)
class StoredTask:
    """A task as it is stored. `origin` is the last number drawn before it was started over."""

    task_id: str
    status: str
    sequence: int
    head: int
    origin: int
    token: int
    holder: str | None
    boot: str | None
    expires: float | None
    since: str | None


@dataclass(eq=False, repr=False, match_args=False)
class StoredCall:
    """A call that must happen at most once. `runner` is the process that makes it, and which of its calls this is."""

    key: str
    task_id: str | None
    request_hash: str
    state: str
    result: bytes | None
    expects: bytes | None
    baseline: bytes | None
    base_path: str
    runner: str | None
    created_at: str
