"""`agentos resume TASK`: go on from what is measured to hold. Puts back, adopts and rolls back past what it must, durably."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli import recover
from agentos.cli.door import Door, base_option, dry_run_option, note
from agentos.cli.exits import Exit
from agentos.cli.output import STANDARD_OUTPUT, put, refuse_in_workspace
from agentos.cli.verb import verb
from agentos.errors import NotSafeToResumeError

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager, Recovery

SHAPE = {
    **recover.SHAPE,
    "restored": "what was put back, each with the `restore_id` that `agentos undo` takes",
}

# The verdicts with which `resume` gives a state; null is one, for a task that never committed anything.
USABLE = frozenset({"resume", "fresh", "finished"})


@verb("resume", SHAPE)
@click.argument("task_id", metavar="TASK")
@click.option("--repair", is_flag=True, help="Put back what differs, where all of it can be; what that overwrites is kept.")
@click.option(
    "--wait", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait for its holder, or for what cannot be checked."
)
@click.option("--snapshot-out", metavar="FILE", help="Write the state to go on with here, as JSON; - is standard output.")
@recover.new_option
@dry_run_option
@base_option
def command(
    door: Door,
    task_id: str,
    *,
    repair: bool,
    wait: float | None,
    snapshot_out: str | None,
    new: bool,
    dry_run: bool,
    base: str | None,
) -> Exit:
    """Decide from where TASK goes on, and store that: newer checkpoints leave the timeline, interrupted steps are settled.

    The task is held only for as long as this takes. An agent does the same by itself when it calls `task.resume`.
    """
    if snapshot_out == STANDARD_OUTPUT and door.as_json:
        raise click.UsageError("--snapshot-out -: the document that --json writes there has the snapshot in it.")
    if dry_run:
        with door.looking(base) as manager:
            recovery = manager.recover(recover.named(manager, task_id, new=new))
        recovery = replace(recovery, recorded=door.takes_anything())
        note("nothing was done: --dry-run")
    else:
        with door.acting(base) as manager:
            task_id = recover.named(manager, task_id, new=new)
            if snapshot_out is not None:
                refuse_in_workspace(manager, task_id, snapshot_out)
            recovery = _resumed(manager, task_id, repair=repair, wait=wait)
        if snapshot_out is not None and recovery.verdict in USABLE:
            put(snapshot_out, json.dumps(recovery.snapshot), private=True)
    if snapshot_out != STANDARD_OUTPUT:
        return recover.tell(door, recovery)
    note(recover.said(door, recovery))
    return recover.concluded(recovery)


def _resumed(manager: CheckpointManager, task_id: str, *, repair: bool, wait: float | None) -> Recovery:
    found: Recovery
    try:
        found = manager.resume_report(task_id, repair=repair, wait=wait)
    except NotSafeToResumeError as refusal:
        if refusal.recovery is None:
            raise
        note(f"task {shown(task_id, 80)} was not resumed, and nothing was decided")
        found = refusal.recovery
    # Of what can be done with these two, this was it.
    return replace(found, options=()) if found.verdict in ("resume", "fresh") else found
