"""Which task, checkpoint, step or restore is meant by what was typed: an id, or as much of its beginning as is unique.

One that is not there suggests those that are near; one that could be several names them. Nothing is guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentos._text import listed, shown
from agentos.errors import CheckpointNotFoundError, InvalidInputError

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager

# So many ids are compared with one that is not there: a suggestion is a courtesy, not a search.
_COMPARED = 1000
_SUGGESTED = 3
_SHORTEST_SHARED = 4
_MOST_SHOWN = 5
_ALL = {
    "task": "`agentos tasks` shows them all",
    "checkpoint": "`agentos log TASK` shows what there is",
    "step": "`agentos steps` shows those that were interrupted",
    "restore": "`agentos log TASK` shows what was restored",
}


def task_named(manager: CheckpointManager, text: str) -> str:
    """The task that is meant.

    Raises:
        CheckpointNotFoundError: there is none.
        InvalidInputError: there are several.
    """
    return _named(manager, "task", text)


def checkpoint_named(manager: CheckpointManager, text: str) -> str:
    """The checkpoint that is meant; raises as `task_named` does."""
    return _named(manager, "checkpoint", text)


def step_named(manager: CheckpointManager, text: str) -> str:
    """The step that is meant; raises as `task_named` does."""
    return _named(manager, "step", text)


def restore_named(manager: CheckpointManager, text: str) -> str:
    """The restore that is meant; raises as `task_named` does."""
    return _named(manager, "restore", text)


def _named(manager: CheckpointManager, kind: str, text: str) -> str:
    from agentos.core.checkpoints.identifiers import check_id  # noqa: PLC0415 - help needs none of the rules

    found = manager.find_ids(kind, check_id(f"{kind}_id", text), limit=_COMPARED)
    if len(found) == 1 or text in found:
        return found[0] if len(found) == 1 else text
    if found:
        few = listed(found, _MOST_SHOWN)
        raise InvalidInputError(f"{kind} {shown(text, 80)}: so begin {_many(found)}", hint=f"type more of one of: {few}")
    _refuse_damaged(manager, kind, text)
    near = _near(manager, kind, text)
    meant = f"did you mean {' or '.join(shown(each, 80) for each in near)}? " if near else ""
    raise CheckpointNotFoundError(f"{kind} {shown(text, 80)}: unknown", hint=f"{meant}{_ALL[kind]}")


def _many(found: list[str]) -> str:
    return f"{len(found)} ids" if len(found) < _COMPARED else f"{_COMPARED:,} ids and more"


def _refuse_damaged(manager: CheckpointManager, kind: str, text: str) -> None:
    """Absence is asked of the manager, which asks more than one index."""
    if kind == "checkpoint":
        manager.get_checkpoint(text)
    elif kind == "step":
        manager.get_step(text)


def _near(manager: CheckpointManager, kind: str, text: str) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - only who mistyped pays for it

    for length in range(len(text) - 1, _SHORTEST_SHARED - 1, -1):
        shared = manager.find_ids(kind, text[:length], limit=_SUGGESTED)
        if shared:
            return shared
    return get_close_matches(text, manager.find_ids(kind, limit=_COMPARED), _SUGGESTED)
