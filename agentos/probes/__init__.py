"""The eyes: one probe per evidence type.

A probe observes and never judges, changes nothing, runs nothing, never waits without a limit, and never raises for what the
world does: it gives Seen with facts, or Unseen with the reason. What the facts mean is decided in `core/checkpoints/kinds/`.
"""

from __future__ import annotations

from agentos.core.checkpoints.models import EvidenceType
from agentos.core.checkpoints.observing import Probe
from agentos.probes.artifact_absent import ArtifactAbsent
from agentos.probes.artifact_exists import ArtifactExists
from agentos.probes.command_exit import CommandExit
from agentos.probes.db_row import DbRow
from agentos.probes.file_sha256 import FileSha256

PROBES: dict[EvidenceType, Probe] = {
    EvidenceType.ARTIFACT_EXISTS: ArtifactExists(),
    EvidenceType.ARTIFACT_ABSENT: ArtifactAbsent(),
    EvidenceType.FILE_SHA256: FileSha256(),
    EvidenceType.COMMAND_EXIT: CommandExit(),
    EvidenceType.DB_ROW: DbRow(),
}

__all__ = ["PROBES"]
