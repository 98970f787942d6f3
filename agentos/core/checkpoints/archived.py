"""What left the store in one file, or came in from one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentos.core.checkpoints.checkup import Checkup

# Takes the name of a table, and a row by its columns.
Take = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup, and what was found in it when it was unpacked and looked at."""

    path: str
    bytes: int
    checkup: Checkup

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return {"path": self.path, "bytes": self.bytes, "checkup": self.checkup.to_dict()}


@dataclass(frozen=True, slots=True)
class Moved:
    """A task that was exported or imported: its rows by table, its kept contents, and those that are needed and not there."""

    task_id: str
    path: str
    rows: dict[str, int]
    contents: int
    bytes: int
    missing: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return asdict(self)
