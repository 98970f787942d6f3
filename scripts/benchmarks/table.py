"""Rows as text for a terminal and as Markdown for the page. What the figures mean is not decided here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.results import Row

HEADINGS = ("row", "against", "figure", "bar", "")


def figure(row: Row) -> str:
    """The figure with its unit."""
    if row.figure is None:
        return "-"
    if row.unit == "x":
        return f"{row.figure:.2f}"
    amount = f"{row.figure:,.0f}" if float(row.figure).is_integer() else f"{row.figure:,.1f}"
    return f"{amount} {row.unit}".strip()


def bar(row: Row) -> str:
    """What it has to reach."""
    return "" if row.bar is None else f"{row.bar.kind} {row.bar.limit:g}"


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table, without the detail."""
    return (row.name, row.against, figure(row), bar(row), row.verdict)


def as_text(rows: Sequence[Row]) -> str:
    """Aligned columns, and the detail at the end of each line."""
    lines = [cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(cell, widths, row) for cell, row in zip(lines, rows, strict=True))


def _line(values: Sequence[str], widths: Sequence[int], row: Row) -> str:
    name, against, amount, limit, verdict = (
        value.rjust(width) if column == 2 else value.ljust(width)  # noqa: PLR2004 - the column of figures
        for column, (value, width) in enumerate(zip(values, widths, strict=True))
    )
    return f"  {name}  {against}  {amount}  {limit}  {verdict}  {row.skipped or row.detail}".rstrip()


def as_markdown(rows: Iterable[Row]) -> str:
    """A table with the detail in its last column."""
    head = [*HEADINGS, "measured"]
    lines = [head, ["---"] * len(head)]
    lines += [[*cells(row), row.skipped or row.detail] for row in rows]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
