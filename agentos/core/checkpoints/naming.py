"""The part of the manager that finds ids by their beginning, for people, who do not type 26 letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentos._text import shown
from agentos.core.checkpoints.identifiers import check_id, check_limit
from agentos.errors import InvalidInputError

if TYPE_CHECKING:
    from agentos.core.checkpoints.ports import Registry

KINDS = ("task", "checkpoint", "step", "restore")


class NamingCalls:
    """What a manager knows of names."""

    _registry: Registry

    def find_ids(self, kind: str, beginning: str = "", *, limit: int = 100) -> list[str]:
        """The ids that begin so, each group in order: those that callers gave, then those that were made.

        Args:
            kind: `task`, `checkpoint`, `step` or `restore`. Deleted checkpoints are not found.
            beginning: of an id; that of a step or a restore may leave out its prefix. Letters of a ULID may be small.
        """
        if kind not in KINDS:
            raise InvalidInputError(f"kind must be one of {', '.join(KINDS)}, found {shown(kind, 80)}")
        if beginning != "":
            check_id("beginning", beginning)
        return self._registry.ids(kind, beginning, check_limit(limit))
