"""Every error agentos raises, on one screen.

One tree: whatever the manager raises is a CheckpointError, and a CheckpointError is an AgentosError.
A message says subject, expected, found; the remedy stands apart in `hint`, and what a program needs is in `diagnostics()`.
Messages are escaped when they are made (see `_text.py`), so printing one never drives a terminal.
"""

from __future__ import annotations

from typing import Any


class AgentosError(Exception):
    """Something agentos refuses or could not do."""

    def __init__(self, message: str, *, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self._details = details

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with the rendered text alone and lose hint and details.
        return (_rebuild, (type(self), self.message, self.hint, self._details))

    def diagnostics(self) -> dict[str, Any]:
        """The same error for a program: type, message, hint and every detail by name."""
        return {"error": type(self).__name__, "message": self.message, "hint": self.hint, **self._details}


def _rebuild(kind: type[AgentosError], message: str, hint: str, details: dict[str, Any]) -> AgentosError:
    return kind(message, hint=hint, **details)


class CheckpointError(AgentosError):
    """Anything that goes wrong with steps, checkpoints and their evidence."""


# What the caller gave.


class InvalidInputError(CheckpointError, ValueError):
    """An argument is not of the form that was promised; nothing was changed."""


class SnapshotError(InvalidInputError):
    """A value that JSON cannot carry and give back equal; the message has its path."""


class SerializeStateError(SnapshotError):
    """A run's state that JSON cannot carry, or that is too large to be stored; the message has its path."""


class DataTypeError(CheckpointError, TypeError):
    """What a run store was given to save is not bytes, bytearray or memoryview; nothing was stored."""


class CheckpointFormatError(CheckpointError, ValueError):
    """These bytes are no checkpoint in a version that this code reads."""


class EvidenceDefinitionError(InvalidInputError):
    """Evidence that could never be checked as written: unknown key, wrong type, malformed hash."""


class CheckpointNotFoundError(CheckpointError, LookupError):
    """No checkpoint has this id."""


class StepNotFoundError(CheckpointError, LookupError):
    """No step has this id."""


# What the lifecycle forbids.


class StepAlreadyCommittedError(CheckpointError):
    """The step ended before; nothing was stored."""


class StepIdTakenError(CheckpointError):
    """A new step's id cannot be told from another's; nothing was stored. The manager draws another one by itself."""


class CheckpointIdTakenError(CheckpointError):
    """Another checkpoint has this id; nothing was stored."""


class TaskFinishedError(CheckpointError):
    """The task was finished; it takes no further steps."""


class SupersededError(CheckpointError):
    """The checkpoint was rolled back past and is no longer on the timeline."""


class NotInterruptedError(CheckpointError):
    """The step is not one that a person may settle: it ended, or it is still under way."""


# Who may go on.


class TaskHeldError(CheckpointError):
    """Another living holder has the task; the message says who, and since when."""


class WorkspaceTakenError(CheckpointError):
    """Another unfinished task works in this folder, or in one that overlaps it."""


class LeaseLostError(CheckpointError):
    """This lease, or the one a step was begun under, is not the task's current one; nothing was changed."""


# What must happen at most once.


class OnceConflictError(CheckpointError):
    """The key was used for another request; nothing was done."""


class OncePendingError(CheckpointError):
    """The call was begun and it is not known whether it happened; it is not made again."""


class NotPerformed(CheckpointError):  # noqa: N818 - what a caller's function raises to say so, not something that went wrong here
    """Raised by the function given to `once`: it did nothing, and may be called again."""


# What the world says.


class NotSafeToResumeError(CheckpointError):
    """No state can be proven now, or somebody must decide first; `recovery` says what differs and what can be done."""

    @property
    def recovery(self) -> Any:
        """The `Recovery` that led to this."""
        return self._details.get("recovery")

    def diagnostics(self) -> dict[str, Any]:
        """The same error for a program, the recovery as JSON can carry it."""
        recovery = self.recovery
        return {**super().diagnostics(), "recovery": None if recovery is None else recovery.to_dict()}


class EvidenceMismatchError(CheckpointError):
    """The world differs from what a checkpoint claims; it is not safe to stand there."""


class EvidenceUnavailableError(CheckpointError):
    """What a checkpoint claims could not be checked; that is no sign of damage."""


class NotVerifiedError(CheckpointError):
    """A step's block ended, and what it claimed does not hold or nothing was claimed; its checkpoint is stored unverified."""


# What the store says.


class StoreError(CheckpointError):
    """The registry cannot be used as it is."""


class StoreUnavailableError(StoreError):
    """The registry cannot be opened, read or written here: missing folder, permission, read-only or full disk."""


class StoreBusyError(StoreError):
    """Another process held the write lock until this manager's deadline; nothing was stored."""


class StoreCorruptError(StoreError):
    """What was read is not what was written; it is reported and never served."""


class StoreReplacedError(StoreError):
    """The registry's file was removed or replaced under a running process; what was just written may be lost."""


class OutcomeUnknownError(StoreError):
    """The disk failed during a commit: it may or may not be there. The next call settles which."""


class ForeignDatabaseError(StoreError):
    """The file is a database, but not one of ours, or no database at all."""


class ManagerClosedError(StoreError):
    """The manager was closed before this call."""


class StoreClosedError(StoreError):
    """The run store was closed before this call."""


# What the vault says.


class VaultError(StoreError):
    """Kept content cannot be used as it is."""


class ContentMissingError(VaultError):
    """Content that should have been kept is not in the vault; the message names it."""


class ContentDamagedError(VaultError):
    """What the vault holds under a name is not what was kept; it is reported and never served."""


class VaultFullError(VaultError):
    """Keeping this would take the vault over its budget; nothing was kept, and nothing was committed."""


# What leaves and what comes in.


class ArchiveRefusedError(CheckpointError):
    """An archive that is not what agentos writes, or not any more; nothing of it was taken in."""


class TaskTakenError(CheckpointError):
    """Something that is to be imported is here already; nothing was changed."""


class BackupUnsoundError(StoreError):
    """The copy was made, and something in it is damaged or missing; it did not get its name."""


# What hands say.


class RestoreError(CheckpointError):
    """Something could not be put back."""


class RestoreRefusedError(RestoreError):
    """Nothing was begun: the world moved since the plan was made, or the way leads out of the folder."""


class RestoreFailedError(RestoreError):
    """It failed in the middle, and everything is as it was before."""


class RestoreInterruptedError(RestoreError):
    """It failed in the middle and could not be taken back yet; nothing is lost, and settling it later takes it back."""


# What the schema says.


class MigrationError(StoreError):
    """The schema cannot be brought to the version this code needs."""


class SchemaTooNewError(MigrationError):
    """The database was written by a newer agentos; going on could damage it."""


class MigrationEditedError(MigrationError):
    """A migration that was applied is not the one this code carries."""


class MigrationGapError(MigrationError):
    """Migration numbers do not follow each other."""
