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


@dataclass(eq=False, repr=False, match_args=False)
class StoredRestore:
    """A restore in the journal: `begun` before anything changed, `applying` while it may have, then `done` or `undone`.

    `staging` is the folder in the base that holds what is on its way in and out; `operations` is JSON.
    """

    restore_id: str
    task_id: str
    checkpoint_id: str
    base_path: str
    staging: str
    operations: bytes
    state: str
    undoes: str | None
    begun_at: str
    ended_at: str | None = None


@dataclass(eq=False, repr=False, match_args=False)
class StoredWorkspace:
    """The folder that a task works in, and whether it said that it shares it."""

    task_id: str
    path: str
    shared: bool
    since: str


@dataclass(eq=False, repr=False, match_args=False)
class Needing:
    """A step for which kept content may be needed: by its pack, or by what it said it would change."""

    step_id: str
    task_id: str
    pack: bytes | None
    touched: bytes | None
