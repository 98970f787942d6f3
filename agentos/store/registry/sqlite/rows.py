"""Rows of the registry as small objects that know their own seal.

Every row is checked when it is read: a byte that changed on disk raises StoreCorruptError and is never served. What a dataclass
generates beyond its constructor is left out, as in ports.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from agentos._ids import checkpoint_id_of, step_key_of
from agentos._text import shown
from agentos.core.checkpoints.lifecycle import CHECKPOINT_STATES, StepState
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.sealing import seal
from agentos.core.checkpoints.stored import StoredTask
from agentos.errors import StoreCorruptError

# Where a step stands that is only begun: right behind the newest checkpoint in the index.
UNPLACED = 1 << 62
# So many of the newest verifications of a checkpoint are never pruned.
KEPT_LOOKS = 10


@dataclass(eq=False, repr=False, match_args=False)
class TaskRow:
    """One row of `tasks`, in column order."""

    task_id: str
    status: str
    sequence: int
    head: int
    verified_head: int
    verified_by_type: bytes
    open_steps: int
    counted_to: int
    origin: int
    pruned: int
    claims_sum: int
    claim_holder: str | None
    claim_token: int
    claim_boot: str | None
    claim_expires: float | None
    claim_since: str | None
    created_at: str
    seal: bytes = b""

    def stored(self) -> StoredTask:
        """The row as the rules see it."""
        return StoredTask(
            self.task_id, self.status, self.sequence, self.head, self.origin, self.claim_token, self.claim_holder,
            self.claim_boot, self.claim_expires, self.claim_since,
        )  # fmt: skip

    def sealed(self) -> bytes:
        """The seal that belongs to the row as it is now."""
        return seal(
            "task/1",
            (self.task_id, self.status, self.sequence, self.head, self.verified_head, self.verified_by_type, self.open_steps,
             self.counted_to, self.origin, self.pruned, self.claims_sum, self.claim_holder, self.claim_token, self.claim_boot,
             self.claim_expires, self.claim_since, self.created_at),
        )  # fmt: skip


@dataclass(eq=False, repr=False, match_args=False)
class StepRow:
    """One row of `steps`, in column order."""

    step_key: int
    step_id: str
    task_id: str
    state: str
    place: int
    checkpoint_type: str
    work_item_id: str | None
    parent: int
    metadata: bytes
    base_path: str
    host: str
    runner: str
    token: int
    begun_at: str
    begin_snapshot: int | None
    begin_sha256: bytes
    expects: bytes | None = None
    baseline: bytes | None = None
    rerunnable: int = 1
    error: str | None = None
    checkpoint_id: str | None = None
    pack: bytes | None = None
    commit_snapshot: int | None = None
    commit_sha256: bytes | None = None
    committed_at: str | None = None
    nonce: str | None = None
    digest: bytes = b""
    verified: int = 0
    proven: int = 0
    verifications: int = 0
    shown: int = 0
    results: bytes | None = None
    last_verified_at: str | None = None
    superseded_by: str | None = None
    deleted_at: str | None = None
    seal: bytes = b""

    def digested(self) -> bytes:
        """The digest over what never changes again in this state."""
        return seal(
            "step/1",
            (self.step_id, self.task_id, self.state, self.place, self.checkpoint_type, self.work_item_id, self.parent,
             self.metadata, self.base_path, self.host, self.runner, self.token, self.begun_at, self.begin_sha256, self.expects,
             self.baseline, self.rerunnable, self.checkpoint_id, self.pack, self.commit_sha256, self.committed_at, self.nonce),
        )  # fmt: skip

    def sealed(self) -> bytes:
        """The seal over the digest and what may still change."""
        return seal(
            "step-state/1",
            (self.digest, self.error, self.verified, self.proven, self.verifications, self.shown, self.results,
             self.last_verified_at, self.superseded_by, self.deleted_at, self.begin_snapshot, self.commit_snapshot),
        )  # fmt: skip

    @property
    def is_checkpoint(self) -> bool:
        """Whether the step was committed and has not been deleted."""
        return self.state in CHECKPOINT_STATES and self.deleted_at is None

    @property
    def is_live(self) -> bool:
        """Whether it is on the timeline."""
        return self.is_checkpoint and self.superseded_by is None

    @property
    def public_id(self) -> str:
        """The checkpoint's id."""
        return self.checkpoint_id or checkpoint_id_of(self.step_id)

    def stored(self, snapshot: bytes, results: bytes | None, *, repeated: bool = False) -> StoredStep:
        """The row as the rules see it."""
        ended = self.state in CHECKPOINT_STATES
        return StoredStep(
            self.step_id, self.task_id, StepState(self.state), self.checkpoint_type, self.work_item_id, self.parent,
            self.metadata, self.base_path, self.host, self.begun_at, self.error, snapshot,
            self.public_id if ended else None, self.place if ended else None, self.pack, self.committed_at,
            bool(self.verified), self.verifications, self.last_verified_at, results, self.superseded_by, repeated, self.is_live,
            bool(self.proven), self.runner, self.expects, self.baseline, bool(self.rerunnable),
        )  # fmt: skip


Row = TypeVar("Row", TaskRow, StepRow)


def copied(row: Row) -> Row:
    """The same row as another object, without the ceremony of `copy.copy`: this is on the path of every step."""
    other = object.__new__(type(row))
    other.__dict__.update(row.__dict__)
    return other


def checked_task(columns: tuple[Any, ...]) -> TaskRow:
    """A task row whose seal fits."""
    row = TaskRow(*columns)
    _refuse_damaged(row.seal, row.sealed, f"task {shown(row.task_id, 80)}")
    return row


def checked_step(columns: tuple[Any, ...]) -> StepRow:
    """A step row whose digest and seal fit."""
    row = StepRow(*columns)
    what = f"step {shown(row.step_id, 80)}"
    if type(row.step_id) is not str or step_key_of(row.step_id) != row.step_key:
        raise damaged(what)
    _refuse_damaged(row.digest, row.digested, what)
    _refuse_damaged(row.seal, row.sealed, what)
    return row


def _refuse_damaged(stored: object, computed: Any, what: str) -> None:
    try:
        good = stored == computed()
    except TypeError:
        # A damaged row can hold a value of any type, even one the seal cannot be computed over.
        good = False
    if not good:
        raise damaged(what)


def damaged(what: str) -> StoreCorruptError:
    """The error for a part of the registry that is not as it was written."""
    return StoreCorruptError(
        f"{what}: the registry is damaged; what is stored is not what was written",
        hint="nothing was served from it; restore a backup of the registry",
    )
