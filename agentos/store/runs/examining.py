"""Look at every row of the run stores in a file: is it as it was saved, and is everything there that others say is there?"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.checkup import Findings, Progress
from agentos.core.checkpoints.sealing import seal
from agentos.errors import StoreCorruptError
from agentos.store import failures
from agentos.store.named_sql import load_queries
from agentos.store.runs.rows import OWN, checked

CHECKS = load_queries(Path(__file__).with_name("checks.sql"))
_EVERY = 512


def examine_runs(execute: Any, findings: Findings, progress: Progress) -> dict[str, int]:
    """Look at the three tables; how many rows each has."""
    return _Runs(execute, findings, progress).everything()


class _Runs:
    def __init__(self, execute: Any, findings: Findings, progress: Progress) -> None:
        self._execute, self._findings, self._progress = execute, findings, progress
        self._rows: dict[str, int] = {}
        self._runs: set[str] = set()
        # How many nodes each run says that it has, and how many there are.
        self._said: dict[str, int] = {}
        self._there: dict[str, int] = defaultdict(int)
        # By row of `run_data`: whose it is, how large, and what its digest goes on with.
        self._data: dict[int, tuple[str, str, int, bytes]] = {}

    def everything(self) -> dict[str, int]:
        for table, take in (("runs", self._run), ("run_nodes", self._node), ("run_data", self._bytes)):
            self._table(table, take)
        for run_id in self._runs ^ self._said.keys():
            self._findings.add("lost", f"run {shown(run_id, 80)}", "one of its two first rows is gone")
        for run_id in self._said.keys() | self._there.keys():
            if self._said.get(run_id, 0) != self._there[run_id]:
                what = f"it has {self._there[run_id]} nodes, and its row says {self._said.get(run_id, 0)}"
                self._findings.add("lost", f"run {shown(run_id, 80)}", what)
        for run_id, node_id, *_ in self._data.values():
            self._findings.add("lost", f"run {shown(run_id, 80)}, node {shown(node_id, 80)}", "its bytes are gone")
        return self._rows

    def _table(self, table: str, take: Any) -> None:
        done = 0
        try:
            for row in self._execute(CHECKS[table]):
                done += 1
                if done % _EVERY == 0:
                    self._progress(table, done, done)
                try:
                    take(row)
                except (StoreCorruptError, TypeError, ValueError):
                    first = ", ".join(shown(value, 80) for value in row[:2])
                    self._findings.add("row", f"{table}: {first}", "its seal does not fit what it holds")
        except failures.RAISED as error:
            if isinstance(error, sqlite3.Error) and failures.is_busy(error):
                raise
            self._findings.add("structure", table, f"cannot be read: {error}")
        self._rows[table] = done

    def _run(self, row: tuple[Any, ...]) -> None:
        if row[1] != seal("run/1", (row[0],)):
            raise ValueError
        self._runs.add(row[0])

    def _node(self, columns: tuple[Any, ...]) -> None:
        row, data_id = checked(columns[:-1]), columns[-1]
        if row.node_id == OWN:
            if data_id != 0:
                raise ValueError
            self._said[row.run_id] = row.size
            return
        self._there[row.run_id] += 1
        if data_id in self._data:
            raise ValueError
        self._data[data_id] = (row.run_id, row.node_id, row.size, row.digest)

    def _bytes(self, row: tuple[Any, ...]) -> None:
        data_id, run_id, node_id, stored, data = row
        wanted = self._data.pop(data_id, None)
        if wanted is None:
            self._findings.add("stray", f"run_data {data_id}", "no node has it")
            return
        if (run_id, node_id, len(data)) != wanted[:3] or hashlib.sha256(data + wanted[3]).digest() != stored:
            raise ValueError
