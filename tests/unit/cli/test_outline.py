"""Values, rows and ages as people read them: escaped, cut, aligned, and never more made than is shown."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from agentos.cli.columns import ago, aligned, clock
from agentos.cli.outline import brief, cut, outline

NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"), (4, "just now"), (-4, "just now"), (5, "5 s ago"), (59, "59 s ago"), (60, "1 min ago"),
        (3599, "59 min ago"), (3600, "1 h ago"), (172_799, "47 h ago"), (172_800, "2 days ago"), (5_183_999, "59 days ago"),
        (5_184_000, "on 2025-12-31"), (-60, "in the future"),
    ],
)  # fmt: skip
def test_ages_in_words(seconds: int, words: str):
    """In the largest unit that says something, and never as if something that is to come had been."""
    moment = NOW - timedelta(seconds=seconds)
    assert (words, words) == (ago(moment, NOW), ago(moment.isoformat(), NOW))


def test_a_moment_that_is_not_known_is_a_dash():
    """Of none and of nothing."""
    assert ["-"] * 4 == [ago(None), ago(""), clock(None), clock("")]


def test_a_clock_is_in_utc():
    """Whatever the zone it came in."""
    assert "2026-03-01 01:30:00" == clock("2026-03-01T03:30:00.5+02:00")


def test_columns_are_aligned_escaped_and_cut():
    """The widest cell decides; what is not there is a dash."""
    lines = list(aligned(["A", "LONG NAME", "C"], [["x\x1b", None, 1], ["y" * 60, "z", None]]))
    assert ["A" + " " * 49 + "LONG NAME  C", "x\\x1b" + " " * 45 + "-          1", "y" * 47 + "…  z          -"] == lines


VALUES: list[tuple[Any, str]] = [
    (None, "null"), (True, "true"), (1.5, "1.5"), ("a", '"a"'), ("\x1b[2J", '"\\x1b[2J"'), ([], "[]"), ({}, "{}"),
    ([1, "a", None], '[1, "a", null]'), ({"a": {"b": [1]}}, "{a: {b: [1]}}"), ("https://a:b@c/", '"https://a:***@c/"'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "words"), VALUES)
def test_a_value_in_passing(value: Any, words: str):
    """On one line."""
    assert words == brief(value)


HUGE = {
    "text": "x" * 10**7,
    "list": [*range(10**6)],
    "object": {f"k{number}": "v" * 1000 for number in range(1000)},
    "integer": 1 << 10**6,
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_huge_value_in_passing_is_short_and_says_so(kind: str):
    """Nothing is made of what is not shown."""
    said = brief(HUGE[kind])
    assert len(said) < 400
    assert any(word in said for word in ("characters", "more", "bits"))


def test_a_deep_value_in_passing_is_short():
    """Of sixty levels, with several parts in each."""
    value: Any = "leaf"
    for _ in range(60):
        value = {"a": value, "b": [value, value] if len(str(value)) < 1000 else "b", "c": "c" * 100}
    assert len(brief(value)) < 2000


def test_an_outline_has_a_line_for_each_thing():
    """Nested, with what fits beside its name."""
    value = {"n": 1, "few": [1, 2], "deep": {"list": [{"x": 1}, [["y"] * 40]]}, "": None}
    tops = ["n: 1", "few: [1, 2]", "deep:", "  list:", "    [0]: {x: 1}", "    [1]:", "      [0]:"]
    assert [*tops, *[f'        [{number}]: "y"' for number in range(40)], '"": null'] == list(outline(value))


def test_an_outline_of_anything_huge_begins_at_once():
    """Only as much of it is made as is taken."""
    assert ["[0]: 0", "[1]: 1"] == list(islice(outline(list(range(10**6))), 2))
    assert ["[0]: 0", "[1]: 1", "more"] == list(cut(outline(list(range(10**6))), 2, "more"))
    assert ["[0]: 0"] == list(cut(outline([0]), 1, "more"))
    assert 20 == len(list(cut(outline(list(range(20))), None, "more")))
