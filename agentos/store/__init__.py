"""The memory: registries, run stores, and the migrations that bring a file to today's schema.

Names are loaded when they are first used: importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from agentos.errors import CheckpointNotFoundError
    from agentos.store.runs.contract import CheckpointInfo, CheckpointStore
    from agentos.store.runs.file import FileStore
    from agentos.store.runs.memory import MemoryStore
    from agentos.store.runs.opening import open_store
    from agentos.store.runs.sqlite import SQLiteStore
    from agentos.store.runs.twins import AsyncTwins

_HOMES = {
    "AsyncTwins": "agentos.store.runs.twins",
    "CheckpointInfo": "agentos.store.runs.contract",
    "CheckpointNotFoundError": "agentos.errors",
    "CheckpointStore": "agentos.store.runs.contract",
    "FileStore": "agentos.store.runs.file",
    "MemoryStore": "agentos.store.runs.memory",
    "SQLiteStore": "agentos.store.runs.sqlite",
    "open_store": "agentos.store.runs.opening",
}

_ON_DISK = ("FileStore", "SQLiteStore")

__all__ = [
    "AsyncTwins",
    "CheckpointInfo",
    "CheckpointNotFoundError",
    "CheckpointStore",
    "FileStore",
    "MemoryStore",
    "SQLiteStore",
    "ensure_migrations",
    "open_store",
]


def ensure_migrations(path: str | Path) -> list[str]:
    """Bring the registry at `path` to the schema this code needs, creating it if it is not there; what was applied now.

    Raises:
        MigrationError: the database is newer than this code, or a migration was edited or is missing.
    """
    from agentos.store.boot import migrate_registry  # noqa: PLC0415 - importing a name from here must stay cheap

    return migrate_registry(path)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module  # noqa: PLC0415 - as above

        if name in _ON_DISK:
            import_module("agentos.store.runs.inputs").refuse_windows()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'agentos.store' has no attribute {name!r}")
