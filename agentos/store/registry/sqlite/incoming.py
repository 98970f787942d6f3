"""A task that comes from elsewhere, row by row, in one transaction: wholly or not at all.

Each row is checked before anything of it is believed. Numbers of snapshots are this registry's, so steps are sealed anew;
nobody holds the task here, whoever held it there. What is here already is never touched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.archived import Take
from agentos.core.checkpoints.stored import StoredWorkspace
from agentos.errors import ArchiveRefusedError, TaskTakenError
from agentos.store.registry.sqlite import restores
from agentos.store.registry.sqlite.examining import CHECKS_OF, DAMAGED
from agentos.store.registry.sqlite.rows import StepRow, TaskRow
from agentos.store.registry.sqlite.tables import SQL, Tables

_INSERTS = {
    "touched": "insert_touched",
    "names": "insert_name",
    "verifications": "insert_verification",
    "claims": "insert_claim",
    "decisions": "insert_decision",
    "idempotency_keys": "insert_once",
    "restores": "insert_restore",
    "workspaces": "put_workspace",
}
# What a seal that fits does not promise: whoever reads it will decode it.
_JSON = {
    "steps": ("metadata", "pack", "expects", "results"),
    "snapshots": ("bytes",),
    "verifications": ("results",),
    "tasks": ("verified_by_type",),
    "restores": ("operations",),
    "touched": ("things",),
}
_MOST_SNAPSHOTS = 1 << 48


class Incoming:
    """Takes the rows of one task in."""

    def __init__(self, connection: sqlite3.Connection, refuse_overlap: Callable[[StoredWorkspace], None]) -> None:
        self._execute = connection.execute
        self._tables = Tables(connection)
        self._columns = {table: _columns(connection, table) for table in CHECKS_OF}
        # Numbers of snapshots go on from those that are here.
        self._offset = connection.execute(SQL["newest_snapshot"]).fetchone()[0]
        self._refuse_overlap = refuse_overlap
        self.task_id: str | None = None
        self._special: dict[str, Callable[[Any], None]] = {
            "tasks": self._task,
            "steps": self._step,
            "snapshots": self._snapshot,
            "workspaces": self._workspace,
        }

    def take(self, table: str, row: dict[str, Any]) -> None:
        """The next row.

        Raises:
            ArchiveRefusedError: it is none of this table, or its seal does not fit.
            TaskTakenError: something is here already that it would be.
        """
        columns = self._columns.get(table)
        if columns is None or sorted(row) != sorted(columns):
            raise ArchiveRefusedError(f"a row of {shown(table, 40)} does not have the columns that it must have")
        values = tuple(row[name] for name in columns)
        try:
            checked = CHECKS_OF[table](values)
            for name in _JSON.get(table, ()):
                if row[name] is not None:
                    codec.decode(row[name])
        except DAMAGED:
            raise ArchiveRefusedError(f"{table}: {shown(values[0], 80)}: it is not what was exported") from None
        try:
            if table in self._special:
                self._special[table](checked)
            else:
                self._execute(SQL[_INSERTS[table]], values)
        except (sqlite3.IntegrityError, OverflowError, sqlite3.InterfaceError) as error:
            raise TaskTakenError(
                f"{table}: {shown(values[0], 80)}: is here already, or cannot be: {shown(str(error), 80)}; nothing changed",
                hint="import it into a registry of its own: --db names a file that is not there yet, after `agentos migrate`",
            ) from error

    def _task(self, row: TaskRow) -> None:
        if self.task_id is not None:
            raise ArchiveRefusedError("it holds more than one task")
        self.task_id = row.task_id
        if self._tables.task(row.task_id) is not None:
            raise TaskTakenError(
                f"task {shown(row.task_id, 80)}: is here already; nothing was changed",
                hint="import it into a registry of its own",
            )
        if row.claim_holder is not None:
            # With another token no write that was begun there can land here.
            row.claim_token += 1
            row.claim_holder = row.claim_boot = row.claim_expires = row.claim_since = None
            row.seal = row.sealed()
        self._execute(SQL["insert_task"], tuple(getattr(row, name) for name in self._columns["tasks"]))

    def _step(self, row: StepRow) -> None:
        self._tables.refuse_taken_id(row.public_id, row.step_id)
        if row.checkpoint_id is None:
            self._tables.refuse_named(row.public_id)
        row.begin_snapshot, row.commit_snapshot = self._number(row.begin_snapshot), self._number(row.commit_snapshot)
        row.seal = row.sealed()
        self._execute(SQL["import_step"], tuple(getattr(row, name) for name in self._columns["steps"]))

    def _snapshot(self, row: tuple[Any, ...]) -> None:
        self._execute(SQL["import_snapshot"], (self._number(row[0]), *row[1:]))

    def _workspace(self, row: tuple[Any, ...]) -> None:
        self._refuse_overlap(restores.workspace_in(row))
        self._execute(SQL["put_workspace"], row)

    def _number(self, number: Any) -> int | None:
        if number is None:
            return None
        if type(number) is not int or not 0 < number < _MOST_SNAPSHOTS:
            raise ArchiveRefusedError(f"snapshot {shown(number, 40)}: no number that a registry gives")
        return number + int(self._offset)


Refuse = Callable[[StoredWorkspace, list[StoredWorkspace]], None]


def take_in(connection: sqlite3.Connection, source: Callable[[Take], None], refuse_overlap: Refuse) -> str:
    """Every row that the source gives; the task's id."""
    known = [each for each, status in restores.workspaces(Tables(connection)) if status == "active"]
    incoming = Incoming(connection, lambda workspace: None if workspace.shared else refuse_overlap(workspace, known))
    source(incoming.take)
    if incoming.task_id is None:
        raise ArchiveRefusedError("it holds no task")
    return incoming.task_id


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"pragma table_info({table})")]
