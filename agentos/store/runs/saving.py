"""Store nodes under the next numbers of their run, asking the database as little as that allows.

What a run's own row was after the last save is remembered, and the next save changes that row only if it still bears that seal,
which is asked inside the transaction. Another process's write, a deletion, a transaction that was rolled back or whose outcome
is unknown: after each there is another seal, and the row is read and checked. So what is remembered may be wrong. That costs a
statement which changes nothing, and nothing has to be forgotten in time.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentos.store.runs.rows import OWN, SEAL, SQL, Tables, damaged, refuse_other_schema, row_digest
from agentos.store.runs.times import now

if TYPE_CHECKING:
    from hashlib import _Hash

_DRAW_FOR_NEW, _INSERT_DATA, _INSERT_ROW = SQL["draw_for_new"], SQL["insert_data"], SQL["insert_row"]
_BEFORE_SAVE, _REPLACE_DATA, _PUT_ROWS = SQL["before_save"], SQL["replace_data"], SQL["put_rows"]
MOST_RUNS = 1024

# A node, its bytes, and what was hashed of them before any lock was taken.
Item = tuple[str, bytes, "_Hash"]
# The run's own row: last number, count of nodes, and the seal over these and the time.
_Own = tuple[int, int, bytes]


def hashed(node_id: str, data: bytes) -> Item:
    """An item to save, once."""
    return node_id, data, hashlib.sha256(data)


class Saver:
    """Saves through one store's connections, one transaction at a time.

    Args:
        known: the number of the schema that this code may write to.
    """

    def __init__(self, known: int) -> None:
        self._known = known
        self._owns: dict[str, _Own] = {}

    def save_many(self, run_id: str, items: Iterable[Item], connection: sqlite3.Connection) -> None:
        """Store nodes one after the other."""
        for item in items:
            self.save(run_id, item, connection)

    def save(self, run_id: str, item: Item, connection: sqlite3.Connection) -> None:
        """Store a node in place of what it had."""
        own = self._owns.get(run_id)
        if own is None:
            self._save_anything(run_id, item, connection)
            return
        (node_id, data, digest), execute = item, connection.cursor().execute
        sequence, nodes, at, size = own[0] + 1, own[1] + 1, now(), len(data)
        seal = row_digest((run_id, OWN, sequence, nodes, at))[SEAL]
        if not execute(_DRAW_FOR_NEW, (run_id, node_id, sequence, nodes, at, seal, self._known, own[2])).rowcount:
            # The node is there already, or the row is not what it was.
            self._save_anything(run_id, item, connection)
            return
        row = row_digest((run_id, node_id, sequence, size, at))
        digest.update(row)
        data_id = execute(_INSERT_DATA, (run_id, node_id, digest.digest(), data)).lastrowid
        execute(_INSERT_ROW, (run_id, node_id, sequence, size, at, data_id, row[SEAL]))
        self._owns[run_id] = sequence, nodes, seal

    def _save_anything(self, run_id: str, item: Item, connection: sqlite3.Connection) -> None:
        """Whatever was there before."""
        (node_id, data, digest), execute = item, connection.execute
        schema, sequence, nodes, saved_at, own_seal, data_id = execute(_BEFORE_SAVE, (run_id, node_id)).fetchone()
        if schema != self._known:
            refuse_other_schema(schema, self._known)
        if sequence is None:
            sequence = nodes = 0
            Tables(connection).enter(run_id)
        elif own_seal != row_digest((run_id, OWN, sequence, nodes, saved_at))[SEAL]:
            raise damaged(run_id)
        sequence, size, at = sequence + 1, len(data), now()
        row = row_digest((run_id, node_id, sequence, size, at))
        digest.update(row)
        seal = digest.digest()
        if data_id is None or not execute(_REPLACE_DATA, (seal, data, data_id, run_id, node_id)).rowcount:
            nodes += data_id is None
            data_id = execute(_INSERT_DATA, (run_id, node_id, seal, data)).lastrowid
        own_seal = row_digest((run_id, OWN, sequence, nodes, at))[SEAL]
        execute(_PUT_ROWS, (run_id, sequence, nodes, at, own_seal, node_id, size, data_id, row[SEAL]))
        if len(self._owns) >= MOST_RUNS:
            self._owns.clear()
        self._owns[run_id] = sequence, nodes, own_seal
