"""Reports as Markdown, for a pull request or an issue. Nothing in it can break out of its cell."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from agentos.core.checkpoints.reports.report import ReportedItem, VerificationReport
from agentos.core.checkpoints.reports.table import summary_line

_WORDS = {"verified": "ok", "failed": "**failed**", "error": "**error**", "not_run": "not run"}
_SPECIAL = "\\`*_{}[]()#+!|~"


def markdown(reports: Sequence[VerificationReport]) -> str:
    """One section for each report."""
    return "\n".join(line for report in reports for line in _lines(report)) + "\n"


def _lines(report: VerificationReport) -> Iterator[str]:
    yield f"## {_text(report.title)}"
    yield ""
    yield "| | type | claim | assurance | took |"
    yield "|---|---|---|---|---|"
    for item in report.items:
        flaky = ", flaky" if item.flaky else ""
        cells = [f"{_WORDS[item.outcome]}{flaky}", _code(item.evidence_type), _text(item.description), item.assurance or ""]
        yield f"| {' | '.join([*cells, f'{item.duration_ms:,.1f} ms'])} |"
    yield ""
    for item in report.items:
        if item.outcome != "verified" or item.notes:
            yield from _reason(item)
    yield f"{_text(summary_line(report))}"
    yield ""


def _reason(item: ReportedItem) -> Iterator[str]:
    yield f"- {_code(item.evidence_type)} {_text(item.description)}: {_text(item.message or 'noted')}"
    if item.hint and item.outcome != "verified":
        yield f"  - {_text(item.hint)}"
    yield from (f"  - note: {_text(note)}" for note in item.notes)


def _code(text: str) -> str:
    # A registry may hold types that nobody here named.
    return f"`{text.replace('`', '').replace('|', '')}`"


def _text(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in escaped)
