"""Look into one table of a SQLite database.

The table and its columns must stand in the schema exactly as named, and are quoted and qualified: an unknown quoted name would
otherwise become a text that matches itself. Values are bound. `where` is compared by the database.

What is read of the table is for each probe to say; what it means is judged in `kinds/rows.py`.
"""

from __future__ import annotations

import random
import stat
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at, timed_out
from agentos.probes.paths import Place, place_of

if TYPE_CHECKING:
    import sqlite3

MOST_PATIENCE = 5.0
_MOST_NAMES = 100
_TABLES = "select name from sqlite_master where type in ('table', 'view') order by name"
_COLUMNS = "select name from pragma_table_xinfo(?)"
_SHOWN = "select name from pragma_table_xinfo(?) where hidden <> 1"
_SLOW = "no index serves where, so all of the table is read: add one, or give the verifier a longer timeout"


class Table:
    """A table, and the rows of it that are meant. It is asked once it and every column are known to be there."""

    connection: sqlite3.Connection

    def __init__(self, name: str, where: dict[str, Any]) -> None:
        self.name = name
        self._where = where
        # Whether SQLite goes through all of it to find what `where` names.
        self.scans = False

    def rows(self, columns: list[str]) -> Iterable[tuple[Any, ...]]:
        """These columns of every row that `where` names, as they stream."""
        return self._ask(", ".join(map(self._column, columns)))

    def columns(self) -> list[str]:
        """Every column that the table shows: a virtual one has others, by which it is asked."""
        return _names(self.connection, _SHOWN, self.name)

    def count(self) -> int:
        """How many rows `where` names; all of them, if it is empty."""
        [(number,)] = self._ask("count(*)")
        return int(number)

    def _ask(self, what: str) -> sqlite3.Cursor:
        # `is` and not `=`: nothing equals NULL. And never without any condition: a bare count is one step of SQLite's machine
        # however long it takes, and no deadline is looked at within a step.
        conditions = " and ".join(f"{self._column(name)} is ?" for name in self._where) or "1"
        query = f"select {what} from main.{_quoted(self.name)} where {conditions}"  # noqa: S608 - names stand in the schema
        values = tuple(self._where.values())
        self.scans = bool(self._where) and self._is_scan(self.connection.execute(f"explain query plan {query}", values))
        return self.connection.execute(query, values)

    def _is_scan(self, plan: Iterable[tuple[Any, ...]]) -> bool:
        """Whether all there is to do is to go through this table. How a view or a virtual table does it, no index changes."""
        steps = [str(step) for *_, step in plan]
        named = tuple(f"SCAN {database}{self.name}" for database in ("", "main.", "TABLE "))
        return len(steps) == 1 and (steps[0] in named or steps[0].startswith(tuple(f"{each} USING " for each in named)))

    def _column(self, name: str) -> str:
        return f"{_quoted(self.name)}.{_quoted(name)}"


Ask = Callable[[Table], dict[str, Any]]


def look_into(evidence: Evidence, around: Surroundings, columns: Iterable[str], ask: Ask) -> Observation:
    """Look, again while somebody writes, and never past the deadline.

    The facts are `database`, `problem` (empty, or why nothing could be asked), `known` and `missing` names, `scans` where no
    index serves, and those of `ask`.

    Args:
        columns: what is asked for besides those of `where`.
    """
    path = evidence.metadata.get("db_path")
    if path is None:
        if around.own_database is None:
            return Unseen("NO_DATABASE", f"{evidence.evidence_type} names no database", "give metadata['db_path']")
        path, around = around.own_database, Surroundings(around.base_path, timeout=around.timeout)
    needed = list(dict.fromkeys([*evidence.expected["where"], *columns]))
    return looked_at(lambda deadline: _look(evidence.expected, needed, ask, path, around, deadline), around.timeout)


def _look(
    expected: dict[str, Any], needed: list[str], ask: Ask, path: str, around: Surroundings, deadline: Deadline
) -> Observation:
    with place_of(path, around) as place:
        if place.status is None:
            return Seen(_facts(place, problem="DATABASE_MISSING"))
        if not stat.S_ISREG(place.status.st_mode):
            raise CannotSee("NOT_A_DATABASE", f"{shown(path)}: is no regular file, so no database")
        return Seen(_patiently(lambda: _asked(expected, needed, ask, place, deadline), deadline))


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
                raise timed_out("the database") from forking
        # Jitter: two that wait for each other must not wake together.
        time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 - nothing secret


def _asked(expected: dict[str, Any], needed: list[str], ask: Ask, place: Place, deadline: Deadline) -> dict[str, Any]:
    with importing:
        from agentos.probes.readonly_sqlite import Forking, connected  # noqa: PLC0415

    assert place.status is not None
    table = Table(expected["table"], expected["where"])
    try:
        with connected(place, place.status, deadline) as connection:
            return _facts(place, **_answer(connection, table, needed, ask))
    except CannotSee as reason:
        if not table.scans or reason.unseen.code != "TIMED_OUT" or isinstance(reason, Forking):
            raise
        raise CannotSee("TIMED_OUT", reason.unseen.message, _SLOW) from reason


def _answer(connection: sqlite3.Connection, table: Table, needed: list[str], ask: Ask) -> dict[str, Any]:
    tables = _names(connection, _TABLES)
    if table.name not in tables:
        return {"problem": "NO_SUCH_TABLE", "known": tables}
    columns = _names(connection, _COLUMNS, table.name)
    missing = [name for name in needed if name not in columns]
    if missing:
        return {"problem": "NO_SUCH_COLUMN", "known": columns, "missing": missing}
    table.connection = connection
    found = ask(table)
    return {**found, "scans": True} if table.scans else found


def _names(connection: sqlite3.Connection, query: str, *values: str) -> list[str]:
    return [name for (name,) in connection.execute(query, values) if type(name) is str]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _facts(place: Place, **found: Any) -> dict[str, Any]:
    blank = {"problem": "", "known": [], "missing": []}
    return {**blank, "database": shown(place.path), **found, "known": found.get("known", [])[:_MOST_NAMES]}
