"""`agentos import FILE`: take over a task that was exported elsewhere."""

from __future__ import annotations

import click

from agentos._text import shown
from agentos.cli.door import Door
from agentos.cli.export import SHAPE as EXPORTED
from agentos.cli.export import moved_lines
from agentos.cli.progress import showing
from agentos.cli.verb import verb

SHAPE = EXPORTED


@verb("import", SHAPE)
@click.argument("file", metavar="FILE")
def command(door: Door, file: str) -> None:
    """Take over the task in FILE, which `agentos export` wrote: wholly or not at all, and never over one that is here.

    All of it is checked first. Nobody holds the task here. Where its files are in another place, give --base to the verbs that
    look at them. Seals find accidents, not malice: import what comes from people you trust.
    """
    with door.acting() as manager, showing() as progress:
        made = manager.import_task(file, progress=progress)
    door.answer(
        made.to_dict(), [*moved_lines(made), f"`agentos recover {shown(made.task_id, 80)}` says from where it may go on"]
    )
