"""The part of the manager that people read: tasks, what happened to one, looks over time, what changed, how often what failed.

Nothing here looks at the world or changes anything, so it is no ground to stand on: recover() measures. Thin, as recovering.py
is. Pages cost what they show, however long a timeline is; statistics() reads everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.identifiers import check_id, check_limit, check_optional_id
from agentos.errors import CheckpointNotFoundError, InvalidInputError

if TYPE_CHECKING:
    from agentos.core.checkpoints.comparing import Comparison
    from agentos.core.checkpoints.events import EventPage
    from agentos.core.checkpoints.hands import Hands
    from agentos.core.checkpoints.history import PastLook
    from agentos.core.checkpoints.overviews import TaskOverview, TaskPage
    from agentos.core.checkpoints.parts import Parts
    from agentos.core.checkpoints.ports import Registry
    from agentos.core.checkpoints.stored import StoredReview
    from agentos.core.checkpoints.tallies import Statistics

# Of a checkpoint in a log, so many of its newest looks are told.
_LOOKS = 3
_REVIEWED = 200


class ReadingCalls:
    """What a manager tells."""

    _registry: Registry

    def list_tasks(self, *, after: str | None = None, limit: int = 100, unfinished: bool = False) -> TaskPage:
        """A page of tasks, in the order of their ids: where each stands, what was interrupted, who has it.

        A task whose rows are damaged is on the page, and says so.

        Args:
            after: the id that the page begins after.
            unfinished: leave out what is finished; the page then costs what it reads past.
        """
        check_optional_id("after", after)
        check_limit(limit)
        if type(unfinished) is not bool:
            raise InvalidInputError(f"unfinished must be true or false, found {shown(unfinished, 60)}")
        found: TaskPage = _lazily("overviews").page_of(
            self._registry.overviews(after or "", limit + 1, unfinished=unfinished), limit
        )
        return found

    def task_overview(self, task_id: str) -> TaskOverview:
        """One task at a glance.

        Raises:
            CheckpointNotFoundError: no such task.
        """
        check_id("task_id", task_id)
        stored = self._registry.overview(task_id)
        if stored is None:
            raise _unknown(task_id)
        found: TaskOverview = _lazily("overviews").overview(stored)
        return found

    def task_log(self, task_id: str, *, before: str | None = None, limit: int = 50) -> EventPage:
        """A page of what happened to a task, newest first: checkpoints, interrupted steps, decisions, restores.

        Args:
            before: where the page before ended: its `next`.

        Raises:
            CheckpointNotFoundError: no such task.
        """
        events, holders = _lazily("events"), _lazily("holders")
        check_id("task_id", task_id)
        check_limit(limit)
        below = events.place_of(before)
        log, task = self._registry.log(task_id, below, limit + 1, _LOOKS), self._registry.task(task_id)
        if log is None or task is None:
            raise _unknown(task_id)
        found: EventPage = events.page_of(log, below, limit, holders.living_holder(task, None))
        return found

    def verification_history(self, checkpoint_id: str, *, before: int | None = None, limit: int = 100) -> list[PastLook]:
        """The looks at a checkpoint, newest first, each with what came of every item.

        Args:
            before: only looks with a number below this one.

        Raises:
            CheckpointNotFoundError: no such checkpoint.
        """
        from agentos.core.checkpoints.stored import ABOVE_ALL  # noqa: PLC0415 - as _lazily

        stored = self._registry.checkpoint(check_id("checkpoint_id", checkpoint_id))
        if stored is None:
            raise CheckpointNotFoundError(
                f"checkpoint {shown(checkpoint_id, 80)}: unknown", hint="list_checkpoints(task_id) shows what there is"
            )
        below = ABOVE_ALL if before is None else check_limit(before, "before")
        looks = self._registry.looks(stored.step_id, below, check_limit(limit))
        past_look = _lazily("history").past_look
        return [past_look(look, stored.pack or b"") for look in looks]

    def compare_checkpoints(self, checkpoint_id: str, other_id: str | None = None, *, files: bool = False) -> Comparison:
        """What changed in the state up to a checkpoint: since the one before it on the timeline, or since another one.

        Args:
            other_id: the one to compare with.
            files: also tell what changed in the files that both vouch for, by what was claimed and kept.

        Raises:
            CheckpointNotFoundError: no such checkpoint.
        """
        check_id("checkpoint_id", checkpoint_id)
        check_optional_id("other_id", other_id)
        if type(files) is not bool:
            raise InvalidInputError(f"files must be true or false, found {shown(files, 60)}")
        found: Comparison = _lazily("comparing").compare(self._parts(), other_id, checkpoint_id, files=files)
        return found

    def statistics(self, *, progress: Callable[[str, int, int], None] | None = None) -> Statistics:
        """How often what held, how long looking took, and what is kept. Reads every step and every look there is.

        Args:
            progress: told what is being done, how much of it is done, and 0: how much there is, nobody knows before.
        """
        found: Statistics = _lazily("tallies").counted(self._reviews(progress))
        sizes = self._hands().sizes()
        found.sizes.registry = self._registry.size()
        found.sizes.vault, found.sizes.vault_contents = sum(sizes.values()), len(sizes)
        return found

    def _reviews(self, progress: Callable[[str, int, int], None] | None) -> Iterator[StoredReview]:
        after, done = -1, 0
        while page := self._registry.reviews(after, _REVIEWED):
            yield from page
            after, done = page[-1].key, done + len(page)
            if progress is not None:
                progress("steps", done, 0)

    # What the manager gives.

    def _parts(self) -> Parts:
        raise NotImplementedError

    def _hands(self) -> Hands:
        raise NotImplementedError


def _unknown(task_id: str) -> CheckpointNotFoundError:
    return CheckpointNotFoundError(f"task {shown(task_id, 80)}: unknown", hint="list_tasks() shows what there is")


def _lazily(name: str) -> Any:
    import importlib  # noqa: PLC0415 - most processes never tell anybody anything

    with importing:
        return importlib.import_module(f"agentos.core.checkpoints.{name}")
