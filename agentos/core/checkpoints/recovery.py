"""Decide from where a task may go on, and why: the walk from the newest checkpoint back.

(1) the steps begun on a checkpoint that ended in no one's hands are settled, (2) its world is observed, (3) it holds, can be
put back, cannot be checked, or differs, (4) and only what differs for good is walked past, never across a step that must not
run twice. This reads and looks; it changes nothing. Acting on the answer is resuming.py, wording it is telling.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from agentos.core.checkpoints import records
from agentos.core.checkpoints.interrupted import Settling, settle
from agentos.core.checkpoints.judging import Claimed, Finding, Judge, Judged
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.kind import Lifetime, lifetime_of
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.nesting import Entry, beneath
from agentos.core.checkpoints.observing import Seen, Surroundings
from agentos.core.checkpoints.ports import Registry, StoredStep
from agentos.core.checkpoints.putting_back import Stands
from agentos.core.checkpoints.recovered import Verdict
from agentos.core.checkpoints.restores import Cannot, RestorePlan, is_at
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.stored import StoredTask
from agentos.core.checkpoints.world import World, Worlds
from agentos.errors import RestoreRefusedError

_PAGE = 32
# How many recorders of one subject are asked whether they recorded what is there now.
_MOST_RECORDERS = 100
_MOST_REASONS = 8

Around = Callable[[StoredStep], Surroundings]


class PutsBack(Protocol):
    """Hands, as the walk asks them: see repairing.py."""

    def may(self, finding: Finding) -> bool:
        """Whether it is worth planning to put this back."""

    def plan(
        self,
        candidate: StoredStep,
        base: str,
        claims: Iterable[Stands],
        judged: Judged,
        *,
        retried: Sequence[StoredStep] = (),
        only_needed: bool = False,
    ) -> RestorePlan:
        """What would make the world of this checkpoint hold."""

    def plan_again(
        self, candidate: StoredStep | None, base: str, claims: Iterable[Stands], step: StoredStep
    ) -> RestorePlan | None:
        """What would have a step that runs again find what it said it would change as it was; None if it said nothing."""


@dataclass(frozen=True, slots=True)
class Settled:
    """An interrupted step, and what becomes of it."""

    step: StoredStep
    settling: Settling
    reason: str


@dataclass(slots=True)
class Walk:
    """How far the walk came, and what it saw on the way."""

    verdict: Verdict = Verdict.FRESH
    chosen: StoredStep | None = None
    adopt: StoredStep | None = None
    judged: Judged | None = None
    # For what differs there, if all of it can be put back.
    plan: RestorePlan | None = None
    # Of the newest candidate, what of it cannot be put back, if that was planned.
    cannot: tuple[Cannot, ...] = ()
    # Of the newest candidate, if that is not the chosen one.
    head: Judged | None = None
    rejected: list[tuple[StoredStep, list[str], Judged | None]] = field(default_factory=list)
    interrupted: list[Settled] = field(default_factory=list)
    leftovers: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Survey:
    """One look at one task."""

    def __init__(
        self,
        registry: Registry,
        judge: Judge,
        around: Around,
        task: StoredTask,
        *,
        moved: bool,
        checkpoint_type: str | None,
        putting_back: PutsBack,
    ) -> None:
        self._registry = registry
        self._judge = judge
        self._around = around
        self._task = task
        self._type = checkpoint_type
        self._putting_back = putting_back
        standing, others = registry.claims(task.task_id)
        self._standing, self._others = standing, others
        self._covered: dict[tuple[str, str], bool] = {}
        self.worlds = Worlds(standing, moved=moved, others=others, covers=self._covers)
        self._moved = moved

    def finished(self) -> Walk:
        """Report on the world of a finished task's last checkpoint."""
        walk = Walk(Verdict.FINISHED)
        walk.chosen = next(iter(self._registry.candidates(self._task.task_id, self._task.sequence + 1, 1)), None)
        if walk.chosen is not None:
            walk.judged = self.judged(walk.chosen)
        return walk

    def walk(self, open_steps: Sequence[StoredStep]) -> Walk:
        """Walk from the newest checkpoint back until something stops it."""
        walk = Walk()
        settled = [self._settled(step) for step in open_steps]  # (1)
        for candidate in self._live():
            if walk.rejected and self._judge.looking.is_over:
                walk.verdict = Verdict.BLOCKED
                walk.notes.append(f"the deadline was over before checkpoint number {candidate.sequence} was looked at")
                return walk
            # A deleted checkpoint cannot be resumed from, and what it did was done all the same.
            if candidate.live and self._stops_at(walk, candidate, settled):
                self._list_leftovers(walk)
                return walk
            if self._crosses(candidate, settled):  # (4)
                walk.verdict = Verdict.UNCERTAIN
                walk.interrupted = [_not_adopted(each) for each in settled]
                walk.notes.append(
                    f"walking back past checkpoint number {candidate.sequence} would repeat what must not run twice"
                )
                return walk
        if self._task.sequence != self._task.origin:
            walk.interrupted = [_not_adopted(each) for each in settled]
            unsettled = any(each.settling is Settling.UNCERTAIN for each in walk.interrupted)
            walk.verdict = Verdict.UNCERTAIN if unsettled else Verdict.DIVERGED
        elif not self._ends_by_steps(walk, None, settled):
            walk.verdict = Verdict.FRESH
            if self._task.origin:
                walk.notes.append(f"it was started over after checkpoint number {self._task.origin}; everything before is kept")
        return walk

    def judged(self, candidate: StoredStep) -> Judged:
        """What the world of a checkpoint is worth now; everything is looked at."""
        return self._judge.world(self._world_of(candidate), completely=True)

    def recorder(self, finding: Finding) -> tuple[StoredStep, Entry] | None:
        """The newest other claim about the same thing that what is there now fits, if anybody made one."""
        seen = self._judge.looking.observation(finding.evidence, finding.claimed.around)
        if not isinstance(seen, Seen):
            return None
        for entry in self.worlds.recorders(finding.entry.subject, finding.entry.base)[:_MOST_RECORDERS]:
            if (entry.sequence, entry.item) == (finding.entry.sequence, finding.entry.item):
                continue
            claimed = self._judge.claimed(entry.sequence)
            items = claimed.pack.evidence_list
            if entry.item < len(items) and self._fits(items[entry.item], claimed.around):
                return claimed.stored, entry
        return None

    def checkpoint_id(self, number: int) -> str:
        """The id of the checkpoint of this number."""
        return self._judge.claimed(number).stored.checkpoint_id or ""

    def seen(self, stored: StoredStep) -> EvidencePack:
        """The checkpoint's own pack with what is seen of each item now, also of those that do not gate."""
        claimed = self._judge.claimed(stored.sequence or 0)
        now = datetime.now(UTC)
        looking, pack = self._judge.looking, claimed.pack
        for item in pack.evidence_list:
            # What decides nothing is not waited for.
            gates = lifetime_of(item, kind_of(item).lifetime) is not Lifetime.STEP
            look = looking.result if gates else looking.glance
            item.record(look(item, claimed.around, pack), now)
        return pack

    def in_flight(self, finding: Finding, walk: Walk) -> StoredStep | None:
        """The interrupted step that said it would change this, if one did."""
        for settled in walk.interrupted:
            step = settled.step
            if step.expects is None:
                continue
            claims = records.claims_of(records.decode_pack(step.expects), step.base_path)
            if any(claim.subject == finding.entry.subject for claim in claims):
                return step
        return None

    def _fits(self, evidence: Evidence, around: Surroundings) -> bool:
        return self._judge.looking.result(evidence, around).outcome is Outcome.VERIFIED

    def _covers(self, tree: Entry, path: str) -> bool:
        """Whether a tree that leaves something out speaks for this path."""
        name = beneath(tree.subject.partition(":")[2], path)
        asked = (tree.rules, name)
        if asked not in self._covered:
            claimed = self._judge.claimed(tree.sequence)
            evidence = claimed.pack.evidence_list[tree.item]
            covers = kind_of(evidence).covers
            self._covered[asked] = covers is not None and covers(evidence, name, claimed.around.kept)
        return self._covered[asked]

    def _live(self) -> Iterator[StoredStep]:
        below = self._task.sequence + 1
        while page := self._registry.candidates(self._task.task_id, below, _PAGE, deleted=True):
            yield from page
            below = page[-1].sequence or 0

    # (1) Interrupted steps.

    def _settled(self, step: StoredStep) -> Settled:
        if step.expects is None:
            return Settled(step, *settle([], holds=False, rerunnable=step.rerunnable))
        around, baseline = self._around(step), step.baseline or b""
        return Settled(step, *self._judge.looking.settled(step.expects, baseline, around, rerunnable=step.rerunnable))

    def _ends_by_steps(self, walk: Walk, candidate: StoredStep | None, settled: Sequence[Settled]) -> bool:
        """See the steps as they look from this candidate: whether one of them, uncertain or adopted, ends the walk."""
        number = 0 if candidate is None else candidate.sequence or 0
        adopt = next((each.step for each in settled if each.settling is Settling.ADOPT and each.step.parent == number), None)
        walk.interrupted = [each if each.step is adopt else _not_adopted(each) for each in settled]
        if any(each.settling is Settling.UNCERTAIN for each in walk.interrupted):
            walk.verdict = Verdict.UNCERTAIN
            return True
        if adopt is None or self._is_no_candidate(candidate):
            return False
        walk.adopt = adopt
        if self._decides(walk, candidate, self._judged_adopted(number + 1, adopt)):
            return True
        walk.adopt = None
        walk.notes.append(f"step {adopt.step_id} had its effect, but the world around it does not hold: it is not adopted")
        walk.interrupted = [_not_adopted(each) for each in settled]
        walk.verdict = Verdict.UNCERTAIN
        return not adopt.rerunnable

    def _judged_adopted(self, number: int, step: StoredStep) -> Judged:
        """The world of the checkpoint that the step would be, with this number."""
        pack = records.decode_pack(step.expects or b"")
        self._judge.add(number, Claimed(step, pack, self._around(step)))
        before = [entry for entry in self._standing if entry.sequence < number]
        worlds = Worlds(before, moved=self._moved, covers=self._covers)
        judged = self._judge.world(worlds.at(number, entries_of(pack, number, step.base_path)))
        self._judge.forget(number)
        return judged

    def _crosses(self, candidate: StoredStep, settled: Sequence[Settled]) -> bool:
        """Whether what lies beyond this candidate is out of reach: it, or a step begun on it or later, must not run twice."""
        number = candidate.sequence or 0
        begun = [each.step for each in settled if each.step.parent >= number]
        return not candidate.rerunnable or any(not step.rerunnable for step in begun)

    # (2) and (3) One candidate.

    def _stops_at(self, walk: Walk, candidate: StoredStep, settled: Sequence[Settled]) -> bool:
        if self._ends_by_steps(walk, candidate, settled):
            return True
        reason = self._is_no_candidate(candidate)
        if reason:
            walk.rejected.append((candidate, [reason], None))
            return False
        judged = self._judge.world(self._world_of(candidate))
        if self._decides(walk, candidate, judged):
            return True
        if walk.head is None:
            judged = walk.head = self.judged(candidate)
        walk.rejected.append((candidate, [], judged))
        return False

    def _decides(self, walk: Walk, candidate: StoredStep | None, judged: Judged) -> bool:
        """Whether the walk ends here; if it does, the verdict says how."""
        if judged.outcome is Outcome.VERIFIED:
            walk.verdict = Verdict.RESUME
        elif judged.outcome is Outcome.ERROR or judged.breaks_task:
            walk.verdict = Verdict.BLOCKED
        else:
            return self._repairs(walk, candidate, judged)
        walk.chosen, walk.judged = candidate, judged
        return True

    def _repairs(self, walk: Walk, candidate: StoredStep | None, judged: Judged) -> bool:
        """Whether all that differs can be put back; a step that was adopted is judged as it is."""
        if candidate is None or walk.adopt is not None or not all(map(self._putting_back.may, judged.findings)):
            return False
        judged = self.judged(candidate)
        if not judged.findings or not all(map(self._putting_back.may, judged.findings)):
            return False
        try:
            plan = self.plan(candidate, judged, walk)
        except RestoreRefusedError as refusal:
            # The folder itself cannot be seen: what lies elsewhere and differs is not put back through it.
            walk.notes.append(f"nothing can be put back at checkpoint number {candidate.sequence}: {refusal.message}")
            return False
        if not plan.is_complete:
            if not walk.rejected:
                walk.cannot = plan.cannot
                walk.notes += [f"{each.subject} cannot be put back: {each.why}" for each in plan.cannot[:_MOST_REASONS]]
            return False
        walk.verdict, walk.chosen, walk.judged, walk.plan = Verdict.REPAIR, candidate, judged, plan
        return True

    def plan(self, candidate: StoredStep, judged: Judged, walk: Walk | None = None) -> RestorePlan:
        """What would make the world of this checkpoint hold again."""
        return self._putting_back.plan(
            candidate,
            self._around(candidate).base_path,
            self.stands(candidate),
            judged,
            retried=[] if walk is None else _again(walk, candidate),
            only_needed=walk is not None,
        )

    def plans_again(self, walk: Walk) -> Iterator[RestorePlan]:
        """What would have each step that runs again find what it said it would change as it was; of a world that holds."""
        for step in [] if walk.adopt is not None else _again(walk, walk.chosen):
            claims = () if walk.chosen is None else self.stands(walk.chosen)
            plan = self._putting_back.plan_again(walk.chosen, self._around(step).base_path, claims, step)
            if plan is not None:
                yield plan

    def stands(self, candidate: StoredStep) -> Iterator[Stands]:
        """Every claim that this checkpoint stands on."""
        return self._stands(self._world_of(candidate))

    def can_put_back(self, finding: Finding, walk: Walk) -> bool:
        """Whether what this differs in could be put back: by the plan, if there is one."""
        if finding.result.outcome is not Outcome.FAILED or walk.plan is not None:
            return finding.result.outcome is Outcome.FAILED
        subject = finding.entry.subject
        stuck = (each.subject == subject or is_at(each.subject, [subject.partition(":")[2]]) for each in walk.cannot)
        return self._putting_back.may(finding) and not any(stuck)

    def as_left(self, entry: Entry) -> bool:
        """Whether a file that a step left behind is still as that step claimed it."""
        claimed = self._judge.claimed(entry.sequence)
        return entry.subject.startswith("file:") and self._fits(claimed.pack.evidence_list[entry.item], claimed.around)

    def _stands(self, world: World) -> Iterator[Stands]:
        for entry in world.entries():
            claimed = self._judge.claimed(entry.sequence)
            evidence, around = claimed.pack.evidence_list[entry.item], claimed.around
            if entry.subject.startswith("tree:"):
                around = replace(around, aside=world.aside(entry))
            yield Stands(entry, evidence, around, partial(self._judge.looking.observation, evidence, around))

    def _is_no_candidate(self, candidate: StoredStep | None) -> str:
        """Why this checkpoint is none to resume from, whatever the world says; nothing if it is one."""
        if candidate is None:
            return ""
        if self._type is not None and candidate.checkpoint_type != self._type:
            return f"it is not of type {self._type}"
        if not candidate.proven and candidate.last_verified_at is not None:
            return "it was never verified: what it claimed did not hold when it was looked at"
        return ""

    def _world_of(self, candidate: StoredStep) -> World:
        number = candidate.sequence or 0
        # What was rolled back past is in no later world, and has claims of its own all the same.
        if candidate.proven and candidate.superseded_by is None:
            return self.worlds.at(number)
        own = entries_of(records.decode_pack(candidate.pack or b""), number, candidate.base_path)
        return self.worlds.at(number, own)

    def _list_leftovers(self, walk: Walk) -> None:
        """What the steps left behind that would be rolled back past: files that are there, and that nobody claims then."""
        if walk.verdict is not Verdict.RESUME or walk.chosen is None or not walk.rejected:
            return
        number = walk.chosen.sequence or 0
        claimed = self._world_of(walk.chosen).subjects()
        later = [entry for entry in (*self._standing, *self._others) if entry.sequence > number]
        newest = {entry.subject: entry for entry in sorted(later, key=lambda entry: entry.sequence)}
        walk.leftovers = [entry for subject, entry in newest.items() if subject not in claimed and self._is_there(entry)]

    def _is_there(self, entry: Entry) -> bool:
        claimed = self._judge.claimed(entry.sequence)
        if entry.item >= len(claimed.pack.evidence_list):
            return False
        item = claimed.pack.evidence_list[entry.item]
        if not entry.subject.startswith("file:"):
            # Nothing else has content that could have changed and still be there: a row is there if it is as claimed.
            return entry.subject.startswith("row:") and self._fits(item, claimed.around)
        seen = self._judge.looking.observation(item, claimed.around)
        return isinstance(seen, Seen) and bool(seen.facts.get("exists"))


def _not_adopted(settled: Settled) -> Settled:
    """A step is adopted only onto the checkpoint it was begun on, and one at a time."""
    if settled.settling is not Settling.ADOPT:
        return settled
    instead = Settling.RETRY if settled.step.rerunnable else Settling.UNCERTAIN
    reason = "what it was to leave behind is there, but the task does not stand where it was begun"
    return replace(settled, settling=instead, reason=reason)


def entries_of(pack: EvidencePack, number: int, base: str) -> list[Entry]:
    """What a pack claims, as the index would keep it."""
    claims = records.claims_of(pack, base)
    return [Entry(claim.subject, number, claim.item, claim.lifetime, base, claim.rules) for claim in claims]


def _again(walk: Walk, candidate: StoredStep | None) -> list[StoredStep]:
    """The interrupted steps that run again from this candidate."""
    number = 0 if candidate is None else candidate.sequence or 0
    return [each.step for each in walk.interrupted if each.settling is Settling.RETRY and each.step.parent == number]
