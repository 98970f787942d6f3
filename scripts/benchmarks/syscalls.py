"""What a cycle asks of the disk, counted: free of noise, and the same on every machine.

The cycles run under the recorder of `tests/faults`, which sees each write and sync; without a C compiler there are no rows.
Cycles in which SQLite moved its log into the database, or started it anew after that, are left out of the counts and said
apart: what they do belongs to many cycles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.cycles import DURABILITIES, SIZES
from benchmarks.place import Bench, environment
from benchmarks.results import Bar, Row, skipped

if TYPE_CHECKING:
    from tests.faults.record import Recorder, Recording
    from tests.faults.tape import Op

SYNCS = {"full": 2, "commit": 1, "relaxed": 0}
MOST_WRITES = 20
_SYNC_CALLS = ("fdatasync", "fsync")
_DATABASE = ".sqlite"


@dataclass(frozen=True, slots=True)
class Counted:
    """Per cycle, of the cycles without a checkpoint of the log; and how many had one."""

    syncs: list[int]
    writes: list[int]
    with_checkpoint: int


def rows(bench: Bench) -> Iterator[Row]:
    """Syncs and writes per durability, and of the raw INSERTs for comparison."""
    from tests.faults.record import Recorder, RecorderUnavailableError  # noqa: PLC0415 - lives with the tests

    try:
        recorder = Recorder.build(bench.scratch / "recorder")
    except RecorderUnavailableError as reason:
        yield skipped("syncs and writes per cycle", str(reason))
        return
    raw = _counted(bench, recorder, "raw")
    for durability in DURABILITIES:
        yield from _rows(durability, _counted(bench, recorder, durability), raw)


def _rows(durability: str, ours: Counted, raw: Counted) -> Iterator[Row]:
    base_syncs, base_writes = median(raw.syncs), median(raw.writes)
    around = f"{len(ours.syncs)} cycles; {ours.with_checkpoint} more held a checkpoint of the log"
    wanted = SYNCS[durability]
    # The figure is the one that is furthest from what is wanted: exactly means in every cycle.
    worst = max(ours.syncs, key=lambda count: abs(count - wanted))
    others = sum(count != wanted for count in ours.syncs)
    yield Row(
        f"{durability}: syncs, 2 KB",
        f"raw: {base_syncs:g}",
        worst,
        "fdatasync",
        Bar("exactly", wanted),
        f"{others} of {around}" if others else f"every one of {around}",
        {"median": median(ours.syncs), "others": others, "baseline": base_syncs},
    )
    yield Row(
        f"{durability}: writes, 2 KB",
        f"raw: {base_writes:g}",
        median(ours.writes),
        "pwrite",
        Bar("at most", MOST_WRITES),
        f"median of {around}; most {max(ours.writes)}",
        {"max": max(ours.writes), "baseline": base_writes},
    )


def _counted(bench: Bench, recorder: Recorder, who: str) -> Counted:
    count = bench.counts.recorded_cycles
    with bench.folder("recorded") as folder:
        store = folder / "store"
        store.mkdir()
        where = [str(store), str(bench.workspace)]
        program = [sys.executable, "-m", "benchmarks.recorded_cycles", who, str(count), str(SIZES["2 KB"]), *where]
        recording = recorder.record(program, store, env=environment())
    return _per_cycle(recording, count)


def _per_cycle(recording: Recording, count: int) -> Counted:
    places = recording.marks
    marks = [places[str(number)] for number in range(count + 1)]
    syncs, written, checkpoints = [], [], 0
    for first, last in pairwise(marks):
        ops = [op for op in recording.ops[first:last] if not op.path.endswith("-shm")]
        writes = [op for op in ops if op.call == "pwrite"]
        if any(_is_of_a_checkpoint(op) for op in writes):
            checkpoints += 1
            continue
        syncs.append(sum(op.call in _SYNC_CALLS for op in ops))
        written.append(len(writes))
    return Counted(syncs, written, checkpoints)


def _is_of_a_checkpoint(write: Op) -> bool:
    """Into the database itself, or the header of a log that starts anew, which is synced before anything follows it."""
    return write.path.endswith(_DATABASE) or (write.path.endswith(f"{_DATABASE}-wal") and write.offset == 0)
