"""What the workflow stores raise, besides what is in `agentos.errors`.

Their contract speaks in Python's own terms: a store that cannot be read or written is an OSError, damaged content a ValueError.
So each error here is both that and one of ours.
"""

from __future__ import annotations

from typing import Any

from agentos import errors
from agentos._text import shown


class CheckpointNotFoundError(errors.CheckpointNotFoundError):
    """A workflow is to be resumed from a checkpoint that is not there."""

    def __init__(self, workflow_id: str, checkpoint_id: str | None = None) -> None:
        self.workflow_id = workflow_id
        self.checkpoint_id = checkpoint_id
        which = f", checkpoint {shown(checkpoint_id, 80)}" if checkpoint_id else ""
        super().__init__(
            f"workflow {shown(workflow_id, 80)}{which}: no checkpoint is stored",
            hint="list_checkpoints() says what there is",
            workflow_id=workflow_id,
            checkpoint_id=checkpoint_id,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.workflow_id, self.checkpoint_id))


class InputMismatchError(errors.CheckpointError):
    """A workflow is to be resumed with other inputs than those its checkpoint was made with."""

    def __init__(self, expected_hash: str, actual_hash: str) -> None:
        self.expected_hash = expected_hash
        self.actual_hash = actual_hash
        super().__init__(
            f"inputs: expected hash {shown(expected_hash, 80)}, as in the checkpoint, found {shown(actual_hash, 80)}",
            hint="resume with the inputs of the first run, or start anew",
            expected_hash=expected_hash,
            actual_hash=actual_hash,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.expected_hash, self.actual_hash))


class CorruptCheckpointError(errors.StoreCorruptError, ValueError):
    """What is stored is no checkpoint, or not the one that its name promises."""


class CheckpointIOError(errors.StoreUnavailableError, OSError):
    """The store cannot be read or written."""
