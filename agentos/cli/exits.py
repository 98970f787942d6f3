"""Exit codes: what a script may conclude from how a command ended. A safety contract: 0 is never said of what was not measured.

Numbers never change their meaning. Which error and which verdict ends in which is decided in tables here.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from agentos import errors

if TYPE_CHECKING:
    from agentos.core.checkpoints import Recovery


class Exit(IntEnum):
    """How a command ends."""

    SAFE = 0
    DIFFERS = 1
    USAGE = 2
    UNCHECKED = 3
    UNCERTAIN = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    TOO_NEW = 7
    REPAIRABLE = 8
    INTERRUPTED = 130
    CUT_OFF = 141


MEANINGS = {
    Exit.SAFE: "verified, or safe to go on",
    Exit.DIFFERS: "the world differs from what was committed",
    Exit.USAGE: "the command was not typed as it must be, or names something that is not there",
    Exit.UNCHECKED: "something could not be checked: that is no sign of damage, and nothing is proven",
    Exit.UNCERTAIN: "a step that must not run twice may have run: a person must decide",
    Exit.CONFLICT: "somebody else has the task or the registry, or it moved on meanwhile",
    Exit.UNAVAILABLE: "the registry or the vault cannot be used",
    Exit.TOO_NEW: "the registry was written by a newer version",
    Exit.REPAIRABLE: "the world differs, and what was kept can be put back",
    Exit.INTERRUPTED: "interrupted by Control-C, or by a no",
    Exit.CUT_OFF: "whoever read the output went away",
}

# The first class that fits decides.
ERRORS: tuple[tuple[type[errors.AgentosError], Exit], ...] = (
    (errors.SchemaTooNewError, Exit.TOO_NEW),
    (errors.StoreBusyError, Exit.CONFLICT),
    (errors.BackupUnsoundError, Exit.DIFFERS),
    (errors.StoreError, Exit.UNAVAILABLE),
    (errors.CheckpointFormatError, Exit.UNAVAILABLE),
    (errors.InvalidInputError, Exit.USAGE),
    (errors.DataTypeError, Exit.USAGE),
    (errors.CheckpointNotFoundError, Exit.USAGE),
    (errors.StepNotFoundError, Exit.USAGE),
    (errors.EvidenceMismatchError, Exit.DIFFERS),
    (errors.NotVerifiedError, Exit.DIFFERS),
    (errors.ArchiveRefusedError, Exit.DIFFERS),
    # Everything is as it was before, and so it still differs.
    (errors.RestoreFailedError, Exit.DIFFERS),
    (errors.EvidenceUnavailableError, Exit.UNCHECKED),
    (errors.OncePendingError, Exit.UNCERTAIN),
    (errors.RestoreInterruptedError, Exit.UNCERTAIN),
    (errors.RestoreError, Exit.CONFLICT),
    # What the lifecycle forbids, and what others hold.
    (errors.StepAlreadyCommittedError, Exit.CONFLICT),
    (errors.StepIdTakenError, Exit.CONFLICT),
    (errors.CheckpointIdTakenError, Exit.CONFLICT),
    (errors.TaskFinishedError, Exit.CONFLICT),
    (errors.TaskTakenError, Exit.CONFLICT),
    (errors.SupersededError, Exit.CONFLICT),
    (errors.NotInterruptedError, Exit.CONFLICT),
    (errors.TaskHeldError, Exit.CONFLICT),
    (errors.WorkspaceTakenError, Exit.CONFLICT),
    (errors.LeaseLostError, Exit.CONFLICT),
    (errors.OnceConflictError, Exit.CONFLICT),
    (errors.NotPerformed, Exit.UNCHECKED),
)

# By value, so that nothing of the rules is loaded for `--help`.
VERDICTS = {
    "fresh": Exit.SAFE,
    "resume": Exit.SAFE,
    "finished": Exit.SAFE,
    "diverged": Exit.DIFFERS,
    "blocked": Exit.UNCHECKED,
    "uncertain": Exit.UNCERTAIN,
    "held": Exit.CONFLICT,
    "repair": Exit.REPAIRABLE,
}

OUTCOMES = {"verified": Exit.SAFE, "failed": Exit.DIFFERS, "error": Exit.UNCHECKED, "not_run": Exit.UNCHECKED}


def of_error(error: errors.AgentosError) -> Exit:
    """How a command ends that raised this. What is in no table proves nothing."""
    if isinstance(error, errors.NotSafeToResumeError):
        return Exit.UNCHECKED if error.recovery is None else of_recovery(error.recovery)
    return next((code for kind, code in ERRORS if isinstance(error, kind)), Exit.UNCHECKED)


def of_recovery(recovery: Recovery) -> Exit:
    """How a command ends that found this: 0 exactly if `resume` returns a state, and the world of a finished task holds."""
    verdict = recovery.verdict.value
    if verdict == "finished" and recovery.differences:
        return worst(OUTCOMES[each.outcome] for each in recovery.differences)
    return VERDICTS[verdict]


# From what is good to what needs somebody most.
_ORDER = (
    Exit.SAFE,
    Exit.REPAIRABLE,
    Exit.CONFLICT,
    Exit.UNCHECKED,
    Exit.DIFFERS,
    Exit.UNCERTAIN,
    Exit.UNAVAILABLE,
    Exit.TOO_NEW,
    Exit.USAGE,
    Exit.INTERRUPTED,
    Exit.CUT_OFF,
)


def worst(codes: Iterable[Exit]) -> Exit:
    """The one to end with when several things were looked at."""
    return max(codes, key=_ORDER.index, default=Exit.SAFE)
