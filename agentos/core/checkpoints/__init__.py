"""Evidence-based checkpoints: the rules.

`CheckpointManager` drives the life of a step, `EvidenceVerifier` looks at the world, and the models are what a user holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.manager import CheckpointManager
from agentos.core.checkpoints.models import Checkpoint, Evidence, EvidencePack, EvidenceType, VerificationStatus
from agentos.core.checkpoints.records import Step
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome
from agentos.core.checkpoints.task import StepBlock, Task
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import CheckpointError

if TYPE_CHECKING:
    from agentos.core.checkpoints.kinds.custom import Found, evidence_type
    from agentos.core.checkpoints.kinds.schemas import evidence_schema
    from agentos.core.checkpoints.once import compute_request_hash
    from agentos.core.checkpoints.recovered import Difference, Interrupted, Leftover, Recovery, Rejected, Verdict
    from agentos.core.checkpoints.reports import VerificationReport
    from agentos.core.checkpoints.retention import Pruned
    from agentos.core.checkpoints.running import CommandRun

__all__ = [
    "Assurance",
    "Checkpoint",
    "CheckpointError",
    "CheckpointManager",
    "CommandRun",
    "Difference",
    "Evidence",
    "EvidencePack",
    "EvidenceResult",
    "EvidenceType",
    "EvidenceVerifier",
    "Found",
    "Interrupted",
    "Lease",
    "Leftover",
    "Outcome",
    "Pruned",
    "Recovery",
    "Rejected",
    "Step",
    "StepBlock",
    "Task",
    "Verdict",
    "VerificationReport",
    "VerificationStatus",
    "compute_request_hash",
    "evidence_schema",
    "evidence_type",
]

# What only a process that recovers needs is loaded when it is asked for.
_WHERE = {
    "compute_request_hash": "once",
    **dict.fromkeys(("Found", "evidence_type"), "kinds.custom"),
    "evidence_schema": "kinds.schemas",
    "Pruned": "retention",
    "CommandRun": "running",
    "VerificationReport": "reports",
    **dict.fromkeys(("Difference", "Interrupted", "Leftover", "Recovery", "Rejected", "Verdict"), "recovered"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - as above

    from agentos._fork import importing  # noqa: PLC0415

    with importing:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
