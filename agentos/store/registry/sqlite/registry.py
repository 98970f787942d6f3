"""The registry in a SQLite file: tasks, steps, evidence and verifications.

Each public method is one transaction. Rules are asked, never restated: the lifecycle decides what may happen to a step. What is
read is checked against its digest before it leaves this room.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from agentos._text import shown
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.ports import Ending, Intent, Look, StoredStep
from agentos.core.checkpoints.sealing import sha256
from agentos.errors import (
    CheckpointError,
    StepAlreadyCommittedError,
    StepIdTakenError,
    StoreError,
    SupersededError,
    TaskFinishedError,
)
from agentos.store.database import Database
from agentos.store.durability import Durability
from agentos.store.registry.sqlite import claimed, holding, restores, timeline
from agentos.store.registry.sqlite.handed import HandedMethods
from agentos.store.registry.sqlite.named import NamedMethods
from agentos.store.registry.sqlite.recovery import RecoveryMethods, enter, existing
from agentos.store.registry.sqlite.remembered import OutdatedError, Remembered
from agentos.store.registry.sqlite.reviewed import ReviewedMethods
from agentos.store.registry.sqlite.rows import StepRow, damaged
from agentos.store.registry.sqlite.tables import SQL, Tables
from agentos.store.schema import REGISTRY, load, migrate, refuse_newer, refuse_unreadable


class SQLiteRegistry(RecoveryMethods, HandedMethods, NamedMethods, ReviewedMethods):
    """Keeps its promises (see core/checkpoints/ports.py) in one file, with the durability that was asked for."""

    def __init__(self, path: str, durability: Durability, lock_timeout: float, *, readonly: bool = False) -> None:
        self._migrations = load(REGISTRY)
        self._durability = durability
        self._lock_timeout = lock_timeout
        # The migrations that this process applied.
        self.applied: list[str] = []
        # Commits that raised, by step: the nonce tells later whether one of ours had landed all the same.
        self._unanswered: dict[str, set[str]] = {}
        self._remembered = Remembered()
        if readonly:
            # Only who looks pays for it.
            from agentos.store.readonly import ReadOnlyDatabase  # noqa: PLC0415

            self._database: Database = ReadOnlyDatabase(path, self._refuse_unreadable, lock_timeout)
        else:
            self._database = Database(path, self._migrate, self._refuse_newer_schema, lock_timeout)

    @property
    def path(self) -> str:
        """The file."""
        return self._database.path

    def open(self) -> None:
        """Open the file now and bring it to the schema this code needs, so that trouble shows here and not at three o'clock."""
        self._database.read(lambda _: None)

    def begin(self, intent: Intent) -> None:
        digest = sha256(intent.snapshot)

        def work(connection: sqlite3.Connection) -> StepRow:
            tables = Tables(connection)
            snapshot = tables.insert_snapshot(intent.snapshot, digest)
            task = self._remembered.task(intent.task_id)
            row = None
            if task is not None and task.status == "active" and holding.is_admitted(task, intent.lease):
                row = tables.begin(intent, task, snapshot, digest)
            row = row or self._begin_on_stored(tables, intent, snapshot, digest)
            if intent.touched is not None:
                restores.touch(tables, intent.step_id, intent.touched)
            return row

        self._remembered.keep_begun(self._database.write(work, synced=self._durability.syncs_begin))

    def _begin_on_stored(self, tables: Tables, intent: Intent, snapshot: int, digest: bytes) -> StepRow:
        task = tables.task(intent.task_id) or tables.new_task(intent.task_id, intent.begun_at)
        if task.status != "active":
            from agentos._ways import Way, reopen  # noqa: PLC0415 - only a refusal has a way out

            raise TaskFinishedError(
                f"task {shown(intent.task_id, 80)}: finished; it takes no further steps",
                hint=Way("use another task id, or ", reopen(intent.task_id)),
            )
        if holding.admit(task, intent.lease):
            tables.update_task(task)
        self._remembered.keep_task(task)
        row = tables.begin(intent, task, snapshot, digest)
        if row is None and tables.key_is_taken(intent.step_id):
            raise StepIdTakenError(f"step id {intent.step_id}: another step has its key", hint="begin again with a new id")
        if row is None:
            raise damaged(f"task {shown(intent.task_id, 80)}")
        return row

    def step(self, step_id: str) -> StoredStep | None:
        def work(connection: sqlite3.Connection) -> StoredStep | None:
            tables = Tables(connection)
            row = tables.step(step_id)
            return None if row is None else row.stored(tables.begin_snapshot(row), tables.results(row))

        return self._database.read(work)

    def open_steps(self, task_id: str, *, snapshots: bool = True) -> list[StoredStep]:
        def work(connection: sqlite3.Connection) -> list[StoredStep]:
            tables = Tables(connection)
            rows = tables.open_steps(task_id)
            return [row.stored(tables.begin_snapshot(row) if snapshots else b"", None) for row in rows]

        return self._database.read(work)

    def interrupted_tasks(self) -> list[str]:
        def work(connection: sqlite3.Connection) -> list[str]:
            return [task_id for (task_id,) in Tables(connection).execute(SQL["interrupted_tasks"])]

        return self._database.read(work)

    def note_error(self, step_id: str, error: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            tables = Tables(connection)
            row = existing(tables.step(step_id), step_id)
            row.error = error
            tables.update_step(row)

        self._database.write(work, synced=self._durability.syncs_begin)

    def commit(self, ending: Ending) -> StoredStep:
        begun = self._remembered.begun(ending.step_id)
        self._remembered.forget_begun(ending.step_id)
        try:
            try:
                stored = self._commit(ending, begun)
            except OutdatedError:
                stored = self._commit(ending, None)
        except StepAlreadyCommittedError:
            # The refusal is an answer too: whoever gets it may take the checkpoint for durable.
            self._database.settle()
            raise
        except BaseException as error:
            # Also Control-C: it may have come between the commit and its answer.
            if isinstance(error, StoreError) or not isinstance(error, CheckpointError):
                self._unanswered.setdefault(ending.step_id, set()).add(ending.nonce)
            raise
        self._unanswered.pop(ending.step_id, None)
        return stored

    def _commit(self, ending: Ending, begun: StepRow | None) -> StoredStep:
        def work(connection: sqlite3.Connection) -> StoredStep:
            tables = Tables(connection)
            row = begun or existing(tables.step(ending.step_id), ending.step_id)
            if row.nonce in self._unanswered.get(row.step_id, ()):
                return tables.stored(row, repeated=True)
            row = timeline.append(tables, self._remembered, row, ending)
            # The snapshot is in the caller's hands already; reading it back would only cost.
            return row.stored(b"", row.results)

        return self._database.write(work, synced=self._durability.syncs_commit)

    def checkpoint(self, checkpoint_id: str) -> StoredStep | None:
        def work(connection: sqlite3.Connection) -> StoredStep | None:
            tables = Tables(connection)
            row = tables.checkpoint(checkpoint_id)
            return None if row is None else tables.stored(row)

        return self._database.read(work)

    def last_verified(self, task_id: str, checkpoint_type: str | None) -> StoredStep | None:
        def work(connection: sqlite3.Connection) -> StoredStep | None:
            tables = Tables(connection)
            row = timeline.last_verified(tables, task_id, checkpoint_type)
            return None if row is None else tables.stored(row)

        return self._database.read(work)

    def checkpoints(
        self, task_id: str, limit: int, checkpoint_type: str | None, *, include_superseded: bool
    ) -> list[StoredStep]:
        def work(connection: sqlite3.Connection) -> list[StoredStep]:
            tables = Tables(connection)
            found: list[StoredStep] = []
            for row in timeline.newest_first(tables, task_id):
                if len(found) == limit:
                    break
                wanted = row.is_checkpoint if include_superseded else row.is_live
                if wanted and checkpoint_type in (None, row.checkpoint_type):
                    found.append(tables.stored(row))
            return found

        return self._database.read(work)

    def record_look(self, step_id: str, seen: str | None, look: Look, *, decides: bool = True, proves: bool = False) -> None:
        def work(connection: sqlite3.Connection) -> None:
            tables = Tables(connection)
            row = existing(tables.step(step_id), step_id)
            timeline.record_look(tables, row, seen, look, decides=decides, proves=proves)

        self._database.write(work, synced=self._durability.syncs_commit)

    def supersede_later(self, step_id: str, lease: Lease | None = None) -> int:
        def work(connection: sqlite3.Connection) -> int:
            tables = Tables(connection)
            row = existing(tables.step(step_id), step_id)
            enter(tables, row.task_id, lease)
            if not row.is_live:
                from agentos._ways import Way, log  # noqa: PLC0415 - only a refusal has a way out

                raise SupersededError(
                    f"checkpoint {shown(row.public_id, 80)}: not on the timeline any more, it cannot end it",
                    hint=Way("roll back to a live checkpoint; ", log(row.task_id), " shows them"),
                )
            return timeline.end_at(tables, row)

        return self._database.write(work, synced=self._durability.syncs_commit)

    def delete(self, checkpoint_id: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            tables = Tables(connection)
            row = tables.checkpoint(checkpoint_id)
            if row is None:
                return False
            timeline.hide(tables, row, datetime.now(UTC).isoformat())
            return True

        return self._database.write(work, synced=self._durability.syncs_commit)

    def finish(self, task_id: str, lease: Lease | None = None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            tables = Tables(connection)
            task = enter(tables, task_id, lease)
            task.status = "completed"
            if lease is not None:
                holding.give_back(task, lease)
            tables.update_task(task)

        self._database.write(work, synced=self._durability.syncs_commit)

    def later_claims(self, task_id: str, subject: str, after: int) -> list[tuple[str, int]]:
        return self._database.read(lambda connection: claimed.later(Tables(connection), task_id, subject, after))

    def settle(self) -> None:
        self._database.settle()

    def close(self) -> None:
        self._database.close()

    def _migrate(self, connection: sqlite3.Connection) -> None:
        applied = migrate(connection, self._migrations, self.path, self._lock_timeout)
        self.applied.extend(f"{each.component} {each.number} {each.name}" for each in applied)

    def _refuse_unreadable(self, connection: sqlite3.Connection) -> None:
        refuse_unreadable(connection, self._migrations, self.path)

    def _refuse_newer_schema(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("pragma user_version").fetchone()[0]
        refuse_newer(REGISTRY, found, self._migrations[-1].number)
        if found == 0:
            raise damaged("schema_version")
