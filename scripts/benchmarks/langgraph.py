"""The same step in LangGraph's SQLite saver, against the same raw INSERTs.

A step is `put_writes` of a small result, then `put` of the state. Its connection is set to WAL and synchronous=FULL, so that it
makes the promise that the baseline makes. It checks no evidence and no round trip. Measured when `langgraph-checkpoint-sqlite`
is installed: `python3 scripts/bench.py --install`.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.contest import contest
from benchmarks.cycles import AGAINST_RAW, SIZES, VARIETY, Cycle, connect_raw, raw_cycle
from benchmarks.place import Bench
from benchmarks.results import Row, skipped
from benchmarks.states import state

SAVER = "langgraph.checkpoint.sqlite"


def rows(bench: Bench) -> Iterator[Row]:
    """One row per size, or the reason why there is none."""
    if not _is_installed():
        reason = "langgraph-checkpoint-sqlite is not installed (the extra `bench`; --install gets it)"
        yield from (skipped(f"put_writes + put, {label}", reason) for label in SIZES)
        return
    for label, size in SIZES.items():
        with (
            bench.folder("langgraph") as folder,
            closing(connect_raw(folder / "raw.sqlite")) as raw,
            closing(_connect(folder / "langgraph.sqlite")) as connection,
        ):
            outcome = contest({"raw": raw_cycle(raw, size), "langgraph": _cycle(connection, size)}, size, bench.counts)
        yield Row(
            f"put_writes + put, {label}",
            AGAINST_RAW,
            round(outcome.mean.ratio("langgraph", "raw"), 3),
            detail=f"{outcome.detail('langgraph', 'raw')}; WAL and FULL set on its connection",
            raw=outcome.raw("langgraph", "raw"),
        )


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(SAVER) is not None
    except ModuleNotFoundError:
        return False


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    return connection


def _cycle(connection: sqlite3.Connection, size: int) -> Cycle:
    saver = importlib.import_module(SAVER).SqliteSaver(connection)
    empty_checkpoint = importlib.import_module("langgraph.checkpoint.base").empty_checkpoint
    states = itertools.cycle([state(size, seed) for seed in range(VARIETY)])
    config: dict[str, Any] = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    config = saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
    steps = itertools.count()

    def cycle() -> None:
        nonlocal config
        number = next(steps)
        saver.put_writes(config, [("result", {"path": "report.md", "ok": True})], f"task-{number}")
        # A new checkpoint has an id of its own; making it is the saver's way, and part of the step.
        checkpoint = {**empty_checkpoint(), "channel_values": next(states)}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, {})

    return cycle
