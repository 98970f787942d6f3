"""Look for a row of a SQLite database.

The table and its columns must stand in the schema exactly as named, and are quoted and qualified: an unknown quoted name would
otherwise become a text that matches itself. Values are bound. `where` is compared by the database, `values` here, by type; rows
stream, and the look ends at the first match (at the second, if there may be only one).

Whether the row is the one that was claimed is judged in `kinds/rows.py`.
"""

from __future__ import annotations

import math
import random
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.kinds.rows import same
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at, timed_out
from agentos.probes.paths import Place, place_of

if TYPE_CHECKING:
    import sqlite3

MOST_PATIENCE = 5.0
_MOST_NAMES = 100
_LONGEST_TEXT = 1_000
_FEW = 32
_TABLES = "select name from sqlite_master where type in ('table', 'view') order by name"
_COLUMNS = "select name from pragma_table_xinfo(?)"


class DbRow:
    """Facts: `problem` (empty, or why no row could match), `database`, `known`, `missing`, `candidates`, `matching`, `row`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look, again while somebody writes, and never past the deadline."""
        path = evidence.metadata.get("db_path")
        if path is None:
            if around.own_database is None:
                return Unseen("NO_DATABASE", "db_row names no database", "give metadata['db_path']")
            path, around = around.own_database, Surroundings(around.base_path, timeout=around.timeout)
        return looked_at(lambda deadline: _look(evidence.expected, path, around, deadline), around.timeout)


def _look(expected: dict[str, Any], path: str, around: Surroundings, deadline: Deadline) -> Observation:
    with place_of(path, around) as place:
        if place.status is None:
            return Seen(_facts(place, problem="DATABASE_MISSING"))
        if not stat.S_ISREG(place.status.st_mode):
            raise CannotSee("NOT_A_DATABASE", f"{shown(path)}: is no regular file, so no database")
        return Seen(_patiently(lambda: _rows(expected, place, deadline), deadline))


def _patiently(look: Callable[[], dict[str, Any]], deadline: Deadline) -> dict[str, Any]:
    with importing:
        from agentos.probes.readonly_sqlite import Busy, Forking  # noqa: PLC0415 - sqlite3 is loaded when a row is claimed

    patience = Deadline(min(MOST_PATIENCE, deadline.left()))
    while True:
        try:
            return look()
        except Busy:
            if patience.passed():
                raise
        except Forking as forking:
            if deadline.passed():
                raise timed_out("db_row") from forking
        # Jitter: two that wait for each other must not wake together.
        time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 - nothing secret


def _rows(expected: dict[str, Any], place: Place, deadline: Deadline) -> dict[str, Any]:
    with importing:
        from agentos.probes.readonly_sqlite import connected  # noqa: PLC0415

    assert place.status is not None
    with connected(place, place.status, deadline) as connection:
        tables = _names(connection, _TABLES)
        if expected["table"] not in tables:
            return _facts(place, problem="NO_SUCH_TABLE", known=tables)
        columns = _names(connection, _COLUMNS, expected["table"])
        missing = [name for name in {**expected["where"], **expected.get("values", {})} if name not in columns]
        if missing:
            return _facts(place, problem="NO_SUCH_COLUMN", known=columns, missing=missing)
        return _facts(place, **_matches(connection, expected))


def _names(connection: sqlite3.Connection, query: str, *values: str) -> list[str]:
    return [name for (name,) in connection.execute(query, values) if type(name) is str]


def _matches(connection: sqlite3.Connection, expected: dict[str, Any]) -> dict[str, Any]:
    table, where, values = expected["table"], expected["where"], expected.get("values", {})
    columns = list(values) or list(where)
    enough = 2 if expected.get("unique", False) else 1
    candidates = matching = 0
    row: dict[str, Any] = {}
    for stored in connection.execute(_select(table, columns, list(where)), tuple(where.values())):
        found = dict(zip(columns, stored, strict=True))
        candidates += 1
        if all(same(value, found[name]) for name, value in values.items()):
            matching += 1
        if candidates == 1 or matching == 1:
            row = {name: _plain(value, values.get(name)) for name, value in found.items()}
        if matching == enough:
            break
    return {"candidates": candidates, "matching": matching, "row": row}


def _select(table: str, columns: list[str], where: list[str]) -> str:
    wanted = ", ".join(f"{_quoted(table)}.{_quoted(name)}" for name in columns)
    # `is` and not `=`: nothing equals NULL.
    conditions = " and ".join(f"{_quoted(table)}.{_quoted(name)} is ?" for name in where)
    return f"select {wanted} from main.{_quoted(table)} where {conditions}"  # noqa: S608 - names stand in the schema


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _facts(place: Place, **found: Any) -> dict[str, Any]:
    blank = {"problem": "", "known": [], "missing": [], "candidates": 0, "matching": 0, "row": {}}
    return {**blank, "database": shown(place.path), **found, "known": found.get("known", [])[:_MOST_NAMES]}


def _plain(value: Any, expected: Any) -> Any:
    """The value as JSON can carry it; what it cannot, and what is long, is described."""
    if same(expected, value):
        return value
    if isinstance(value, bytes):
        kind = "blob" if type(value) is bytes else "text that is no UTF-8"
        return {"type": kind, "bytes": len(value), "starts": value[:_FEW].hex()}
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return {"type": "text", "characters": len(value), "starts": value[:_FEW]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "real", "value": repr(value)}
    return value
