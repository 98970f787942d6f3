"""What hands need of the registry: the journal of restores, what open steps are about to change, and who works in which folder.

Rows are sealed as all others are. A journal that lost a row would leave a restore half done, so what is read is checked whole.
"""

from __future__ import annotations

import json
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.sealing import seal
from agentos.core.checkpoints.stored import Needing, StoredRestore, StoredWorkspace
from agentos.store.registry.sqlite.rows import StepRow, damaged
from agentos.store.registry.sqlite.tables import SQL, Tables

TOUCHED, _RESTORE, WORKSPACE = "touched/1", "restore/1", "workspace/1"


def touch(tables: Tables, step_id: str, things: bytes) -> None:
    """Write down what the step is about to change."""
    tables.execute(SQL["insert_touched"], (step_id, things, seal(TOUCHED, (step_id, things))))


def touched(tables: Tables, step_id: str) -> bytes | None:
    """What the step said it would change, as it was; None if it said nothing."""
    row = tables.execute(SQL["touched"], (step_id,)).fetchone()
    if row is None:
        return None
    if row[2] != seal(TOUCHED, row[:2]):
        raise damaged(f"step {shown(step_id, 80)}, what it was about to change")
    return bytes(row[1])


def forget_touched(tables: Tables, step_id: str) -> None:
    """The step is being removed."""
    tables.execute(SQL["delete_touched"], (step_id,))


def insert(tables: Tables, stored: StoredRestore) -> None:
    """Write down a restore that is about to begin."""
    tables.execute(SQL["insert_restore"], (*_fields(stored), _sealed(stored)))


def update(tables: Tables, stored: StoredRestore) -> None:
    """Write down how far it came."""
    tables.execute(
        SQL["update_restore"], (stored.operations, stored.state, stored.ended_at, _sealed(stored), stored.restore_id)
    )


def claimed_elsewhere(tables: Tables, task_id: str) -> list[tuple[str, str, str]]:
    """Task, subject and base of the newest claims of other unfinished tasks."""
    return [tuple(row[:3]) for row in tables.execute(SQL["claimed_elsewhere"], (task_id,)).fetchall()]


def restore(tables: Tables, restore_id: str) -> StoredRestore | None:
    """The restore of this id."""
    row = tables.execute(SQL["restore"], (restore_id,)).fetchone()
    return None if row is None else checked(row)


def restores(tables: Tables, task_id: str) -> list[StoredRestore]:
    """The restores of a task, oldest first."""
    return [checked(row) for row in tables.execute(SQL["restores"], (task_id,)).fetchall()]


def all_restores(tables: Tables) -> list[StoredRestore]:
    """Every restore there is."""
    return [checked(row) for row in tables.execute(SQL["all_restores"]).fetchall()]


def forget_before(tables: Tables, task_id: str, moment: str) -> int:
    """Forget old restores, and with them what they overwrote; how many."""
    return tables.execute(SQL["delete_old_restores"], (task_id, moment)).rowcount


def workspaces(tables: Tables) -> list[tuple[StoredWorkspace, str | None]]:
    """Every workspace, and the status of its task."""
    found = []
    for task_id, path, shared, exclude, since, stored, status in tables.execute(SQL["workspaces"]).fetchall():
        row = (task_id, path, shared, exclude, since)
        if stored != seal(WORKSPACE, row):
            raise damaged(f"task {shown(task_id, 80)}, its workspace")
        found.append((workspace_in(row), status))
    return found


def workspace_in(row: tuple[Any, ...]) -> StoredWorkspace:
    """The workspace in this row, which was checked."""
    task_id, path, shared, exclude, since = row[:5]
    return StoredWorkspace(task_id, path, bool(shared), tuple(json.loads(exclude)), since)


def put_workspace(tables: Tables, workspace: StoredWorkspace) -> None:
    """Write down in which folder the task works."""
    exclude = json.dumps(workspace.exclude)
    fields = (workspace.task_id, workspace.path, int(workspace.shared), exclude, workspace.since)
    tables.execute(SQL["put_workspace"], (*fields, seal(WORKSPACE, fields)))


def needing(tables: Tables, after: int) -> list[tuple[int, Needing]]:
    """The steps with a key above this one for which kept content may be needed, with their keys."""
    found = []
    for (key,) in tables.execute(SQL["needing"], (after,)).fetchall():
        found.append((key, _needing(tables, tables.existing_step(key))))
    return found


def needed_by(tables: Tables, key: int) -> Needing | None:
    """The same of one step, as it is now; None if it needs nothing any more."""
    row = tables.step_that_was(key)
    if row is None or row.superseded_by is not None or row.state == "abandoned":
        return None
    return _needing(tables, row)


def _needing(tables: Tables, row: StepRow) -> Needing:
    # What a step was about to change is needed until it ended: then it is in what it claims, or the step never was.
    return Needing(row.step_id, row.task_id, row.pack, touched(tables, row.step_id) if row.state == "begun" else None)


def checked(row: tuple[Any, ...]) -> StoredRestore:
    """The restore in this row, if its seal fits."""
    stored = StoredRestore(*row[:-1])
    if row[-1] != _sealed(stored):
        raise damaged(f"restore {shown(row[0], 80)}")
    return stored


def _fields(stored: StoredRestore) -> tuple[Any, ...]:
    return (
        stored.restore_id, stored.task_id, stored.checkpoint_id, stored.base_path, stored.staging, stored.operations,
        stored.state, stored.undoes, stored.begun_at, stored.ended_at,
    )  # fmt: skip


def _sealed(stored: StoredRestore) -> bytes:
    return seal(_RESTORE, _fields(stored))
