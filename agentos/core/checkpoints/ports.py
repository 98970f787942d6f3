"""The memory that the rules need, as one small port.

Each backend keeps these promises, and one contract suite tests them. Everything crossing the port is plain data: JSON as bytes
made by `codec`, times as ISO 8601 text in UTC. Nobody changes what crossed it; the classes are not frozen only because making a
frozen one takes three times as long, and several are made in every step. What a dataclass generates beyond its constructor is
left out, because every restart of an agent would wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agentos.core.checkpoints.lifecycle import StepState

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentos.core.checkpoints.archived import Take
    from agentos.core.checkpoints.checkup import Examined, Progress
    from agentos.core.checkpoints.lease import Lease
    from agentos.core.checkpoints.nesting import Entry
    from agentos.core.checkpoints.stored import (
        Decision,
        Needing,
        Place,
        StoredCall,
        StoredLog,
        StoredLook,
        StoredOverview,
        StoredRestore,
        StoredReview,
        StoredTask,
        StoredWorkspace,
    )


@dataclass(eq=False, repr=False, match_args=False)
class Intent:
    """A step about to begin."""

    step_id: str
    task_id: str
    checkpoint_type: str
    work_item_id: str | None
    snapshot: bytes
    metadata: bytes
    base_path: str
    host: str
    runner: str
    begun_at: str
    expects: bytes | None = None
    baseline: bytes | None = None
    rerunnable: bool = True
    lease: Lease | None = None
    # What the step said it would change, as it is now.
    touched: bytes | None = None


@dataclass(eq=False, repr=False, match_args=False)
class Claim:
    """What one item of a pack is about, and for how long it stands; and by which rules it leaves something out."""

    subject: str
    item: int
    lifetime: str
    rules: str = ""


@dataclass(eq=False, repr=False, match_args=False)
class Look:
    """One verification of a checkpoint: its outcome and, item by item, what was found."""

    outcome: str
    results: bytes
    at: str
    by: str


@dataclass(eq=False, repr=False, match_args=False)
class Ending:
    """How a step becomes a checkpoint. `look` is None when nothing was verified; `nonce` tells this call from any other."""

    step_id: str
    checkpoint_id: str | None
    pack: bytes
    snapshot: bytes | None
    claims: tuple[Claim, ...]
    look: Look | None
    base_path: str
    committed_at: str
    nonce: str
    lease: Lease | None = None
    # Set when recovery found the step's effects in place and ends it on behalf of whoever began it.
    adopted: bool = False
    decision: Decision | None = None


@dataclass(eq=False, repr=False, match_args=False)
class StoredStep:
    """A step as it is stored.

    `snapshot` is the one to resume from: of its end if one was given there, else of its begin; empty if it was not asked for.
    """

    step_id: str
    task_id: str
    state: StepState
    checkpoint_type: str
    work_item_id: str | None
    parent: int
    metadata: bytes
    base_path: str
    host: str
    begun_at: str
    error: str | None
    snapshot: bytes
    # None until the step is a checkpoint.
    checkpoint_id: str | None = None
    sequence: int | None = None
    pack: bytes | None = None
    committed_at: str | None = None
    verified: bool = False
    verifications: int = 0
    last_verified_at: str | None = None
    results: bytes | None = None
    superseded_by: str | None = None
    # Set by `commit`: an earlier call with the same nonce had stored it already.
    repeated: bool = False
    # Whether it is a checkpoint on the timeline: neither deleted nor rolled back past.
    live: bool = False
    # Whether a look ever verified it.
    proven: bool = False
    runner: str = ""
    expects: bytes | None = None
    baseline: bytes | None = None
    rerunnable: bool = True


class Registry(Protocol):
    """Tasks, steps, evidence and verifications, kept durably."""

    # The migrations that this process applied when it opened the registry.
    applied: list[str]

    def begin(self, intent: Intent) -> None:
        """Make the intent durable; a task that is not there is created.

        Raises:
            TaskFinishedError: the task takes no further steps.
            TaskHeldError: without a lease, and another living holder has the task.
            LeaseLostError: the lease is not the task's current one.
            StepIdTakenError: nothing was stored; another id will do.
        """

    def step(self, step_id: str) -> StoredStep | None:
        """The step with the snapshot of its begin, whatever became of it."""

    def open_steps(self, task_id: str, *, snapshots: bool = True) -> list[StoredStep]:
        """The steps that were begun and have not ended, oldest first."""

    def interrupted_tasks(self) -> list[str]:
        """The tasks with steps that have not ended, in order."""

    def note_error(self, step_id: str, error: str) -> None:
        """Write down what ended a step's block. The step stays begun."""

    def commit(self, ending: Ending) -> StoredStep:
        """Store checkpoint, evidence, verification and the end of the step in one transaction, with the task's next number.

        Raises:
            StepNotFoundError: no such step.
            StepAlreadyCommittedError: the step ended before; nothing was stored.
            CheckpointIdTakenError: nothing was stored.
            LeaseLostError: the task has another token by now than when the step began; nothing was stored.
        """

    def abandon(self, step_id: str, lease: Lease | None, decision: Decision) -> bool:
        """End a begun step without a checkpoint; False if it was abandoned before.

        Raises:
            StepAlreadyCommittedError: the step became a checkpoint; nothing changed.
        """

    def checkpoint(self, checkpoint_id: str) -> StoredStep | None:
        """The checkpoint of this id, superseded or not; None if it never was or was deleted."""

    def last_verified(self, task_id: str, checkpoint_type: str | None) -> StoredStep | None:
        """The newest live checkpoint whose last known verification passed. An index lookup."""

    def checkpoints(
        self, task_id: str, limit: int, checkpoint_type: str | None, *, include_superseded: bool
    ) -> list[StoredStep]:
        """Checkpoints of the task, newest first."""

    def record_look(self, step_id: str, seen: str | None, look: Look, *, decides: bool = True, proves: bool = False) -> None:
        """Append a verification; it decides the flag only if no other one did since `seen`, when the last one had.

        Args:
            proves: the world of the checkpoint was measured to hold: from now on it counts as verified at least once.
        """

    def supersede_later(self, step_id: str, lease: Lease | None = None) -> int:
        """End the timeline at this checkpoint; how many later ones left it.

        Raises:
            SupersededError: this one is not on the timeline itself.
            TaskHeldError, LeaseLostError: as for `begin`.
        """

    # Recovery.

    def task(self, task_id: str) -> StoredTask | None:
        """The task, or None."""

    def candidates(self, task_id: str, below: int, limit: int, *, deleted: bool = False) -> list[StoredStep]:
        """Live checkpoints with a number below this one, newest first, without their snapshots; or with the deleted ones."""

    def numbered(self, task_id: str, sequences: Sequence[int]) -> list[StoredStep]:
        """The checkpoints of these numbers, whatever became of them, without their snapshots."""

    def claims(self, task_id: str) -> tuple[list[Entry], list[Entry]]:
        """Every claim of the task: those that are part of later worlds, and the others."""

    def restart(self, task_id: str, lease: Lease, decision: Decision) -> int:
        """Take every checkpoint off the timeline and abandon every open step; how many checkpoints that were."""

    def reopen(self, task_id: str, lease: Lease, decision: Decision) -> None:
        """Let a finished task take steps again."""

    def decide(self, task_id: str, lease: Lease, decision: Decision) -> None:
        """Write down what was decided."""

    def decisions(self, task_id: str) -> list[Decision]:
        """What was decided about the task, oldest first."""

    # Who may go on.

    def claim(self, task_id: str, holder: str, ttl: float | None) -> Lease:
        """Make this holder the one who may go on; a task that is not there is created.

        Raises:
            TaskHeldError: another living holder has it.
        """

    def free(self, task_id: str, decision: Decision) -> bool:
        """End the claim of a holder that is not seen to live; False if nobody has the task.

        Raises:
            TaskHeldError: the holder lives.
        """

    def release(self, lease: Lease) -> bool:
        """Let go of the task; False if the lease was not the current one any more."""

    # At most once.

    def once(self, key: str) -> StoredCall | None:
        """What is stored under the key."""

    def begin_once(self, call: StoredCall, lease: Lease | None) -> StoredCall | None:
        """Store a pending call durably; if the key is there already nothing is stored, and what is there is returned."""

    def end_once(self, call: StoredCall, runner: str | None) -> bool:
        """Store what became of a call if it is still pending in this runner's hands; False if it is not."""

    def forget_once(self, key: str) -> bool:
        """Remove the key; False if it is not there."""

    # Hands.

    def begin_restore(self, stored: StoredRestore) -> None:
        """Write down durably what is about to be changed."""

    def update_restore(self, stored: StoredRestore) -> None:
        """Write down durably how far it came."""

    def restore(self, restore_id: str) -> StoredRestore | None:
        """The restore of this id, or None."""

    def restores(self, task_id: str | None) -> list[StoredRestore]:
        """The restores of a task, oldest first; of every task for None."""

    def touched(self, step_id: str) -> bytes | None:
        """What the step said it would change, as it was when it began."""

    def enter_workspace(self, workspace: StoredWorkspace) -> None:
        """Write down in which folder a task works.

        Raises:
            WorkspaceTakenError: another unfinished task works there, and neither said that it shares it.
        """

    def workspaces(self) -> list[tuple[StoredWorkspace, str | None]]:
        """Every workspace, and the status of its task."""

    def claimed_elsewhere(self, task_id: str) -> list[tuple[str, str, str]]:
        """Task, subject and base of every file and tree that the newest claims of other unfinished tasks are about."""

    def needing(self, after: int) -> list[tuple[int, Needing]]:
        """The steps with a key above this one for which kept content may be needed, with their keys in ascending order."""

    def needed_by(self, key: int) -> Needing | None:
        """The same of the step with this key, as it is now; None if it needs nothing any more."""

    # Reading for people. Each of these costs what it returns, however long the timeline is.

    def overviews(self, after: str, limit: int, *, unfinished: bool) -> list[StoredOverview]:
        """The tasks with an id above this one, in order. One that is damaged is among them, and says so.

        Args:
            unfinished: only tasks that take further steps; finished ones are read past.
        """

    def overview(self, task_id: str) -> StoredOverview | None:
        """The same of one task; None if there is none."""

    def log(self, task_id: str, below: Place, limit: int, looks: int) -> StoredLog | None:
        """What lies below a place of the task's log, so many of each kind, and of each checkpoint so many looks.

        None if there is no such task. Snapshots are not read; a checkpoint that is damaged is among them, without its step.
        """

    def looks(self, step_id: str, below: int, limit: int) -> list[StoredLook]:
        """The looks at the checkpoint of this step with a number below this one, newest first."""

    def reviews(self, after: int, limit: int) -> list[StoredReview]:
        """The steps with a key above this one, of every task and whatever became of them, in ascending order."""

    def size(self) -> int:
        """Bytes that the registry takes on the disk."""

    # Names.

    def ids(self, kind: str, beginning: str, limit: int) -> list[str]:
        """The ids of this kind (`task`, `checkpoint`, `step`, `restore`) that begin so; what was deleted has none.

        Ids that callers gave and ids that were made are each in order, and an id that is exactly this comes first of its own.
        """

    # Retention.

    def prune(self, task_id: str | None, keep_verified: int, before: str | None, *, dry_run: bool) -> dict[str, int]:
        """Remove what no kept world needs; how many of each kind."""

    def delete(self, checkpoint_id: str) -> bool:
        """Remove the snapshot and hide the checkpoint; False if there is none."""

    def finish(self, task_id: str, lease: Lease | None = None) -> None:
        """The task takes no further steps, and nobody holds it."""

    def later_claims(self, task_id: str, subject: str, after: int) -> list[tuple[str, int]]:
        """Step and item of each later claim about the subject, oldest first, whatever became of its checkpoint."""

    def examine(self, *, deep: bool, progress: Progress) -> Examined:
        """Look at every row, in one view of the registry: is it as it was written, and is everything there?

        Raises nothing for what is damaged: that is what it tells.
        """

    def copy_to(self, path: str) -> None:
        """Copy the whole registry, as it is at one moment, into a file that is not there yet."""

    def export_task(self, task_id: str, take: Take) -> Examined:
        """Hand on every row of one task, in one view of the registry; it may be asked for once more from the start.

        Raises:
            CheckpointNotFoundError: nothing was ever begun under this id.
            StoreCorruptError: something of it is damaged or gone.
        """

    def import_task(self, source: Callable[[Take], None]) -> str:
        """Store a task that comes from elsewhere, wholly or not at all; its id. `source` hands on every row.

        Raises:
            ArchiveRefusedError: something that comes is not as it was written.
            TaskTakenError, CheckpointIdTakenError, WorkspaceTakenError: something of it is here already.
        """

    def settle(self) -> None:
        """Make everything that can be read now durable. Reading alone does not prove that."""

    def close(self) -> None:
        """Let go of every resource."""
