"""`agentos export TASK FILE`: one task with all that it needs, in one file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli.amounts import in_bytes, things
from agentos.cli.door import Door, note, yes_option
from agentos.cli.exits import Exit
from agentos.cli.progress import showing
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints.archived import Moved

SHAPE = {
    "task_id": "the task",
    "path": "the archive's path",
    "rows": "how many rows it has, by table",
    "contents": "how many kept contents it has",
    "bytes": "the bytes of those",
    "missing": "digests of kept content that the task needs and that is not, or not whole, in the vault",
}


@verb("export", SHAPE)
@click.argument("task_id", metavar="TASK")
@click.argument("file", metavar="FILE")
@yes_option
def command(door: Door, task_id: str, file: str, *, yes: bool) -> Exit:
    """Write TASK, its whole history and the kept contents it needs, into FILE, for `agentos import` into another registry.

    What is damaged in other tasks does not matter. Exit code 1 if kept content is missing:
    the rest is in FILE, and can be imported.
    """
    from agentos.cli.naming import task_named  # noqa: PLC0415 - help needs no registry

    replace = os.path.isfile(file)
    if replace:
        door.confirm(f"{shown(file)} is there already. Replace it?", yes=yes)
    with door.looking() as manager, showing() as progress:
        made = manager.export_task(task_named(manager, task_id), file, replace=replace, progress=progress)
    door.answer(made.to_dict(), moved_lines(made))
    if made.missing:
        note(f"{things(len(made.missing), 'kept content')} of it could not be read: what needs it cannot be put back there")
    return Exit.DIFFERS if made.missing else Exit.SAFE


def moved_lines(made: Moved) -> Iterator[str]:
    """What an archive holds, for people."""
    steps, contents = things(made.rows.get("steps", 0), "step"), things(made.contents, "kept content")
    yield f"{shown(made.path)}: task {shown(made.task_id, 80)}, {steps}, {contents}, {in_bytes(made.bytes)}"
    for digest in made.missing:
        yield f"  missing: {shown(digest, 80)}"
