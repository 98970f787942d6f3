"""Tell what a recovery found, in plain sentences: where the task may go on, why not from newer ones, and what can be done.

The first line is the answer; everything after it is the reason. Chooses words, never verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentos._text import listed, shown
from agentos._ways import Way, undo
from agentos.core.checkpoints.recovered import Difference, Recovery, Verdict
from agentos.core.checkpoints.restores import Restored, RestorePlan

_MOST = 12
_FATE = {
    "adopt": "its effect is there: it counts as done and does not run again",
    "retry": "it will run again",
    "uncertain": "it may have run, and must not run twice: a person must say whether it landed",
    "running": "another process is in the middle of it",
}


def explained(recovery: Recovery, say: Callable[[str], str] = str, offer: Callable[[str], str] = str) -> str:
    """The whole story.

    Args:
        say: how a way is said; in the library's words by default.
        offer: the same where all of them are listed.
    """
    return "\n".join(_lines(recovery, say, offer))


def _lines(recovery: Recovery, say: Callable[[str], str], offer: Callable[[str], str]) -> Iterator[str]:
    yield f"task {shown(recovery.task_id, 80)}: {_answer(recovery)}"
    made = ", which was just created" if recovery.created else ""
    yield f"  registry: {shown(recovery.registry)}{made}"
    yield from _some("differs", [_difference(each) for each in recovery.differences if each.outcome != "error"])
    yield from _some("could not be checked", [_said(each) for each in recovery.differences if each.outcome == "error"])
    for rejected in recovery.rejected[:_MOST]:
        yield f"  not from number {rejected.sequence} ({shown(rejected.checkpoint_id, 80)}):"
        yield from (f"    - {reason}" for reason in rejected.reasons)
    if len(recovery.rejected) > _MOST:
        yield f"  nor from {len(recovery.rejected) - _MOST} older ones"
    for step in recovery.interrupted:
        error = f"; its block ended with {shown(step.error, 200)}" if step.error else ""
        yield f"  interrupted: {step.checkpoint_type} step {step.step_id} of {step.begun_at:%Y-%m-%d %H:%M:%S} UTC{error}"
        yield f"    {_FATE[step.verdict]} ({step.reason})"
    yield from _some("left behind", [f"{shown(each.subject)} (of number {each.sequence})" for each in recovery.leftovers])
    if recovery.plan is not None:
        yield from (f"  {line}" for line in recovery.plan.explain().splitlines())
    yield from (f"  {line}" for each in recovery.restored for line in _restored(each, say))
    if len(recovery.restored) > 1:
        # The later one began with what the earlier one had left.
        yield "  whoever takes back all of it begins with the last one"
    yield from (f"  note: {shown(say(note))}" for note in recovery.notes)
    yield from _some("what can be done", [offer(option) for option in recovery.options])


def _restored(restored: Restored, say: Callable[[str], str]) -> Iterator[str]:
    yield f"put back: {_first_line(restored.plan)}"
    gone = [each.path for each in restored.plan.operations if each.overwrites]
    if gone:
        yield say(Way(f"what was there before is kept: {listed(gone)}; ", undo(restored.restore_id), " brings it back"))


def _first_line(plan: RestorePlan) -> str:
    return plan.explain().partition("\n")[0]


def _answer(recovery: Recovery) -> str:
    return f"{recovery.verdict.value}: {_ANSWERS[recovery.verdict](recovery)}"


def _standing(recovery: Recovery) -> str:
    checkpoint = recovery.checkpoint
    if checkpoint is None:
        return "the step that was interrupted first"
    return (
        f"checkpoint number {checkpoint.sequence_number} ({shown(checkpoint.checkpoint_id, 80)}, {checkpoint.checkpoint_type})"
    )


def _resume(recovery: Recovery) -> str:
    adopted = any(step.verdict == "adopt" for step in recovery.interrupted)
    onto = "an interrupted step had its effect and is adopted; the task goes on after it, from " if adopted else "go on from "
    past = f"; {len(recovery.rejected)} newer cannot be stood on" if recovery.rejected else ""
    return f"{onto}{_standing(recovery)}, everything it stands on was measured just now{past}"


def _blocked(recovery: Recovery) -> str:
    unseen = sum(each.outcome == "error" for each in recovery.differences)
    if unseen:
        return f"{unseen} of the things that {_standing(recovery)} stands on could not be checked; that is no sign of damage"
    return f"something that must hold at every resume does not, at {_standing(recovery)}"


def _finished(recovery: Recovery) -> str:
    if recovery.checkpoint is None:
        return "the task was finished without a checkpoint"
    differ = sum(each.outcome != "error" for each in recovery.differences)
    unseen = len(recovery.differences) - differ
    said = [f"{differ} of its claims do not hold now"] if differ else []
    said += [f"{unseen} of its claims could not be checked"] if unseen else []
    return f"the task was finished at {_standing(recovery)}; {', '.join(said) or 'its world still holds'}"


_ANSWERS = {
    Verdict.FRESH: lambda _: "nothing was committed, so it starts from the beginning",
    Verdict.RESUME: _resume,
    Verdict.REPAIR: lambda recovery: f"what differs at {_standing(recovery)} can be put back",
    Verdict.DIVERGED: lambda _: "no checkpoint holds any more, and what differs cannot be put back; a person must decide",
    Verdict.UNCERTAIN: lambda _: "a step that must not run twice may have run; a person must decide",
    Verdict.BLOCKED: _blocked,
    Verdict.HELD: lambda recovery: f"{recovery.holder} has it",
    Verdict.FINISHED: _finished,
}


def _difference(difference: Difference) -> str:
    back = "; it can be put back" if difference.restorable else ""
    return f"{_said(difference)} ({difference.origin}{back})"


def _said(difference: Difference) -> str:
    return difference.message or f"{shown(difference.subject)}: {difference.code}"


def _some(title: str, items: list[str]) -> Iterator[str]:
    if items:
        yield f"  {title}:"
        yield from (f"    - {item}" for item in items[:_MOST])
    if len(items) > _MOST:
        yield f"    - and {len(items) - _MOST} more"
