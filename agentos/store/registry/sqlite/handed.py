"""The part of the registry that only hands need: restores, workspaces, and what kept content is needed for.

Each method is one transaction. What is written here is always synced: a file that was changed cannot be taken back by a power
cut, so neither may the note of it.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.stored import Needing, StoredRestore, StoredWorkspace
from agentos.errors import WorkspaceTakenError
from agentos.store.database import Database
from agentos.store.registry.sqlite import restores
from agentos.store.registry.sqlite.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentos.core.checkpoints.archived import Take
    from agentos.core.checkpoints.checkup import Examined, Progress


class HandedMethods:
    """What hands ask of the registry."""

    _database: Database

    def begin_restore(self, stored: StoredRestore) -> None:
        self._database.write(lambda connection: restores.insert(Tables(connection), stored), synced=True)

    def update_restore(self, stored: StoredRestore) -> None:
        self._database.write(lambda connection: restores.update(Tables(connection), stored), synced=True)

    def restore(self, restore_id: str) -> StoredRestore | None:
        return self._database.read(lambda connection: restores.restore(Tables(connection), restore_id))

    def restores(self, task_id: str | None) -> list[StoredRestore]:
        def work(connection: sqlite3.Connection) -> list[StoredRestore]:
            tables = Tables(connection)
            return restores.all_restores(tables) if task_id is None else restores.restores(tables, task_id)

        return self._database.read(work)

    def touched(self, step_id: str) -> bytes | None:
        return self._database.read(lambda connection: restores.touched(Tables(connection), step_id))

    def enter_workspace(self, workspace: StoredWorkspace) -> None:
        def work(connection: sqlite3.Connection) -> None:
            tables = Tables(connection)
            known = restores.workspaces(tables)
            mine = next((each for each, _ in known if each.task_id == workspace.task_id), None)
            is_there = mine is not None and mine.path == workspace.path
            others = [each for each, status in known if status == "active" and each.task_id != workspace.task_id]
            if not workspace.shared:
                # Whoever came here first is not kept out by one that knew of it and came all the same.
                _refuse_overlap(workspace, [each for each in others if not (is_there and each.shared)])
            if mine != replace(workspace, since=mine.since if mine else ""):
                restores.put_workspace(tables, workspace)

        self._database.write(work, synced=True)

    def workspaces(self) -> list[tuple[StoredWorkspace, str | None]]:
        return self._database.read(lambda connection: restores.workspaces(Tables(connection)))

    def claimed_elsewhere(self, task_id: str) -> list[tuple[str, str, str]]:
        return self._database.read(lambda connection: restores.claimed_elsewhere(Tables(connection), task_id))

    def needing(self, after: int) -> list[tuple[int, Needing]]:
        return self._database.read(lambda connection: restores.needing(Tables(connection), after))

    def examine(self, *, deep: bool, progress: Progress) -> Examined:
        with importing:
            from agentos.store.registry.sqlite.examining import examine  # noqa: PLC0415 - few processes look at everything

        return self._database.read(lambda connection: examine(connection, deep=deep, progress=progress))

    def copy_to(self, path: str) -> None:
        with importing:
            from agentos.store.registry.sqlite.copying import copy  # noqa: PLC0415 - as above

        self._database.read(lambda connection: copy(connection, path))

    def export_task(self, task_id: str, take: Take) -> Examined:
        with importing:
            from agentos.store.registry.sqlite.exporting import export_task  # noqa: PLC0415 - as above

        return self._database.read(lambda connection: export_task(connection, task_id, take))

    def import_task(self, source: Callable[[Take], None]) -> str:
        with importing:
            from agentos.store.registry.sqlite.incoming import take_in  # noqa: PLC0415 - as above

        return self._database.write(lambda connection: take_in(connection, source, _refuse_overlap), synced=True)

    def needed_by(self, key: int) -> Needing | None:
        return self._database.read(lambda connection: restores.needed_by(Tables(connection), key))


def _refuse_overlap(workspace: StoredWorkspace, others: list[StoredWorkspace]) -> None:
    for other in others:
        if _overlap(other.path, workspace.path):
            who = f"task {shown(other.task_id, 80)} works in {shown(other.path)} since {other.since}"
            raise WorkspaceTakenError(
                f"workspace {shown(workspace.path)}: {who}",
                hint="finish that task, give this one a folder of its own, or say shared=True if both know what they do",
                task_id=other.task_id,
                path=other.path,
            )


def _overlap(one: str, other: str) -> bool:
    # A link may be another name of the same folder.
    one, other = os.path.realpath(one), os.path.realpath(other)
    return os.path.commonpath([one, other]) in (one, other)
