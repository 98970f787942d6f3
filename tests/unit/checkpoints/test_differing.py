"""How two values differ: what is told is enough to make the one of the other, and nothing is told that is the same."""

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from agentos.core.checkpoints.differing import ADDED, CHANGED, REMOVED, Change, differences, is_same

Count = Callable[[int, int], int]

CASES = [
    ({"a": 1}, {"a": 1}, []),
    ({"a": 1}, {"a": 1.0}, [("/a", CHANGED)]),
    ({"a": True}, {"a": 1}, [("/a", CHANGED)]),
    ({"a": None}, {}, [("/a", REMOVED)]),
    ({}, {"a": None}, [("/a", ADDED)]),
    ({"a": {}}, {"a": []}, [("/a", CHANGED)]),
    ({"a": [1, 2, 3]}, {"a": [1, 3]}, [("/a/1", REMOVED)]),
    ({"a": [1, 3]}, {"a": [1, 2, 3]}, [("/a/1", ADDED)]),
    ({"a": [1, 1]}, {"a": [1, 1, 1]}, [("/a/2", ADDED)]),
    ({"a": [{"b": 1}, 2]}, {"a": [{"b": 3}, 2]}, [("/a/0/b", CHANGED)]),
    ({"a": [1, 2]}, {"a": [3, 4, 5]}, [("/a/0", CHANGED), ("/a/1", CHANGED), ("/a/2", ADDED)]),
    ({"a/b": 1, "c~d": 1, "": 1}, {"a/b": 2, "c~d": 2, "": 2}, [("/a~1b", CHANGED), ("/c~0d", CHANGED), ("/", CHANGED)]),
    ({"a": 1, "b": 2}, {"b": 3, "c": 4}, [("/a", REMOVED), ("/b", CHANGED), ("/c", ADDED)]),
]


@pytest.mark.parametrize(("before", "after", "expected"), CASES)
def test_what_differs_is_told_with_the_way_to_it(before: Any, after: Any, expected: list[tuple[str, str]]):
    """By JSON pointers; types are told apart, and lists by what they begin and end with."""
    assert expected == [(each.pointer, each.kind) for each in differences(before, after)]


def drawn(rng: random.Random, depth: int = 0) -> Any:
    """Some JSON, of few enough values that parts of it are alike."""
    kind = rng.randrange(4 if depth < 4 else 2)
    if kind == 0:
        return rng.choice([None, True, False, 0, 1, 1.0, -0.0, "", "a", "b"])
    if kind == 1:
        return rng.randrange(3)
    if kind == 2:
        return [drawn(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {rng.choice("abcde"): drawn(rng, depth + 1) for _ in range(rng.randrange(5))}


def applied(before: Any, changes: list[Change]) -> Any:
    """The older value with the changes made: those of a list from its end, so that no place moves before its turn."""
    result = copy.deepcopy({"": before})
    removals = [each for each in changes if each.kind == REMOVED]
    for each in [*[each for each in changes if each.kind == CHANGED], *reversed(removals)]:
        holder, last = within(result, each.way)
        if each.kind == CHANGED:
            holder[last] = each.after
        else:
            del holder[last]
    for each in (each for each in changes if each.kind == ADDED):
        holder, last = within(result, each.way)
        if isinstance(holder, list):
            holder.insert(last, each.after)
        else:
            holder[last] = each.after
    return result[""]


def within(value: Any, way: tuple[str | int, ...]) -> tuple[Any, Any]:
    *path, last = ("", *way)
    for part in path:
        value = value[part]
    return value, last


def test_what_is_told_makes_the_one_of_the_other(seed: int, count: Count):
    """For values drawn at random, and for small changes of them."""
    rng = random.Random(f"{seed}-differing")
    told = 0
    for _ in range(count(2000, 40_000)):
        before = {"top": drawn(rng)}
        after = {"top": drawn(rng)} if rng.random() < 0.5 else nudged(rng, copy.deepcopy(before))
        changes = list(differences(before, after))
        assert is_same(applied(before, changes), after), (before, after, changes)
        assert bool(changes) is not is_same(before, after), (before, after)
        told += len(changes)
    assert told > 100


def nudged(rng: random.Random, value: Any) -> Any:
    """The same with one part of it drawn anew."""
    part = value
    while isinstance(part, (dict, list)) and part:
        key = rng.choice(list(part)) if isinstance(part, dict) else rng.randrange(len(part))
        if rng.random() < 0.4:
            part[key] = drawn(rng)
            break
        part = part[key]
    return value


def test_a_list_of_a_hundred_thousand_costs_no_square():
    """One item more at its head is one change."""
    many = [{"n": number} for number in range(100_000)]
    assert [("/a/0", ADDED)] == [(each.pointer, each.kind) for each in differences({"a": many}, {"a": [{"n": -1}, *many]})]
