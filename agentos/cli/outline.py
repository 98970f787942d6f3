"""JSON values for people: indented lines for a whole one, a few words for one in passing.

Everything is escaped and cut, and nothing is made of what is not shown: a value may be of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from agentos._text import shown

_STEP = "  "
_LONGEST_LINE = 96
_LONGEST_TEXT = 72
_IN_PASSING = 16
_CONTAINERS = (dict, list)


def outline(value: Any, indent: str = "") -> Iterator[str]:
    """The value as lines, one for each thing in it; short lists in one."""
    if not isinstance(value, _CONTAINERS) or not value:
        yield f"{indent}{brief(value)}"
        return
    for name, each in _parts(value):
        if isinstance(each, _CONTAINERS) and each and not _fits(each):
            yield f"{indent}{name}:"
            yield from outline(each, indent + _STEP)
        else:
            yield f"{indent}{name}: {brief(each)}"


def cut(lines: Iterable[str], most: int | None, more: str) -> Iterator[str]:
    """So many lines, and a word if there are more; all of them for None."""
    every = iter(lines)
    yield from every if most is None else islice(every, most)
    if next(every, None) is not None:
        yield more


def brief(value: Any, room: int = _LONGEST_LINE) -> str:
    """The value in a few words, at most about so many letters."""
    if isinstance(value, str):
        return _quoted(value, room)
    if not isinstance(value, _CONTAINERS):
        return _plain(value, room)
    left, right = "{}" if isinstance(value, dict) else "[]"
    few, used = [], 0
    for name, each in islice(_parts(value), _IN_PASSING):
        if used > room:
            break
        text = brief(each, min(room, _LONGEST_TEXT) if isinstance(each, str) else max(8, room // 2))
        few.append(f"{name}: {text}" if isinstance(value, dict) else text)
        used += len(few[-1]) + 2
    rest = f", … {len(value) - len(few):,} more" if len(value) > len(few) else ""
    return f"{left}{', '.join(few)}{rest}{right}"


def place(part: str | int) -> str:
    """A key or a place in a list, as it is shown."""
    return f"[{part}]" if isinstance(part, int) else shown(part, 60) or '""'


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    pairs: Iterable[tuple[str | int, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    return ((place(name), each) for name, each in pairs)


def _fits(value: Any) -> bool:
    """Whether it is a few plain values that fit into a line."""
    if len(value) > _IN_PASSING:
        return False
    each = value.values() if isinstance(value, dict) else value
    return (
        not any(isinstance(item, _CONTAINERS) and item for item in each)
        and len(brief(value, _LONGEST_LINE * 2)) <= _LONGEST_LINE
    )


def _quoted(text: str, room: int) -> str:
    if len(text) <= room:
        return f'"{shown(text, room + 1)}"'
    return f'"{shown(text[:room], room + 1)}…" ({len(text):,} characters)'


def _plain(value: Any, room: int) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > room * math.log2(10):
        return f"an integer of {value.bit_length():,} bits"
    return shown(repr(value), room)
