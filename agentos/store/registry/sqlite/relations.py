"""What the rows of the registry say of each other: is everything there that others say is there, and does it say the same?

A row that vanished leaves no seal that does not fit. It is missed by its neighbours: a gap in a task's numbers, a begin without
its state, a name without its checkpoint, a count that is not reached. Rows come in once, each table whole, tasks before steps
and steps before all that belongs to them; only what is compared later is kept of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from agentos._text import shown
from agentos.core.checkpoints.checkup import Findings
from agentos.core.checkpoints.restores import operations_from
from agentos.core.checkpoints.stored import Needing, StoredCall, StoredRestore
from agentos.store.registry.sqlite.derived import Claimed
from agentos.store.registry.sqlite.remembering import compare_memory
from agentos.store.registry.sqlite.rows import KEPT_LOOKS, UNPLACED, StepRow, TaskRow

_PLACES = {"begun": lambda place: place == UNPLACED, "abandoned": lambda place: place == 0}


class StepFacts(NamedTuple):
    """What is compared later of a step."""

    key: int
    step_id: str
    state: str
    place: int
    checkpoint_type: str
    is_live: bool
    verified: bool
    verifications: int
    shown: int
    inline: bool


class Relations:
    """Takes the rows in and, at the end, compares."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._tasks: dict[str, TaskRow] = {}
        self._steps: dict[str, dict[str, StepFacts]] = defaultdict(dict)
        self._task_of: dict[str, str] = {}
        self._touched: dict[str, bytes] = {}
        self._snapshots: dict[int, tuple[bytes, str]] = {}
        self._names: dict[str, int] = {}
        self._looks: dict[str, list[int]] = defaultdict(list)
        self._decided = ("", 0)
        self._claimed = Claimed(findings)
        self.needing: list[Needing] = []
        self.restores: list[StoredRestore] = []

    def takes(self, table: str) -> Callable[[Any], None] | None:
        """What takes the checked rows of this table in; None if nothing is compared of them."""
        takers: dict[str, Callable[[Any], None]] = {
            "tasks": self.task, "touched": self.touched, "steps": self.step, "snapshots": self.snapshot, "names": self.name,
            "verifications": self.verification, "claims": self.claim, "decisions": self.decision,
            "idempotency_keys": self.key, "restores": self.restore,
        }  # fmt: skip
        return takers.get(table)

    def task(self, row: TaskRow) -> None:
        self._tasks[row.task_id] = row

    def touched(self, row: tuple[Any, ...]) -> None:
        self._touched[row[0]] = row[1]

    def step(self, row: StepRow) -> None:
        where = f"step {row.step_id}"
        self._steps[row.task_id][row.step_id] = StepFacts(
            row.step_key, row.step_id, row.state, row.place, row.checkpoint_type, row.is_live, bool(row.verified),
            row.verifications, row.shown, row.results is not None,
        )  # fmt: skip
        self._task_of[row.step_id] = row.task_id
        if not _PLACES.get(row.state, lambda place: 0 < place < UNPLACED)(row.place):
            self.findings.add("row", where, f"it is {row.state}, and stands at {row.place}")
        self._state_of(row, row.begin_snapshot, row.begin_sha256, where)
        if row.commit_sha256 is not None:
            self._state_of(row, row.commit_snapshot, row.commit_sha256, where)
        if row.checkpoint_id is not None:
            self._names[row.checkpoint_id] = row.step_key
        self._claimed.step(row)
        if row.superseded_by is None and row.state != "abandoned":
            touched = self._touched.get(row.step_id) if row.state == "begun" else None
            if touched is not None or (row.pack is not None and b'"kept"' in row.pack):
                self.needing.append(Needing(row.step_id, row.task_id, row.pack, touched))

    def snapshot(self, row: tuple[Any, ...]) -> None:
        wanted = self._snapshots.pop(row[0], None)
        if wanted is None:
            self.findings.add("stray", f"snapshot {row[0]}", "no step has it")
        elif wanted[0] != row[3]:
            self.findings.add("row", wanted[1], "its state is another than was committed")

    def name(self, row: tuple[Any, ...]) -> None:
        if self._names.pop(row[0], None) != row[1]:
            self.findings.add("stray", f"name {shown(row[0], 80)}", "no checkpoint has it")

    def verification(self, row: tuple[Any, ...]) -> None:
        if row[0] not in self._task_of:
            self.findings.add("stray", f"verification {row[1]} of {shown(row[0], 80)}", "there is no such step")
        self._looks[row[0]].append(row[1])

    def claim(self, row: tuple[Any, ...]) -> None:
        self._claimed.claim(row)

    def decision(self, row: tuple[Any, ...]) -> None:
        task_id, number = row[:2]
        last = self._decided[1] if self._decided[0] == task_id else 0
        if number != last + 1:
            self.findings.add("lost", f"task {shown(task_id, 80)}", f"decision {last + 1} about it is gone")
        self._decided = (task_id, number)
        self._of_task(task_id, f"decision {number}")

    def key(self, stored: StoredCall) -> None:
        if stored.task_id is not None:
            self._of_task(stored.task_id, f"key {shown(stored.key, 80)}")

    def restore(self, stored: StoredRestore) -> None:
        operations_from(stored.operations)
        self.restores.append(stored)
        self._of_task(stored.task_id, f"restore {stored.restore_id}")

    def compare(self) -> None:
        """Now that everything was read."""
        for number, (_, where) in self._snapshots.items():
            self.findings.add("lost", where, f"its state, snapshot {number}, is gone")
        for name in self._names:
            self.findings.add("lost", f"checkpoint {shown(name, 80)}", "its name is gone from the names")
        for step_id in self._touched:
            if step_id not in self._task_of:
                self.findings.add("stray", f"touched: {shown(step_id, 80)}", "there is no such step")
        for task_id, steps in self._steps.items():
            for step in steps.values():
                self._compare_looks(step)
            if task_id not in self._tasks:
                self.findings.add("lost", f"task {shown(task_id, 80)}", f"its row is gone; it has {len(steps)} steps")
        for task in self._tasks.values():
            steps = self._steps.get(task.task_id, {})
            self._compare_numbers(task, steps)
            compare_memory(task, list(steps.values()), self.findings)
        self._claimed.compare(self._tasks)

    def _state_of(self, row: StepRow, number: int | None, digest: bytes, where: str) -> None:
        if number is not None:
            self._snapshots[number] = (digest, where)
        elif row.deleted_at is None:
            self.findings.add("lost", where, "its state is not named any more")

    def _of_task(self, task_id: str, what: str) -> None:
        if task_id not in self._tasks:
            self.findings.add("lost", f"task {shown(task_id, 80)}", f"it is not there, and {what} is about it")

    def _compare_looks(self, step: StepFacts) -> None:
        """The first look is kept inline; of the others old ones may have been pruned, never the one that is shown."""
        there = self._looks.get(step.step_id, [])
        first = 2 if step.inline else 1
        kept = {*range(max(first, step.verifications - KEPT_LOOKS + 1), step.verifications + 1)}
        if step.shown >= first:
            kept.add(step.shown)
        lost = kept.difference(there)
        if lost or any(not first <= number <= step.verifications for number in there):
            what = f"verification {min(lost)} is gone" if lost else "it has verifications that were never made"
            self.findings.add("lost", f"step {step.step_id}", what)

    def _compare_numbers(self, task: TaskRow, steps: dict[str, StepFacts]) -> None:
        where = f"task {shown(task.task_id, 80)}"
        placed = [step.place for step in steps.values() if 0 < step.place < UNPLACED]
        numbers = set(placed)
        gone = [number for number in range(task.pruned + 1, task.sequence + 1) if number not in numbers]
        if gone:
            more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
            self.findings.add("lost", where, f"checkpoint number {gone[0]}{more} is gone, and was not pruned")
        if len(placed) != len(numbers) or any(number > task.sequence for number in numbers):
            self.findings.add("row", where, "numbers were given twice, or were never drawn")
        counted = sum(step.state == "begun" and step.key <= task.counted_to for step in steps.values())
        if counted < task.open_steps:
            self.findings.add("lost", where, f"{task.open_steps} steps of it were open, and {counted} are there")
