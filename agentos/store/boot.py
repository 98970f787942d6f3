"""Open a registry by path, or bring one to today's schema without using it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from agentos._text import shown
from agentos.core.checkpoints.verifier import absolute
from agentos.errors import InvalidInputError
from agentos.store.durability import Durability
from agentos.store.registry.sqlite.registry import SQLiteRegistry

LOCK_TIMEOUT = 30.0


def open_registry(
    db_path: str | Path,
    durability: Durability = Durability.FULL,
    lock_timeout: float = LOCK_TIMEOUT,
    *,
    readonly: bool = False,
) -> SQLiteRegistry:
    """The registry at this path, created if need be and brought to the schema this code needs.

    Args:
        readonly: only look: nothing is created, migrated or written, also beside the file.
    """
    if sys.platform == "win32":
        raise InvalidInputError("agentos does not run on Windows: it needs POSIX file locks, fork and directory syncs")
    if type(lock_timeout) not in (int, float) or not lock_timeout > 0:
        raise InvalidInputError(f"lock_timeout must be a positive number of seconds, found {shown(lock_timeout, 60)}")
    registry = SQLiteRegistry(_absolute(db_path), durability, min(lock_timeout, threading.TIMEOUT_MAX), readonly=readonly)
    registry.open()
    return registry


def migrate_registry(db_path: str | Path) -> list[str]:
    """Bring the file to today's schema; the names of the migrations that this call applied."""
    registry = open_registry(db_path)
    registry.close()
    return registry.applied


def _absolute(db_path: str | Path) -> str:
    """An absolute path to a file; a database in memory could not survive what this is for."""
    if db_path is None:
        raise InvalidInputError("db_path must be a path, found None")
    path = absolute(db_path, "db_path")
    if os.fspath(db_path) == ":memory:":
        raise InvalidInputError("db_path: a registry in memory would not survive a crash", hint="give the path of a file")
    return path
