"""The families of rows, in the order in which they are run.

A family is a module with a function `rows(bench)` that measures and yields rows as it goes; its docstring explains them. To add
one, write the module and name it here. A module is imported when its turn comes, so what it loads disturbs no earlier one.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType

from benchmarks.place import Bench
from benchmarks.results import Row


@dataclass(frozen=True, slots=True)
class Family:
    """Rows that belong together."""

    name: str
    title: str
    module: str

    def rows(self, bench: Bench) -> Iterator[Row]:
        """Measure."""
        measured: Iterable[Row] = self._module().rows(bench)
        for row in measured:
            yield replace(row, family=self.name)

    @property
    def explained(self) -> str:
        """What its module says of it."""
        return (self._module().__doc__ or "").strip()

    @property
    def is_there(self) -> bool:
        """Whether its module can be found; one that lives beside this package may not be."""
        return importlib.util.find_spec(self.module) is not None

    def _module(self) -> ModuleType:
        return importlib.import_module(self.module)


FAMILIES = (
    Family("imports", "Import", "benchmarks.imports"),
    Family("cycle", "A step cycle", "benchmarks.step_cycle"),
    Family("syscalls", "What a cycle asks of the disk", "benchmarks.syscalls"),
    Family("bytes", "Bytes on disk per checkpoint", "benchmarks.disk_bytes"),
    Family("lookup", "get_last_verified_checkpoint", "benchmarks.last_verified"),
    Family("cli", "The command line", "benchmarks.command_line"),
    Family("recovery", "Finding the answer after a crash", "benchmarks.recovery"),
    Family("replay", "The project's own history, with crashes", "benchmarks.replay"),
    Family("processes", "Many writers on one file", "benchmarks.processes"),
    Family("hashing", "Measuring a large file", "benchmarks.hashing"),
    Family("evidence", "Trees, and many items at once", "benchmarks.evidence"),
    Family("vault", "Keeping a workspace, and putting it back", "benchmarks.vault"),
    Family("runs", "The run store", "benchmarks.runs"),
    Family("langgraph", "LangGraph's SQLite saver", "benchmarks.langgraph"),
)


def chosen(only: Iterable[str]) -> list[Family]:
    """The families to run: those named, or all that are there.

    Raises:
        ValueError: a name is unknown.
    """
    there = [family for family in FAMILIES if family.is_there]
    wanted = list(only)
    known = [family.name for family in there]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no family of rows: one of {', '.join(known)}")
    return [family for family in there if not wanted or family.name in wanted]
