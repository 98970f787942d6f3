"""Look now, and make evidence of what was seen.

It looks through the same eye that will verify the claim later, so the two cannot disagree about what a thing is. Unlike a
probe it raises: evidence of something that could not be seen would be a guess.
"""

from __future__ import annotations

from agentos._text import shown
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Unseen
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.core.checkpoints.wanted import Wanted
from agentos.errors import EvidenceUnavailableError

_NOTHING_THERE = "NOTHING_THERE"


def capture(wanted: Wanted, verifier: EvidenceVerifier) -> Evidence:
    """The claim, with what was seen in it.

    Raises:
        EvidenceUnavailableError: it is not there, is something else, or could not be looked at; says why.
    """
    claim = wanted.evidence
    seen = verifier.observe(claim, verifier.around)
    if isinstance(seen, Unseen):
        raise EvidenceUnavailableError(seen.message, hint=seen.hint, code=seen.code, expected=claim.expected)
    found = wanted.filled(seen)
    if found is not None and found is not wanted.otherwise:
        return found
    if wanted.otherwise is None:
        raise EvidenceUnavailableError(f"{shown(claim.description, 120)}: nothing to capture was found", code=_NOTHING_THERE)
    why = kind_of(wanted.otherwise).result(wanted.otherwise, seen)
    if not why.message:
        raise EvidenceUnavailableError(
            f"{shown(claim.description, 120)}: it is there, and has nothing that could be claimed",
            hint="capture a thing after it was made",
            code=_NOTHING_THERE,
            expected=claim.expected,
        )
    code = _NOTHING_THERE if why.code == "ROW_MISSING" else why.code
    raise EvidenceUnavailableError(
        why.message, hint="capture a thing after it was made", code=code, expected=wanted.otherwise.expected
    )
