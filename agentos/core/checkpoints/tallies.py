"""Evidence over time: how often what was claimed of each type and each subject held, and how long looking took.

Counted over every look that is kept, also those at checkpoints that were rolled back past. Of an item that is sensitive its
subject is not told: all of them count as one of their type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agentos._text import MASKED, without_credentials
from agentos.core.checkpoints import history, records
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.kind import is_sensitive
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.results import EvidenceResult, Outcome
from agentos.core.checkpoints.stored import StoredReview


@dataclass(slots=True)
class Tally:
    """What came of all looks at one type, or at one subject."""

    evidence_type: str
    subject: str | None = None
    looks: int = 0
    verified: int = 0
    failed: int = 0
    error: int = 0
    # Of those that verified: how many only after an earlier try had failed.
    flaky: int = 0
    total_ms: float = 0.0
    slowest_ms: float = 0.0
    last_trouble_at: str | None = None

    def add(self, result: EvidenceResult, at: str) -> None:
        """Count one look."""
        self.looks += 1
        if result.outcome is Outcome.VERIFIED:
            self.verified += 1
        else:
            self.failed += result.outcome is Outcome.FAILED
            self.error += result.outcome is Outcome.ERROR
            self.last_trouble_at = max(self.last_trouble_at or at, at)
        self.flaky += result.flaky
        self.total_ms += result.duration_ms
        self.slowest_ms = max(self.slowest_ms, result.duration_ms)

    @property
    def trouble(self) -> tuple[int, ...]:
        """What to sort by, to have the worst first."""
        return self.failed + self.error + self.flaky, self.failed, self.looks

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        mean = self.total_ms / self.looks if self.looks else 0.0
        told = {name: getattr(self, name) for name in self.__slots__ if name != "total_ms"}
        return {**told, "mean_ms": round(mean, 3), "slowest_ms": round(self.slowest_ms, 3)}


@dataclass(slots=True)
class Sizes:
    """What is kept, in bytes. A snapshot that begin and commit share counts once."""

    registry: int = 0
    snapshots: int = 0
    largest_snapshot: int = 0
    evidence: int = 0
    verifications: int = 0
    vault: int = 0
    vault_contents: int = 0


@dataclass(slots=True)
class Statistics:
    """The sums over everything."""

    tasks: int = 0
    # Steps by what became of them: `begun`, `committed`, `adopted`, `abandoned`.
    steps: dict[str, int] = field(default_factory=dict)
    verified_now: int = 0
    superseded: int = 0
    # Looks at whole checkpoints, by outcome.
    looks: dict[str, int] = field(default_factory=dict)
    types: list[Tally] = field(default_factory=list)
    subjects: list[Tally] = field(default_factory=list)
    sizes: Sizes = field(default_factory=Sizes)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        told = {name: getattr(self, name) for name in self.__slots__}
        told["types"] = [each.to_dict() for each in self.types]
        told["subjects"] = [each.to_dict() for each in self.subjects]
        told["sizes"] = {name: getattr(self.sizes, name) for name in self.sizes.__slots__}
        return told


def counted(reviews: Iterable[StoredReview]) -> Statistics:
    """The sums over these; the worst types and subjects first."""
    counts = _Counts()
    for review in reviews:
        counts.add(review)
    return counts.sums()


class _Counts:
    def __init__(self) -> None:
        self._tasks: set[str] = set()
        self._steps: Counter[str] = Counter()
        self._looks: Counter[str] = Counter()
        self._types: dict[str, Tally] = {}
        self._subjects: dict[tuple[str, str], Tally] = {}
        self._found = Statistics()

    def add(self, review: StoredReview) -> None:
        """Count one step."""
        step, found, sizes = review.step, self._found, self._found.sizes
        self._tasks.add(step.task_id)
        self._steps[step.state.value] += 1
        found.verified_now += step.live and step.verified
        found.superseded += step.superseded_by is not None
        sizes.snapshots += review.snapshot_bytes
        sizes.largest_snapshot = max(sizes.largest_snapshot, review.snapshot_bytes)
        if step.pack is None:
            return
        sizes.evidence += len(step.pack)
        sizes.verifications += sum(len(look.results) for look in review.looks)
        items = [(item, _named(item, step.base_path)) for item in records.decode_pack(step.pack).evidence_list]
        for stored in review.looks:
            look = history.past_look(stored, step.pack)
            self._looks[look.outcome] += 1
            for (item, subject), result in zip(items, look.results, strict=True):
                if result is not None:
                    self._count(item, subject, result, look.at.isoformat())

    def _count(self, item: Evidence, subject: str, result: EvidenceResult, at: str) -> None:
        name = str(item.evidence_type)
        self._types.setdefault(name, Tally(name)).add(result, at)
        self._subjects.setdefault((name, subject), Tally(name, subject)).add(result, at)

    def sums(self) -> Statistics:
        """What was counted."""
        self._found.tasks = len(self._tasks)
        self._found.steps = dict(sorted(self._steps.items()))
        self._found.looks = dict(sorted(self._looks.items()))
        self._found.types = _worst_first(self._types.values())
        self._found.subjects = _worst_first(self._subjects.values())
        return self._found


def _worst_first(tallies: Iterable[Tally]) -> list[Tally]:
    by_name = sorted(tallies, key=lambda each: (each.evidence_type, each.subject or ""))
    return sorted(by_name, key=lambda each: each.trouble, reverse=True)


def _named(item: Evidence, base: str) -> str:
    return MASKED if is_sensitive(item) else without_credentials(kind_of(item).subject(item, base))
