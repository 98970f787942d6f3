"""Rows this process has just written, so that the next write need not read them again.

Remembering can never make anything wrong: a row is used only together with its seal, in a statement that changes nothing unless
the stored seal is the same, and the seal covers every column. Bounded; whatever is not here is read.
"""

from __future__ import annotations

from typing import TypeVar

from agentos.store.registry.sqlite.rows import StepRow, TaskRow, copied

T = TypeVar("T")
_MOST = 64


class OutdatedError(Exception):
    """A remembered row is not the stored one any more. Never leaves the registry: it reads, and tries again."""


class Remembered:
    """The newest few tasks and begun steps."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskRow] = {}
        self._begun: dict[str, StepRow] = {}

    def task(self, task_id: str) -> TaskRow | None:
        """A copy of the task's row, to be changed and stored."""
        row = self._tasks.get(task_id)
        return None if row is None else copied(row)

    def keep_task(self, row: TaskRow) -> None:
        """This is what was stored."""
        _bounded(self._tasks)[row.task_id] = row

    def begun(self, step_id: str) -> StepRow | None:
        """The row of a step that was begun here."""
        return self._begun.get(step_id)

    def keep_begun(self, row: StepRow) -> None:
        """This is what was stored."""
        _bounded(self._begun)[row.step_id] = row

    def forget_begun(self, step_id: str) -> None:
        """It ended, or is not what it was."""
        self._begun.pop(step_id, None)


def _bounded(rows: dict[str, T]) -> dict[str, T]:
    while len(rows) >= _MOST:
        del rows[next(iter(rows))]
    return rows
