"""What recovery, claims and `once` keep in the registry. Plain data, as in ports.py; apart, because few processes need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentos.core.checkpoints.ports import StoredStep

# Above every number and every key that is ever given.
ABOVE_ALL = (1 << 63) - 1


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
    """The folder that a task works in, whether it said that it shares it, and what it leaves out of it."""

    task_id: str
    path: str
    shared: bool
    exclude: tuple[str, ...]
    since: str


@dataclass(eq=False, repr=False, match_args=False)
class Needing:
    """A step for which kept content may be needed: by its pack, or by what it said it would change."""

    step_id: str
    task_id: str
    pack: bytes | None
    touched: bytes | None


@dataclass(eq=False, repr=False, match_args=False)
class StoredLook:
    """One look at a checkpoint. Of the one at its commit only the results are kept: `at` and `outcome` are in them."""

    number: int
    at: str | None
    by: str | None
    outcome: str | None
    counted: bool
    results: bytes


@dataclass(eq=False, repr=False, match_args=False)
class StoredOverview:
    """A task at a glance. `damage` says why the rest is not known, where it is not what was written.

    `verified` is the newest checkpoint whose last known verification passed; `opened` are the newest of its `open_steps`.
    """

    task_id: str
    task: StoredTask | None = None
    verified: StoredStep | None = None
    open_steps: int = 0
    opened: tuple[StoredStep, ...] = ()
    damage: str = ""


@dataclass(frozen=True)
class Place:
    """A place in a task's log, by the keys of what it is made of: everything older lies below it."""

    number: int = ABOVE_ALL
    key: int = ABOVE_ALL
    decision: int = ABOVE_ALL
    restore: tuple[str, str] = ("~", "~")


@dataclass(eq=False, repr=False, match_args=False)
class StoredCheckpoint:
    """A checkpoint in a log with its newest looks; without a step if its row is not what was written."""

    number: int
    step: StoredStep | None
    looks: tuple[StoredLook, ...] = ()


@dataclass(eq=False, repr=False, match_args=False)
class StoredLog:
    """What lies below a place of a task's log, of each kind the newest first, with the key that each is found by."""

    checkpoints: list[StoredCheckpoint]
    steps: list[tuple[int, StoredStep | None]]
    decisions: list[tuple[int, Decision]]
    restores: list[StoredRestore]


@dataclass(eq=False, repr=False, match_args=False)
class StoredReview:
    """A step with all its looks. Its snapshots are counted, not read."""

    key: int
    step: StoredStep
    looks: tuple[StoredLook, ...]
    snapshot_bytes: int
