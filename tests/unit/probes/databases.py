"""Databases to look at, and short ways to look for the one row in them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agentos.core.checkpoints.observing import Observation, Seen, Unseen

Look = Callable[..., Observation]


@contextmanager
def writing(path: Path, mode: str = "wal") -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(f"pragma journal_mode={mode}")
        writer.execute("pragma wal_autocheckpoint=0")
        yield writer


def observe(look: Look, value: Any = "old", **around: Any) -> Observation:
    return look("db_row", table="t", where={"id": 1}, values={"v": value}, metadata={"db_path": "db"}, around=around)


def found(look: Look, value: Any = "old", **around: Any) -> int:
    seen = observe(look, value, **around)
    assert isinstance(seen, Seen), seen
    matching: int = seen.facts["matching"]
    return matching


def reason(look: Look, **around: Any) -> str:
    seen = observe(look, **around)
    assert isinstance(seen, Unseen), seen
    return seen.code


def everything(base: Path) -> dict[str, tuple[bytes, int, int]]:
    return {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns, entry.stat().st_ino) for entry in base.iterdir()}
