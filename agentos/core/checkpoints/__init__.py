"""Evidence-based checkpoints: the rules.

`CheckpointManager` drives the life of a step, `EvidenceVerifier` looks at the world, and the models are what a user holds.
"""

from agentos.core.checkpoints.manager import CheckpointManager
from agentos.core.checkpoints.models import (
    Assurance,
    Checkpoint,
    Evidence,
    EvidencePack,
    EvidenceResult,
    EvidenceType,
    Outcome,
    VerificationStatus,
)
from agentos.core.checkpoints.records import Step
from agentos.core.checkpoints.task import StepBlock, Task
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import CheckpointError

__all__ = [
    "Assurance",
    "Checkpoint",
    "CheckpointError",
    "CheckpointManager",
    "Evidence",
    "EvidencePack",
    "EvidenceResult",
    "EvidenceType",
    "EvidenceVerifier",
    "Outcome",
    "Step",
    "StepBlock",
    "Task",
    "VerificationStatus",
]
