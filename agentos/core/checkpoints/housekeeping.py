"""The part of the manager that looks after what is stored: is all of it there, a copy of it, one task of it elsewhere.

Thin, as recovering.py is: each call checks its arguments and hands on, and what it needs is imported when it is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos._text import shown
from agentos.errors import InvalidInputError

if TYPE_CHECKING:
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
        if type(deep) is not bool:
            raise InvalidInputError(f"deep must be true or false, found {shown(deep, 60)}")
        checkup = _lazily("checkup")
        found: Checkup = checkup.check(
            self._registry, self._hands(), path=self.db_path, deep=deep, progress=progress or checkup.silent
        )
        return found

    # What the manager gives.

    def _hands(self) -> Hands:
        raise NotImplementedError


def _lazily(name: str) -> Any:
    with importing:
        return importlib.import_module(f"agentos.core.checkpoints.{name}")
