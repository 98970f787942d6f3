"""`agentos undo RESTORE`: put back what a restore overwrote and deleted, and take away what it made; the plan first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli import planned
from agentos.cli.door import Door, dry_run_option, yes_option
from agentos.cli.exits import Exit
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints.stored import StoredRestore

SHAPE = {
    "plan": "what is to be done: `operations`, `cannot`, `left_alone`, `bytes`, …",
    "restored": "what was done, with the `restore_id` by which it can be undone in its turn; null if nothing was",
}


@verb("undo", SHAPE)
@click.argument("restore_id", metavar="RESTORE")
@click.option("--only", multiple=True, metavar="PATH", help="Only what lies at or beneath this path; may be given again.")
@yes_option
@dry_run_option
def command(door: Door, restore_id: str, *, only: tuple[str, ...], yes: bool, dry_run: bool) -> Exit:
    """Show what would take RESTORE back, ask, and do it. Ends with 0 if all of it was done.

    Whether the task can go on then is another question, which `agentos recover` answers.
    """
    from agentos.cli.naming import restore_named  # noqa: PLC0415 - help names no restore

    with door.looking() if dry_run else door.acting() as manager:
        restore_id = restore_named(manager, restore_id)
        [stored] = [each for each in manager.restores() if each.restore_id == restore_id]
        if not dry_run:
            planned.settle(manager, stored.task_id)
        whole = manager.plan_undo(restore_id)
        _refuse_unchanged(stored, planned.within(whole.base_path, only))
        plan = planned.part(whole, only)
        planned.show(door, plan)
        restored = planned.follow(door, manager, plan, yes=yes, dry_run=dry_run)
    document = {"plan": plan.to_dict(), "restored": None if restored is None else restored.to_dict()}
    door.answer(document, [] if restored is None else planned.done(door, restored))
    if restored is None:
        return Exit.REPAIRABLE if plan.operations else Exit.SAFE if plan.is_complete else Exit.DIFFERS
    return Exit.SAFE if restored.verified else Exit.DIFFERS


def _refuse_unchanged(stored: StoredRestore, only: list[str]) -> None:
    """Refuse a path at which there is nothing to take back: that it was done would be no truth."""
    from agentos.core.checkpoints.restores import is_at, operations_from  # noqa: PLC0415 - help undoes nothing

    changed = [each.path for each in operations_from(stored.operations)]
    for path in only:
        if not any(is_at(each, [path]) for each in changed):
            raise click.UsageError(f"--only {shown(path)}: {stored.restore_id} changed nothing there.")
