"""The part of the manager that has hands: plan a restore, do it, undo it; and give back the space that nothing needs.

Thin, as recovering.py is: each call checks its arguments and hands on, and what it needs is imported when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.identifiers import check_id, check_lease, check_optional_id
from agentos.core.checkpoints.lease import Lease
from agentos.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agentos.core.checkpoints.hands import Hands
    from agentos.core.checkpoints.parts import Parts
    from agentos.core.checkpoints.ports import Registry
    from agentos.core.checkpoints.restores import Collected, Copied, Restored, RestorePlan, VaultReport
    from agentos.core.checkpoints.results import Outcome
    from agentos.core.checkpoints.stored import StoredRestore


class HandsCalls:
    """What a manager does with what it kept."""

    _registry: Registry

    def workspace_of(self, task_id: str) -> str | None:
        """The folder that the task works in, if it has said one."""
        check_id("task_id", task_id)
        found = (each.path for each, _ in self._registry.workspaces() if each.task_id == task_id)
        return next(found, None)

    def plan_restore(self, checkpoint_id: str) -> RestorePlan:
        """What would make the files that a checkpoint stands on as they were: measured now, changing nothing.

        Raises:
            CheckpointNotFoundError: no such checkpoint.
        """
        found: RestorePlan = _by_hand().plan_restore(self._parts(), check_id("checkpoint_id", checkpoint_id))
        return found

    def restore(self, plan: RestorePlan, *, lease: Lease | None = None) -> Restored:
        """Do what a plan says, and measure the world again. What is overwritten or deleted is kept first, whatever its size.

        Args:
            lease: the claim under which this runs; without one the task is claimed for as long as it takes.

        Raises:
            RestoreRefusedError: the world moved since the plan was made; nothing was changed.
            RestoreFailedError: it failed on the way, and everything is as it was before.
            TaskHeldError: another living holder has the task.
        """
        by_hand = _by_hand()
        if not isinstance(plan, by_hand.RestorePlan):
            raise InvalidInputError(
                f"restore takes what plan_restore() gave, found {shown(plan, 80)}",
                hint="manager.restore(manager.plan_restore(id))",
            )
        found: Restored = by_hand.restore(self._parts(), plan, check_lease(lease))
        return found

    def copy_out(self, checkpoint_id: str, folder: str | Path, *, only: Sequence[str] = ()) -> Copied:
        """Write the files that a checkpoint stands on, as they were, into a folder that is not there, or is empty.

        The workspace is neither looked at nor changed. What was not kept is in `cannot`, and is not there.

        Args:
            only: paths of the workspace; what lies at or beneath one of them.

        Raises:
            CheckpointNotFoundError: no such checkpoint.
            InvalidInputError: there is something in that folder already, or the checkpoint has nothing at one of the paths;
                nothing was written.
        """
        if isinstance(only, str) or not all(type(each) is str for each in only):
            raise InvalidInputError(f"only must be a list of paths, found {shown(only, 80)}")
        by_hand = _by_hand()
        found: Copied = by_hand.copy_out(self._parts(), check_id("checkpoint_id", checkpoint_id), str(folder), only)
        return found

    def look_at_world(self, checkpoint_id: str) -> Outcome:
        """Whether everything that a checkpoint stands on holds now, and not only its own evidence. Nothing is recorded.

        Raises:
            CheckpointNotFoundError: no such checkpoint.
        """
        found: Outcome = _by_hand().look_at(self._parts(), check_id("checkpoint_id", checkpoint_id))
        return found

    def settle_restores(self, task_id: str) -> list[str]:
        """End the restores of a task whose processes died: what was not wholly done is taken back. Says what became of each.

        Whatever restores or resumes does this by itself; a plan that is made before may be outdated by it.

        Raises:
            TaskHeldError: another living holder has the task.
        """
        found: list[str] = _by_hand().settle(self._parts(), check_id("task_id", task_id))
        return found

    def plan_undo(self, restore_id: str) -> RestorePlan:
        """What would put back what a restore overwrote and deleted; changes nothing.

        Raises:
            RestoreRefusedError: there is no such restore, or it changed nothing.
        """
        found: RestorePlan = _by_hand().plan_undo(self._parts(), check_id("restore_id", restore_id))
        return found

    def undo_restore(self, restore_id: str, *, lease: Lease | None = None) -> Restored:
        """Put back what a restore overwrote and deleted, and take away what it made. This can be undone in its turn.

        Raises:
            RestoreRefusedError: there is no such restore, or it changed nothing.
        """
        found: Restored = _by_hand().undo(self._parts(), check_id("restore_id", restore_id), check_lease(lease))
        return found

    def restores(self, task_id: str | None = None) -> list[StoredRestore]:
        """The restores of a task, oldest first; of every task without one."""
        check_optional_id("task_id", task_id)
        return self._registry.restores(task_id)

    def collect(self, dry_run: bool = False) -> Collected:  # noqa: FBT001, FBT002 - it is called by name or not at all
        """Remove kept content that no live checkpoint, safety copy or interrupted step needs. Safe while others keep.

        Args:
            dry_run: only say what would be removed.
        """
        if type(dry_run) is not bool:
            raise InvalidInputError(f"dry_run must be true or false, found {shown(dry_run, 60)}")
        found: Collected = _needs().collect(self._registry, self._hands(), dry_run=dry_run)
        return found

    def vault_report(self) -> VaultReport:
        """What kept content takes, and what it is needed for."""
        found: VaultReport = _needs().report(self._registry, self._hands())
        return found

    # What the manager gives.

    def _parts(self) -> Parts:
        raise NotImplementedError

    def _hands(self) -> Hands:
        raise NotImplementedError


def _by_hand() -> Any:
    with importing:
        from agentos.core.checkpoints import by_hand  # noqa: PLC0415 - most processes never put anything back

    return by_hand


def _needs() -> Any:
    with importing:
        from agentos.core.checkpoints import needs  # noqa: PLC0415 - as above

    return needs
