"""Fill a registry with very many checkpoints of one task, quickly, through agentos's own code.

One checkpoint is made by the manager, and what passed to its registry is kept as the pattern. Every further one is that intent
and that ending with ids and a snapshot of its own, handed to a registry: each row is digested and sealed like any other. Only
the way to the disk is short: large transactions without syncs, on a file that nobody else has open.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from agentos._ids import new_step_id
from agentos.core.checkpoints import CheckpointManager
from agentos.core.checkpoints.ports import Ending, Intent, Registry, StoredStep
from agentos.store.durability import Durability
from agentos.store.registry.sqlite.registry import SQLiteRegistry
from benchmarks.cycles import claim

TASK = "bench"
T = TypeVar("T")
_BATCH = 20_000
_KEPT_IDS = 500


def fill(path: Path, workspace: Path, count: int) -> list[str]:
    """Make a registry whose task has `count` checkpoints; the ids of some that were filled in."""
    intent, ending = _pattern(path, workspace)
    with closing(sqlite3.connect(path, isolation_level=None, cached_statements=256)) as connection:
        for pragma in ("journal_mode = off", "synchronous = off", "locking_mode = exclusive", "cache_size = -200000"):
            connection.execute(f"pragma {pragma}").fetchone()
        ids = _filled(connection, _quick_registry(path, connection), intent, ending, count)
        connection.execute("pragma locking_mode = normal").fetchone()
        connection.execute("pragma journal_mode = wal").fetchone()
    return ids


def snapshot(number: int) -> bytes:
    """A small state that names its own place, so that what is read back can be told from its neighbours."""
    return b'{"iteration":%d,"done":["plan","sources"]}' % number


class _Overheard:
    """A registry that passes everything on and keeps what it was told last."""

    intent: Intent
    ending: Ending

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def begin(self, intent: Intent) -> None:
        self.intent = intent
        self._registry.begin(intent)

    def commit(self, ending: Ending) -> StoredStep:
        self.ending = ending
        return self._registry.commit(ending)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)


def _pattern(path: Path, workspace: Path) -> tuple[Intent, Ending]:
    with CheckpointManager(path, workspace, durability="relaxed") as manager:
        heard = _Overheard(manager._registry)  # noqa: SLF001 - the manager's own words are the pattern
        manager._registry = heard  # noqa: SLF001
        manager.commit_step(manager.begin_step(TASK, "tool_executed", {"iteration": 1, "done": []}), claim())
    return heard.intent, heard.ending


class _OneTransaction:
    """Takes the place of the registry's database: all writes belong to the transaction that is open already."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = str(path)
        self._connection = connection

    def write(self, work: Callable[[sqlite3.Connection], T], *, synced: bool) -> T:
        """Nothing is synced here: a file that is lost is filled again."""
        del synced
        return work(self._connection)


def _quick_registry(path: Path, connection: sqlite3.Connection) -> SQLiteRegistry:
    registry = SQLiteRegistry(str(path), Durability.RELAXED, 30.0)
    registry._database = _OneTransaction(path, connection)  # type: ignore[assignment]  # noqa: SLF001
    return registry


def _filled(connection: sqlite3.Connection, registry: SQLiteRegistry, intent: Intent, ending: Ending, count: int) -> list[str]:
    ids = []
    for first in range(2, count + 1, _BATCH):
        connection.execute("begin immediate")
        for number in range(first, min(first + _BATCH, count + 1)):
            step_id = new_step_id()
            registry.begin(replace(intent, step_id=step_id, snapshot=snapshot(number)))
            registry.commit(replace(ending, step_id=step_id, nonce=os.urandom(12).hex()))
            if number % (count // _KEPT_IDS + 1) == 0:
                ids.append(step_id)
        connection.execute("commit")
    return ids
