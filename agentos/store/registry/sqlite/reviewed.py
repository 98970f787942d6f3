"""What people read: tasks, a task's log, looks at a checkpoint, all of it once. Page by page, each for what the page costs.

Every row that is served was checked against its seal. Where a list names one that is not what was written, it says so in that
one's place: what is intact is still to be read. What only a walk over everything could notice, such as a row that an index
hides, is noticed by whoever walks: recovery, and an integrity check.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.sealing import seal
from agentos.core.checkpoints.stored import (
    ABOVE_ALL,
    Decision,
    Place,
    StoredCheckpoint,
    StoredLog,
    StoredLook,
    StoredOverview,
    StoredRestore,
    StoredReview,
)
from agentos.errors import StoreCorruptError
from agentos.store.database import Database
from agentos.store.registry.sqlite import decided, restores
from agentos.store.registry.sqlite.rows import KEPT_LOOKS, UNPLACED, StepRow, TaskRow, checked_task, damaged
from agentos.store.registry.sqlite.tables import SQL, Tables

# Of a task with more open steps than this, only the newest are looked at one by one.
_MOST_OPENED = 32
# Bytes sort behind every text.
_BEHIND_ALL = b""


class ReviewedMethods:
    """The part of the registry that only readers need."""

    _database: Database

    def overviews(self, after: str, limit: int, *, unfinished: bool) -> list[StoredOverview]:
        def work(connection: sqlite3.Connection) -> list[StoredOverview]:
            tables = Tables(connection)
            if unfinished:
                found = tables.execute(SQL["unfinished_after"], (after, limit)).fetchall()
                return [_overview(tables, columns) for columns in found]
            return list(islice(_overviews(tables, after, limit), limit))

        return self._database.read(work)

    def overview(self, task_id: str) -> StoredOverview | None:
        def work(connection: sqlite3.Connection) -> StoredOverview | None:
            tables = Tables(connection)
            columns = tables.execute(SQL["task"], (task_id,)).fetchone()
            # What is not there is asked for again, of another table.
            return _overview(tables, columns) if columns is not None or tables.task(task_id) is not None else None

        return self._database.read(work)

    def log(self, task_id: str, below: Place, limit: int, looks: int) -> StoredLog | None:
        def work(connection: sqlite3.Connection) -> StoredLog | None:
            tables = Tables(connection)
            task = tables.task(task_id)
            if task is None:
                return None
            _count_open(tables, task)
            found = [_checkpoint(tables, number, row, looks) for number, row in _timeline(tables, task, below.number, limit)]
            return StoredLog(
                found,
                _unplaced(tables, task, below.key, limit),
                _decisions(tables, task_id, below.decision, limit),
                _restores(tables, task_id, below.restore, limit),
            )

        return self._database.read(work)

    def looks(self, step_id: str, below: int, limit: int) -> list[StoredLook]:
        def work(connection: sqlite3.Connection) -> list[StoredLook]:
            tables = Tables(connection)
            row = tables.step(step_id)
            return [] if row is None else _looks(tables, row, below, limit)

        return self._database.read(work)

    def reviews(self, after: int, limit: int) -> list[StoredReview]:
        def work(connection: sqlite3.Connection) -> list[StoredReview]:
            tables = Tables(connection)
            keys = tables.execute(SQL["steps_after"], (after, limit)).fetchall()
            return [_review(tables, tables.existing_step(key)) for (key,) in keys]

        return self._database.read(work)

    def size(self) -> int:
        return self._database.size()


# A task at a glance.


def _overviews(tables: Tables, after: str, limit: int) -> Iterator[StoredOverview]:
    """The tasks in order; also one whose row vanished while its steps are there."""
    found = tables.execute(SQL["tasks_after"], (after, limit)).fetchall()
    for columns in [*found, *([(None,)] if len(found) < limit else [])]:
        until = columns[0] if type(columns[0]) is str else _BEHIND_ALL
        while (stray := tables.execute(SQL["task_between"], (after, until)).fetchone()) is not None:
            after = stray[0]
            yield StoredOverview(after, damage=damaged(f"task {shown(after, 80)}").message)
        if columns[0] is None:
            return
        yield _overview(tables, columns)
        after = until if isinstance(until, str) else after


def _overview(tables: Tables, columns: tuple[Any, ...]) -> StoredOverview:
    try:
        task = checked_task(columns)
        count = _count_open(tables, task)
        opened = (
            [tables.existing_step(key) for key in _newest(tables, task, UNPLACED, ABOVE_ALL, _MOST_OPENED)] if count else []
        )
        return StoredOverview(
            task.task_id, task.stored(), _verified(tables, task), count, tuple(row.stored(b"", None) for row in opened)
        )
    except StoreCorruptError as error:
        return StoredOverview(columns[0] if type(columns[0]) is str else shown(columns[0], 80), damage=error.message)


def _count_open(tables: Tables, task: TaskRow) -> int:
    """How many steps of the task are open. That no older one is hidden is asked of its row."""
    count, older = tables.execute(SQL["count_open_to"], (task.counted_to, task.task_id)).fetchone()
    if older < task.open_steps:
        raise damaged(f"task {shown(task.task_id, 80)}, its open steps")
    return int(count)


def _verified(tables: Tables, task: TaskRow) -> StoredStep | None:
    if task.verified_head == 0:
        return None
    row = tables.step_at(task.task_id, task.verified_head)
    if not row.is_live or not row.verified:
        raise damaged(f"task {shown(task.task_id, 80)}, checkpoint number {task.verified_head}")
    return row.stored(b"", None)


# A task's log.


def _timeline(tables: Tables, task: TaskRow, below: int, limit: int) -> Iterator[tuple[int, StepRow | None]]:
    """So many checkpoints below this number, newest first; None in place of one that is not as it was written, or not there."""
    expected = min(below - 1, task.sequence)
    left = limit
    found = tables.execute(SQL["timeline_page"], (task.task_id, expected, limit)).fetchall()
    for key, place in [*found, (0, task.pruned)]:
        while left and expected > max(place, task.pruned):
            yield expected, None
            expected, left = expected - 1, left - 1
        if not left or not key:
            return
        yield place, _intact(tables, key, task.task_id, place)
        expected, left = place - 1, left - 1


def _intact(tables: Tables, key: int, task_id: str, place: int) -> StepRow | None:
    try:
        row = tables.existing_step(key)
    except StoreCorruptError:
        return None
    return row if (row.task_id, row.place) == (task_id, place) else None


def _checkpoint(tables: Tables, number: int, row: StepRow | None, looks: int) -> StoredCheckpoint:
    if row is None:
        return StoredCheckpoint(number, None)
    try:
        found = _looks(tables, row, row.verifications + 1, looks) if row.verifications and looks else []
    except StoreCorruptError:
        return StoredCheckpoint(number, None)
    return StoredCheckpoint(number, row.stored(b"", None), tuple(found))


def _unplaced(tables: Tables, task: TaskRow, below: int, limit: int) -> list[tuple[int, StoredStep | None]]:
    """The steps that never became a checkpoint, newest first."""
    keys = [(key, place) for place in (UNPLACED, 0) for key in _newest(tables, task, place, below, limit)]
    rows = [(key, _intact(tables, key, task.task_id, place)) for key, place in sorted(keys, reverse=True)[:limit]]
    return [(key, None if row is None else row.stored(b"", None)) for key, row in rows]


def _newest(tables: Tables, task: TaskRow, place: int, below: int, limit: int) -> list[int]:
    return [key for (key,) in tables.execute(SQL["newest_at"], (task.task_id, place, below, limit))]


def _decisions(tables: Tables, task_id: str, below: int, limit: int) -> list[tuple[int, Decision]]:
    rows = tables.execute(SQL["decisions_below"], (task_id, below, limit)).fetchall()
    found = [(int(row[1]), decided.checked(row)) for row in rows]
    numbers = [number for number, _ in found]
    newest = (numbers[0] if numbers else 0) if below == ABOVE_ALL else below - 1
    if numbers != [*range(newest, max(newest - limit, 0), -1)]:
        raise damaged(f"task {shown(task_id, 80)}, what was decided about it")
    return found


def _restores(tables: Tables, task_id: str, below: tuple[str, str], limit: int) -> list[StoredRestore]:
    return [restores.checked(row) for row in tables.execute(SQL["restores_below"], (task_id, *below, limit)).fetchall()]


# Looks.


def _looks(tables: Tables, row: StepRow, below: int, limit: int) -> list[StoredLook]:
    """The newest looks below this number. Old ones may have been pruned; the newest few are always there."""
    rows = tables.execute(SQL["looks_below"], (row.step_id, below, limit)).fetchall()
    found = [_checked_look(each) for each in rows]
    newest, inline = min(below - 1, row.verifications), row.results is not None
    kept = range(newest, max(newest - limit, row.verifications - KEPT_LOOKS, int(inline)), -1)
    if [each.number for each in found[: len(kept)]] != [*kept]:
        raise damaged(f"step {shown(row.step_id, 80)}, its verifications")
    if inline and below > 1 and len(found) < limit:
        found.append(StoredLook(1, None, None, None, counted=True, results=row.results or b""))
    return found


def _checked_look(row: tuple[Any, ...]) -> StoredLook:
    step_id, number, at, by, outcome, counted, results, stored = row
    if type(results) is not bytes or stored != seal("verification/1", row[:-1]):
        raise damaged(f"step {shown(step_id, 80)}, verification {shown(number, 20)}")
    return StoredLook(number, at, by, outcome, bool(counted), results)


# Everything, once.


def _review(tables: Tables, row: StepRow) -> StoredReview:
    size = tables.execute(SQL["snapshot_size"], (row.begin_snapshot, row.commit_snapshot)).fetchone()[0]
    looks = tuple(_looks(tables, row, row.verifications + 1, row.verifications)) if row.verifications else ()
    return StoredReview(row.step_key, row.stored(b"", None), looks, size)
