"""One task with all that is its own, row by row, each checked as a read checks it, and all of them against each other.

What is damaged is refused by name, and what other tasks hold is not looked at: the intact one leaves a registry that is not.
"""

from __future__ import annotations

import sqlite3

from agentos._text import shown
from agentos.core.checkpoints.archived import Take
from agentos.core.checkpoints.checkup import Examined, Findings
from agentos.errors import CheckpointNotFoundError, StoreCorruptError
from agentos.store.registry.sqlite.examining import CHECKS_OF, DAMAGED
from agentos.store.registry.sqlite.relations import Relations
from agentos.store.registry.sqlite.tables import SQL, Tables


def export_task(connection: sqlite3.Connection, task_id: str, take: Take) -> Examined:
    """Hand on every row of the task.

    Raises:
        CheckpointNotFoundError: nothing was ever begun under this id.
        StoreCorruptError: something of it is damaged or gone.
    """
    if Tables(connection).task(task_id) is None:
        raise CheckpointNotFoundError(f"task {shown(task_id, 80)}: nothing was ever begun")
    relations = Relations(Findings())
    rows: dict[str, int] = {}
    for table, check in CHECKS_OF.items():
        tell, cursor = relations.takes(table), connection.execute(SQL[f"task_{table}"], (task_id,))
        names = [name for name, *_ in cursor.description]
        rows[table] = 0
        for row in cursor:
            try:
                checked = check(row)
                if tell is not None:
                    tell(checked)
            except DAMAGED:
                raise _refused(task_id, f"{table}: {shown(row[0], 80)}: it is not what was written") from None
            take(table, dict(zip(names, row, strict=True)))
            rows[table] += 1
    relations.compare()
    for each in relations.findings.told:
        raise _refused(task_id, f"{each.where}: {each.what}")
    return Examined(relations.findings, rows, relations.needing, relations.restores)


def _refused(task_id: str, what: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"task {shown(task_id, 80)}: {what}", hint="`agentos doctor` says what is wrong; restore a backup of the registry"
    )
