"""Recover and resume: put the question to the registry and the world, and act on the answer.

`recover` looks and reports. `resume` does the same under the task's claim, and what it decides, adopting a step or rolling back
past a checkpoint, is stored before it returns a state. A crash in between is just another crash: the next one looks again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from agentos._process import this_process
from agentos._text import shown
from agentos._ways import joined
from agentos.core.checkpoints import records, reporting
from agentos.core.checkpoints.claiming import Claim, fence_lease
from agentos.core.checkpoints.holders import living_holder, new_holder, runs_it
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.models import EvidencePack
from agentos.core.checkpoints.parts import Parts
from agentos.core.checkpoints.ports import Ending, Look, StoredStep
from agentos.core.checkpoints.recovered import Recovery, Verdict
from agentos.core.checkpoints.recovery import Survey, Walk
from agentos.core.checkpoints.repairing import earlier_restores, settle_restores
from agentos.core.checkpoints.restores import Restored, RestorePlan
from agentos.core.checkpoints.stored import Decision, StoredTask
from agentos.errors import LeaseLostError, NotSafeToResumeError, StepAlreadyCommittedError, TaskHeldError

_SHORTEST, _LONGEST = 0.02, 1.0
# What is put back may bring to light what differs too; somebody who changes it all the time is not raced for ever.
_MOST_ROUNDS = 4
_WAITS = frozenset({Verdict.BLOCKED, Verdict.HELD})


@dataclass(slots=True)
class Answer:
    """A recovery, with what acting on it needs."""

    recovery: Recovery
    walk: Walk
    task: StoredTask | None = None
    survey: Survey | None = None
    lease: Lease | None = None


def look(
    parts: Parts,
    task_id: str,
    *,
    checkpoint_type: str | None = None,
    deadline: float | None = None,
    lease: Lease | None = None,
    restored: Sequence[Restored] = (),
) -> Answer:
    """Find out from where the task may go on. Changes nothing but the history of verifications.

    Args:
        restored: what the caller put back just now, and tells of.
    """
    task = parts.registry.task(task_id)
    if task is None:
        return Answer(reporting.report(parts, task_id, Walk(), None), Walk())
    held = _held(parts, task, lease)
    if held is not None:
        return held
    survey = parts.survey(task, checkpoint_type, deadline)
    open_steps = parts.registry.open_steps(task_id, snapshots=False)
    walk = survey.finished() if task.status == "completed" else survey.walk(open_steps)
    walk.notes += earlier_restores(parts.registry, task, {each.restore_id for each in restored})
    return Answer(reporting.report(parts, task_id, walk, survey), walk, task, survey)


def _held(parts: Parts, task: StoredTask, lease: Lease | None) -> Answer | None:
    """The answer if another living process has the task, by a claim or by a step that it is in the middle of."""
    holder = living_holder(task, lease)
    running = [] if task.status == "completed" else parts.registry.open_steps(task.task_id, snapshots=False)
    under_way = [(step, who) for step in running if (who := runs_it(step))]
    if holder is None and not under_way:
        return None
    since = task.since if holder is not None else under_way[0][0].begun_at
    report = reporting.held(parts, task.task_id, holder, since, under_way)
    return Answer(report, Walk(Verdict.HELD), task)


def resume(
    parts: Parts,
    task_id: str,
    *,
    wait: float | None,
    lease: Lease | None,
    keep: bool = False,
    ttl: float | None = None,
    repair: bool = False,
) -> Answer:
    """Find out, act on it, and give an answer whose state may be used.

    Args:
        lease: the claim to do it under; without one the task is claimed for as long as it takes.
        keep: hold on to the claim afterwards, if the task goes on.
        ttl: for the claim that is kept.
        repair: put back what differs, where all of it can be, and take away what rolled back steps left behind.

    Raises:
        NotSafeToResumeError: there is none; `recovery` says why.
    """
    lease = _own(lease, keep=keep)
    until = None if wait is None else time.monotonic() + wait
    pause = _SHORTEST
    while True:
        answer = _attempt(parts, task_id, lease, keep=keep, ttl=ttl, repair=repair)
        verdict = answer.recovery.verdict
        if verdict in (Verdict.RESUME, Verdict.FRESH, Verdict.FINISHED):
            return answer
        left = 0.0 if until is None else until - time.monotonic()
        if verdict not in _WAITS or left <= 0:
            raise refused(answer.recovery)
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST)


def _own(lease: Lease | None, *, keep: bool) -> Lease | None:
    """A forked child is another holder: what it inherited is no claim of its own, and must not renew its parent's."""
    if lease is None or lease.process == this_process().text:
        return lease
    if keep:
        return None
    raise LeaseLostError(
        f"task {shown(lease.task_id, 80)}: this lease was made in another process ({shown(lease.process, 120)})",
        hint="a forked child is another holder: claim the task in it, once its parent has let go",
        task_id=lease.task_id,
    )


def refused(recovery: Recovery) -> NotSafeToResumeError:
    """The error for a task that cannot go on."""
    first, _, _ = recovery.explain().partition("\n")
    hint = joined("what can be done: ", "; ", recovery.options) if recovery.options else ""
    return NotSafeToResumeError(first, hint=hint, task_id=recovery.task_id, verdict=recovery.verdict.value, recovery=recovery)


def _attempt(parts: Parts, task_id: str, lease: Lease | None, *, keep: bool, ttl: float | None, repair: bool) -> Answer:
    task = parts.registry.task(task_id)
    if task is not None:
        # Before the claim: a claim takes the task out of the hands of whoever works on it without one.
        held = _held(parts, task, lease)
        if held is not None:
            return held
    try:
        own = _claimed(parts, task_id, lease, ttl)
    except TaskHeldError as refusal:
        # Not looked at again: whoever let go of it since is no reason to go on without a claim.
        told = refusal.diagnostics()
        return Answer(reporting.held(parts, task_id, told["holder"], told["since"], ()), Walk(Verdict.HELD), task)
    kept = False
    try:
        if lease is not None and not keep:
            fence_lease(Claim(own.holder, own.token), lease)
        answer = _decided(parts, task_id, own, repair=repair)
        if (keep or lease is not None) and answer.recovery.verdict in (Verdict.RESUME, Verdict.FRESH):
            answer.lease, kept = own, True
        return answer
    finally:
        if not kept:
            parts.registry.release(own)


def _claimed(parts: Parts, task_id: str, lease: Lease | None, ttl: float | None) -> Lease:
    if lease is None:
        return parts.registry.claim(task_id, new_holder(), ttl)
    return parts.registry.claim(task_id, lease.holder, lease.ttl)


def _decided(parts: Parts, task_id: str, lease: Lease, *, repair: bool) -> Answer:
    answer = _looked(parts, task_id, lease, repair=repair)
    if answer.recovery.verdict not in (Verdict.RESUME, Verdict.FRESH):
        return answer
    walk, registry = answer.walk, parts.registry
    _make_durable(parts, walk)
    if walk.chosen is not None:
        registry.supersede_later(walk.chosen.step_id, lease)
        if answer.survey is not None and walk.adopt is None and not walk.chosen.proven:
            reporting.prove(parts, answer.survey, walk.chosen)
    adopted = None
    if walk.adopt is not None:
        adopted = adopt(parts, walk.adopt, lease, "resume", "its effect was found in place")
    for settled in walk.interrupted:
        if settled.step is not walk.adopt:
            reason = f"resume: {settled.reason}"
            registry.abandon(settled.step.step_id, lease, decision("agentos", "abandon", settled.step.step_id, reason))
    if adopted is not None:
        answer.recovery = reporting.with_checkpoint(answer.recovery, adopted)
    return answer


def _looked(parts: Parts, task_id: str, lease: Lease, *, repair: bool) -> Answer:
    """What may happen next; with `repair` after everything that can be put back was."""
    notes = settle_restores(parts.registry, parts.hands, task_id, parts.moved_to)
    before: tuple[str, ...] = ()
    answer, restored = look(parts, task_id, lease=lease), list[Restored]()
    while repair and (plan := _plan(parts, answer)) is not None:
        before = before or tuple(each.message for each in answer.recovery.differences)
        restored.append(parts.hands().restore(plan))
        answer = look(parts, task_id, lease=lease, restored=restored)
        if len(restored) == _MOST_ROUNDS:
            break
    if restored or notes:
        told = (*notes, *(f"before it was put back: {each}" for each in before), *answer.recovery.notes)
        answer.recovery = replace(answer.recovery, restored=tuple(restored), notes=told)
    return answer


def _plan(parts: Parts, answer: Answer) -> RestorePlan | None:
    """What is to be put back, or taken away, before the task goes on; None if that is nothing."""
    if answer.survey is None or answer.walk.verdict is Verdict.REPAIR:
        return answer.walk.plan
    if answer.walk.verdict not in (Verdict.RESUME, Verdict.FRESH):
        return None
    plans = (*_removals(parts, answer, answer.survey), *answer.survey.plans_again(answer.walk))
    return next((plan for plan in plans if plan.operations), None)


def _removals(parts: Parts, answer: Answer, survey: Survey) -> Iterator[RestorePlan]:
    chosen = answer.walk.chosen
    left = [entry.subject.partition(":")[2] for entry in answer.walk.leftovers if survey.as_left(entry)]
    paths = [path for path in left if not path.startswith("/")]
    if chosen is not None and paths:
        base = parts.around_step(chosen).base_path
        yield parts.putting_back(answer.recovery.task_id).plan_removal(chosen, base, paths)


def _make_durable(parts: Parts, walk: Walk) -> None:
    """Sync what the state stands on: whoever wrote it last crashed, and what is decided now outlives a power cut."""
    since = walk.chosen.committed_at if walk.chosen is not None else walk.adopt.begun_at if walk.adopt is not None else None
    if since is None or walk.judged is None:
        return
    for items, around in walk.judged.stands_on:
        parts.sync_files(EvidencePack(items), around, datetime.fromisoformat(since))


def adopt(parts: Parts, step: StoredStep, lease: Lease, by: str, reason: str) -> StoredStep:
    """Commit an interrupted step as a checkpoint, with what is seen now of what it was to leave behind.

    One that was adopted before, by a recovery that died right after, is that checkpoint.
    """
    around = parts.around_step(step)
    pack = records.decode_pack(step.expects or records.EMPTY_PACK)
    look_now = None
    if pack.evidence_list:
        parts.sync_files(pack, around, datetime.fromisoformat(step.begun_at))
        outcome = parts.verifier.judge_pack(pack, around, checked=True)
        now = datetime.now(UTC)
        for item in pack.evidence_list:
            item.verified_at = now
        look_now = Look(outcome.value, records.encode_results(pack, now), now.isoformat(), new_holder("adopt"))
    ending = Ending(
        step.step_id,
        None,
        step.expects or records.EMPTY_PACK,
        None,
        records.claims_of(pack, around.base_path),
        look_now,
        around.base_path,
        datetime.now(UTC).isoformat(),
        os.urandom(12).hex(),
        lease,
        adopted=True,
        decision=decision(by, "adopt", step.step_id, reason),
    )
    own_id = step.step_id.removeprefix("step_")
    try:
        parts.registry.commit(ending)
    except StepAlreadyCommittedError:
        # Whoever adopted it, it is done; a step that was abandoned is not.
        if parts.registry.checkpoint(own_id) is None:
            raise
    stored = parts.registry.checkpoint(own_id)
    assert stored is not None, "an adopted step carries its own id"
    return stored


def decision(by: str, what: str, about: str, reason: str) -> Decision:
    """A decision made now."""
    return Decision(by, what, about, reason, datetime.now(UTC).isoformat())
