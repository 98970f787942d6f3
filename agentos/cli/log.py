"""`agentos log TASK`: what happened to a task, newest first, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from agentos._text import shown
from agentos.cli import naming
from agentos.cli.columns import ago, clock
from agentos.cli.door import Door, note
from agentos.cli.exits import Exit
from agentos.cli.marks import bold, mark_of
from agentos.cli.typed import typed
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints.events import Event, EventPage
    from agentos.core.checkpoints.overviews import TaskOverview

SHAPE = {
    "task": "the task at a glance, as `tasks` shows it",
    "events": "newest first; each with `kind` (`checkpoint`, `step`, `decision`, `restore`), `state`, `id`, `at`, and `about`: "
    "what there is to say of its kind",
    "next": "the value of `--before` for the next page; null on the last one",
}
_MARKS = {
    "interrupted": "open",
    "begun": "error",
    "applying": "error",
    "done": "event",
    "undone": "event",
}


@verb("log", SHAPE)
@click.argument("task_id", metavar="TASK")
@click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="Events on a page.")
@click.option("--before", default=None, metavar="PLACE", help="Go on from where the page before ended.")
def command(door: Door, task_id: str, limit: int, before: str | None) -> Exit:
    """Show what happened to TASK, newest first.

    Checkpoints with their newest verifications, steps that were interrupted or abandoned, what was rolled back past, decisions
    of people and of recovery, and restores. Times are UTC. Nothing is measured; `agentos recover TASK` does that.
    """
    with door.looking() as manager:
        task_id = naming.task_named(manager, task_id)
        task = manager.task_overview(task_id)
        page = manager.task_log(task_id, before=before, limit=limit)
    document = {"task": task.to_dict(), "events": [each.to_dict() for each in page.events], "next": page.next}
    door.answer(document, _lines(task, page))
    _hint(door, task, page)
    damaged = task.damage or any(each.state == "damaged" for each in page.events)
    return Exit.UNAVAILABLE if damaged else Exit.SAFE


def _lines(task: TaskOverview, page: EventPage) -> Iterator[str]:
    yield bold(f"task {shown(task.task_id, 120)}: {_standing(task)}")
    ages = [ago(each.at) for each in page.events]
    widest = max(map(len, ages), default=0)
    for event, age in zip(page.events, ages, strict=True):
        first, *rest = _told(event)
        mark = mark_of(_MARKS.get(event.state, event.state) if event.kind != "decision" else "event")
        yield f"  {age:>{widest}}  {clock(event.at):<19}  {mark} {first}"
        yield from (f"  {'':>{widest}}  {'':<19}    {line}" for line in rest)


def _standing(task: TaskOverview) -> str:
    last = task.last_verified
    said = ["finished" if task.status == "completed" else task.status]
    said.append("no checkpoint" if not task.newest else f"newest checkpoint number {task.newest}")
    said += [] if last is None else [f"last verified number {last.sequence_number} ({ago(last.last_verified_at)})"]
    said += [f"held by {task.held_by}"] if task.held_by else []
    return ", ".join(said)


def _told(event: Event) -> Iterator[str]:
    return _TELLERS[event.kind](event, event.about)


def _checkpoint(event: Event, about: dict[str, Any]) -> Iterator[str]:
    number = f"number {about['sequence_number']}"
    if event.state == "damaged":
        yield f"{number}: what is stored is not what was written, or it is gone"
        return
    adopted = ", adopted: its step was interrupted, and its effect was there" if about["adopted"] else ""
    yield f"{number}  {event.id and shown(event.id, 80)}  {about['checkpoint_type']}{adopted}"
    if event.state == "deleted":
        yield "deleted; what it claimed stays in force"
    elif about["superseded_by"] == "restart":
        yield "rolled back past: the task was started over"
    elif about["superseded_by"] is not None:
        yield f"rolled back past, to {shown(about['superseded_by'], 80)}"
    if about["verifications"] == 0:
        yield "never looked at"
    elif about["verifications"] > 1 or not about["verified"]:
        looks = ", ".join(f"{_OUTCOMES[look['outcome']]} {ago(look['at'])}" for look in about["newest_verifications"])
        more = about["verifications"] - len(about["newest_verifications"])
        yield f"looked at: {looks}{f', and {more} times before' if more > 0 else ''}"


_OUTCOMES = {"verified": "held", "failed": "FAILED", "error": "could not be checked"}


def _step(event: Event, about: dict[str, Any]) -> Iterator[str]:
    if event.state == "damaged":
        yield "a step: what is stored is not what was written"
        return
    what = {
        "interrupted": "interrupted: it never ended",
        "running": "running: somebody is in the middle of it",
        "abandoned": "abandoned: it ended without a checkpoint",
    }[event.state]
    yield f"step {event.id}  {about['checkpoint_type']}  {what}"
    if about["error"]:
        yield f"its block ended with {shown(about['error'], 200)}"
    if not about["rerunnable"]:
        yield "it must not run twice"


def _decision(event: Event, about: dict[str, Any]) -> Iterator[str]:
    by = f" by {shown(about['by'], 80)}" if about["by"] else ""
    yield f"{shown(event.state, 40)}{by}: {shown(event.id, 80)}"
    if about["reason"]:
        yield shown(about["reason"], 200)


def _restore(event: Event, about: dict[str, Any]) -> Iterator[str]:
    what = f"takes back {about['undoes']}" if about["undoes"] else f"to {shown(about['checkpoint_id'], 80)}"
    state = {"done": "", "undone": "; it failed, and was taken back"}.get(
        event.state, "; it was INTERRUPTED, and is not settled"
    )
    yield f"{event.id}  {what}: {about['paths']} paths in {shown(about['base_path'], 120)}{state}"


_TELLERS = {"checkpoint": _checkpoint, "step": _step, "decision": _decision, "restore": _restore}


def _hint(door: Door, task: TaskOverview, page: EventPage) -> None:
    if task.damage:
        note(task.damage)
    if task.interrupted and task.held_by is None and task.status == "active":
        note(f"`{typed(door.db, 'recover', task.task_id)}` says from where it may go on")
    if page.next is not None:
        note(f"older: {typed(door.db, 'log', task.task_id, options=('--before', page.next))}")
