"""`agentos accept TASK [PATH…]`: take the world as it is, on a person's word; what differs is measured anew and committed."""

from __future__ import annotations

import click

from agentos._text import shown
from agentos.cli.door import Door, base_option
from agentos.cli.verb import verb
from agentos.cli.word import word_options

SHAPE = {
    "checkpoint": "the checkpoint that it became",
    "accepted": "what was taken as it is, in words",
}


@verb("accept", SHAPE)
@click.argument("task_id", metavar="TASK")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--snapshot-of", metavar="CHECKPOINT", help="Go on with the state of this checkpoint (default: the newest).")
@word_options
@base_option
def command(
    door: Door, task_id: str, paths: tuple[str, ...], snapshot_of: str | None, by: str, reason: str, base: str | None
) -> None:
    """Take what differs as it is: all of it, or what lies at these PATHs, as `agentos recover` names them."""
    from agentos.cli.documents import checkpoint_document  # noqa: PLC0415 - help says nothing
    from agentos.cli.naming import checkpoint_named, task_named  # noqa: PLC0415 - help names nothing

    with door.acting(base) as manager:
        task_id = task_named(manager, task_id)
        named = None if snapshot_of is None else checkpoint_named(manager, snapshot_of)
        made = manager.accept(task_id, by=by, reason=reason, subjects=list(paths) or None, checkpoint_id=named)
    accepted = made.metadata["accepted"]["what"]
    lines = [
        f"task {shown(task_id, 80)}: accepted as checkpoint number {made.sequence_number} ({made.checkpoint_id}):",
        *(f"  - {shown(each)}" for each in accepted),
    ]
    door.answer({"checkpoint": checkpoint_document(made), "accepted": accepted}, lines)
