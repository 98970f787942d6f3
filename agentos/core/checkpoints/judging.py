"""Judge whether the world of a checkpoint holds, group by group, cheap looks first.

A group is what is left of one step's pack, and its own policy says how much of it must hold. Looking stops as soon as nothing
can save the checkpoint any more, unless everything is asked for. Where to go from there is decided in recovery.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from agentos.core.checkpoints import policy, records
from agentos.core.checkpoints.kinds.kind import Lifetime
from agentos.core.checkpoints.looking import Looking, cost_of
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.nesting import Entry
from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.ports import Registry, StoredStep
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome
from agentos.core.checkpoints.world import World


@dataclass(slots=True)
class Claimed:
    """A step with its pack, and from where its claims are looked at."""

    stored: StoredStep
    pack: EvidencePack
    around: Surroundings


@dataclass(slots=True)
class Finding:
    """One claim that did not verify."""

    entry: Entry
    evidence: Evidence
    result: EvidenceResult
    claimed: Claimed


@dataclass(slots=True)
class Judged:
    """What a world is worth. `findings` are complete only if everything was looked at."""

    outcome: Outcome
    findings: list[Finding] = field(default_factory=list)
    # Whether anything stronger than a mere declaration was verified.
    proven: bool = False
    empty: bool = False
    # Whether something differs that must hold at every resume.
    breaks_task: bool = False
    # If it holds: what was judged, as each step claimed it.
    stands_on: list[tuple[list[Evidence], Surroundings]] = field(default_factory=list)


class Judge:
    """Judges the worlds of one task. What was found out about a group is not found out again."""

    def __init__(
        self, registry: Registry, task_id: str, looking: Looking, around: Callable[[StoredStep], Surroundings]
    ) -> None:
        self.looking = looking
        self._registry = registry
        self._task_id = task_id
        self._around = around
        self._claimed: dict[int, Claimed] = {}
        # By the list that a group was made of: one that is the same in the next world is the same list.
        self._groups: dict[int, _Group] = {}

    def claimed(self, sequence: int) -> Claimed:
        """The step of this number with its pack."""
        if sequence not in self._claimed:
            self._load([sequence])
        return self._claimed[sequence]

    def add(self, sequence: int, claimed: Claimed) -> None:
        """Let a step be judged as if it had this number, which it has not."""
        self._claimed[sequence] = claimed

    def forget(self, sequence: int) -> None:
        """That number is another step's."""
        del self._claimed[sequence]

    def world(self, world: World, *, completely: bool = False) -> Judged:
        """Whether everything holds that must hold to stand there."""
        groups = world.groups
        self._load([sequence for sequence in groups if sequence not in self._claimed])
        work = [self._group(world, sequence, entries) for sequence, entries in groups.items()]
        if completely or not any(group.is_lost for group in work):
            self._look(work, completely=completely)
        # What must hold at every resume stops the walk, so it is looked at even where all is lost.
        _look_at(self.looking, [each for group in work for each in group.unseen_task_claims()])
        # Whether one that differs counts is for its pack to say, which may ask for a part only.
        unsure = [group for group in work if group.has_lost_task_claim and not group.is_lost]
        _look_at(self.looking, [each for group in unsure for each in group.unseen()])
        return _judged(work)

    def _group(self, world: World, sequence: int, entries: list[Entry]) -> _Group:
        aside = {number: world.aside(entry) for number, entry in enumerate(entries) if entry.subject.startswith("tree:")}
        found = self._groups.get(id(entries))
        if found is None or found.entries is not entries or found.aside != aside:
            found = self._groups[id(entries)] = _Group(self._claimed[sequence], entries, aside)
        return found

    def _look(self, work: list[_Group], *, completely: bool) -> None:
        for rank in sorted({cost for group in work for cost in group.costs}):
            _look_at(self.looking, [each for group in work for each in group.unseen(rank)])
            if not completely and any(group.is_lost for group in work):
                return

    def _load(self, sequences: Sequence[int]) -> None:
        for stored in self._registry.numbered(self._task_id, sequences):
            pack = records.decode_pack(stored.pack or b"")
            self._claimed[stored.sequence or 0] = Claimed(stored, pack, self._around(stored))


class _Group:
    """What is left of one pack."""

    __slots__ = ("aside", "claimed", "costs", "entries", "has_failed", "items", "results", "task_claims")

    def __init__(self, claimed: Claimed, entries: Sequence[Entry], aside: dict[int, frozenset[str]]) -> None:
        self.claimed = claimed
        self.entries = entries
        # Of each tree among them, by its number: what later claims speak for.
        self.aside = aside
        self.items = [claimed.pack.evidence_list[entry.item] for entry in entries]
        self.costs = [cost_of(item) for item in self.items]
        self.results: list[EvidenceResult | None] = [None] * len(entries)
        self.has_failed = False
        # Those that must hold at every resume, by their numbers.
        self.task_claims = [number for number, entry in enumerate(entries) if entry.lifetime == Lifetime.TASK.value]

    def unseen(self, rank: int | None = None) -> Iterator[tuple[_Group, int]]:
        """The items, or those of this cost, that were not looked at yet."""
        for number, cost in enumerate(self.costs):
            if rank in (None, cost) and self.results[number] is None:
                yield self, number

    def unseen_task_claims(self) -> Iterator[tuple[_Group, int]]:
        for number in self.task_claims:
            if self.results[number] is None:
                yield self, number

    @property
    def has_lost_task_claim(self) -> bool:
        """Whether what must hold at every resume differs."""
        return self.has_failed and any(self.outcomes[number] is Outcome.FAILED for number in self.task_claims)

    def around(self, number: int) -> Surroundings:
        """From where this item is looked at."""
        aside = self.aside.get(number)
        return replace(self.claimed.around, aside=aside) if aside else self.claimed.around

    @property
    def outcomes(self) -> list[Outcome]:
        return [Outcome.NOT_RUN if result is None else result.outcome for result in self.results]

    @property
    def is_lost(self) -> bool:
        """Whether it fails whatever is still to be looked at."""
        if not self.has_failed:
            return False
        best = [Outcome.VERIFIED if each is Outcome.NOT_RUN else each for each in self.outcomes]
        return policy.left_verdict(self.claimed.pack, best) is Outcome.FAILED

    @property
    def verdict(self) -> Outcome:
        return Outcome.FAILED if self.is_lost else policy.left_verdict(self.claimed.pack, self.outcomes)

    def findings(self) -> Iterable[Finding]:
        for entry, item, result in zip(self.entries, self.items, self.results, strict=True):
            if result is not None and result.outcome is not Outcome.VERIFIED:
                yield Finding(entry, item, result, self.claimed)


def _look_at(looking: Looking, items: Sequence[tuple[_Group, int]]) -> None:
    """Look at these items of these groups, side by side where that helps."""
    asked = [(group.items[number], group.around(number), group.claimed.pack) for group, number in items]
    for (group, number), result in zip(items, looking.results(asked), strict=True):
        group.results[number] = result
        group.has_failed |= result.outcome is Outcome.FAILED


def _judged(groups: list[_Group]) -> Judged:
    verdicts = [group.verdict for group in groups]
    unmet = [group for group, verdict in zip(groups, verdicts, strict=True) if verdict is not Outcome.VERIFIED]
    proven = any(
        result is not None and result.outcome is Outcome.VERIFIED and result.assurance is not Assurance.DECLARED
        for group in groups
        for result in group.results
    )
    if Outcome.FAILED in verdicts:
        outcome = Outcome.FAILED
    elif unmet:
        outcome = Outcome.ERROR
    else:
        outcome = Outcome.VERIFIED if proven else Outcome.FAILED
    stands_on = [(group.items, group.claimed.around) for group in groups] if outcome is Outcome.VERIFIED else []
    findings = [finding for group in unmet for finding in group.findings()]
    breaks_task = any(group.has_lost_task_claim and group.is_lost for group in groups)
    return Judged(outcome, findings, proven, not groups, breaks_task, stands_on)
