"""A run store in a SQLite file: one transaction a call, checked bytes, any number of processes.

The file may be one that a registry uses: the tables are a component of their own (see agentos/store/schema.py). How the file is
opened, locked, synced and closed around a fork is in agentos/store/database.py, what a row must be like in rows.py.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from agentos.core.checkpoints.verifier import absolute
from agentos.errors import InvalidInputError, ManagerClosedError, OutcomeUnknownError
from agentos.store.database import Database
from agentos.store.durability import durability_named
from agentos.store.runs.contract import Data, Infos, Names
from agentos.store.runs.inputs import (
    LOCK_TIMEOUT,
    checked_data,
    checked_items,
    checked_node,
    checked_run,
    checked_timeout,
    closed,
    not_found,
)
from agentos.store.runs.rows import COMPONENT, Tables
from agentos.store.runs.saving import Saver, hashed
from agentos.store.runs.twins import AsyncTwins
from agentos.store.schema import load, migrate

T = TypeVar("T")


class SQLiteStore(AsyncTwins):
    """Keeps runs in the file at `path`, which is created if it is not there.

    Args:
        durability: `full` and `commit` sync every call; `relaxed` may lose the newest calls on power loss.
        lock_timeout: seconds to wait for another process's transaction before StoreBusyError.
    """

    def __init__(self, path: str | Path, *, durability: str = "full", lock_timeout: float = LOCK_TIMEOUT) -> None:
        self._migrations = load(COMPONENT)
        self._known = self._migrations[-1].number
        self._saver = Saver(self._known)
        self._synced = durability_named(durability).syncs_commit
        self._lock_timeout = checked_timeout(lock_timeout)
        # The schema's number is checked together with what a save asks anyway: a statement of its own would cost more.
        self._database = Database(_checked_path(path), self._migrate, None, self._lock_timeout)
        # Whether a call ended without an answer; what a read shows then may not be on disk yet.
        self._unsure = False
        # Trouble shows here and not at three o'clock.
        self._read(lambda _: None)

    @property
    def path(self) -> str:
        """The file."""
        return self._database.path

    def save(self, run_id: str, node_id: str, data: Data) -> None:
        run, item = checked_run(run_id), hashed(checked_node(node_id), checked_data(data))
        self._write(partial(self._saver.save, run, item))

    def save_many(self, run_id: str, items: Iterable[tuple[str, Data]]) -> None:
        run, checked = checked_run(run_id), checked_items(items)
        if not checked:
            self._read(lambda _: None)
            return
        hashed_items = [hashed(node, copy) for node, copy in checked]
        self._write(partial(self._saver.save_many, run, hashed_items))

    def load(self, run_id: str, node_id: str) -> bytes:
        run, node = checked_run(run_id), checked_node(node_id)
        data = self._read(lambda tables: tables.load(run, node))
        if data is None:
            raise not_found(run, node)
        return data

    def list(self, run_id: str) -> Infos:
        run = checked_run(run_id)
        return self._read(lambda tables: tables.list(run))

    def list_runs(self) -> Names:
        return self._read(Tables.runs)

    def delete(self, run_id: str, node_id: str) -> None:
        run, node = checked_run(run_id), checked_node(node_id)
        self._delete(lambda tables: tables.delete(run, node))

    def delete_run(self, run_id: str) -> None:
        run = checked_run(run_id)
        self._delete(lambda tables: tables.delete_run(run))

    def close(self) -> None:
        self._database.close()

    def _delete(self, work: Callable[[Tables], bool]) -> None:
        def checked(tables: Tables) -> bool:
            tables.refuse_newer_schema(self._known)
            return work(tables)

        if not self._write(lambda connection: _run(checked, connection)) and self._synced:
            # Whoever deleted it may have been killed before that was on disk: "it is gone" must be true after a power cut too.
            self._database.settle()

    def _read(self, work: Callable[[Tables], T]) -> T:
        try:
            if self._unsure:
                self._database.settle()
                self._unsure = False
            return self._database.read(lambda connection: _run(work, connection))
        except ManagerClosedError:
            raise closed() from None

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            done = self._database.write(work, synced=self._synced)
        except ManagerClosedError:
            raise closed() from None
        except OutcomeUnknownError:
            self._unsure = True
            raise
        self._unsure = False
        return done

    def _migrate(self, connection: sqlite3.Connection) -> None:
        migrate(connection, self._migrations, self._database.path, self._lock_timeout)


def _run(work: Callable[[Tables], T], connection: sqlite3.Connection) -> T:
    tables = Tables(connection)
    try:
        return work(tables)
    finally:
        tables.close()


def _checked_path(path: str | Path) -> str:
    found = absolute(path if path is not None else "", "path")
    if os.fspath(path) == ":memory:":
        raise InvalidInputError("path: a database in memory would not survive anything", hint='take MemoryStore, or "memory:"')
    return found
