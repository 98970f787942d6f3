"""The registry's tables behind one connection: checked rows in, sealed rows out.

Runs inside a transaction that somebody else opened. Which rows belong on the timeline is decided in timeline.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from agentos._ids import STEP_PREFIX, checkpoint_id_of, step_key_of
from agentos._text import shown
from agentos.core.checkpoints.ports import Intent, Look, StoredStep
from agentos.core.checkpoints.sealing import seal, sha256
from agentos.errors import CheckpointIdTakenError
from agentos.store.named_sql import load_queries
from agentos.store.registry.sqlite.rows import UNPLACED, StepRow, TaskRow, checked_step, checked_task, damaged

SQL = load_queries(Path(__file__).with_name("queries.sql"))


class Tables:
    """Every statement the registry runs."""

    __slots__ = ("execute",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute

    # Tasks.

    def task(self, task_id: str) -> TaskRow | None:
        """The task; a row that is missing while its steps are there is damage, not absence."""
        columns = self.execute(SQL["task"], (task_id,)).fetchone()
        if columns is not None:
            return checked_task(columns)
        if self.execute(SQL["any_step_of_task"], (task_id,)).fetchone() is not None:
            raise damaged(f"task {shown(task_id, 80)}")
        return None

    def new_task(self, task_id: str, created_at: str) -> TaskRow:
        """A task without checkpoints."""
        counted_to = self.execute(SQL["count_open"], (task_id,)).fetchone()[1]
        row = TaskRow(task_id, "active", 0, 0, 0, b"{}", 0, counted_to, 0, 0, 0, None, 0, None, None, None, created_at)
        row.seal = row.sealed()
        self.execute(
            SQL["insert_task"],
            (row.task_id, row.status, row.sequence, row.head, row.verified_head, row.verified_by_type, row.open_steps,
             row.counted_to, row.origin, row.pruned, row.claims_sum, row.claim_holder, row.claim_token, row.claim_boot,
             row.claim_expires, row.claim_since, row.created_at, row.seal),
        )  # fmt: skip
        return row

    def update_task(self, row: TaskRow, *, ending: int = 0) -> bool:
        """Store what may change of a task; False, and nothing changed, if the stored row is not the one this came from.

        Args:
            ending: how many open steps of it this transaction is about to end.
        """
        before, open_before = row.seal, row.open_steps
        found, row.counted_to = self.execute(SQL["count_open"], (row.task_id,)).fetchone()
        row.open_steps = found - ending
        row.seal = row.sealed()
        changed = self.execute(
            SQL["update_task"],
            (row.status, row.sequence, row.head, row.verified_head, row.verified_by_type, row.open_steps, row.counted_to,
             row.origin, row.pruned, row.claims_sum, row.claim_holder, row.claim_token, row.claim_boot, row.claim_expires,
             row.claim_since, row.seal, row.task_id, before),
        ).rowcount  # fmt: skip
        if changed == 1 and found < open_before:
            # Whatever ends a step writes this row, so since it was written their number can only have grown.
            raise damaged(f"task {shown(row.task_id, 80)}, its open steps")
        return changed == 1

    # Steps.

    def begin(self, intent: Intent, task: TaskRow, snapshot: int, digest: bytes) -> StepRow | None:
        """Store an intent on top of the task's head; None, and nothing stored, if the task is not as it is given here."""
        row = StepRow(
            _key(intent.step_id), intent.step_id, intent.task_id, "begun", UNPLACED, intent.checkpoint_type,
            intent.work_item_id, task.head, intent.metadata, intent.base_path, intent.host, intent.runner, task.claim_token,
            intent.begun_at, snapshot, digest, intent.expects, intent.baseline, int(intent.rerunnable),
        )  # fmt: skip
        row.digest = row.digested()
        row.seal = row.sealed()
        stored = self.execute(
            SQL["insert_step"],
            (row.step_key, row.step_id, row.task_id, row.checkpoint_type, row.work_item_id, row.parent, row.metadata,
             row.base_path, row.host, row.runner, row.token, row.begun_at, row.begin_snapshot, row.begin_sha256, row.expects,
             row.baseline, row.rerunnable, row.digest, row.seal, task.task_id, task.seal),
        ).rowcount  # fmt: skip
        return row if stored == 1 else None

    def step(self, step_id: str) -> StepRow | None:
        """The step of this id. Absence is asked twice, of two b-trees."""
        key = step_key_of(step_id)
        row = None if key is None else self.step_that_was(key, step_id)
        return row if row is not None and row.step_id == step_id else None

    def step_that_was(self, key: int, name: str = "") -> StepRow | None:
        """A step that may have been removed; whether it was is asked of the timeline too."""
        columns = self.execute(SQL["step"], (key,)).fetchone()
        if columns is None and self.execute(SQL["step_on_timeline"], (key,)).fetchone() is not None:
            raise damaged(f"step {shown(name, 80)}" if name else f"step number {key}")
        return None if columns is None else checked_step(columns)

    def key_is_taken(self, step_id: str) -> bool:
        """Whether another step has this one's key."""
        return self.execute(SQL["step"], (step_key_of(step_id),)).fetchone() is not None

    def existing_step(self, key: int) -> StepRow:
        """A step that an index names, so it must be there."""
        columns = self.execute(SQL["step"], (key,)).fetchone()
        if columns is None:
            raise damaged(f"step number {key}")
        return checked_step(columns)

    def open_steps(self, task_id: str) -> list[StepRow]:
        """The steps that have not ended. That the index hides none is asked of the task's row and of the table itself."""
        task = self.task(task_id)
        if task is None:
            return []
        rows = [self.existing_step(key) for (key,) in self.execute(SQL["open_steps"], (task_id,)).fetchall()]
        listed = {row.step_key for row in rows if (row.task_id, row.place) == (task_id, UNPLACED)}
        counted = sum(key <= task.counted_to for key in listed)
        since = {key for (key,) in self.execute(SQL["begun_since"], (task.counted_to, task_id))}
        if len(listed) != len(rows) or counted < task.open_steps or not since <= listed:
            raise damaged(f"task {shown(task_id, 80)}, its open steps")
        return rows

    def checkpoint(self, checkpoint_id: str) -> StepRow | None:
        """The checkpoint of this id, unless it was deleted."""
        row = self.step(STEP_PREFIX + checkpoint_id)
        # A step whose checkpoint got another name is not to be found by its ULID.
        if row is None or row.checkpoint_id is not None:
            row = self._named(checkpoint_id)
        return row if row is not None and row.is_checkpoint else None

    def _named(self, checkpoint_id: str) -> StepRow | None:
        """The step whose checkpoint got this name. Absence is asked twice here too."""
        found = self.execute(SQL["step_named"], (checkpoint_id,)).fetchone()
        row = None if found is None else self.existing_step(found[0])
        if row is None and self.execute(SQL["name"], (checkpoint_id,)).fetchone() is None:
            return None
        if row is None or row.checkpoint_id != checkpoint_id:
            raise damaged(f"checkpoint {shown(checkpoint_id, 80)}")
        return row

    def refuse_taken_id(self, checkpoint_id: str, step_id: str) -> None:
        """Refuse an id that names, or will name, another step's checkpoint."""
        if checkpoint_id == checkpoint_id_of(step_id):
            return
        if self._named(checkpoint_id) is not None or self.step(STEP_PREFIX + checkpoint_id) is not None:
            raise _taken(checkpoint_id)

    def refuse_named(self, checkpoint_id: str) -> None:
        """Refuse an id that another step's checkpoint was given as its name."""
        if self._named(checkpoint_id) is not None:
            raise _taken(checkpoint_id)

    def update_step(self, row: StepRow) -> None:
        """Store what may change of a step."""
        row.seal = row.sealed()
        self.execute(
            SQL["update_step"],
            (row.state, row.place, row.digest, row.error, row.verified, row.proven, row.verifications, row.shown,
             row.last_verified_at, row.superseded_by, row.deleted_at, row.begin_snapshot, row.commit_snapshot, row.seal,
             row.step_key),
        )  # fmt: skip

    def end_step(self, row: StepRow) -> bool:
        """Store a step that became a checkpoint; False, and nothing changed, if the stored row is another by now."""
        before = row.seal
        row.digest = row.digested()
        row.seal = row.sealed()
        changed = self.execute(
            SQL["end_step"],
            (row.state, row.place, row.base_path, row.checkpoint_id, row.pack, row.commit_snapshot, row.commit_sha256,
             row.committed_at, row.nonce, row.digest, row.verified, row.proven, row.verifications, row.shown,
             row.results, row.last_verified_at, row.seal, row.step_key, before),
        ).rowcount  # fmt: skip
        return changed == 1

    def insert_name(self, row: StepRow) -> None:
        """Note the name that the caller gave, apart from the index of names."""
        self.execute(SQL["insert_name"], (row.checkpoint_id, row.step_key))

    # The timeline's index.

    def step_at(self, task_id: str, place: int) -> StepRow:
        """The step at this place, which must be there exactly once."""
        found = self.execute(SQL["step_at"], (task_id, place)).fetchall()
        row = self.existing_step(found[0][0]) if len(found) == 1 else None
        if row is None or (row.task_id, row.place) != (task_id, place):
            raise damaged(f"task {shown(task_id, 80)}, checkpoint number {place}")
        return row

    def steps_at(self, task_id: str, places: Sequence[int]) -> list[StepRow]:
        """The steps at these places, each of which must be there exactly once."""
        rows = [checked_step(columns) for columns in self.execute(SQL["steps_at"], (task_id, orjson.dumps(places).decode()))]
        if sorted(places) != sorted(row.place for row in rows) or any(row.task_id != task_id for row in rows):
            raise damaged(f"task {shown(task_id, 80)}, its checkpoints")
        return rows

    def down_from(self, task: TaskRow, place: int) -> Iterator[StepRow]:
        """Every checkpoint from this place down, without a gap but for what was pruned."""
        expected = place
        for key, found in self.execute(SQL["timeline_down_from"], (task.task_id, place)):
            row = self.existing_step(key)
            if found < expected <= task.pruned:
                expected = found
            if (found, row.place, row.task_id) != (expected, expected, task.task_id):
                raise damaged(f"task {shown(task.task_id, 80)}, checkpoint number {expected}")
            yield row
            expected -= 1
        if expected > task.pruned:
            raise damaged(f"task {shown(task.task_id, 80)}, checkpoint number {expected}")

    def above(self, task_id: str, place: int) -> list[StepRow]:
        """Every checkpoint after this place, oldest first."""
        found = self.execute(SQL["timeline_above"], (task_id, place)).fetchall()
        return [self.existing_step(key) for (key,) in found]

    def abandoned(self, task_id: str) -> list[StepRow]:
        """The steps that ended without a checkpoint."""
        return [self.existing_step(key) for (key,) in self.execute(SQL["abandoned"], (task_id,)).fetchall()]

    # Snapshots and verifications. Claims are in claimed.py.

    def insert_snapshot(self, data: bytes, digest: bytes) -> int:
        """Store bytes; their number."""
        return int(self.execute(SQL["insert_snapshot"], (digest, data)).lastrowid or 0)

    def delete_snapshot(self, number: int | None) -> None:
        """Remove bytes."""
        self.execute(SQL["delete_snapshot"], (number,))

    def begin_snapshot(self, row: StepRow) -> bytes:
        """The state before the step's work."""
        return self._snapshot(row, row.begin_snapshot, row.begin_sha256)

    def resume_snapshot(self, row: StepRow) -> bytes:
        """The state to resume from: of the commit if one was given there, else of the begin."""
        if row.commit_sha256 is not None:
            return self._snapshot(row, row.commit_snapshot, row.commit_sha256)
        return self.begin_snapshot(row)

    def _snapshot(self, row: StepRow, number: int | None, digest: bytes) -> bytes:
        if number is None and row.deleted_at is not None:
            return b"{}"
        found = self.execute(SQL["snapshot"], (number,)).fetchone()
        good = found is not None and type(found[1]) is bytes and (found[0], *found[2:]) == (digest, "json", None)
        if not good or sha256(found[1]) != digest:
            raise damaged(f"step {shown(row.step_id, 80)}, its snapshot")
        return bytes(found[1])

    def insert_verification(self, step_id: str, number: int, look: Look, *, counted: bool) -> None:
        """Append one look."""
        fields = (step_id, number, look.at, look.by, look.outcome, int(counted), look.results)
        self.execute(SQL["insert_verification"], (*fields, seal("verification/1", fields)))

    def results(self, row: StepRow) -> bytes | None:
        """What the look that is shown found, item by item."""
        if row.shown == 0:
            return None
        if row.shown == 1 and row.results is not None:
            return row.results
        found = self.execute(SQL["verification"], (row.step_id, row.shown)).fetchone()
        if found is None or type(found[6]) is not bytes or found[-1] != seal("verification/1", found[:-1]):
            raise damaged(f"step {shown(row.step_id, 80)}, verification {row.shown}")
        return bytes(found[6])

    def stored(self, row: StepRow, *, repeated: bool = False) -> StoredStep:
        """The checkpoint with its snapshot and the results that are shown."""
        return row.stored(self.resume_snapshot(row), self.results(row), repeated=repeated)


def _key(step_id: str) -> int:
    key = step_key_of(step_id)
    assert key is not None, "step ids are made by agentos._ids"
    return key


def _taken(checkpoint_id: str) -> CheckpointIdTakenError:
    return CheckpointIdTakenError(
        f"checkpoint id {shown(checkpoint_id, 80)}: taken; nothing was stored", hint="leave it out to get a new one"
    )
