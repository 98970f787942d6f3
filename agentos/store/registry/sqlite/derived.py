"""The index of claims against the packs that it is derived from, and against the sums over it.

Both are compared as sums: what a pack claims is added up when its step comes, what the index holds when its rows come, and in
the end both must be the same. Packs with evidence of a type that others brought say less: only they know its subject.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints import records
from agentos.core.checkpoints.checkup import Findings
from agentos.core.checkpoints.kinds import KINDS
from agentos.errors import AgentosError
from agentos.store.registry.sqlite import claimed
from agentos.store.registry.sqlite.rows import StepRow, TaskRow


@dataclass(slots=True)
class _Due:
    """What the index must hold of one step; of one that was emptied, at most."""

    step_id: str
    rows: int
    total: int
    # Only what may be there in part is kept one by one.
    each: frozenset[int] | None
    found: int = 0
    sum: int = 0


@dataclass(slots=True)
class Claimed:
    """Takes steps in, then the rows of the index."""

    findings: Findings
    _due: dict[tuple[str, int], _Due | None] = field(default_factory=dict)
    _sums: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def step(self, row: StepRow) -> None:
        """A step, whatever became of it."""
        if row.pack is None:
            return
        self._due[row.task_id, row.place] = None
        pack = records.decode_pack(row.pack)
        if any(item.evidence_type not in KINDS for item in pack.evidence_list):
            return
        try:
            claims = records.claims_of(pack, row.base_path)
        except AgentosError as error:
            self.findings.add("claims", f"step {row.step_id}", f"what it claims cannot be told: {error.message}")
            return
        standing = int(bool(row.proven) and row.superseded_by is None)
        hashes = [hash((each.subject, each.item, each.lifetime, row.base_path, standing, each.rules)) for each in claims]
        parted = frozenset(hashes) if row.deleted_at is not None else None
        self._due[row.task_id, row.place] = _Due(row.step_id, len(hashes), sum(hashes), parted)

    def claim(self, row: tuple[Any, ...]) -> None:
        """A row of the index."""
        task_id, subject, sequence, *rest = row
        self._sums[task_id] = claimed.added(self._sums[task_id], (subject, sequence, *rest))
        place = (task_id, sequence)
        if place not in self._due:
            self.findings.add("claims", f"task {shown(task_id, 80)}", f"checkpoint {sequence} claims nothing, and is indexed")
            return
        due = self._due[place]
        if due is None:
            return
        mark = hash((subject, *rest))
        due.found, due.sum = due.found + 1, due.sum + mark
        if due.each is not None and mark not in due.each:
            self.findings.add("claims", f"step {due.step_id}", f"it is indexed for {shown(subject, 120)}, and claims it not")

    def compare(self, tasks: Mapping[str, TaskRow]) -> None:
        """Now that everything was read."""
        for due in self._due.values():
            if due is not None and due.each is None and (due.found, due.sum) != (due.rows, due.total):
                self.findings.add("claims", f"step {due.step_id}", f"it claims {due.rows}, and the index has {due.found} of it")
        for task in tasks.values():
            if self._sums.get(task.task_id, 0) != task.claims_sum:
                self.findings.add("claims", f"task {shown(task.task_id, 80)}", "its claims do not add up")
