"""Look at the world for one recovery: each thing once, however many checkpoints speak of it.

What one look saw is judged as often as it is asked for, each time against another claim. Nothing is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace

from agentos.core.checkpoints import codec, policy, records
from agentos.core.checkpoints.interrupted import Expected, Settling, fingerprint, settle
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence, EvidenceResult, EvidenceType
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.verifier import EvidenceVerifier

_EXISTS, _ABSENT, _CONTENT = EvidenceType.ARTIFACT_EXISTS, EvidenceType.ARTIFACT_ABSENT, EvidenceType.FILE_SHA256
# Looks that give the same facts whatever is claimed of the path.
_OF_A_PATH = frozenset({_EXISTS, _ABSENT, _CONTENT})
# Cheap looks first: a state that a glance refutes needs no gigabyte hashed.
_COST = {_EXISTS: 0, _ABSENT: 0, EvidenceType.COMMAND_EXIT: 0, _CONTENT: 2}
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
        seen = None
        if evidence.evidence_type is _EXISTS:
            # Who measured the content also saw that it is there. Absence is another look: a link to nothing is something.
            content = self._seen.get((_CONTENT, around.base_path, evidence.expected["path"]))
            seen = content if isinstance(content, Seen) else None
        return kind_of(evidence).result(evidence, seen or self.observation(evidence, around), 0.0)

    def observation(self, evidence: Evidence, around: Surroundings) -> Observation:
        """What was seen of it by a look of its own kind, now or when something else was claimed of the same thing."""
        if evidence.evidence_type is EvidenceType.COMMAND_EXIT:
            # A recorded fact depends on the snapshot beside it, and costs nothing.
            return self._look(evidence, around)
        what = _what(evidence, around)
        found = self._seen.get(what)
        if found is None:
            found = self._seen[what] = self._look(evidence, around)
        return found

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self._until is not None and time.monotonic() >= self._until

    def settled(self, expects: bytes, baseline: bytes, around: Surroundings, *, rerunnable: bool) -> tuple[Settling, str]:
        """What becomes of something that was interrupted, by what it was to leave behind and what was there before."""
        pack = records.decode_pack(expects)
        expected = [
            Expected(self.result(item, around), fingerprint(self.observation(item, around)), before)
            for item, before in zip(pack.evidence_list, codec.decode(baseline)["items"], strict=True)
        ]
        holds = policy.holds(pack, [each.result.outcome for each in expected])
        return settle(expected, holds=holds, rerunnable=rerunnable)

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
    if evidence.evidence_type in _OF_A_PATH:
        return evidence.evidence_type, around.base_path, evidence.expected["path"]
    return evidence.evidence_type, around.base_path, codec.encode(evidence.expected), codec.encode(evidence.metadata)
