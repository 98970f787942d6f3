"""What recovery asks of the registry: candidates and claims, who may go on, what was decided, what happens at most once.

Each method is one transaction. Every write that a claim guards reads the task's row first and compares tokens there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agentos._fork import importing
from agentos._log import warn
from agentos._text import shown
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.lifecycle import StepState
from agentos.core.checkpoints.nesting import Entry
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.stored import Decision, StoredCall, StoredTask
from agentos.errors import CheckpointNotFoundError, StepNotFoundError, StoreBusyError
from agentos.store.database import Database
from agentos.store.durability import Durability
from agentos.store.registry.sqlite import claimed, decided, holding, keys, timeline
from agentos.store.registry.sqlite.rows import StepRow, TaskRow
from agentos.store.registry.sqlite.tables import Tables


class RecoveryMethods:
    """The part of the registry that only recovery, claims and `once` need."""

    _database: Database
    _durability: Durability

    def task(self, task_id: str) -> StoredTask | None:
        def work(connection: sqlite3.Connection) -> StoredTask | None:
            row = Tables(connection).task(task_id)
            return None if row is None else row.stored()

        return self._database.read(work)

    def candidates(self, task_id: str, below: int, limit: int, *, deleted: bool = False) -> list[StoredStep]:
        def work(connection: sqlite3.Connection) -> list[StoredStep]:
            tables = Tables(connection)
            task = tables.task(task_id)
            found: list[StoredStep] = []
            if task is None:
                return found
            for row in tables.down_from(task, min(below - 1, task.sequence)):
                if len(found) == limit:
                    break
                if row.is_live or (deleted and row.superseded_by is None):
                    found.append(row.stored(b"", None))
            return found

        return self._database.read(work)

    def numbered(self, task_id: str, sequences: Sequence[int]) -> list[StoredStep]:
        def work(connection: sqlite3.Connection) -> list[StoredStep]:
            return [row.stored(b"", None) for row in Tables(connection).steps_at(task_id, sequences)]

        return self._database.read(work)

    def claims(self, task_id: str) -> tuple[list[Entry], list[Entry]]:
        def work(connection: sqlite3.Connection) -> tuple[list[Entry], list[Entry]]:
            tables = Tables(connection)
            task = tables.task(task_id)
            return ([], []) if task is None else claimed.entries(tables, task)

        return self._database.read(work)

    def abandon(self, step_id: str, lease: Lease | None, decision: Decision) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            tables = Tables(connection)
            row = existing(tables.step(step_id), step_id)
            task = enter(tables, row.task_id, lease)
            if row.state == StepState.ABANDONED:
                return False
            timeline.abandon(tables, task, [row])
            decided.append(tables, row.task_id, decision)
            return True

        return self._database.write(work, synced=self._durability.syncs_commit)

    def restart(self, task_id: str, lease: Lease, decision: Decision) -> int:
        def work(connection: sqlite3.Connection) -> int:
            tables = Tables(connection)
            task = enter(tables, task_id, lease)
            task.status = "active"
            decided.append(tables, task_id, decision)
            return timeline.start_over(tables, task)

        return self._database.write(work, synced=self._durability.syncs_commit)

    def reopen(self, task_id: str, lease: Lease, decision: Decision) -> None:
        def work(connection: sqlite3.Connection) -> None:
            tables = Tables(connection)
            task = enter(tables, task_id, lease)
            task.status = "active"
            decided.append(tables, task_id, decision)
            tables.update_task(task)

        self._database.write(work, synced=self._durability.syncs_commit)

    def decide(self, task_id: str, lease: Lease, decision: Decision) -> None:
        def work(connection: sqlite3.Connection) -> None:
            tables = Tables(connection)
            enter(tables, task_id, lease)
            decided.append(tables, task_id, decision)

        self._database.write(work, synced=self._durability.syncs_commit)

    def decisions(self, task_id: str) -> list[Decision]:
        return self._database.read(lambda connection: decided.of_task(Tables(connection), task_id))

    # Who may go on.

    def claim(self, task_id: str, holder: str, ttl: float | None) -> Lease:
        def work(connection: sqlite3.Connection) -> Lease:
            tables = Tables(connection)
            task = tables.task(task_id) or tables.new_task(task_id, datetime.now(UTC).isoformat())
            lease = holding.take(task, holder, ttl)
            tables.update_task(task)
            return lease

        return self._database.write(work, synced=self._durability.syncs_commit)

    def free(self, task_id: str, decision: Decision) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            tables = Tables(connection)
            task = tables.task(task_id)
            if task is None or not holding.free(task):
                return False
            decided.append(tables, task_id, decision)
            return tables.update_task(task)

        return self._database.write(work, synced=self._durability.syncs_commit)

    def release(self, lease: Lease) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            tables = Tables(connection)
            task = tables.task(lease.task_id)
            if task is None or not holding.give_back(task, lease):
                return False
            return tables.update_task(task)

        holding.refuse_foreign(lease)
        return self._database.write(work, synced=self._durability.syncs_commit)

    # At most once.

    def once(self, key: str) -> StoredCall | None:
        return self._database.read(lambda connection: keys.call(Tables(connection), key))

    def begin_once(self, call: StoredCall, lease: Lease | None) -> StoredCall | None:
        def work(connection: sqlite3.Connection) -> StoredCall | None:
            tables = Tables(connection)
            if call.task_id is not None:
                task = tables.task(call.task_id) or tables.new_task(call.task_id, call.created_at)
                if holding.admit(task, lease):
                    tables.update_task(task)
            there = keys.call(tables, call.key)
            if there is None:
                keys.insert(tables, call)
            return there

        # Always synced: what is about to happen cannot be taken back by a power cut, so neither may the note of it.
        return self._database.write(work, synced=True)

    def end_once(self, call: StoredCall, runner: str | None) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            tables = Tables(connection)
            there = keys.call(tables, call.key)
            if there is None or (there.state, there.runner, there.created_at) != ("pending", runner, call.created_at):
                return False
            keys.update(tables, call)
            return True

        return self._database.write(work, synced=True)

    def forget_once(self, key: str) -> bool:
        return self._database.write(lambda connection: keys.delete(Tables(connection), key), synced=True)

    # Retention.

    def prune(self, task_id: str | None, keep_verified: int, before: str | None, *, dry_run: bool) -> dict[str, int]:
        size = self._database.size()
        chosen = [task_id] if task_id is not None else self._database.read(lambda c: _pruning().tasks(Tables(c)))
        total = {"tasks": 0, "checkpoints": 0, "emptied": 0, "abandoned": 0, "verifications": 0}
        for each in chosen:
            counts = self._pruned(each, keep_verified, before, dry_run=dry_run)
            total["tasks"] += any(counts.values())
            for name, count in counts.items():
                total[name] += count
        if any(total.values()) and not dry_run:
            try:
                self._database.give_back()
            except StoreBusyError as error:
                # What was to go is gone; its space is used again, or given back by the next one.
                warn("store", "pruned, but the space could not be given back: %s", shown(error.message))
        return {**total, "bytes_freed": max(0, size - self._database.size())}

    def _pruned(self, task_id: str, keep_verified: int, before: str | None, *, dry_run: bool) -> dict[str, int]:
        def work(connection: sqlite3.Connection) -> dict[str, int]:
            tables = Tables(connection)
            task = tables.task(task_id)
            if task is None:
                raise CheckpointNotFoundError(f"task {shown(task_id, 80)}: nothing was ever begun")
            counts: dict[str, int] = _pruning().prune_task(tables, task, keep_verified, before)
            if dry_run:
                raise _OnlyAskedError(counts)
            return counts

        try:
            return self._database.write(work, synced=self._durability.syncs_commit)
        except _OnlyAskedError as answer:
            return answer.counts


def _pruning() -> Any:
    with importing:
        from agentos.store.registry.sqlite import pruning  # noqa: PLC0415 - few processes prune, and it folds worlds

    return pruning


class _OnlyAskedError(Exception):
    """Rolls a dry run back, and carries what it would have done."""

    def __init__(self, counts: dict[str, int]) -> None:
        super().__init__()
        self.counts = counts


def enter(tables: Tables, task_id: str, lease: Lease | None) -> TaskRow:
    """The task's row, once the claim on it lets this write in; the caller stores it.

    Raises:
        CheckpointNotFoundError: no such task.
        TaskHeldError, LeaseLostError: nothing may be changed.
    """
    task = tables.task(task_id)
    if task is None:
        raise CheckpointNotFoundError(f"task {shown(task_id, 80)}: nothing was ever begun")
    if holding.admit(task, lease):
        tables.update_task(task)
    return task


def existing(row: StepRow | None, step_id: str) -> StepRow:
    """The step, which must be there."""
    if row is None:
        raise StepNotFoundError(f"step {shown(step_id, 80)}: unknown", hint="begin_step() returns the id to commit")
    return row
