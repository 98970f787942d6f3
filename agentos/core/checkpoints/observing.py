"""What passes between eyes and rules: where to look from, and what was seen.

A probe takes evidence and its surroundings and gives an observation; a kind takes evidence and an observation and judges.
So the hard judgements are tested without a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentos.core.checkpoints.models import Evidence, EvidenceType


@dataclass(frozen=True, slots=True)
class Seen:
    """The probe looked, and these are the facts."""

    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unseen:
    """The probe could not look. That says nothing about the world."""

    code: str
    message: str
    hint: str = ""


Observation = Seen | Unseen


def _no_snapshot() -> dict[str, Any] | None:
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """From where a probe looks."""

    base_path: str
    allowed_roots: tuple[str, ...] = ()
    timeout: float = 300.0
    # The registry's own file, which db_row reads when evidence names no database.
    own_database: str | None = None
    # Decoded only if a recorded fact is asked for.
    snapshot: Callable[[], dict[str, Any] | None] = field(default=_no_snapshot)


class Probe(Protocol):
    """Looks at the world for one evidence type; never judges, never changes anything, never waits without a limit."""

    evidence_type: EvidenceType

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once. What could not be seen is an Unseen, never an exception and never a guess."""
