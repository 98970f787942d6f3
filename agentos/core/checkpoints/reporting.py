"""Turn a walk into a report: differences with who recorded what was found, reasons, and what can be called next.

Reads what the report needs, one snapshot at the most, and records the looks that were taken. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentos import _ways
from agentos._log import warn
from agentos._text import shown
from agentos._ways import Way
from agentos.core.checkpoints import codec, policy, records
from agentos.core.checkpoints.holders import described, is_alive, new_holder
from agentos.core.checkpoints.judging import Finding, Judged
from agentos.core.checkpoints.models import EvidencePack
from agentos.core.checkpoints.ports import Look, StoredStep
from agentos.core.checkpoints.recovered import (
    IN_FLIGHT,
    Difference,
    Interrupted,
    Leftover,
    Recovery,
    Rejected,
    Verdict,
    origin,
)
from agentos.core.checkpoints.recovery import Settled, Survey, Walk
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.unkept import note_of
from agentos.errors import StoreBusyError, StoreUnavailableError

if TYPE_CHECKING:
    from agentos.core.checkpoints.parts import Parts

# A task that diverged everywhere may have thousands of reasons; a person reads a few of each.
_MOST_REASONS = 8
_MOST_EXPLAINED = 32

# What is said by eyes that find no folder to start from.
_NO_BASE = "BASE_MISSING"
# What can be done about a task, by verdict.
_OPTIONS: dict[Verdict, Callable[[str], tuple[Way, ...]]] = {
    Verdict.FRESH: lambda task: (Way(_ways.resume(task)),),
    Verdict.RESUME: lambda task: (Way(_ways.resume(task)),),
    Verdict.REPAIR: lambda task: (
        Way(_ways.repair(task)),
        Way(_ways.accept(task)),
        Way(_ways.restart(task)),
    ),
    Verdict.DIVERGED: lambda task: (
        Way("put back what differs and call ", _ways.recover(task), " again"),
        Way(_ways.accept(task)),
        Way(_ways.restart(task)),
    ),
    Verdict.UNCERTAIN: lambda _: (),
    Verdict.BLOCKED: lambda task: (
        Way("mend what stands in the way and call ", _ways.recover(task), " again"),
        Way(_ways.wait(task)),
    ),
    Verdict.HELD: lambda task: (Way(_ways.wait(task)), Way("stop the process that holds it")),
    Verdict.FINISHED: lambda task: (Way(_ways.reopen(task)),),
}


def report(parts: Parts, task_id: str, walk: Walk, survey: Survey | None) -> Recovery:
    """The whole report."""
    usable = walk.verdict in (Verdict.RESUME, Verdict.FINISHED)
    stored = None if walk.chosen is None else parts.registry.checkpoint(walk.chosen.checkpoint_id or "")
    snapshot = None
    if usable and walk.adopt is not None:
        begun = parts.registry.step(walk.adopt.step_id)
        snapshot = None if begun is None else codec.decode(begun.snapshot)
    checkpoint = None if stored is None else records.loaded_checkpoint(stored)
    if usable and snapshot is None and checkpoint is not None:
        snapshot = checkpoint.snapshot_data
    recorded = not parts.readonly
    if survey is not None and recorded:
        recorded = _record_looks(parts, walk, survey)
    return Recovery(
        task_id=task_id,
        verdict=walk.verdict,
        checkpoint=checkpoint,
        snapshot=snapshot,
        differences=tuple(_differences(walk, survey)),
        rejected=tuple(_rejected(walk, survey)),
        leftovers=tuple(_leftovers(walk, survey)),
        interrupted=tuple(map(_interrupted, walk.interrupted)),
        options=tuple(_options(walk, task_id)),
        registry=parts.db_path,
        created=parts.created,
        holder=None,
        notes=(*walk.notes, *_unkept(walk, survey)),
        plan=walk.plan,
        recorded=recorded,
    )


def held(
    parts: Parts, task_id: str, holder: str | None, since: str | None, running: Sequence[tuple[StoredStep, str]]
) -> Recovery:
    """The report on a task that another living process has: the world was not looked at.

    Args:
        running: steps that somebody is in the middle of, and who that is; if nobody claims the task, the first is meant.
    """
    steps = tuple(
        Interrupted(
            step.step_id,
            step.checkpoint_type,
            "running",
            f"{who} is in the middle of it",
            datetime.fromisoformat(step.begun_at),
            step.error,
            step.rerunnable,
        )
        for step, who in running
    )
    options = _OPTIONS[Verdict.HELD](task_id)
    if is_alive(holder or running[0][0].runner) is None:
        # A person may know what cannot be seen from here.
        gone = [_ways.abandon(step.step_id) for step, _ in running] or [_ways.free(task_id)]
        options += tuple(Way(act, ", if that process is gone") for act in gone)
    name = described(holder) if holder is not None else running[0][1]
    who = f"{name}, since {_at(since)},"
    return Recovery(task_id, Verdict.HELD, None, None, (), (), (), steps, options, parts.db_path, parts.created, who, ())


def _at(since: str | None) -> str:
    return "some time" if since is None else f"{datetime.fromisoformat(since):%Y-%m-%d %H:%M:%S} UTC"


def with_checkpoint(recovery: Recovery, stored: StoredStep) -> Recovery:
    """The same report, standing on a step that was adopted."""
    checkpoint = records.loaded_checkpoint(stored)
    return replace(recovery, checkpoint=checkpoint, snapshot=checkpoint.snapshot_data)


def _differences(walk: Walk, survey: Survey | None) -> Iterable[Difference]:
    judged = walk.judged if walk.judged is not None and walk.judged.findings else walk.head
    if survey is None or judged is None:
        return
    for finding in judged.findings:
        result, stored = finding.result, finding.claimed.stored
        yield Difference(
            finding.entry.subject,
            result.outcome.value,
            result.expected if result.expected is not None else finding.evidence.expected,
            result.found,
            result.message,
            result.code,
            _recorded_by(finding, walk, survey),
            survey.can_put_back(finding, walk),
            stored.checkpoint_id or "",
            finding.entry.sequence,
        )


def _recorded_by(finding: Finding, walk: Walk, survey: Survey) -> str | None:
    if finding.result.outcome is not Outcome.FAILED:
        return None
    found = survey.recorder(finding)
    if found is not None:
        stored, entry = found
        when = "later" if entry.sequence > finding.entry.sequence else "earlier"
        gone = "" if stored.live else ", no longer on the timeline"
        return f"the {when} checkpoint number {entry.sequence} ({stored.checkpoint_id}{gone})"
    step = survey.in_flight(finding, walk)
    return None if step is None else f"{IN_FLIGHT}step {step.step_id} was interrupted while it changed this"


def _rejected(walk: Walk, survey: Survey | None) -> Iterable[Rejected]:
    for place, (stored, reasons, judged) in enumerate(walk.rejected):
        # Who recorded what is asked for the newest few: nobody reads thousands of answers, and each takes a search.
        asked = survey if place < _MOST_EXPLAINED else None
        said = [*reasons, *([] if judged is None else _reasons(judged, walk, asked))]
        yield Rejected(stored.checkpoint_id or "", stored.sequence or 0, tuple(said))


def _reasons(judged: Judged, walk: Walk, survey: Survey | None) -> list[str]:
    if judged.empty:
        return ["nothing that it stands on can be measured now: no claim of it lasts"]
    if not judged.findings:
        return ["nothing that it stands on was measured: all of it is only declared"]
    said = []
    for finding in judged.findings[:_MOST_REASONS]:
        who = "" if survey is None else origin(_recorded_by(finding, walk, survey))
        said.append(f"{finding.result.message}; {who}" if who else finding.result.message)
    if len(judged.findings) > _MOST_REASONS:
        said.append(f"and {len(judged.findings) - _MOST_REASONS} more")
    return said


def _leftovers(walk: Walk, survey: Survey | None) -> Iterable[Leftover]:
    if survey is not None:
        for entry in walk.leftovers:
            yield Leftover(entry.subject, survey.checkpoint_id(entry.sequence), entry.sequence)


def _unkept(walk: Walk, survey: Survey | None) -> list[str]:
    """What the task stands on, or would if it could, and could not be put back if it were lost."""
    standing = walk.chosen or next((stored for stored, *_ in walk.rejected), None)
    if survey is None or standing is None:
        return []
    note = note_of(claim.evidence for claim in survey.stands(standing))
    return [note] if note else []


def _interrupted(settled: Settled) -> Interrupted:
    step = settled.step
    begun = datetime.fromisoformat(step.begun_at)
    return Interrupted(
        step.step_id, step.checkpoint_type, settled.settling.value, settled.reason, begun, step.error, step.rerunnable
    )


def _options(walk: Walk, task_id: str) -> Iterable[Way]:
    if walk.judged is not None and any(each.result.code == _NO_BASE for each in walk.judged.findings):
        yield Way("if the workspace is somewhere else now: ", _ways.moved(task_id))
        if any(each.evidence.metadata.get("kept") for each in walk.judged.findings):
            yield Way("if it was removed: make the folder again, empty, and ", _ways.repair(task_id))
    yield from _OPTIONS[walk.verdict](task_id)
    if walk.verdict is Verdict.UNCERTAIN:
        uncertain = [each.step.step_id for each in walk.interrupted if each.settling == "uncertain"]
        for step_id in uncertain:
            yield Way(_ways.resolve(step_id))
        if walk.head is not None:
            yield Way("put back what differs and call ", _ways.recover(task_id), " again")
        if walk.head is not None and not uncertain:
            yield Way(_ways.accept(task_id))
        yield Way(_ways.restart(task_id))


def _record_looks(parts: Parts, walk: Walk, survey: Survey) -> bool:
    """Keep what was seen of the newest candidate and of the chosen one. The flags stay: a world is more than one pack.

    Returns whether the registry can be written to.
    """
    writable = True
    looked: list[tuple[StoredStep, Judged]] = []
    if walk.head is not None:
        looked.append(next((stored, judged) for stored, _, judged in walk.rejected if judged is not None))
    if walk.chosen is not None and walk.judged is not None and walk.adopt is None:
        looked.append((walk.chosen, walk.judged))
    for stored, judged in looked:
        look = _look(survey.seen(stored), judged.outcome)
        try:
            parts.registry.record_look(stored.step_id, stored.last_verified_at, look, decides=False)
        except (StoreUnavailableError, StoreBusyError) as error:
            # What was measured is true all the same, and at three in the morning the disk is full.
            writable = writable and not isinstance(error, StoreUnavailableError)
            warn("checkpoints", "the look at step %s could not be recorded: %s", stored.step_id, shown(str(error)))
    return writable


def prove(parts: Parts, survey: Survey, stored: StoredStep) -> None:
    """Write down that a checkpoint nobody had judged was measured to hold: what it claims is part of later worlds now."""
    pack = survey.seen(stored)
    outcome = policy.verdict(
        pack, [Outcome.NOT_RUN if item.result is None else item.result.outcome for item in pack.evidence_list]
    )
    decides = outcome is Outcome.VERIFIED
    parts.registry.record_look(stored.step_id, stored.last_verified_at, _look(pack, outcome), decides=decides, proves=True)


def _look(pack: EvidencePack, outcome: Outcome) -> Look:
    now = datetime.now(UTC)
    return Look(outcome.value, records.encode_results(pack, now), now.isoformat(), new_holder("recover"))
