"""`agentos rollback CHECKPOINT`: its snapshot, if what it claimed holds now. No file is touched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli.door import Door, base_option, dry_run_option, note
from agentos.cli.output import STANDARD_OUTPUT, put, refuse_in_workspace
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints import Checkpoint, CheckpointManager

SHAPE = {
    "checkpoint_id": "the checkpoint",
    "task_id": "its task",
    "snapshot": "its state, measured just now that it may be used",
    "superseded": "the numbers of the first and last checkpoint that left the timeline, or with `--dry-run` would; else null",
    "dry_run": "whether nothing was stored",
}


@verb("rollback", SHAPE)
@click.argument("checkpoint_id", metavar="CHECKPOINT")
@click.option("--snapshot-out", metavar="FILE", help="Write the snapshot here instead of printing it.")
@click.option("--supersede-later", is_flag=True, help="End the timeline here: later checkpoints are kept, and are not on it.")
@dry_run_option
@base_option
def command(
    door: Door, checkpoint_id: str, *, snapshot_out: str | None, supersede_later: bool, dry_run: bool, base: str | None
) -> None:
    """Measure what CHECKPOINT itself claims, and if all of that holds, print its snapshot as JSON."""
    with _manager(door, base, acts=supersede_later, dry_run=dry_run) as manager:
        checkpoint, ahead = _meant(manager, checkpoint_id)
        if snapshot_out is not None:
            refuse_in_workspace(manager, checkpoint.task_id, snapshot_out)
        snapshot = manager.rollback_to_checkpoint(checkpoint.checkpoint_id, supersede_later=supersede_later and not dry_run)
    document = {
        "checkpoint_id": checkpoint.checkpoint_id,
        "task_id": checkpoint.task_id,
        "snapshot": snapshot,
        "superseded": ahead if supersede_later else None,
        "dry_run": dry_run,
    }
    _tell(checkpoint, ahead if supersede_later else None, dry_run=dry_run)
    if snapshot_out not in (None, STANDARD_OUTPUT) and not dry_run:
        put(snapshot_out or "", json.dumps(snapshot), private=True)
        door.answer(document, [])
    else:
        door.answer(document, [json.dumps(snapshot, indent=2)])


def _manager(door: Door, base: str | None, *, acts: bool, dry_run: bool) -> CheckpointManager:
    if dry_run:
        return door.looking(base)
    return door.acting(base) if acts else door.measuring(base)


def _meant(manager: CheckpointManager, typed: str) -> tuple[Checkpoint, list[int] | None]:
    """The checkpoint, and the numbers of those after it."""
    from agentos.cli.naming import checkpoint_named  # noqa: PLC0415 - help names no checkpoint

    checkpoint = manager.get_checkpoint(checkpoint_named(manager, typed))
    assert checkpoint is not None, "it was found just now, or this would have been refused"
    number = checkpoint.sequence_number
    newest = max((each.sequence_number for each in manager.list_checkpoints(checkpoint.task_id, 1)), default=number)
    return checkpoint, None if newest <= number else [number + 1, newest]


def _tell(checkpoint: Checkpoint, ahead: list[int] | None, *, dry_run: bool) -> None:
    note(f"checkpoint number {checkpoint.sequence_number} of task {shown(checkpoint.task_id, 80)} holds, measured just now")
    if ahead is not None:
        first, last = ahead
        what = f"number {first}" if first == last else f"numbers {first} to {last}"
        note(f"{what} {'would leave' if dry_run else 'left'} the timeline")
    if dry_run:
        note("nothing was done: --dry-run")
