"""The index of claims: which step of a task claims what, and whether that is part of later worlds.

It is derived from the packs, and a world is folded from it alone, so a row that is lost, changed or made up would be a claim
that nobody checks. The task's row, which is sealed, holds a sum over them: what does not add up is never folded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.nesting import Entry
from agentos.core.checkpoints.ports import Claim
from agentos.store.registry.sqlite.rows import StepRow, TaskRow, damaged
from agentos.store.registry.sqlite.tables import SQL, Tables

_MODULUS = 1 << 62

# Subject, number, item, lifetime, base, standing, rules: a row without its task.
Columns = tuple[Any, ...]


def columns(row: StepRow, claims: tuple[Claim, ...]) -> list[Columns]:
    """The rows for what a step claims, which has its place by now."""
    standing = int(bool(row.proven))
    place, base = row.place, row.base_path
    return [(each.subject, place, each.item, each.lifetime, base, standing, each.rules) for each in claims]


def add(task: TaskRow, rows: list[Columns]) -> None:
    """Count them in the task's row; the caller stores it."""
    _replace(task, (), rows)


def insert(tables: Tables, task_id: str, rows: list[Columns]) -> None:
    """Index them."""
    for each in rows:
        tables.execute(SQL["insert_claim"], (task_id, *each))


def entries(tables: Tables, task: TaskRow) -> tuple[list[Entry], list[Entry]]:
    """Every claim of the task: those that are part of later worlds, and the others."""
    total = 0
    standing: list[Entry] = []
    others: list[Entry] = []
    for row in tables.execute(SQL["claims"], (task.task_id,)):
        total += _sum(row)
        subject, number, item, lifetime, base, stands, rules = row
        (standing if stands else others).append(Entry(subject, number, item, lifetime, base, rules))
    if total % _MODULUS != task.claims_sum:
        raise damaged(f"task {shown(task.task_id, 80)}, its claims")
    return standing, others


def later(tables: Tables, task_id: str, subject: str, after: int) -> list[tuple[str, int]]:
    """Step and item of each later claim about the subject, oldest first."""
    found = tables.execute(SQL["later_claims"], (task_id, subject, after)).fetchall()
    return [(tables.step_at(task_id, sequence).step_id, item) for sequence, item in found]


def stand(tables: Tables, task: TaskRow, row: StepRow) -> None:
    """Make what the step claims part of later worlds, or take it out of them; the caller stores the task's row."""
    standing = int(bool(row.proven) and row.superseded_by is None)
    changed = [each for each in _at(tables, row) if each[5] != standing]
    if changed:
        tables.execute(SQL["set_standing"], (standing, row.task_id, row.place, standing))
        _replace(task, changed, ((*each[:5], standing, each[6]) for each in changed))


def fall_above(tables: Tables, task: TaskRow, place: int) -> None:
    """Take what every later step claims out of later worlds; the caller stores the task's row."""
    changed = tables.execute(SQL["claims_above"], (task.task_id, place)).fetchall()
    if changed:
        tables.execute(SQL["unsettle_above"], (task.task_id, place))
        _replace(task, changed, ((*each[:5], 0, each[6]) for each in changed))


def remove(tables: Tables, task: TaskRow, row: StepRow) -> None:
    """Forget what the step claims; the caller stores the task's row."""
    _replace(task, _at(tables, row), ())
    tables.execute(SQL["delete_claims"], (row.task_id, row.place))


def keep_only(tables: Tables, task: TaskRow, number: int, items: set[int]) -> None:
    """Forget what this step claims but for these items; the caller stores the task's row."""
    gone = [each for each in tables.execute(SQL["claims_at"], (task.task_id, number)).fetchall() if each[2] not in items]
    for subject, sequence, item, *_ in gone:
        tables.execute(SQL["delete_claim"], (task.task_id, subject, sequence, item))
    _replace(task, gone, ())


def added(total: int, row: Columns) -> int:
    """The sum over the rows so far, with this one."""
    return (total + _sum(row)) % _MODULUS


def _at(tables: Tables, row: StepRow) -> list[Columns]:
    return tables.execute(SQL["claims_at"], (row.task_id, row.place)).fetchall()


def _replace(task: TaskRow, before: Iterable[Columns], after: Iterable[Columns]) -> None:
    task.claims_sum = (task.claims_sum - sum(map(_sum, before)) + sum(map(_sum, after))) % _MODULUS


def _sum(row: Columns) -> int:
    """Accidents are to be found, not malice, and this runs once for every claim there is."""
    subject, number, item, lifetime, base, standing, rules = row
    text = f"{subject}\0{number}\0{item}\0{lifetime}\0{base}\0{standing}\0{rules}"
    return zlib.crc32(text.encode(errors="surrogatepass"))
