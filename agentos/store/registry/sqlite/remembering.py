"""What a task's row remembers of its checkpoints, against those checkpoints: the newest, the newest verified, by type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.checkup import Findings
from agentos.store.registry.sqlite.rows import TaskRow
from agentos.store.registry.sqlite.timeline import TYPES_REMEMBERED

if TYPE_CHECKING:
    from agentos.store.registry.sqlite.relations import StepFacts


def compare_memory(task: TaskRow, steps: list[StepFacts], findings: Findings) -> None:
    """Tell where they differ."""
    live = [step for step in steps if step.is_live]
    verified = [step for step in live if step.verified]
    told = [
        ("newest checkpoint", task.head, _newest(live)),
        ("newest verified checkpoint", task.verified_head, _newest(verified)),
    ]
    by_type: dict[str, int] = codec.decode(task.verified_by_type)
    for name in {step.checkpoint_type for step in verified} | by_type.keys():
        if name in by_type or len(by_type) < TYPES_REMEMBERED:
            found = _newest(step for step in verified if step.checkpoint_type == name)
            told.append((f"newest verified checkpoint of type {shown(name, 80)}", by_type.get(name, 0), found))
    for what, remembered, found in told:
        if remembered != found:
            findings.add("memory", f"task {shown(task.task_id, 80)}", f"its {what} is {found}, and its row says {remembered}")


def _newest(steps: Iterable[StepFacts]) -> int:
    return max((step.place for step in steps), default=0)
