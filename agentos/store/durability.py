"""How much of what was acknowledged survives a power cut.

| mode    | begin  | commit | survives kill -9 | survives power loss            |
|---------|--------|--------|------------------|--------------------------------|
| full    | synced | synced | everything       | everything                     |
| commit  | -      | synced | everything       | every commit; not a bare begin |
| relaxed | -      | -      | everything       | all but the newest commits     |

SQLite's `OFF` is never used: it can destroy what another process had synced.
"""

from __future__ import annotations

from enum import StrEnum

from agentos._text import shown
from agentos.errors import InvalidInputError


class Durability(StrEnum):
    """The three promises."""

    FULL = "full"
    COMMIT = "commit"
    RELAXED = "relaxed"

    @property
    def syncs_begin(self) -> bool:
        """Whether an intent is on disk when begin returns."""
        return self is Durability.FULL

    @property
    def syncs_commit(self) -> bool:
        """Whether a checkpoint, and every later change to one, is on disk when the call returns."""
        return self is not Durability.RELAXED


def durability_named(name: str) -> Durability:
    """The mode of this name."""
    try:
        return Durability(name)
    except ValueError:
        raise InvalidInputError(f"durability {shown(name, 60)} is unknown", hint="one of: full, commit, relaxed") from None
