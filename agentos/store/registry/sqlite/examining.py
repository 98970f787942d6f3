"""Look at every row of the registry: is it as it was written, and is everything there that others say is there?

Each table is read from its own b-tree, row by row, and checked as a read checks it; what rows say of each other is compared in
relations.py. Nothing is written, and what cannot be read is told and not raised: one damaged page must not hide the next.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.checkup import Examined, Findings, Progress
from agentos.core.checkpoints.sealing import seal, sha256
from agentos.errors import AgentosError, StoreCorruptError
from agentos.store import failures
from agentos.store.named_sql import load_queries
from agentos.store.registry.sqlite import decided, keys, restores, schemas
from agentos.store.registry.sqlite.relations import Relations
from agentos.store.registry.sqlite.rows import checked_step, checked_task

CHECKS = load_queries(Path(__file__).with_name("checks.sql"))
# How often it is said how far this is.
_EVERY = 512
# What each index must hold of the rows of its table; those that are null in the first column it leaves out if it says so.
_INDEXES: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "steps_timeline": ("steps", ("task_id", "place", "step_key"), False),
    "steps_named": ("steps", ("checkpoint_id", "step_key"), True),
    "idempotency_keys_of_task": ("idempotency_keys", ("task_id", "key"), True),
    "idempotency_keys_again": ("idempotency_keys", ("key", "request_hash"), False),
    "restores_of_task": ("restores", ("task_id", "begun_at", "restore_id"), False),
}
# What a row that is not as it was written can raise; one whose seal fits, but that was made up, also when it is looked into.
DAMAGED = (AgentosError, TypeError, ValueError, AttributeError, LookupError)

Row = tuple[Any, ...]


def examine(connection: sqlite3.Connection, *, deep: bool, progress: Progress) -> Examined:
    """Look at everything in one view of the file."""
    return _Examination(connection, progress).everything(deep=deep)


class _Examination:
    def __init__(self, connection: sqlite3.Connection, progress: Progress) -> None:
        self._execute = connection.execute
        self._progress = progress
        self._findings = Findings()
        self._rows: dict[str, int] = {}
        self._relations = Relations(self._findings)
        # Sums over what each index should hold: independent of the order, which a table and its index do not share.
        self._sums = dict.fromkeys(_INDEXES, 0)

    def everything(self, *, deep: bool) -> Examined:
        self._structure(deep=deep)
        with self._told("schema_version"):
            schemas.examine(self._execute, CHECKS, self._findings)
        for table, check in CHECKS_OF.items():
            self._table(table, check, self._relations.takes(table))
        for index, (table, _, _) in _INDEXES.items():
            self._index(index, table)
        self._runs()
        self._relations.compare()
        return Examined(self._findings, self._rows, self._relations.needing, self._relations.restores)

    def _structure(self, *, deep: bool) -> None:
        self._progress("structure", 0, 1)
        with self._told("the file"):
            for (line,) in self._execute(CHECKS["deep" if deep else "quick"]):
                if line != "ok":
                    self._findings.add("structure", "the file", line)
        self._progress("structure", 1, 1)

    def _table(self, table: str, check: Callable[[Row], Any], tell: Callable[[Any], None] | None) -> None:
        total = 0
        with self._told(table):
            total = self._execute(f"select count(*) from {table}").fetchone()[0]  # noqa: S608 - a name of ours
        done = 0
        with self._told(table):
            for row in self._read(table):
                done += 1
                if done % _EVERY == 0:
                    self._progress(table, done, total)
                self._look_at(table, row, check, tell)
        self._rows[table] = done
        self._progress(table, done, done)

    def _read(self, table: str) -> Iterator[Row]:
        cursor = self._execute(CHECKS[table])
        places = {name: number for number, (name, *_) in enumerate(cursor.description)}
        wanted = [
            (index, [places[name] for name in columns], partial)
            for index, (of, columns, partial) in _INDEXES.items()
            if of == table
        ]
        for row in cursor:
            for index, columns, partial in wanted:
                if not partial or row[columns[0]] is not None:
                    self._sums[index] += hash(tuple(row[number] for number in columns))
            yield row

    def _look_at(self, table: str, row: Row, check: Callable[[Row], Any], tell: Callable[[Any], None] | None) -> None:
        try:
            checked = check(row)
            if tell is not None:
                tell(checked)
        except DAMAGED as error:
            first = ", ".join(shown(value, 80) for value in row[:2])
            sealed = isinstance(error, (StoreCorruptError, UnfitError))
            what = "its seal does not fit what it holds" if sealed else f"what it holds cannot be read: {error}"
            self._findings.add("row", f"{table}: {first}", what)

    def _index(self, index: str, table: str) -> None:
        with self._told(f"index {index}"):
            held = sum(map(hash, self._execute(CHECKS[index])))
            if held != self._sums[index]:
                self._findings.add("index", f"index {index}", f"it does not hold exactly the rows of {table}")

    def _runs(self) -> None:
        with self._told("run stores"):
            if self._execute("select 1 from sqlite_master where name = 'run_nodes'").fetchone() is None:
                return
            # Only who shares the file with a run store pays for it.
            from agentos.store.runs.examining import examine_runs  # noqa: PLC0415

            self._rows |= examine_runs(self._execute, self._findings, self._progress)

    @contextmanager
    def _told(self, where: str) -> Iterator[None]:
        """What SQLite cannot read is a finding; a lock is none."""
        try:
            yield
        except failures.RAISED as error:
            if isinstance(error, sqlite3.Error) and failures.is_busy(error):
                raise
            self._findings.add("structure", where, f"cannot be read: {error}")


class UnfitError(ValueError):
    """A seal that does not fit."""


def _sealed(kind: str) -> Callable[[Row], Row]:
    """The check of rows whose last column is a seal over all others."""

    def checked(row: Row) -> Row:
        if row[-1] != seal(kind, row[:-1]):
            raise UnfitError
        return row

    return checked


def _checked_snapshot(row: Row) -> Row:
    _, codec, base, digest, data = row
    if codec != "json" or base is not None or type(data) is not bytes or sha256(data) != digest:
        raise UnfitError
    return row


# How the rows of each table are checked, in the order in which relations.py takes them.
CHECKS_OF: dict[str, Callable[[Row], Any]] = {
    "tasks": checked_task,
    "touched": _sealed(restores.TOUCHED),
    "steps": checked_step,
    "snapshots": _checked_snapshot,
    "names": tuple,
    "verifications": _sealed("verification/1"),
    "claims": tuple,
    "decisions": _sealed(decided.KIND),
    "idempotency_keys": keys.checked,
    "restores": restores.checked,
    "workspaces": _sealed(restores.WORKSPACE),
}
