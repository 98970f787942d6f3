"""`agentos restart TASK`: start a task over. Its checkpoints leave the timeline and are kept; no file is touched."""

from __future__ import annotations

import click

from agentos._text import shown
from agentos.cli.amounts import things
from agentos.cli.door import Door, yes_option
from agentos.cli.verb import verb
from agentos.cli.word import word_options

SHAPE = {"task_id": "the task", "superseded": "how many checkpoints left the timeline"}


@verb("restart", SHAPE)
@click.argument("task_id", metavar="TASK")
@word_options
@yes_option
def command(door: Door, task_id: str, by: str, reason: str, *, yes: bool) -> None:
    """Start TASK over from nothing: every checkpoint leaves the timeline, every step that never ended is given up."""
    from agentos.cli.naming import task_named  # noqa: PLC0415 - help names no task

    with door.acting() as manager:
        task_id = task_named(manager, task_id)
        newest = next(iter(manager.list_checkpoints(task_id, 1)), None)
        upto = (
            "nothing was committed yet" if newest is None else f"all up to number {newest.sequence_number} leave the timeline"
        )
        door.confirm(f"Start task {shown(task_id, 80)} over? {upto[0].upper()}{upto[1:]}.", yes=yes)
        count = manager.restart(task_id, by=by, reason=reason)
    kept = "is" if count == 1 else "are"
    lines = [f"task {shown(task_id, 80)}: starts over; {things(count, 'checkpoint')} left the timeline, and {kept} kept"]
    door.answer({"task_id": task_id, "superseded": count}, lines)
