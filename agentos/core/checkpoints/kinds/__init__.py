"""The evidence types: for each, what may be claimed, what it is about, how long it stands, and when it holds.

One file per kind of subject. Looking at the world is not done here: see probes/.
"""

from __future__ import annotations

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds import commands, files, rows
from agentos.core.checkpoints.kinds.kind import Kind, Lifetime
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.errors import EvidenceDefinitionError

KINDS: dict[EvidenceType, Kind] = {
    EvidenceType.ARTIFACT_EXISTS: files.ARTIFACT_EXISTS,
    EvidenceType.ARTIFACT_ABSENT: files.ARTIFACT_ABSENT,
    EvidenceType.FILE_SHA256: files.FILE_SHA256,
    EvidenceType.COMMAND_EXIT: commands.COMMAND_EXIT,
    EvidenceType.DB_ROW: rows.DB_ROW,
}


def kind_of(evidence: Evidence) -> Kind:
    """The rules for this item.

    Raises:
        EvidenceDefinitionError: its type was changed into one that does not exist.
    """
    kind = KINDS.get(evidence.evidence_type) if isinstance(evidence.evidence_type, str) else None
    if kind is None:
        given = shown(evidence.evidence_type, 60)
        raise EvidenceDefinitionError(f"evidence_type is {given}", hint=f"one of: {listed([each.value for each in KINDS])}")
    return kind


def as_claimed(subject: str, base_path: str) -> str:
    """The subject as a claim made under this base would spell it: a release must meet what it releases."""
    kind, _, rest = subject.partition(":")
    return files.subject_of(rest, base_path) if kind == files.SUBJECT else subject


__all__ = ["KINDS", "Kind", "Lifetime", "as_claimed", "kind_of"]
