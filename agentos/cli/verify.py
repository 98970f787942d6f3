"""`agentos verify CHECKPOINT`: look at the world now, item by item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentos.cli import exits
from agentos.cli.door import Door, note
from agentos.cli.exits import Exit
from agentos.cli.marks import mark_of
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints import VerificationReport

SHAPE = {
    "outcome": "`verified`, `failed` or `error`: of all reports together",
    "reports": "one for each checkpoint: `checkpoint`, `policy`, `verified_at`, `summary`, and `results`, item by item",
}


@verb("verify", SHAPE)
@click.argument("checkpoint_id", metavar="CHECKPOINT")
@click.option("--base", default=None, metavar="PATH", help="Where the workspace is now, if it moved.")
@click.option("--junit", default=None, metavar="FILE", help="Also write the report as JUnit XML.")
@click.option("--markdown", default=None, metavar="FILE", help="Also write the report as Markdown.")
def command(door: Door, checkpoint_id: str, base: str | None, junit: str | None, markdown: str | None) -> Exit:
    """Measure what CHECKPOINT claims, and say item by item what was expected and what was found."""
    with door.measuring(base) as manager:
        reports = [manager.verification_report(checkpoint_id)]
    _write(reports, junit, markdown)
    ended = exits.worst(exits.OUTCOMES[report.outcome] for report in reports)
    outcome = next(name for name, code in exits.OUTCOMES.items() if code is ended)
    door.answer({"outcome": outcome, "reports": [report.to_dict() for report in reports]}, map(_table, reports))
    return ended


def _table(report: VerificationReport) -> str:
    from agentos.core.checkpoints.reports.table import table  # noqa: PLC0415 - each form is loaded when it is asked for

    return table(report, lambda name: mark_of({"not_run": "pending"}.get(name, name)))


def _write(reports: list[VerificationReport], junit: str | None, markdown: str | None) -> None:
    if junit is not None:
        from agentos.core.checkpoints.reports.junit import junit as as_junit  # noqa: PLC0415 - as above

        _put(junit, as_junit(reports))
    if markdown is not None:
        from agentos.core.checkpoints.reports.markdown import markdown as as_markdown  # noqa: PLC0415 - as above

        _put(markdown, as_markdown(reports))


def _put(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    note(f"wrote {path}")
