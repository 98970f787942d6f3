"""The tables of the SQLite run store behind one connection: checked rows out, sealed rows in.

Every row that is read is checked against its seal, and "there is no such row" is proved before it is believed: a row whose key
was damaged stands where the search for its key ends, so the two neighbours are checked; a row that vanished is missed by its
run's count. Runs inside a transaction that somebody else opened.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from agentos._text import shown
from agentos.core.checkpoints.sealing import seal
from agentos.errors import StoreCorruptError
from agentos.store.named_sql import load_queries
from agentos.store.runs.contract import CheckpointInfo, Infos, Names
from agentos.store.runs.times import moment
from agentos.store.schema import refuse_newer

COMPONENT = "runs"
SQL = load_queries(Path(__file__).with_name("queries.sql"))

# The run's own row, among its nodes.
OWN = ""
# The digest of a row of `run_nodes`: over its run, node, sequence, size and time. Half of it is the row's seal: that lets no
# accident through, and the shorter the rows are, the seldomer a save has one more page to write.
row_digest = partial(seal, "run-node/1")
SEAL = slice(16)


class Row(NamedTuple):
    """One row of `run_nodes` whose seal fits, and the whole digest that it is the beginning of."""

    run_id: str
    node_id: str
    sequence: int
    size: int
    saved_at: int
    digest: bytes


class Tables:
    """What a store asks of them; saving is in saving.py."""

    __slots__ = ("_execute", "close")

    def __init__(self, connection: sqlite3.Connection) -> None:
        # One cursor for all: making one costs as much as a small statement. Nothing is run while rows are still being read.
        cursor = connection.cursor()
        self._execute = cursor.execute
        # A statement that was left in the middle, because a row was damaged, would keep its view of the database.
        self.close = cursor.close

    def refuse_newer_schema(self, known: int) -> None:
        """Raise if this code must not write any more."""
        refuse_other_schema(self._execute(SQL["schema"]).fetchone()[0], known)

    def enter(self, run_id: str) -> None:
        """Begin a run."""
        self._prove_no_run(run_id)
        self._execute(SQL["insert_run"], (run_id, seal("run/1", (run_id,))))

    def load(self, run_id: str, node_id: str) -> bytes | None:
        """The bytes of a node, or None if it is proved not to be there."""
        found = self._execute(SQL["row"], (run_id, node_id)).fetchone()
        if found is None:
            self._prove_absent(run_id, node_id)
            return None
        row = checked(found[:-1])
        held = self._execute(SQL["data"], (found[-1], run_id, node_id)).fetchone()
        return _bytes_of(row, *held or (None, None))

    def list(self, run_id: str) -> Infos:
        """The nodes of a run in order of their numbers; no page with bytes is read."""
        infos: Infos = []
        expected = -1
        for found in self._execute(SQL["rows_of_run"], (run_id,)):
            row = checked(found)
            if row.node_id == OWN:
                expected = row.size
            else:
                infos.append(CheckpointInfo(run_id, row.node_id, row.sequence, moment(row.saved_at), row.size))
        if expected != len(infos):
            if expected >= 0 or infos:
                raise damaged(run_id)
            self._prove_no_run(run_id)
        infos.sort(key=lambda info: info.sequence)
        return infos

    def runs(self) -> Names:
        """The runs that have a node."""
        names: Names = []
        count = 0
        for run_id, stored, *own in self._execute(SQL["runs"]):
            if type(run_id) is not str or stored != seal("run/1", (run_id,)):
                raise damaged(run_id)
            if checked(own).size:
                names.append(run_id)
            count += 1
        if self._execute(SQL["count_of_runs"]).fetchone()[0] != count:
            raise damaged("(one that is not in the list of runs)")
        return names

    def delete(self, run_id: str, node_id: str) -> bool:
        """Remove a node, damaged or not; False if it was not there."""
        found = self._execute(SQL["row"], (run_id, node_id)).fetchone()
        if found is None:
            return False
        own = self._execute(SQL["row"], (run_id, OWN)).fetchone()
        if own is None:
            raise damaged(run_id)
        row = checked(own[:-1])
        self._execute(SQL["delete_data"], (found[-1], run_id, node_id))
        self._execute(SQL["delete_row"], (run_id, node_id))
        kept = row._replace(size=row.size - 1)
        self._execute(SQL["update_own"], (kept.size, row_digest(kept[:-1])[SEAL], run_id))
        return True

    def delete_run(self, run_id: str) -> bool:
        """Remove a run with all that is left of it, damaged or not; False if there was nothing."""
        self._execute(SQL["delete_data_of_run"], (run_id,))
        self._execute(SQL["delete_rows_of_run"], (run_id,))
        return bool(self._execute(SQL["delete_run"], (run_id,)).rowcount)

    def _prove_absent(self, run_id: str, node_id: str) -> None:
        own = self._execute(SQL["row"], (run_id, OWN)).fetchone()
        if own is None:
            self._prove_no_run(run_id)
            return
        nodes = checked(own[:-1]).size
        before = self._execute(SQL["row_before"], (run_id, node_id)).fetchone()
        after = self._execute(SQL["row_after"], (run_id, node_id)).fetchone()
        # There is always a row before a node's: the run's own, if no other.
        if before is None or self._execute(SQL["count_of_run"], (run_id,)).fetchone()[0] != nodes + 1:
            raise damaged(run_id)
        for neighbour in (before, after):
            if neighbour is not None:
                checked(neighbour)

    def _prove_no_run(self, run_id: str) -> None:
        """Neither table knows the run."""
        known = self._execute(SQL["run"], (run_id,)).fetchone() is not None
        if known or self._execute(SQL["count_of_run"], (run_id,)).fetchone()[0]:
            raise damaged(run_id)


def refuse_other_schema(found: int | None, known: int) -> None:
    """Raise if the run store's number in the file is not one that this code may write to."""
    if found is None:
        raise StoreCorruptError("schema_version: the run store is no longer entered there; nothing was stored")
    refuse_newer(COMPONENT, found, known)


def _bytes_of(row: Row, data: Any, stored: Any) -> bytes:
    """The bytes, if they were saved with this row."""
    if type(data) is bytes and len(data) == row.size:
        hashed = hashlib.sha256(data)
        hashed.update(row.digest)
        if hashed.digest() == stored:
            return data
    raise damaged(row.run_id, row.node_id)


def checked(columns: Sequence[Any]) -> Row:
    """The row, if its seal is the one that belongs to it. A damaged row can hold a value of any type."""
    *fields, stored = columns
    try:
        digest = row_digest(fields)
    except TypeError:
        raise damaged(*fields[:2]) from None
    if digest[SEAL] != stored:
        raise damaged(*fields[:2])
    return Row._make((*fields, digest))


def damaged(run_id: Any, node_id: Any = OWN) -> StoreCorruptError:
    """What a row, or the lack of one, that cannot be right is refused with."""
    node = f", node {shown(node_id, 80)}" if node_id != OWN else ""
    return StoreCorruptError(
        f"run {shown(run_id, 80)}{node}: the store is damaged; what is stored is not what was saved",
        hint="nothing was served from it; restore a backup, or delete() it and save it again",
    )
