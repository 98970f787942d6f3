"""What was proven and not kept: it can be seen to differ, and not be put back. Said wherever that matters.

Chooses words; whether something is kept is decided in keeping.py. Only of what was to be kept anything is said.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.kind import is_sensitive
from agentos.core.checkpoints.models import Evidence

_MOST = 8
_WHY = "larger than keep_limit, or not what was claimed, when it was committed"


def unkept_of(claim: Evidence) -> list[str]:
    """The paths whose content this claim was to keep and did not; of a tree the first few."""
    kept = claim.metadata.get("kept", True)
    if kept is True:
        return []
    path = claim.description if is_sensitive(claim) else str(claim.expected.get("path", ""))
    if not isinstance(kept, list):
        return [shown(path, 120)]
    # Names in it are escaped already.
    return [shown(path, 120)] if is_sensitive(claim) else [f"{shown(path, 120).rstrip('/')}/{name}" for name in kept]


def note_of(claims: Iterable[Evidence]) -> str:
    """A sentence about all of them; nothing if nothing is missing."""
    names = list(dict.fromkeys(name.removeprefix("./") for claim in claims for name in unkept_of(claim)))
    if not names:
        return ""
    return f"proven and not kept ({_WHY}), so not to be put back from here: {listed(names, _MOST)}"
