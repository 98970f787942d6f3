"""The part of the manager that looks after what is stored: is all of it there, a copy of it, one task of it elsewhere.

Thin, as recovering.py is: each call checks its arguments and hands on, and what it needs is imported when it is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos.core.checkpoints.identifiers import check_flag, check_id
from agentos.core.checkpoints.verifier import absolute

if TYPE_CHECKING:
    from pathlib import Path

    from agentos.core.checkpoints.archived import BackedUp, Moved
    from agentos.core.checkpoints.checkup import Checkup, Progress
    from agentos.core.checkpoints.hands import Hands
    from agentos.core.checkpoints.moving import Store
    from agentos.core.checkpoints.ports import Registry


class HousekeepingCalls:
    """What a manager does to keep what it stores."""

    _registry: Registry
    db_path: str

    def check(self, deep: bool = False, *, progress: Progress | None = None) -> Checkup:  # noqa: FBT001, FBT002 - named or not at all
        """Look at every row, every digest and every kept content. Writes nothing; others may go on meanwhile.

        Args:
            deep: also compare every index page by page, and read, unpack and hash everything in the vault.
            progress: is told what is looked at, how much of it was, and how much there is.
        """
        checkup = _lazily("checkup")
        found: Checkup = checkup.check(
            self._registry,
            self._hands(),
            path=self.db_path,
            deep=check_flag("deep", deep),
            progress=progress or checkup.silent,
        )
        return found

    def backup(
        self, path: str | Path, *, replace: bool = False, damaged: bool = False, progress: Progress | None = None
    ) -> BackedUp:
        """A copy of registry and vault in one file, as they are at one moment; others may go on writing meanwhile.

        The copy is unpacked beside the file and looked at in depth, as `check(deep=True)` does, before it gets its name.

        Args:
            replace: a file of that name may be replaced.
            damaged: keep the copy also if something in it is damaged or missing.

        Raises:
            BackupUnsoundError: something in the copy is; nothing got that name.
            StoreUnavailableError: it cannot be written there.
            StoreBusyError: kept content was being removed all the time.
        """
        checkup = _lazily("checkup")
        tell = progress or checkup.silent

        def look(copy: str) -> Checkup:
            same: Any = type(self)
            with same(copy, readonly=True) as manager:
                found: Checkup = manager.check(deep=True, progress=tell)
                return found

        return self._hands().back_up(
            absolute(path, "path"),
            copy_registry=self._registry.copy_to,
            look=look,
            replace=check_flag("replace", replace),
            damaged=check_flag("damaged", damaged),
            progress=tell,
        )

    def export_task(self, task_id: str, path: str | Path, *, replace: bool = False, progress: Progress | None = None) -> Moved:
        """One task with all that it needs in one file, for another registry. `missing` names kept content that is not whole.

        Raises:
            CheckpointNotFoundError: no such task.
            StoreCorruptError: something of the task is damaged; nothing was written.
            RestoreInterruptedError: a restore of it has not ended; resume the task first.
        """
        moving = _lazily("moving")
        found: Moved = moving.export_task(
            self.store(),
            check_id("task_id", task_id),
            absolute(path, "path"),
            replace=check_flag("replace", replace),
            progress=progress or _lazily("checkup").silent,
        )
        return found

    def import_task(self, path: str | Path, *, progress: Progress | None = None) -> Moved:
        """Take over the task of an archive, wholly or not at all. Nobody holds it here, whoever held it there.

        Raises:
            ArchiveRefusedError: it is not whole, or not what was exported; nothing was changed.
            TaskTakenError, CheckpointIdTakenError, WorkspaceTakenError: something of it is here already.
        """
        moving = _lazily("moving")
        same: Any = type(self)

        def apart(folder: str) -> Any:
            # Nothing of it is to survive a power cut.
            return same(f"{folder}/registry.sqlite", durability="relaxed")

        found: Moved = moving.import_task(
            self.store(), absolute(path, "path"), apart, progress=progress or _lazily("checkup").silent
        )
        return found

    def store(self) -> Store:
        """Registry and hands, for who looks after both."""
        found: Store = _lazily("moving").Store(self._registry, self._hands())
        return found

    # What the manager gives.

    def _hands(self) -> Hands:
        raise NotImplementedError


def _lazily(name: str) -> Any:
    with importing:
        return importlib.import_module(f"agentos.core.checkpoints.{name}")
