"""Rows with aligned columns, and ages in words: what a tired person reads. Everything shown is escaped and cut to a width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from agentos._text import shown
from agentos.cli.marks import dim

_GAP = "  "
_WIDEST = 48
# Up to which age, in seconds, which unit is told.
_UNITS = ((60, 1, "s"), (3600, 60, "min"), (172_800, 3600, "h"), (5_184_000, 86_400, "days"))
_JUST_NOW = 5


def aligned(head: Sequence[str], rows: Sequence[Sequence[object]], widest: int = _WIDEST) -> Iterator[str]:
    """A line with the names of the columns, then the rows. A cell that is None is shown as a dash."""
    cells = [
        ["-" if cell is None else shown(cell if isinstance(cell, str) else str(cell), widest) for cell in row] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    yield dim(_line(head, widths))
    for row in cells:
        yield _line(row, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def ago(moment: datetime | str | None, now: datetime | None = None) -> str:
    """How long ago that was, in words; the day for what is long past."""
    if moment is None or moment == "":
        return "-"
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    seconds = int(((now or datetime.now(UTC)) - at).total_seconds())
    if seconds < -_JUST_NOW:
        return "in the future"
    if seconds < _JUST_NOW:
        return "just now"
    for most, length, unit in _UNITS:
        if seconds < most:
            return f"{seconds // length} {unit} ago"
    return f"on {at:%Y-%m-%d}"


def clock(moment: datetime | str | None) -> str:
    """The moment to the second, in UTC."""
    if moment is None or moment == "":
        return "-"
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
