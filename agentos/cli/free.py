"""`agentos free TASK`: take a task from a holder that is gone and cannot be seen from here."""

from __future__ import annotations

import click

from agentos._text import shown
from agentos.cli.door import Door
from agentos.cli.verb import verb
from agentos.cli.word import word_options

SHAPE = {"task_id": "the task", "freed": "whether anybody had it"}


@verb("free", SHAPE)
@click.argument("task_id", metavar="TASK")
@word_options
def command(door: Door, task_id: str, by: str, reason: str) -> None:
    """Take TASK from its holder, on your word that it is gone: one in another container, say. One that lives here keeps it.

    Whatever that holder still does changes nothing any more.
    """
    from agentos.cli.naming import task_named  # noqa: PLC0415 - help names no task

    with door.acting() as manager:
        task_id = task_named(manager, task_id)
        freed = manager.free_task(task_id, by=by, reason=reason)
    lines = [f"task {shown(task_id, 80)}: {'nobody has it any more' if freed else 'nobody had it'}"]
    door.answer({"task_id": task_id, "freed": freed}, lines)
