"""A report as lines for a terminal. Marks come from whoever has the terminal; plain words otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentos.core.checkpoints.reports.report import ReportedItem, VerificationReport

_WORDS = {"verified": "ok", "failed": "FAIL", "error": "ERR", "not_run": "-"}
_SECOND = 1000.0


def word(name: str) -> str:
    """The mark where there is no colour: a plain word."""
    return f"{_WORDS[name]:<5}"


def table(report: VerificationReport, mark: Callable[[str], str] = word) -> str:
    """The whole report."""
    return "\n".join(_lines(report, mark))


def _lines(report: VerificationReport, mark: Callable[[str], str]) -> Iterator[str]:
    yield report.title
    types = max((len(item.evidence_type) for item in report.items), default=0)
    names = min(max((len(item.description) for item in report.items), default=0), 60)
    for item in report.items:
        sure = item.assurance or "-"
        took = _duration(item.duration_ms)
        flaky = f"  flaky: passed on attempt {len(item.attempts)}" if item.flaky and item.outcome == "verified" else ""
        line = f"  {mark(item.outcome)} {item.evidence_type:<{types}}  {item.description:<{names}}  {sure:<8}  {took:>8}{flaky}"
        yield line.rstrip()
        yield from (f"        {line}" for line in _reasons(item))
    yield summary_line(report)


def _reasons(item: ReportedItem) -> Iterator[str]:
    if item.message:
        tries = f" ({len(item.attempts)} attempts)" if len(item.attempts) > 1 and item.outcome != "verified" else ""
        yield f"{item.message}{tries}"
    if item.hint and item.outcome != "verified":
        yield f"-> {item.hint}"
    yield from (f"note: {note}" for note in item.notes)


def summary_line(report: VerificationReport) -> str:
    """The counts, and the verdict."""
    counts = report.summary
    declared = counts["by_assurance"].get("declared", 0)
    only = f" ({declared} declared only)" if declared else ""
    parts = [f"{counts['verified']} verified{only}", f"{counts['failed']} failed", f"{counts['error']} error"]
    parts += [f"{counts['not_run']} not run"] if counts["not_run"] else []
    parts += [f"{counts['flaky']} flaky"] if counts["flaky"] else []
    verdict = {"verified": "VERIFIED", "error": "NOT VERIFIED: could not be checked"}.get(report.outcome, "NOT VERIFIED")
    empty = " (no evidence, so nothing is proven)" if not report.items else ""
    return f"{', '.join(parts)} · {_duration(report.duration_ms)} · {verdict}{empty}"


def _duration(ms: float) -> str:
    return f"{ms / _SECOND:.1f} s" if ms >= _SECOND else f"{ms:.1f} ms"
