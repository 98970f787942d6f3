"""The part of the manager that looks after what is stored: is all of it there, a copy of it, one task of it elsewhere.

Thin, as recovering.py is: each call checks its arguments and hands on, and what it needs is imported when it is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos.core.checkpoints.identifiers import check_flag
from agentos.core.checkpoints.verifier import absolute

if TYPE_CHECKING:
    from pathlib import Path

    from agentos.core.checkpoints.archived import BackedUp
    from agentos.core.checkpoints.checkup import Checkup, Progress
    from agentos.core.checkpoints.hands import Hands
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

    # What the manager gives.

    def _hands(self) -> Hands:
        raise NotImplementedError


def _lazily(name: str) -> Any:
    with importing:
        return importlib.import_module(f"agentos.core.checkpoints.{name}")
