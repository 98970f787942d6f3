"""The memory that the rules need, as one small port.

Each backend keeps these promises, and one contract suite tests them. Everything crossing the port is plain data: JSON as bytes
made by `codec`, times as ISO 8601 text in UTC. Nobody changes what crossed it; the classes are not frozen only because making a
frozen one takes three times as long, and several are made in every step. What a dataclass generates beyond its constructor is
left out, because every restart of an agent would wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentos.core.checkpoints.lifecycle import StepState


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
    begun_at: str


@dataclass(eq=False, repr=False, match_args=False)
class Claim:
    """What one item of a pack is about, and for how long it stands."""

    subject: str
    item: int
    lifetime: str


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


@dataclass(eq=False, repr=False, match_args=False)
class StoredStep:
    """A step as it is stored. `snapshot` is the one to resume from: of its end if one was given there, else of its begin."""

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


class Registry(Protocol):
    """Tasks, steps, evidence and verifications, kept durably."""

    def begin(self, intent: Intent) -> None:
        """Make the intent durable; a task that is not there is created.

        Raises:
            TaskFinishedError: the task takes no further steps.
            StepIdTakenError: nothing was stored; another id will do.
        """

    def step(self, step_id: str) -> StoredStep | None:
        """The step with the snapshot of its begin, whatever became of it."""

    def open_steps(self, task_id: str) -> list[StoredStep]:
        """The steps that were begun and have not ended, oldest first."""

    def note_error(self, step_id: str, error: str) -> None:
        """Write down what ended a step's block. The step stays begun."""

    def commit(self, ending: Ending) -> StoredStep:
        """Store checkpoint, evidence, verification and the end of the step in one transaction, with the task's next number.

        Raises:
            StepNotFoundError: no such step.
            StepAlreadyCommittedError: the step ended before; nothing was stored.
            CheckpointIdTakenError: nothing was stored.
        """

    def checkpoint(self, checkpoint_id: str) -> StoredStep | None:
        """The checkpoint of this id, superseded or not; None if it never was or was deleted."""

    def last_verified(self, task_id: str, checkpoint_type: str | None) -> StoredStep | None:
        """The newest live checkpoint whose last known verification passed. An index lookup."""

    def checkpoints(
        self, task_id: str, limit: int, checkpoint_type: str | None, *, include_superseded: bool
    ) -> list[StoredStep]:
        """Checkpoints of the task, newest first."""

    def record_look(self, step_id: str, seen: int, look: Look) -> None:
        """Append a verification; it decides the flag only if none was recorded since `seen` of them had been."""

    def supersede_later(self, step_id: str) -> int:
        """End the timeline at this checkpoint; how many later ones left it.

        Raises:
            SupersededError: this one is not on the timeline itself.
        """

    def delete(self, checkpoint_id: str) -> bool:
        """Remove the snapshot and hide the checkpoint; False if there is none."""

    def finish(self, task_id: str) -> None:
        """The task takes no further steps."""

    def later_claims(self, task_id: str, subject: str, after: int) -> list[tuple[str, int]]:
        """Step and item of each later claim about the subject, oldest first, whatever became of its checkpoint."""

    def settle(self) -> None:
        """Make everything that can be read now durable. Reading alone does not prove that."""

    def close(self) -> None:
        """Let go of every resource."""
