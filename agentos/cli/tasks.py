"""`agentos tasks`: every task at a glance, page by page; with `--check` also what recovery says of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from agentos.cli import exits
from agentos.cli.columns import ago, aligned
from agentos.cli.door import Door, note
from agentos.cli.exits import Exit
from agentos.cli.progress import showing
from agentos.cli.typed import typed
from agentos.cli.verb import verb
from agentos.errors import AgentosError

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager
    from agentos.core.checkpoints.overviews import TaskOverview, TaskPage

SHAPE = {
    "tasks": "one for each task: `task_id`, `status` (`active`, `completed`, `damaged`), `newest` (number of its newest "
    "checkpoint), `last_verified` (`checkpoint_id`, `sequence_number`, `checkpoint_type`, `created_at`, `last_verified_at`), "
    "`interrupted`, `running`, `held_by`, `held_since`, `damage`; with `--check` also `verdict` and `message`",
    "next": "the value of `--after` for the next page; null on the last one",
}
_STATUS = {"active": "active", "completed": "finished", "damaged": "DAMAGED"}


@verb("tasks", SHAPE)
@click.option("--check", is_flag=True, help="Look at the world now and add the verdict of `recover`. Records nothing.")
@click.option("--unfinished", is_flag=True, help="Leave out tasks that are finished.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Tasks on a page.")
@click.option("--after", default=None, metavar="TASK", help="Begin after this task: the next page.")
def command(door: Door, *, check: bool, unfinished: bool, limit: int, after: str | None) -> Exit:
    """Show every task: its last verified checkpoint, what was interrupted, who has it.

    Tasks come in the order of their ids. What is shown is what is stored; only --check looks at the world, and takes as long as
    that takes. With --check the exit code is the worst of the verdicts on the page: 0 if every task on it is safe to go on.
    """
    with door.looking() as manager:
        page = manager.list_tasks(after=after, limit=limit, unfinished=unfinished)
        told = _all(manager, page, check=check)
    documents = [document for document, _ in told]
    door.answer({"tasks": documents, "next": page.next}, _lines(page, documents, check=check))
    _hint(door, page, after)
    return exits.worst(code for _, code in told)


def _all(manager: CheckpointManager, page: TaskPage, *, check: bool) -> list[tuple[dict[str, Any], Exit]]:
    told = []
    with showing() as progress:
        for done, task in enumerate(page.tasks):
            progress(f"task {task.task_id}", done, len(page.tasks))
            told.append(_told(manager, task, check=check))
    return told


def _told(manager: CheckpointManager, task: TaskOverview, *, check: bool) -> tuple[dict[str, Any], Exit]:
    document = task.to_dict()
    if task.status == "damaged":
        return document | ({"verdict": None, "message": task.damage} if check else {}), Exit.UNAVAILABLE
    if not check:
        return document, Exit.SAFE
    try:
        recovery = manager.recover(task.task_id)
    except AgentosError as error:
        # One task that cannot be looked at is no reason to say nothing of the others.
        return document | {"verdict": None, "message": error.message}, exits.of_error(error)
    answer = recovery.explain().partition("\n")[0].partition(f"{recovery.verdict.value}: ")[2]
    return document | {"verdict": recovery.verdict.value, "message": answer}, exits.of_recovery(recovery)


def _lines(page: TaskPage, documents: list[dict[str, Any]], *, check: bool) -> Iterator[str]:
    if not page.tasks:
        return
    head = ["TASK", "STATUS", "LAST VERIFIED", "", "AGE", "INTERRUPTED", "HELD BY", *(["VERDICT"] if check else [])]
    rows = [
        [*_row(task), *([document["verdict"] or "could not be asked"] if check else [])]
        for task, document in zip(page.tasks, documents, strict=True)
    ]
    yield from aligned(head, rows)


def _row(task: TaskOverview) -> list[object]:
    last = task.last_verified
    behind = "" if last is None or last.sequence_number == task.newest else f" of {task.newest}"
    number = "-" if task.newest == 0 else f"none of {task.newest}"
    number = number if last is None else f"number {last.sequence_number}{behind}"
    busy = f" ({task.running} running)" if task.running else ""
    return [
        task.task_id,
        _STATUS[task.status],
        number,
        None if last is None else last.checkpoint_id,
        None if last is None else ago(last.created_at),
        f"{task.interrupted or '-'}{busy}",
        task.held_by,
    ]


def _hint(door: Door, page: TaskPage, after: str | None) -> None:
    if not page.tasks:
        note("no task here" if after is None else "no task after that one")
    for task in page.tasks:
        if task.damage:
            note(task.damage)
    troubled = next(
        (task for task in page.tasks if task.interrupted and task.held_by is None and task.status == "active"), None
    )
    if troubled is not None:
        note(f"`{typed(door.db, 'recover', troubled.task_id)}` says from where it may go on")
    if page.next is not None:
        note(f"more: {typed(door.db, 'tasks', options=('--after', page.next))}")
