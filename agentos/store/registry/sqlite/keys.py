"""Calls that must happen at most once: a row that is there before the call is made, and says what became of it."""

from __future__ import annotations

from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.sealing import seal
from agentos.core.checkpoints.stored import StoredCall
from agentos.store.registry.sqlite.rows import damaged
from agentos.store.registry.sqlite.tables import SQL, Tables


def call(tables: Tables, key: str) -> StoredCall | None:
    """What is stored under the key. Absence is asked twice, of two b-trees."""
    row = tables.execute(SQL["once"], (key,)).fetchone()
    if row is None and tables.execute(SQL["once_again"], (key,)).fetchone() is not None:
        raise damaged(f"key {shown(key, 80)}")
    if row is None:
        return None
    stored = checked(row)
    if stored.key != key:
        raise damaged(f"key {shown(key, 80)}")
    return stored


def checked(row: tuple[Any, ...]) -> StoredCall:
    """The call in this row, if its seal fits."""
    stored = StoredCall(*row[:-1])
    if row[-1] != _sealed(stored):
        raise damaged(f"key {shown(row[0], 80)}")
    return stored


def insert(tables: Tables, stored: StoredCall) -> None:
    """Store a call that is about to be made."""
    tables.execute(SQL["insert_once"], (*_fields(stored), _sealed(stored)))


def update(tables: Tables, stored: StoredCall) -> None:
    """Store what became of it."""
    tables.execute(SQL["update_once"], (stored.state, stored.result, stored.runner, _sealed(stored), stored.key))


def delete(tables: Tables, key: str) -> bool:
    """Forget it; False if it is not there."""
    return tables.execute(SQL["delete_once"], (key,)).rowcount == 1


def _fields(stored: StoredCall) -> tuple[Any, ...]:
    return (
        stored.key, stored.task_id, stored.request_hash, stored.state, stored.result, stored.expects, stored.baseline,
        stored.base_path, stored.runner, stored.created_at,
    )  # fmt: skip


def _sealed(stored: StoredCall) -> bytes:
    return seal("once/1", _fields(stored))
