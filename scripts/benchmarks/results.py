"""What a measurement gives: rows with a figure, what it is measured against, and a bar if somebody set one.

A figure that misses its bar is `over`; that is a finding, not an error. Nothing is measured or printed here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1
# Between two readings on a quiet machine the price of a sync differs by less.
_STEADY = 1.5
_HOLDS = {
    "at most": lambda figure, limit: figure <= limit,
    "below": lambda figure, limit: figure < limit,
    "at least": lambda figure, limit: figure >= limit,
    "exactly": lambda figure, limit: figure == limit,
}


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach: `Bar("at most", 1.4)`."""

    kind: str
    limit: float

    def __post_init__(self) -> None:
        if self.kind not in _HOLDS:
            raise ValueError(f"{self.kind!r} is no kind of bar: one of {', '.join(_HOLDS)}")

    def holds(self, figure: float) -> bool:
        """Whether the figure reaches it."""
        return bool(_HOLDS[self.kind](figure, self.limit))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `unit` is `x` for a ratio to what `against` names. `raw` holds what the figure was made of, in the units that its keys
    name. A row without a figure was skipped, and says why.
    """

    name: str
    against: str
    figure: float | None
    unit: str = "x"
    bar: Bar | None = None
    detail: str = ""
    raw: dict[str, float] = field(default_factory=dict)
    skipped: str = ""
    family: str = ""

    @property
    def verdict(self) -> str:
        """`ok` or `over` where there is a bar, `skipped` where there is no figure."""
        if self.figure is None:
            return "skipped"
        if self.bar is None:
            return ""
        return "ok" if self.bar.holds(self.figure) else "over"

    def to_dict(self) -> dict[str, Any]:
        """Every field and the verdict."""
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Row:
        """The inverse of `to_dict`."""
        values = {key: value for key, value in data.items() if key != "verdict"}
        bar = values.pop("bar")
        return cls(**values, bar=None if bar is None else Bar(**bar))


def skipped(name: str, reason: str) -> Row:
    """A row that could not be measured here."""
    return Row(name, "", None, "", skipped=reason)


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: where and when, with which counts, what a sync cost before and after it, and its rows."""

    machine: dict[str, str]
    sync_us: tuple[float, float]
    date: str
    counts: str
    seconds: float
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        rows = [row.to_dict() for row in self.rows]
        head = {"format": FORMAT, "machine": self.machine, "sync_us": list(self.sync_us), "date": self.date}
        return {**head, "counts": self.counts, "seconds": self.seconds, "rows": rows}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """The inverse of `to_dict`."""
        if data.get("format") != FORMAT:
            raise ValueError(f"not a report of this program: format is {data.get('format')!r}, expected {FORMAT}")
        rows = tuple(Row.from_dict(row) for row in data["rows"])
        before, after = data["sync_us"]
        return cls(data["machine"], (before, after), data["date"], data["counts"], data["seconds"], rows)

    @property
    def was_disturbed(self) -> bool:
        """Whether the price of a sync changed so much that somebody else must have used the disk."""
        return max(self.sync_us) > _STEADY * min(self.sync_us)
