"""Amounts as people say and type them: bytes, numbers of things, and ages."""

from __future__ import annotations

import re
from datetime import timedelta

from agentos._text import shown
from agentos.errors import InvalidInputError

_STEP = 1000
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_AGE = re.compile(r"(\d{1,6})\s*(m|h|d|w)")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def in_bytes(count: int) -> str:
    """So many bytes: exact below a thousand, then in the largest unit that leaves something before the point."""
    size = float(count)
    for unit in _UNITS:
        if size < _STEP or unit == _UNITS[-1]:
            break
        size /= _STEP
    return f"{count:,} bytes" if unit == _UNITS[0] else f"{size:.1f} {unit}"


def things(count: int, one: str, many: str | None = None) -> str:
    """So many of something."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def age(text: str) -> timedelta:
    """How old something is, from `90m`, `12h`, `30d` or `4w`."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(f"{shown(text, 40)}: not an age", hint="a number and m, h, d or w: 90m, 12h, 30d, 4w")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
