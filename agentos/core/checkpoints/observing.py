"""What passes between eyes and rules: where to look from, and what was seen.

A probe takes evidence and its surroundings and gives an observation; a kind takes evidence and an observation and judges.
So the hard judgements are tested without a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.models import Evidence


@dataclass(slots=True, match_args=False)
class Seen:
    """The probe looked, and these are the facts."""

    facts: dict[str, Any]
    # Earlier tries at the same look, oldest first.
    attempts: tuple[dict[str, Any], ...] = ()
    # Milliseconds that all tries took, with the pauses between them; and that the last of them took.
    took_ms: float = field(default=0.0, compare=False)
    last_ms: float = field(default=0.0, compare=False)


@dataclass(slots=True, match_args=False)
class Unseen:
    """The probe could not look. That says nothing about the world."""

    code: str
    message: str
    hint: str = ""
    # Looking again a moment later may help.
    transient: bool = False
    attempts: tuple[dict[str, Any], ...] = ()
    took_ms: float = field(default=0.0, compare=False)
    last_ms: float = field(default=0.0, compare=False)


Observation = Seen | Unseen


def _no_snapshot() -> dict[str, Any] | None:
    return None


def _nothing_kept(_: str) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """From where a probe looks."""

    base_path: str
    allowed_roots: tuple[str, ...] = ()
    # Seconds for one look.
    timeout: float = 300.0
    # The registry's own file, which db_row reads when evidence names no database.
    own_database: str | None = None
    # Decoded only if a recorded fact is asked for.
    snapshot: Callable[[], dict[str, Any] | None] = field(default=_no_snapshot)
    # Set while several looks are under way together.
    cancel: Cancel | None = None
    # Content that was kept, by its SHA-256; None if it was not.
    kept: Callable[[str], bytes | None] = field(default=_nothing_kept)
    # Of a tree: what later claims speak for, and so it does not; each name with everything beneath it.
    aside: frozenset[str] = frozenset()


class Probe(Protocol):
    """Looks at the world for one evidence type; never judges, never changes anything, never waits without a limit.

    A probe that reads content may also have `size(evidence, around)`: how many bytes a look would read, as a hint and at the
    price of a glance, so that large things are read side by side.
    """

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once. What could not be seen is an Unseen, never an exception and never a guess."""
