"""Ids that begin alike: ranges of the keys that the tables are clustered by, so that a shortened id costs no scan.

Nothing is concluded from what is found here: whoever uses an id reads its row, which is checked then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import islice

from agentos._ids import STEP_PREFIX, step_keys_beginning
from agentos.store.database import Database
from agentos.store.registry.sqlite.tables import SQL, Tables

# Sorts behind whatever goes on after a beginning.
_LAST = "\U0010ffff"
_RESTORE_PREFIX = "restore_"


class NamedMethods:
    """What is asked by the beginning of an id."""

    _database: Database

    def ids(self, kind: str, beginning: str, limit: int) -> list[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            return _FINDERS[kind](Tables(connection), beginning, limit)

        return self._database.read(work)


def _tasks(tables: Tables, beginning: str, limit: int) -> list[str]:
    return _ranged(tables, "tasks_beginning", beginning, limit)


def _restores(tables: Tables, beginning: str, limit: int) -> list[str]:
    full = _RESTORE_PREFIX + beginning.removeprefix(_RESTORE_PREFIX).upper()
    return _ranged(tables, "restores_beginning", full, limit)


def _steps(tables: Tables, beginning: str, limit: int) -> list[str]:
    letters = beginning.removeprefix(STEP_PREFIX).upper()
    found = _keyed(tables, "steps_beginning", letters)
    return list(islice((each for each in found if each.startswith(STEP_PREFIX + letters)), limit))


def _checkpoints(tables: Tables, beginning: str, limit: int) -> list[str]:
    letters = beginning.upper()
    made = (each for each in _keyed(tables, "checkpoints_beginning", letters) if each.startswith(letters))
    return [*_ranged(tables, "names_beginning", beginning, limit), *islice(made, limit)][:limit]


def _ranged(tables: Tables, query: str, beginning: str, limit: int) -> list[str]:
    return [each for (each,) in tables.execute(SQL[query], (beginning, beginning + _LAST, limit))]


def _keyed(tables: Tables, query: str, letters: str) -> Iterable[str]:
    keys = step_keys_beginning(letters)
    return () if keys is None else (each for (each,) in tables.execute(SQL[query], keys))


_FINDERS = {"task": _tasks, "checkpoint": _checkpoints, "step": _steps, "restore": _restores}
