"""Subjects: what claims are about. Each is a kind, a colon, and which one of that kind.

A misspelled kind in a release would release nothing, and nobody would notice: so the kinds are a closed list.
"""

from __future__ import annotations

# `custom` are those of evidence types that others brought.
SUBJECT_KINDS = ("file", "tree", "repo", "worktree", "row", "command", "net", "url", "port", "process", "container", "custom")
# pydantic's `.` and `$` know no lines, and neither does a path.
SUBJECT = f"^(?:{'|'.join(SUBJECT_KINDS)}):[^\\x00]+$"
# These are followed by a path, and a relative one is a thing of the base it was claimed under.
OF_A_PATH = ("file", "tree", "repo", "worktree")
# Subjects that are the same thing whatever base they were claimed under. Everything else is told apart by it, which claims
# more, not less; a row's database is named by a path too, but for our own registry, which has no name.
WITHOUT_BASE = (
    *(f"{kind}:/" for kind in (*OF_A_PATH, "row")),
    "row:#",
    *(f"{kind}:" for kind in SUBJECT_KINDS if kind not in (*OF_A_PATH, "row")),
)
