"""A task at a glance: where it stands, what was interrupted, who has it. Read off what is stored; nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from agentos.core.checkpoints.holders import described, is_running, living_holder
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.stored import StoredOverview


@dataclass(frozen=True, slots=True)
class LastVerified:
    """The newest checkpoint whose last known verification passed."""

    checkpoint_id: str
    sequence_number: int
    checkpoint_type: str
    created_at: str
    last_verified_at: str


@dataclass(frozen=True, slots=True)
class TaskOverview:
    """One task. `status` is `active`, `completed`, or `damaged`: then `damage` says why, and nothing else is known of it."""

    task_id: str
    status: str
    # The number of the newest checkpoint on the timeline; 0 if there is none.
    newest: int = 0
    last_verified: LastVerified | None = None
    # Steps that never ended, and that nobody who lives is seen to work on; and those that somebody is.
    interrupted: int = 0
    running: int = 0
    # Who has the task, in words; None if nobody who could still go on.
    held_by: str | None = None
    held_since: str | None = None
    damage: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Some tasks in the order of their ids, and after which one the next page begins; None at the end."""

    tasks: tuple[TaskOverview, ...]
    next: str | None


def page_of(found: list[StoredOverview], limit: int) -> TaskPage:
    """The page, of which one more was asked for."""
    shown = found[:limit]
    return TaskPage(tuple(map(overview, shown)), shown[-1].task_id if len(found) > limit else None)


def overview(stored: StoredOverview) -> TaskOverview:
    """The task in words that people use."""
    task = stored.task
    if task is None:
        return TaskOverview(stored.task_id, "damaged", damage=stored.damage)
    holder = living_holder(task, None)
    running = sum(running_of(stored.opened, holder))
    return TaskOverview(
        task.task_id,
        task.status,
        task.head,
        None if stored.verified is None else _last(stored.verified),
        stored.open_steps - running,
        running,
        None if holder is None else described(holder),
        None if holder is None else task.since,
    )


def running_of(steps: Iterable[StoredStep], holder: str | None) -> list[bool]:
    """Of each open step, whether somebody is seen to work on it: its own process, or the one who has the task."""
    return [is_running(step) or (holder is not None and step.runner == holder) for step in steps]


def _last(step: StoredStep) -> LastVerified:
    return LastVerified(
        step.checkpoint_id or "",
        step.sequence or 0,
        step.checkpoint_type,
        _text(step.committed_at),
        _text(step.last_verified_at),
    )


def _text(moment: str | None) -> str:
    return "" if moment is None else datetime.fromisoformat(moment).isoformat()
