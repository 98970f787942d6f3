"""JSON pointers (RFC 6901): which may be claimed, and what one names in a document.

`~1` is a slash and `~0` a tilde, an index has no leading zero, and the empty pointer is the whole document. Where a pointer
leads nowhere, how far it led is told: most are misspelled, and the names beside it show how.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.kind import Schema, refuse, told
from agentos.core.checkpoints.models import Evidence

POINTER: Schema = {"type": "string", "pattern": "^(/([^~/]|~[01])*)*$"}
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)
_INDEX = re.compile("0|[1-9][0-9]{0,17}")
_NOTHING = object()


class Pointed(NamedTuple):
    """What a pointer names. If nothing, `why` says how far it led and what is there: `/runs/0 has keys a, b; no "c"`."""

    exists: bool
    value: Any = None
    why: str = ""


def check_pointer(evidence: Evidence, where: str, pointer: Any) -> None:
    """Refuse what is no pointer, with the place where it stands."""
    if type(pointer) is not str or not _POINTER.fullmatch(pointer):
        hint = "such as /runs/0/name; a slash inside a name is written ~1, a tilde ~0"
        refuse(evidence, f"{where} must be a JSON pointer, found {told(evidence, pointer)}", hint)


def resolve(pointer: str, document: Any) -> Pointed:
    """What the pointer names in this document of plain JSON values."""
    found, led = document, ""
    for token in pointer.split("/")[1:]:
        inner = _step(found, token.replace("~1", "/").replace("~0", "~"))
        if inner is _NOTHING:
            return Pointed(exists=False, why=_dead_end(led, found, token))
        found, led = inner, f"{led}/{token}"
    return Pointed(exists=True, value=found)


def _step(found: Any, key: str) -> Any:
    if type(found) is dict:
        return found.get(key, _NOTHING)
    if type(found) is list and _INDEX.fullmatch(key) and int(key) < len(found):
        return found[int(key)]
    return _NOTHING


def _dead_end(led: str, found: Any, token: str) -> str:
    place, sought = shown(led, 120) or "the document", shown(token, 60)
    if type(found) is dict:
        return f'{place} has {f"keys {listed([*found])}" if found else "no keys"}; no "{sought}"'
    if type(found) is list:
        return f'{place} is a list of {len(found):,}; no "{sought}"'
    return f'{place} is no object and no list; no "{sought}" in it'
