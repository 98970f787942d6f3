"""The run store: what a save costs above the bare call it cannot do without, and what a list reads and takes.

Each store saves nodes of 10 KB, twenty to a run, in turns with what does the same by hand on the same disk:
- in SQLite one committed bare INSERT, WAL and synchronous=FULL, of the same bytes under the same key: what SQLite costs at the
  very least. It neither digests nor checks anything, draws no sequence number, and cannot overwrite. A second one draws the
  next number of the run, as one statement by hand would do it.
- in files a temporary file, its sync, a rename and the sync of the folder.
Encoding is compared with `json.dumps` of the same state, which checks nothing.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from agentos.store import CheckpointStore, FileStore, MemoryStore, SQLiteStore
from agentos.store.format import encode_checkpoint
from benchmarks.contest import Outcome, contest
from benchmarks.cycles import Cycle
from benchmarks.place import Bench
from benchmarks.results import Bar, Row
from benchmarks.rounds import interleaved
from benchmarks.states import state

SIZE = 10_240
NODES_A_RUN = 20
STATE_SIZE = 102_400
_TABLE = """
create table nodes (
    run_id text not null, node_id text not null, sequence integer, timestamp text not null, data blob not null,
    primary key (run_id, node_id)
)
"""
_INDEX = "create index nodes_in_order on nodes (run_id, sequence)"
_NEXT = """
insert or replace into nodes (run_id, node_id, sequence, timestamp, data)
values (?1, ?2, coalesce((select max(sequence) from nodes where run_id = ?1), 0) + 1, ?3, ?4)
"""
_BARE = "insert into nodes (run_id, node_id, timestamp, data) values (?, ?, ?, ?)"
LISTED = {"full": 20_000, "quick": 2_000}


def rows(bench: Bench) -> Iterator[Row]:
    """Every row, the quick ones first."""
    yield memory_row(bench)
    yield encoding_row(bench)
    yield from sqlite_rows(bench)
    yield file_row(bench)
    yield from list_rows(bench)


def memory_row(bench: Bench) -> Row:
    """A save in memory, in microseconds."""
    count = 200 * bench.counts.rounds
    with MemoryStore() as store:
        cycle = saving(store)
        seconds = sorted(_timed(cycle) for _ in range(count))
    figure = median(seconds) * 1e6
    return Row(
        "MemoryStore.save, 10 KB",
        "",
        round(figure, 2),
        "us",
        Bar("below", 10),
        f"median of {count:,}; 99th percentile {seconds[int(count * 0.99)] * 1e6:.1f}",
        {"us": round(figure, 3)},
    )


def encoding_row(bench: Bench) -> Row:
    """Encoding a state of 100 KB."""
    value = state(STATE_SIZE)
    turns = {
        "ours": lambda: _timed(lambda: encode_checkpoint(value, run_id="run", node_id="node", sequence=1)),
        "json": lambda: _timed(lambda: json.dumps(value)),
    }
    measured = interleaved(turns, 10 * bench.counts.rounds)
    return Row(
        "encode_checkpoint, 100 KB",
        "json.dumps",
        round(measured.ratio("ours", "json"), 3),
        bar=Bar("at most", 1.5),
        detail=f"{measured.median('ours') * 1e6:,.0f} us against {measured.median('json') * 1e6:,.0f}; "
        f"quartiles {measured.spread('ours', 'json')}",
        raw={"us": round(measured.median("ours") * 1e6, 1), "baseline_us": round(measured.median("json") * 1e6, 1)},
    )


def sqlite_rows(bench: Bench) -> Iterator[Row]:
    """A save in SQLite."""
    with (
        bench.folder("runs") as folder,
        SQLiteStore(folder / "runs.sqlite") as store,
        closing(_raw(folder, "raw.sqlite")) as raw,
        closing(_raw(folder, "bare.sqlite")) as bare,
    ):
        cycles = {"raw": inserting(raw, _NEXT), "bare": inserting(bare, _BARE), "ours": saving(store)}
        outcome = contest(cycles, SIZE, bench.counts)
    yield _row("SQLiteStore.save, 10 KB", "a bare INSERT, WAL, FULL", outcome, "bare", Bar("at most", 1.2))
    yield _row("SQLiteStore.save, 10 KB", "a raw INSERT with the next number, WAL, FULL", outcome, "raw", None)


def file_row(bench: Bench) -> Row:
    """A save in a file."""
    with bench.folder("runs") as folder, FileStore(folder / "runs") as store:
        outcome = contest({"raw": by_hand(folder), "ours": saving(store)}, SIZE, bench.counts)
    return _row(
        "FileStore.save, 10 KB", "temporary file, sync, rename, sync of the folder", outcome, "raw", Bar("at most", 1.2)
    )


def list_rows(bench: Bench) -> Iterator[Row]:
    """Listing a long run: the bytes an entry takes, and whether data was read."""
    nodes = LISTED.get(bench.counts.name, 50)
    with bench.folder("runs") as folder, SQLiteStore(folder / "runs.sqlite", durability="relaxed") as store:
        store.save_many("run", [(f"node {number}", b"x" * SIZE) for number in range(nodes)])
        read, (seconds, peak) = _columns_read(store), _listed(store)
    name = f"list, {nodes:,} nodes of 10 KB"
    detail = f"{seconds * 1e3:,.1f} ms; {'no column of the bytes was read' if not read else f'{read} columns of the bytes'}"
    yield Row(f"{name}: memory", "", round(peak / nodes, 1), "bytes an entry", Bar("at most", 600), detail)
    yield Row(f"{name}: reads of data", "", float(read), "columns", Bar("exactly", 0))


def saving(store: CheckpointStore) -> Cycle:
    """One save, of a node that is not there yet."""
    numbers, data = itertools.count(), os.urandom(SIZE)

    def cycle() -> None:
        run, node = divmod(next(numbers), NODES_A_RUN)
        store.save(f"run {run}", f"node {node}", data)

    return cycle


def inserting(raw: sqlite3.Connection, statement: str) -> Cycle:
    """One committed INSERT of the same."""
    numbers, data, execute = itertools.count(), os.urandom(SIZE), raw.execute

    def cycle() -> None:
        run, node = divmod(next(numbers), NODES_A_RUN)
        now = datetime.now(UTC).isoformat()
        execute("begin immediate")
        execute(statement, (f"run {run}", f"node {node}", now, data))
        execute("commit")

    return cycle


def by_hand(folder: Path) -> Cycle:
    """One file, written the way that survives a power cut."""
    numbers, data = itertools.count(), os.urandom(SIZE)

    def cycle() -> None:
        run, node = divmod(next(numbers), NODES_A_RUN)
        place = folder / f"hand {run}"
        if node == 0:
            place.mkdir()
            _sync(folder)
        path = os.path.join(place, f"node {node}")
        descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(f"{path}.tmp", path)
        _sync(place)

    return cycle


def _raw(folder: Path, name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / name, isolation_level=None)
    for statement in ("pragma journal_mode = wal", "pragma synchronous = full", _TABLE):
        connection.execute(statement)
    if name == "raw.sqlite":
        connection.execute(_INDEX)
    return connection


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def _row(name: str, against: str, outcome: Outcome, baseline: str, bar: Bar | None) -> Row:
    figure = round(outcome.mean.ratio("ours", baseline), 3)
    return Row(name, against, figure, bar=bar, detail=outcome.detail("ours", baseline), raw=outcome.raw("ours", baseline))


def _timed(call: Callable[[], object]) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def _columns_read(store: SQLiteStore) -> int:
    """How many columns of the table with the bytes SQLite looks at while it lists."""
    read: set[str | None] = set()

    def watch(action: int, table: str | None, column: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ and table == "run_data":
            read.add(column)
        return sqlite3.SQLITE_OK

    connection = store._database._open()  # noqa: SLF001 - only SQLite itself can tell
    connection.set_authorizer(watch)
    store.list("run")
    connection.set_authorizer(None)
    return len(read)


def _listed(store: SQLiteStore) -> tuple[float, int]:
    """Seconds, and the peak of memory in a second go: tracing would slow the first down."""
    seconds = min(_timed(lambda: store.list("run")) for _ in range(3))
    tracemalloc.start()
    try:
        store.list("run")
        return seconds, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
