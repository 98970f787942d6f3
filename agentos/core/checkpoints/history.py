"""Looks at a checkpoint over time, as they are kept: when, by whom, what came of it, item by item. Nothing is measured here."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from agentos.core.checkpoints import codec, policy, records
from agentos.core.checkpoints.results import EvidenceResult
from agentos.core.checkpoints.stored import StoredLook


class PastLook(NamedTuple):
    """One look. `counted` is False of one that decided nothing, because a newer one was recorded while it was under way.

    `by` is None of the look at the commit, which whoever committed took. What was not looked at has no result.
    """

    number: int
    at: datetime
    by: str | None
    outcome: str
    counted: bool
    results: tuple[EvidenceResult | None, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        results = [None if each is None else each.to_dict() for each in self.results]
        return {**self._asdict(), "at": self.at.isoformat(), "results": results}


def past_look(stored: StoredLook, pack: bytes) -> PastLook:
    """The look, by the pack that it was a look at."""
    looked = records.decode_pack(pack)
    records.attach_results(looked, stored.results)
    at = stored.at if stored.at is not None else codec.decode(stored.results)["at"]
    outcome = stored.outcome if stored.outcome is not None else policy.outcome_of(looked).value
    results = tuple(item.result for item in looked.evidence_list)
    return PastLook(stored.number, datetime.fromisoformat(at), stored.by, outcome, stored.counted, results)
