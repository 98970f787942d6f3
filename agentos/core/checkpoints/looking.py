"""Look at the world for one recovery: each thing once, however many checkpoints speak of it.

What one look saw is judged as often as it is asked for, each time against another claim. Nothing is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence

from agentos.core.checkpoints import codec, policy, records
from agentos.core.checkpoints.interrupted import Expected, Settling, fingerprint, settle
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.kind import Effort, Retries
from agentos.core.checkpoints.models import Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.results import Assurance, EvidenceResult
from agentos.core.checkpoints.verifier import EvidenceVerifier

_EXISTS, _CONTENT = EvidenceType.ARTIFACT_EXISTS, EvidenceType.FILE_SHA256
_LATE = Unseen("TIMED_OUT", "the deadline of this recovery was over before it was looked at", "give it more time")


def cost_of(evidence: Evidence) -> Effort:
    """How dear a look is, as a rank."""
    return kind_of(evidence).effort


class Looking:
    """The eyes of one recovery, and their memory."""

    def __init__(self, verifier: EvidenceVerifier, deadline: float | None = None) -> None:
        self._verifier = verifier
        self._until = None if deadline is None else time.monotonic() + deadline
        self._seen: dict[Hashable, Observation] = {}

    def result(self, evidence: Evidence, around: Surroundings, pack: EvidencePack | None = None) -> EvidenceResult:
        """What this claim, one of this pack, is worth now."""
        return self.results([(evidence, around, pack)])[0]

    def results(self, asked: Sequence[tuple[Evidence, Surroundings, EvidencePack | None]]) -> list[EvidenceResult]:
        """The same for many: what was not seen yet is looked at side by side."""
        seen = self._observations([(evidence, around) for evidence, around, _ in asked], once=False)
        return [
            kind_of(evidence).result(evidence, observation, least=self._least(pack))
            for (evidence, _, pack), observation in zip(asked, seen, strict=True)
        ]

    def observation(self, evidence: Evidence, around: Surroundings) -> Observation:
        """What was seen of it by a look of its own kind, now or when something else was claimed of the same thing.

        What differs is not waited for.
        """
        return self._observations([(evidence, around)], once=True, borrow=False)[0]

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self._until is not None and time.monotonic() >= self._until

    def settled(self, expects: bytes, baseline: bytes, around: Surroundings, *, rerunnable: bool) -> tuple[Settling, str]:
        """What becomes of something that was interrupted, by what it was to leave behind and what was there before."""
        pack = records.decode_pack(expects)
        results = self.results([(item, around, pack) for item in pack.evidence_list])
        expected = [
            Expected(result, fingerprint(self.observation(item, around)), before)
            for item, result, before in zip(pack.evidence_list, results, codec.decode(baseline)["items"], strict=True)
        ]
        holds = policy.holds(pack, [each.result.outcome for each in expected])
        return settle(expected, holds=holds, rerunnable=rerunnable)

    def glance(self, evidence: Evidence, around: Surroundings, pack: EvidencePack | None = None) -> EvidenceResult:
        """What the claim is worth by one look that waits for nothing, for a claim that decides nothing."""
        return kind_of(evidence).result(evidence, self.observation(evidence, around), least=self._least(pack))

    def _least(self, pack: EvidencePack | None) -> Assurance | None:
        return None if pack is None else self._verifier.least(pack)

    def _observations(
        self, asked: Sequence[tuple[Evidence, Surroundings]], *, once: bool, borrow: bool = True
    ) -> list[Observation]:
        """What was seen of each, before or now; what is asked for twice is looked at once."""
        known = [self._known(*each, once=once, borrow=borrow) for each in asked]
        missing = {what: each for (what, seen), each in zip(known, asked, strict=True) if seen is None}
        looked = dict(zip(missing, self._look(list(missing.values()), once=once), strict=True))
        # A recorded fact depends on the snapshot beside it, and costs nothing.
        self._seen.update({what: seen for what, seen in looked.items() if isinstance(what, tuple)})
        return [seen if seen is not None else looked[what] for what, seen in known]

    def _known(
        self, evidence: Evidence, around: Surroundings, *, once: bool, borrow: bool
    ) -> tuple[Hashable, Observation | None]:
        what = _what(evidence, around, once=once)
        seen = self._seen.get(what)
        if seen is None and borrow and evidence.evidence_type is _EXISTS:
            # Who measured the content also saw that it is there. Absence is another look: a link to nothing is something.
            content = self._seen.get((_CONTENT, around.base_path, evidence.expected["path"], around.aside))
            seen = content if isinstance(content, Seen) else None
        return what, seen

    def _look(self, asked: Sequence[tuple[Evidence, Surroundings]], *, once: bool) -> list[Observation]:
        left = None if self._until is None else self._until - time.monotonic()
        if left is not None and left <= 0:
            return [_LATE] * len(asked)
        return self._verifier.observe_all(asked, once=once, deadline=left)


def _what(evidence: Evidence, around: Surroundings, *, once: bool) -> Hashable:
    """What is looked at, the same for claims that one look can judge."""
    kind = kind_of(evidence)
    if kind.retries is Retries.NEVER:
        return object()
    if kind.look_key is not None:
        return evidence.evidence_type, around.base_path, kind.look_key(evidence), around.aside
    # Whoever waits for a service sees something else than whoever does not.
    patient = kind.retries is Retries.FAILURES and not once
    definition = codec.encode(evidence.expected), codec.encode(evidence.metadata)
    return evidence.evidence_type, around.base_path, *definition, patient
