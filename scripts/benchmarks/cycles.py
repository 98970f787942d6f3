"""One step cycle, in agentos and raw: what the comparisons compare.

agentos: `begin_step` with the state, then `commit_step` with a pack of one `artifact_exists` item, made anew for each step as a
caller does. Raw: two committed INSERTs of ready bytes, an intent of 100 bytes and then the payload, with WAL and
synchronous=FULL; nothing less survives a power cut after the begin and after the end.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from benchmarks.place import ARTIFACT
from benchmarks.states import encoded, state

AGAINST_RAW = "two raw INSERTs, WAL, FULL"
# Two rows of a little less than 2 KB share a page, two of a little more do not; these are all a little more.
SIZES = {"2 KB": 2_048, "20 KB": 20_480, "200 KB": 204_800}
DURABILITIES = ("full", "commit", "relaxed")
# So many different states take turns: none is ever the one that was just there.
VARIETY = 8

Cycle = Callable[[], object]


def claim() -> EvidencePack:
    """The evidence of one step."""
    return EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "the report is there", {"path": ARTIFACT})])


def agentos_cycle(manager: CheckpointManager, size: int, task_id: str = "bench") -> Cycle:
    """A step of one task."""
    states = itertools.cycle([state(size, seed) for seed in range(VARIETY)])

    def cycle() -> None:
        step_id = manager.begin_step(task_id, "tool_executed", next(states))
        # A checkpoint that is not verified would be another, cheaper thing.
        assert manager.commit_step(step_id, claim()).verified

    return cycle


def connect_raw(path: Path) -> sqlite3.Connection:
    """A connection for `raw_cycle`, on a file that is made if it is not there."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    for statement in (
        "pragma journal_mode = wal",
        "pragma synchronous = full",
        "create table if not exists intents (id integer primary key, bytes blob not null)",
        "create table if not exists payloads (id integer primary key, bytes blob not null)",
    ):
        connection.execute(statement)
    return connection


def raw_cycle(connection: sqlite3.Connection, size: int) -> Cycle:
    """The two inserts, each a transaction."""
    payloads = itertools.cycle([encoded(state(size, seed)) for seed in range(VARIETY)])
    intent = b"i" * 100
    execute = connection.execute

    def cycle() -> None:
        execute("begin immediate")
        execute("insert into intents (bytes) values (?)", (intent,))
        execute("commit")
        execute("begin immediate")
        execute("insert into payloads (bytes) values (?)", (next(payloads),))
        execute("commit")

    return cycle
