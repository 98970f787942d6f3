"""`agentos timeline TASK`: what a task has committed, what is known of it, and what never ended."""

from __future__ import annotations

import json

import click

from agentos._text import shown
from agentos.cli.marks import mark_of
from agentos.cli.options import db_option, json_option, open_existing
from agentos.cli.reports import reported
from agentos.core.checkpoints import Checkpoint, Step


@click.command("timeline")
@click.argument("task_id")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="How many checkpoints at the most.")
@click.option("--all", "everything", is_flag=True, help="Also checkpoints that were rolled back past.")
@db_option
@json_option
def command(task_id: str, limit: int, everything: bool, db: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags
    """Show the checkpoints of TASK_ID, newest first, and the steps that never ended.

    The marks are what was known when it was last looked at; `agentos verify` looks now.
    """
    with open_existing(db) as manager:
        checkpoints = manager.list_checkpoints(task_id, limit, include_superseded=everything)
        open_steps = manager.list_open_steps(task_id)
    if as_json:
        steps = [{"step_id": step.step_id, "begun_at": step.begun_at.isoformat(), "error": step.error} for step in open_steps]
        click.echo(json.dumps({"checkpoints": [reported(each) for each in checkpoints], "open_steps": steps}))
        return
    for step in open_steps:
        click.echo(_open_step(step))
    for checkpoint in checkpoints:
        click.echo(_line(checkpoint))
    if not checkpoints and not open_steps:
        click.echo(f"task {shown(task_id, 80)}: nothing was ever begun here")


def _open_step(step: Step) -> str:
    why = f", ended by {step.error}" if step.error else ""
    return f"  ...  {mark_of('open')} {step.checkpoint_type}  begun {_when(step.begun_at)}, never ended{why}  {step.step_id}"


def _line(checkpoint: Checkpoint) -> str:
    summary = checkpoint.evidence_pack.verification_summary()
    if checkpoint.superseded_by:
        mark = "superseded"
    elif summary["pending"] == summary["total"] and summary["total"]:
        mark = "pending"
    else:
        unknown = summary["error"] > 0 and summary["failed"] == 0
        mark = "error" if unknown else "verified" if checkpoint.verified else "failed"
    counts = f"{summary['verified']}/{summary['total']} verified"
    return (
        f"{checkpoint.sequence_number:5}  {mark_of(mark)} {checkpoint.checkpoint_type}  {counts}"
        f"  {_when(checkpoint.created_at)}  {shown(checkpoint.checkpoint_id)}"
    )


def _when(moment: object) -> str:
    return str(moment)[:19]
