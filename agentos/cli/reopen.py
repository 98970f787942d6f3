"""`agentos reopen TASK`: let a finished task take steps again."""

from __future__ import annotations

import click

from agentos._text import shown
from agentos.cli.door import Door
from agentos.cli.verb import verb
from agentos.cli.word import word_options

SHAPE = {"task_id": "the task"}


@verb("reopen", SHAPE)
@click.argument("task_id", metavar="TASK")
@word_options
def command(door: Door, task_id: str, by: str, reason: str) -> None:
    """Let TASK, which was finished, take steps again."""
    from agentos.cli.naming import task_named  # noqa: PLC0415 - help names no task

    with door.acting() as manager:
        task_id = task_named(manager, task_id)
        manager.reopen(task_id, by=by, reason=reason)
    door.answer({"task_id": task_id}, [f"task {shown(task_id, 80)}: takes steps again"])
