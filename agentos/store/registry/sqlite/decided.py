"""What was decided about a task, by whom and why: appended in the transaction that acts on it, and never changed."""

from __future__ import annotations

from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.sealing import seal
from agentos.core.checkpoints.stored import Decision
from agentos.store.registry.sqlite.rows import damaged
from agentos.store.registry.sqlite.tables import SQL, Tables

KIND = "decision/1"


def append(tables: Tables, task_id: str, decision: Decision) -> None:
    """Write it down as the task's next one."""
    number = tables.execute(SQL["count_decisions"], (task_id,)).fetchone()[0] + 1
    fields = (task_id, number, decision.at, decision.by, decision.what, decision.about, decision.reason)
    tables.execute(SQL["insert_decision"], (*fields, seal(KIND, fields)))


def of_task(tables: Tables, task_id: str) -> list[Decision]:
    """All of them, oldest first."""
    rows = tables.execute(SQL["decisions"], (task_id,)).fetchall()
    if [row[1] for row in rows] != [*range(1, len(rows) + 1)]:
        raise damaged(f"task {shown(task_id, 80)}, what was decided about it")
    return [checked(row) for row in rows]


def checked(row: tuple[Any, ...]) -> Decision:
    """One row, whose seal must fit."""
    task_id, _, at, by, what, about, reason, stored = row
    if stored != seal(KIND, row[:-1]):
        raise damaged(f"task {shown(task_id, 80)}, what was decided about it")
    return Decision(by, what, about, reason, at)
