"""Marks and colours for a terminal, plain words for everything else."""

from __future__ import annotations

import io
import os
import sys

_MARKS = {
    "verified": ("✓", "ok", "32"),
    "failed": ("✗", "FAILED", "31"),
    "refused": ("✗", "REFUSED", "31"),
    "error": ("?", "UNKNOWN", "33"),
    "pending": ("·", "pending", "33"),
    "open": ("…", "open", "33"),
    "superseded": ("~", "superseded", "90"),
    "event": ("•", "--", "36"),
    "killed": ("☠", "KILLED", "31"),
    "damaged": ("✗", "DAMAGED", "31"),
    "deleted": ("~", "deleted", "90"),
    "abandoned": ("~", "abandoned", "90"),
    "running": ("…", "running", "36"),
    "added": ("+", "+", "32"),
    "removed": ("-", "-", "31"),
    "changed": ("~", "~", "33"),
}


def show_anything() -> None:
    """Write what the terminal's encoding cannot show in its escaped form: a report must arrive, whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def fancy() -> bool:
    """Whether a person is looking at a terminal that wants colour."""
    if "NO_COLOR" in os.environ:
        return False
    if "FORCE_COLOR" in os.environ:
        return True
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def mark_of(name: str) -> str:
    """The mark of this name."""
    symbol, word, colour = _MARKS[name]
    return f"\x1b[{colour}m{symbol}\x1b[0m" if fancy() else f"{word:<10}"


def sign_of(name: str) -> str:
    """The mark of this name where no column of words is wanted."""
    symbol, word, colour = _MARKS[name]
    return f"\x1b[{colour}m{symbol}\x1b[0m" if fancy() else word


def bold(text: str) -> str:
    """A headline."""
    return f"\x1b[1m{text}\x1b[0m" if fancy() else text


def dim(text: str) -> str:
    """Something beside the point."""
    return f"\x1b[90m{text}\x1b[0m" if fancy() else text
