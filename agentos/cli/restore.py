"""`agentos restore CHECKPOINT`: put back the files that it stands on, the plan first; or write them somewhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli import exits, planned
from agentos.cli.amounts import in_bytes, things
from agentos.cli.door import Door, base_option, dry_run_option, note, yes_option
from agentos.cli.exits import Exit
from agentos.cli.output import refuse_in_workspace
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentos.core.checkpoints import Checkpoint, CheckpointManager
    from agentos.core.checkpoints.restores import Copied, Restored

SHAPE = {
    "plan": "what is to be done: `operations`, `cannot`, `left_alone`, `bytes`, …; null with `--out`",
    "restored": "what was done, with the `restore_id` that `agentos undo` takes; null if nothing was",
    "outcome": "what all that the checkpoint stands on was worth afterwards: `verified`, `failed`, `error`; null with `--out`",
    "copied": "with `--out`: `folder`, `files`, `bytes`, and what `cannot` be had; else null",
}


@verb("restore", SHAPE)
@click.argument("checkpoint_id", metavar="CHECKPOINT")
@click.option("--only", multiple=True, metavar="PATH", help="Only what lies at or beneath this path; may be given again.")
@click.option("--out", metavar="DIR", help="Write a copy into this new or empty folder; the workspace is left as it is.")
@yes_option
@dry_run_option
@base_option
def command(
    door: Door, checkpoint_id: str, *, only: tuple[str, ...], out: str | None, yes: bool, dry_run: bool, base: str | None
) -> Exit:
    """Show what would make the files that CHECKPOINT stands on as they were, ask, and do it.

    What is overwritten or deleted is kept first, and `agentos undo` brings it back. Ends with 0 only if everything that the
    checkpoint stands on holds afterwards, what lies outside of --only too.
    """
    if out is not None:
        return _copy(door, checkpoint_id, out, only, base, dry_run=dry_run)
    with door.looking(base) if dry_run else door.acting(base) as manager:
        found = _meant(manager, checkpoint_id)
        checkpoint_id, task_id = found.checkpoint_id, found.task_id
        if not dry_run:
            planned.settle(manager, task_id)
        plan = planned.part(manager.plan_restore(checkpoint_id), only)
        planned.show(door, plan)
        restored = planned.follow(door, manager, plan, yes=yes, dry_run=dry_run)
        outcome = manager.look_at_world(checkpoint_id).value
    ended = exits.OUTCOMES[outcome]
    if restored is None and ended is Exit.DIFFERS and plan.is_complete and plan.operations:
        ended = Exit.REPAIRABLE
    document = {"plan": plan.to_dict(), "restored": None, "outcome": outcome, "copied": None}
    if restored is not None:
        document["restored"] = restored.to_dict()
    door.answer(document, _lines(door, restored, outcome))
    return ended


def _meant(manager: CheckpointManager, typed: str) -> Checkpoint:
    """The checkpoint that is meant."""
    from agentos.cli.naming import checkpoint_named  # noqa: PLC0415 - help names no checkpoint

    found = manager.get_checkpoint(checkpoint_named(manager, typed))
    assert found is not None, "it was found just now, or this would have been refused"
    return found


_WORTH = {
    "verified": "everything that the checkpoint stands on holds now",
    "failed": "not everything that the checkpoint stands on holds: `agentos recover` says what differs",
    "error": "not everything that the checkpoint stands on could be checked",
}


def _lines(door: Door, restored: Restored | None, outcome: str) -> Iterator[str]:
    if restored is not None:
        yield from planned.done(door, restored)
    yield _WORTH[outcome]


def _copy(door: Door, checkpoint_id: str, out: str, only: tuple[str, ...], base: str | None, *, dry_run: bool) -> Exit:
    with door.looking(base) as manager:
        found = _meant(manager, checkpoint_id)
        refuse_in_workspace(manager, found.task_id, out)
        if dry_run:
            raise click.UsageError("--out changes nothing that exists: there is nothing to try first.")
        copied = manager.copy_out(found.checkpoint_id, out, only=planned.within(base or found.base_path or "", only))
    note(f"wrote {shown(copied.folder)}")
    document = {"plan": None, "restored": None, "outcome": None, "copied": copied.to_dict()}
    door.answer(document, _copied(copied))
    return Exit.SAFE if copied.is_complete else Exit.DIFFERS


def _copied(copied: Copied) -> Iterator[str]:
    yield f"copied {things(copied.files, 'file')}, {in_bytes(copied.bytes)}, to {shown(copied.folder)}"
    for each in copied.cannot:
        yield f"  not there: {shown(each.subject)}: {each.why}"
