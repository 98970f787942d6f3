"""How two snapshots differ: what was added, removed and changed, each with the way to it. Pure values.

Types are told apart as JSON does: 1 is not 1.0, and not true. What two lists begin and end with alike is the same; between
that, items are compared place by place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


class Change(NamedTuple):
    """One difference. `way` leads to it from the top, by keys and places; that of what was removed, in the older one."""

    way: tuple[str | int, ...]
    kind: str
    before: Any
    after: Any

    @property
    def pointer(self) -> str:
        """The way as a JSON pointer."""
        return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in self.way)

    def to_dict(self) -> dict[str, Any]:
        """All of it; only what there is of before and after."""
        told: dict[str, Any] = {"path": self.pointer, "change": self.kind}
        told |= {} if self.kind == ADDED else {"before": self.before}
        return told if self.kind == REMOVED else {**told, "after": self.after}


def differences(before: Any, after: Any, way: tuple[str | int, ...] = ()) -> Iterator[Change]:
    """Everything that differs, in the order in which the older one, then the newer one has it."""
    if type(before) is dict and type(after) is dict:
        yield from _of_objects(before, after, way)
    elif type(before) is list and type(after) is list:
        yield from _of_lists(before, after, way)
    elif not is_same(before, after):
        yield Change(way, CHANGED, before, after)


def _of_objects(before: dict[str, Any], after: dict[str, Any], way: tuple[str | int, ...]) -> Iterator[Change]:
    for key, value in before.items():
        if key in after:
            yield from differences(value, after[key], (*way, key))
        else:
            yield Change((*way, key), REMOVED, value, None)
    for key, value in after.items():
        if key not in before:
            yield Change((*way, key), ADDED, None, value)


def _of_lists(before: list[Any], after: list[Any], way: tuple[str | int, ...]) -> Iterator[Change]:
    shorter = min(len(before), len(after))
    head = next((place for place in range(shorter) if not is_same(before[place], after[place])), shorter)
    tail = 0
    while tail < shorter - head and is_same(before[-1 - tail], after[-1 - tail]):
        tail += 1
    olds, news = range(head, len(before) - tail), range(head, len(after) - tail)
    for place in range(head, min(olds.stop, news.stop)):
        yield from differences(before[place], after[place], (*way, place))
    for place in range(news.stop, olds.stop):
        yield Change((*way, place), REMOVED, before[place], None)
    for place in range(olds.stop, news.stop):
        yield Change((*way, place), ADDED, None, after[place])


def is_same(before: Any, after: Any) -> bool:
    """Whether two values are the same JSON."""
    if type(before) is not type(after):
        return False
    if type(before) is dict:
        return before.keys() == after.keys() and all(is_same(value, after[key]) for key, value in before.items())
    if type(before) is list:
        return len(before) == len(after) and all(map(is_same, before, after))
    return bool(before == after)
