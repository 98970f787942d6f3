"""Look at the world for one recovery: each thing once, however many checkpoints speak of it.

What one look saw is judged as often as it is asked for, each time against another claim. Nothing is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence, EvidenceResult, EvidenceType
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.verifier import EvidenceVerifier

# Looks that give the same facts whatever is claimed: whether something is at a path, and what a file holds.
_PRESENCE = (EvidenceType.ARTIFACT_EXISTS, EvidenceType.ARTIFACT_ABSENT)
_CONTENT = EvidenceType.FILE_SHA256
# Cheap looks first: a state that a glance refutes needs no gigabyte hashed.
_COST = {**dict.fromkeys(_PRESENCE, 0), EvidenceType.COMMAND_EXIT: 0, _CONTENT: 2}
_OTHERWISE = 1


def cost_of(evidence: Evidence) -> int:
    """How dear a look is, as a rank."""
    return _COST.get(evidence.evidence_type, _OTHERWISE)


class Looking:
    """The eyes of one recovery, and their memory."""

    def __init__(self, verifier: EvidenceVerifier, deadline: float | None = None) -> None:
        self._verifier = verifier
        self._until = None if deadline is None else time.monotonic() + deadline
        self._seen: dict[Hashable, Observation] = {}

    def result(self, evidence: Evidence, around: Surroundings) -> EvidenceResult:
        """What this claim is worth now."""
        return kind_of(evidence).result(evidence, self.observation(evidence, around), 0.0)

    def observation(self, evidence: Evidence, around: Surroundings) -> Observation:
        """What was seen of it, now or when something else was claimed of the same thing."""
        if evidence.evidence_type is EvidenceType.COMMAND_EXIT:
            # A recorded fact depends on the snapshot beside it, and costs nothing.
            return self._look(evidence, around)
        what = _what(evidence, around)
        found = self._seen.get(what)
        if found is None and evidence.evidence_type in _PRESENCE:
            # Who measured the content also saw that it is there.
            content = self._seen.get((_CONTENT, *_place(evidence, around)))
            found = content if isinstance(content, Seen) else None
        if found is None:
            found = self._seen[what] = self._look(evidence, around)
        return found

    def _look(self, evidence: Evidence, around: Surroundings) -> Observation:
        if self._until is not None:
            left = self._until - time.monotonic()
            if left <= 0:
                return Unseen(
                    "TIMED_OUT", "the deadline of this recovery was over before it was looked at", "give it more time"
                )
            around = replace(around, timeout=min(around.timeout, left))
        return self._verifier.observe(evidence, around)


def _what(evidence: Evidence, around: Surroundings) -> Hashable:
    """What is looked at, the same for claims that one look can judge."""
    if evidence.evidence_type in _PRESENCE:
        return (_PRESENCE, *_place(evidence, around))
    if evidence.evidence_type is _CONTENT:
        return (_CONTENT, *_place(evidence, around))
    return evidence.evidence_type, around.base_path, codec.encode(evidence.expected), codec.encode(evidence.metadata)


def _place(evidence: Evidence, around: Surroundings) -> tuple[str, str]:
    return around.base_path, evidence.expected["path"]
