"""`agentos verify CHECKPOINT|--task T|--all`: look at the world now, item by item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from agentos._databases import refuse_database
from agentos.cli import exits
from agentos.cli.amounts import things
from agentos.cli.door import Door, base_option
from agentos.cli.exits import Exit
from agentos.cli.marks import bold, mark_of
from agentos.cli.output import put
from agentos.cli.progress import showing
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager, VerificationReport

SHAPE = {
    "outcome": "`verified`, `failed` or `error`: of all reports together; `error` if there is none, for nothing is proven then",
    "reports": "one for each checkpoint: `checkpoint`, `policy`, `verified_at`, `summary`, and `results`, item by item",
}
_EVERYTHING = 1 << 31


@verb("verify", SHAPE)
@click.argument("checkpoint_id", metavar="[CHECKPOINT]", required=False)
@click.option("--task", "task_id", metavar="TASK", help="Every checkpoint on the timeline of this task.")
@click.option("--all", "everything", is_flag=True, help="Every checkpoint on the timeline of every task.")
@click.option("--junit", metavar="FILE", help="Also write the reports as JUnit XML.")
@click.option("--markdown", metavar="FILE", help="Also write the reports as Markdown.")
@base_option
def command(
    door: Door,
    checkpoint_id: str | None,
    *,
    task_id: str | None,
    everything: bool,
    junit: str | None,
    markdown: str | None,
    base: str | None,
) -> Exit:
    """Measure what CHECKPOINT claims, and say item by item what was expected and what was found.

    Each checkpoint is judged by its own claims: an older one whose files a later step changed does not hold. Whether a task may
    go on is another question, which `agentos recover` answers.
    """
    if (checkpoint_id is not None) + (task_id is not None) + everything != 1:
        raise click.UsageError("Name a CHECKPOINT, or give --task TASK or --all.")
    for path in (junit, markdown):
        if path is not None:
            # Not only after a long look.
            refuse_database(path)
    with door.measuring(base) as manager, showing() as progress:
        asked = _asked(manager, checkpoint_id, task_id)
        reports = []
        for number, each in enumerate(asked):
            progress("checkpoints verified", number, len(asked))
            reports.append(manager.verification_report(each))
    _write(reports, junit, markdown)
    # Of nothing, nothing is proven.
    ended = exits.worst(exits.OUTCOMES[report.outcome] for report in reports) if reports else Exit.UNCHECKED
    outcome = next(name for name, code in exits.OUTCOMES.items() if code is ended)
    door.answer({"outcome": outcome, "reports": [report.to_dict() for report in reports]}, _lines(reports))
    return ended


def _asked(manager: CheckpointManager, checkpoint_id: str | None, task_id: str | None) -> list[str]:
    """The checkpoints that are meant, oldest first within each task."""
    from agentos.cli.naming import checkpoint_named, task_named  # noqa: PLC0415 - help names nothing

    if checkpoint_id is not None:
        return [checkpoint_named(manager, checkpoint_id)]
    tasks = manager.find_ids("task", limit=_EVERYTHING) if task_id is None else [task_named(manager, task_id)]
    return [each for task in tasks for each in reversed(list(manager.checkpoint_ids(task)))]


def _lines(reports: list[VerificationReport]) -> Iterator[str]:
    """Each item of each report; of many, only those of what does not hold."""
    from agentos.core.checkpoints.reports.table import table  # noqa: PLC0415 - loaded when it is asked for

    if len(reports) == 1:
        yield table(reports[0], _mark)
        return
    for report in reports:
        if report.outcome == "verified":
            yield f"{mark_of('verified')} {report.title}"
        else:
            yield f"{mark_of(report.outcome)} {table(report, _mark)}"
    held = sum(report.outcome == "verified" for report in reports)
    yield bold(f"{things(len(reports), 'checkpoint')}, of which {held:,} verified")


def _mark(name: str) -> str:
    return mark_of({"not_run": "pending"}.get(name, name))


def _write(reports: list[VerificationReport], junit: str | None, markdown: str | None) -> None:
    if junit is not None:
        from agentos.core.checkpoints.reports.junit import junit as as_junit  # noqa: PLC0415 - as above

        put(junit, as_junit(reports))
    if markdown is not None:
        from agentos.core.checkpoints.reports.markdown import markdown as as_markdown  # noqa: PLC0415 - as above

        put(markdown, as_markdown(reports))
