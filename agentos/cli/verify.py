"""`agentos verify CHECKPOINT`: look at the world now, item by item."""

from __future__ import annotations

import json

import click

from agentos._text import shown
from agentos.cli.marks import mark_of
from agentos.cli.options import db_option, json_option, open_existing
from agentos.cli.reports import reported
from agentos.core.checkpoints import Checkpoint, Evidence, Outcome
from agentos.core.checkpoints.policy import verdict

_FAILED, _UNKNOWN = 4, 8


@click.command("verify")
@click.argument("checkpoint_id")
@click.option("--base", default=None, metavar="PATH", help="Where the workspace is now, if it moved.")
@db_option
@json_option
def command(checkpoint_id: str, base: str | None, db: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags
    """Measure what CHECKPOINT_ID claims. Exit code 0: it holds; 4: it does not; 8: something could not be checked."""
    with open_existing(db, base) as manager:
        holds = manager.verify_checkpoint(checkpoint_id)
        checkpoint = manager.get_checkpoint(checkpoint_id)
    if checkpoint is None:
        # Deleted by somebody else between the two calls.
        raise click.exceptions.Exit(3)
    if as_json:
        click.echo(json.dumps({"holds": holds, "checkpoint": reported(checkpoint)}))
    else:
        _report(checkpoint, holds=holds)
    raise click.exceptions.Exit(0 if holds else _code(checkpoint))


def _report(checkpoint: Checkpoint, *, holds: bool) -> None:
    task, number = shown(checkpoint.task_id, 80), checkpoint.sequence_number
    click.echo(f"checkpoint {shown(checkpoint.checkpoint_id)} · task {task} · number {number}")
    for item in checkpoint.evidence_pack.evidence_list:
        click.echo(_line(item))
    summary = checkpoint.evidence_pack.verification_summary()
    counts = ", ".join(f"{summary[key]} {key}" for key in ("verified", "failed", "error"))
    declared = f" ({summary['declared']} declared only)" if summary["declared"] else ""
    click.echo(f"{counts}{declared} · {'VERIFIED' if holds else 'NOT VERIFIED'}")


def _line(item: Evidence) -> str:
    result = item.result
    if result is None:
        return f"  {mark_of('pending')} {item.evidence_type}  {shown(item.description, 80)}"
    mark = mark_of({Outcome.VERIFIED: "verified", Outcome.FAILED: "failed"}.get(result.outcome, "error"))
    what, how = shown(item.description, 80), result.assurance or "-"
    line = f"  {mark} {item.evidence_type}  {what}  {how}  {result.duration_ms:.1f} ms"
    if result.message:
        line += f"\n      {result.message}"
    if result.hint:
        line += f"\n      -> {result.hint}"
    return line


def _code(checkpoint: Checkpoint) -> int:
    pack = checkpoint.evidence_pack
    outcomes = [Outcome.NOT_RUN if item.result is None else item.result.outcome for item in pack.evidence_list]
    return _UNKNOWN if verdict(pack, outcomes) is Outcome.ERROR else _FAILED
