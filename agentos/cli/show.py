"""`agentos show CHECKPOINT`: the state, the evidence with what was expected and found, and the looks at it over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from agentos._text import plain, shown
from agentos.cli import naming
from agentos.cli.columns import ago, clock
from agentos.cli.door import Door, note
from agentos.cli.marks import bold, mark_of
from agentos.cli.outline import brief, cut, outline
from agentos.cli.verb import verb
from agentos.errors import CheckpointNotFoundError

if TYPE_CHECKING:
    from agentos.core.checkpoints import Checkpoint, CheckpointManager, Step
    from agentos.core.checkpoints.history import PastLook
    from agentos.core.checkpoints.reports.report import ReportedItem

SHAPE = {
    "checkpoint": "everything the checkpoint carries: `checkpoint_id`, `task_id`, `sequence_number`, `snapshot_data`, "
    "`evidence_pack`, `metadata`, `verified`, `superseded_by`, …; null for a step that never became one",
    "verifications": "the newest looks at it, newest first: `number`, `at`, `by`, `outcome`, `counted`, `results` item by item",
    "step": "for a step that is no checkpoint: `step_id`, `state`, `snapshot_data`, `begun_at`, `expects`, …; else null",
}
_LINES = 40
_MOST_REASONS = 3
_OUTCOMES = {"verified": "held", "failed": "FAILED", "error": "could not be checked"}


@verb("show", SHAPE)
@click.argument("checkpoint_id", metavar="CHECKPOINT")
@click.option("--looks", type=click.IntRange(1), default=10, show_default=True, help="How many verifications to show.")
@click.option("--full", is_flag=True, help="Show the whole state, not only its first lines.")
def command(door: Door, checkpoint_id: str, looks: int, *, full: bool) -> None:
    """Show what CHECKPOINT holds: the state to resume from, its evidence, and how that was found over time.

    The id of a step that never ended shows what it was about to do. Nothing is measured; `agentos verify CHECKPOINT` does that.
    """
    with door.looking() as manager:
        found = _found(manager, checkpoint_id)
        history = [] if isinstance(found, str) else manager.verification_history(found.checkpoint_id, limit=looks)
        step = manager.get_step(found) if isinstance(found, str) else None
    if step is not None:
        door.answer({"checkpoint": None, "verifications": [], "step": _step_document(step)}, _step_lines(step, full=full))
        _hint_step(door, step)
    elif not isinstance(found, str):
        door.answer(_document(door, found, history), _lines(found, history, full=full))


def _found(manager: CheckpointManager, text: str) -> Checkpoint | str:
    """The checkpoint that is meant, or the id of a step that is none."""
    try:
        checkpoint = manager.get_checkpoint(naming.checkpoint_named(manager, text))
    except CheckpointNotFoundError:
        if len(manager.find_ids("step", text, limit=2)) != 1:
            raise
        step_id = naming.step_named(manager, text)
        step = manager.get_step(step_id)
        if step is None or step.checkpoint_id is None:
            return step_id
        checkpoint = manager.get_checkpoint(step.checkpoint_id)
    if checkpoint is None:
        raise CheckpointNotFoundError(f"checkpoint {shown(text, 80)}: deleted", hint="`agentos log TASK` shows what there is")
    return checkpoint


# As JSON.


def _document(door: Door, checkpoint: Checkpoint, history: list[PastLook]) -> dict[str, Any]:
    if not door.as_json:
        return {}
    from agentos.cli.documents import checkpoint_document  # noqa: PLC0415 - people read lines

    looks = [plain(look.to_dict()) for look in history]
    return {"checkpoint": checkpoint_document(checkpoint), "verifications": looks, "step": None}


def _step_document(step: Step) -> dict[str, Any]:
    from agentos.cli.documents import pack_document  # noqa: PLC0415 - programs read JSON

    told = {each.name: getattr(step, each.name) for each in fields(step)}
    told["begun_at"] = step.begun_at.isoformat()
    told["expects"] = None if step.expects is None else pack_document(step.expects.to_dict())
    return told


# As lines.


def _lines(checkpoint: Checkpoint, history: list[PastLook], *, full: bool) -> Iterator[str]:
    from agentos.core.checkpoints import VerificationReport  # noqa: PLC0415 - programs read JSON

    report = VerificationReport.of_checkpoint(checkpoint)
    yield bold(report.title)
    yield f"committed {clock(checkpoint.created_at)} UTC, {ago(checkpoint.created_at)}: {shown(checkpoint.checkpoint_type, 80)}"
    yield f"in {shown(checkpoint.base_path, 200)}"
    yield _standing(checkpoint)
    yield from _extras(checkpoint)
    yield from _state(checkpoint.snapshot_data, full=full)
    yield bold("evidence") + ("" if report.items else ": none, so nothing is proven")
    for item in report.items:
        yield from _item(item)
    yield bold("looks") + ("" if history else ": none")
    for look in history:
        yield from _look(look)


def _standing(checkpoint: Checkpoint) -> str:

    if checkpoint.superseded_by == "restart":
        return "rolled back past: the task was started over"
    if checkpoint.superseded_by is not None:
        return f"rolled back past, to {shown(checkpoint.superseded_by, 80)}"
    if checkpoint.last_verified_at is None:
        return "on the timeline; it was never found to hold or to differ"
    said = "held" if checkpoint.verified else "did NOT hold"
    return f"on the timeline; it {said} when it was last looked at, {ago(checkpoint.last_verified_at)}"


def _extras(checkpoint: Checkpoint) -> Iterator[str]:

    if checkpoint.adopted:
        yield "adopted: its step was interrupted, and its effect was there"
    if checkpoint.work_item_id is not None:
        yield f"work item {shown(checkpoint.work_item_id, 120)}"
    if checkpoint.metadata:
        yield f"metadata {brief(checkpoint.metadata)}"


def _state(snapshot: dict[str, Any], *, full: bool) -> Iterator[str]:

    yield bold("state")
    yield from cut(
        outline(snapshot, "  "), None if full else _LINES, "  … and more: --full shows all of it, --json every value whole"
    )


def _item(item: ReportedItem) -> Iterator[str]:

    sure = f"  {item.assurance}" if item.assurance else ""
    mark = mark_of({"not_run": "pending"}.get(item.outcome, item.outcome))
    yield f"  {mark} {item.evidence_type}  {item.description}{sure}{'  flaky' if item.flaky else ''}"
    yield f"        expected  {_value(item.expected)}"
    if item.outcome != "not_run":
        yield f"        found     {_value(item.found)}"
    if item.message:
        yield f"        {item.message}"
    yield from (f"        note: {each}" for each in item.notes)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else brief(value, 160)


def _look(look: PastLook) -> Iterator[str]:

    by = "at the commit" if look.by is None else shown(look.by, 80)
    aside = "" if look.counted else "; it decided nothing: a newer one was recorded meanwhile"
    yield f"  {mark_of(look.outcome)} {clock(look.at)} UTC, {ago(look.at)}: {_OUTCOMES[look.outcome]} ({by}){aside}"
    troubled = [each for each in look.results if each is not None and each.outcome.value != "verified"]
    yield from (f"        {shown(each.message, 300)}" for each in troubled[:_MOST_REASONS])
    if len(troubled) > _MOST_REASONS:
        yield f"        and {len(troubled) - _MOST_REASONS} more"


# A step that is no checkpoint.


def _step_lines(step: Step, *, full: bool) -> Iterator[str]:
    from agentos.core.checkpoints import VerificationReport  # noqa: PLC0415 - programs read JSON

    ended = "it never ended" if step.state == "begun" else step.state
    yield bold(f"step {step.step_id} · task {shown(step.task_id, 120)} · {shown(step.checkpoint_type, 80)} · {ended}")
    yield f"begun {clock(step.begun_at)} UTC, {ago(step.begun_at)}, on {shown(step.host, 80)}"
    if not step.rerunnable:
        yield "it must not run twice"
    if step.error:
        yield f"its block ended with {shown(step.error, 300)}"
    yield from _state(step.snapshot_data, full=full)
    if step.expects is not None:
        yield bold("expected to leave behind")
        for item in VerificationReport.of_pack(step.expects).items:
            yield from _item(item)


def _hint_step(door: Door, step: Step) -> None:
    if step.state == "begun":
        from agentos.cli.typed import typed  # noqa: PLC0415 - programs read JSON

        note(f"`{typed(door.db, 'recover', step.task_id)}` says what becomes of it")
