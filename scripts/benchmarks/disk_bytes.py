"""How much disk a checkpoint takes: 2 KB of state, after SQLite's log was moved into the database and emptied."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from agentos.core.checkpoints import CheckpointManager
from benchmarks.cycles import SIZES, Cycle, agentos_cycle, connect_raw, raw_cycle
from benchmarks.place import Bench
from benchmarks.results import Row


def rows(bench: Bench) -> Iterator[Row]:
    """Bytes per checkpoint beside those of the raw rows."""
    count = bench.counts.checkpoints_on_disk
    with bench.folder("bytes") as folder:
        taken = _taken(folder / "agentos.sqlite", partial(_write_agentos, bench.workspace), count)
        base = _taken(folder / "raw.sqlite", _write_raw, count)
    yield Row(
        "2 KB of state, one item of evidence",
        "the two raw rows",
        round(taken / base, 3),
        detail=f"{taken:,.0f} bytes a checkpoint against {base:,.0f}, over {count:,} checkpoints",
        raw={"bytes": round(taken, 1), "baseline_bytes": round(base, 1)},
    )


def _write_agentos(workspace: Path, path: Path, count: int) -> None:
    with CheckpointManager(path, workspace, durability="relaxed") as manager:
        _repeat(agentos_cycle(manager, SIZES["2 KB"]), count)


def _write_raw(path: Path, count: int) -> None:
    with closing(connect_raw(path)) as connection:
        connection.execute("pragma synchronous = normal")
        _repeat(raw_cycle(connection, SIZES["2 KB"]), count)


def _repeat(cycle: Cycle, count: int) -> None:
    for _ in range(count):
        cycle()


def _taken(path: Path, write: Callable[[Path, int], None], count: int) -> float:
    """Bytes per cycle; what an empty database takes is not counted."""
    write(path, 0)
    before = _settled_size(path)
    write(path, count)
    return (_settled_size(path) - before) / count


def _settled_size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
    assert not busy, "the log is in use"
    return os.path.getsize(path)
