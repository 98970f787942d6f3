"""A step that is about to end, and the claims of a handle's block, of which some are measured by the look that verifies them.

Pure: the manager looks and stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.observing import Observation, Surroundings, Unseen
from agentos.core.checkpoints.wanted import Wanted
from agentos.errors import EvidenceUnavailableError


@dataclass(eq=False, repr=False, match_args=False)
class EndingStep:
    """What is known of the step. `snapshot` is the state after it, if that is another than before it."""

    step_id: str
    task_id: str
    begun_at: str
    snapshot: bytes | None
    state: dict[str, Any]
    around: Surroundings


class Block:
    """The claims of one block, in order.

    Args:
        claims: as they were given.
        copies: of those that were complete already, in order.
        looks_at_all: those are looked at too, and not only what is to be measured.
    """

    def __init__(self, claims: Sequence[Evidence | Wanted], copies: Sequence[Evidence], *, looks_at_all: bool) -> None:
        given = iter(copies)
        self._claims = [claim if isinstance(claim, Wanted) else next(given) for claim in claims]
        self._looked_at = [looks_at_all or isinstance(claim, Wanted) for claim in self._claims]

    @property
    def asked(self) -> EvidencePack:
        """What is to be looked at."""
        wanted = [claim for claim, looked_at in zip(self._claims, self._looked_at, strict=True) if looked_at]
        return EvidencePack([claim.evidence if isinstance(claim, Wanted) else claim for claim in wanted])

    @property
    def keeps(self) -> list[bool]:
        """Of each claim, whether its content is kept although it does not say so itself."""
        return [isinstance(claim, Wanted) and claim.keeps for claim in self._claims]

    def seen(self, seen: Sequence[Observation]) -> list[Observation | None]:
        """What was seen of each claim."""
        answers = iter(seen)
        return [next(answers) if looked_at else None for looked_at in self._looked_at]

    def filled(self, seen: Sequence[Observation]) -> list[Evidence]:
        """Every claim, complete, by what was seen of those that were asked for.

        Raises:
            EvidenceUnavailableError: there was nothing to measure, and nothing can be claimed instead.
        """
        answers = iter(seen)
        found = []
        for claim, looked_at in zip(self._claims, self._looked_at, strict=True):
            answer = next(answers) if looked_at else None
            found.append(_filled(claim, answer) if isinstance(claim, Wanted) and answer is not None else claim)
        return [claim for claim in found if isinstance(claim, Evidence)]


def _filled(claim: Wanted, seen: Observation) -> Evidence:
    found = claim.filled(seen)
    if found is not None:
        return found
    if isinstance(seen, Unseen):
        raise EvidenceUnavailableError(seen.message, hint=seen.hint)
    raise EvidenceUnavailableError(f"{shown(claim.evidence.description, 120)}: there is nothing to measure")
