"""Paths in definitions: which may be claimed, and how a subject spells them. No path is ever looked at here."""

from __future__ import annotations

import posixpath
from typing import Any

from agentos._text import LIMIT
from agentos.core.checkpoints.kinds.kind import Schema, refuse, told
from agentos.core.checkpoints.models import Evidence

# One that leaves the base only on a later step back is beyond an expression: `check_path` finds it.
PATH: Schema = {
    "type": "string",
    "minLength": 1,
    "pattern": "^[^\\u0000]*$",
    "not": {"pattern": "^(?:\\./+)*\\.\\.(?:/|$)"},
}


def check_path(evidence: Evidence, key: str = "path") -> None:
    """Refuse what no file can be called, and what leaves the base."""
    path: Any = evidence.expected[key]
    if type(path) is not str or not path:
        refuse(evidence, f"expected['{key}'] must be a non-empty string, found {told(evidence, path)}")
    if "\0" in path:
        refuse(evidence, f"expected['{key}'] holds a NUL, which no path can")
    if ".." in path and not path.startswith("/") and posixpath.normpath(path).split("/")[0] == "..":
        refuse(
            evidence,
            f"expected['{key}'] {told(evidence, path, LIMIT)} leaves the base path",
            "give a path inside it, or an absolute one",
        )


def from_base(path: str, base_path: str) -> str:
    """One spelling for every way to write a path: relative if it lies beneath the base, the base itself as a dot."""
    path = posixpath.normpath(path)
    if not path.startswith("/"):
        return path
    # Two slashes at the front mean one, but not to `normpath`.
    path = f"/{path.lstrip('/')}"
    return "." if path == base_path else path.removeprefix(base_path.rstrip("/") + "/")
