"""The codec: what is accepted comes back exactly, what would not is refused with its path, and reading guesses nothing."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentos.core.checkpoints import codec
from agentos.errors import SnapshotError, StoreCorruptError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LARGE = st.integers(-(10**40), 10**40) | st.integers(60, 70).map(lambda power: 2**power)
SCALARS = st.none() | st.booleans() | st.integers() | LARGE | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=25)


def exactly(value: Any) -> str:
    """Equality is too kind: it takes 1 for 1.0 and True. The text of plain data tells them apart."""
    return repr(value)


@given(value=JSON)
@example(2**64)
@example(10**22)
@example([2**64, 1.8446744073709552e19, -(2**63) - 1])
@example({"a": -0.0, "b": 1.0, "c": 1, "d": True})
@example("\u0000\u2028\U0001f600 \\ud800")
@example({"#": "#"})
def test_what_is_accepted_comes_back_exactly(value):
    """Value for value, type for type, in order, in the copy that is given at once and in what is stored."""
    data, copy = codec.encode_checked(value)
    assert exactly(codec.decode(data)) == exactly(copy) == exactly(value)
    assert codec.encode(value) == data


@given(value=JSON)
def test_the_copy_shares_nothing(value):
    """What a caller does to the value afterwards does not reach what was accepted."""
    _, copy = codec.encode_checked([value])
    before = exactly(copy)
    if isinstance(value, list):
        value.append("more")
    elif isinstance(value, dict):
        value["more"] = 1
    assert exactly(copy) == before


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.StrEnum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError


@dataclass
class Data:
    x: int = 1


class Point(NamedTuple):
    x: int
    y: int


REFUSED = {
    "tuple": (1, 2),
    "empty tuple": (),
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "bytes": b"x",
    "bytearray": bytearray(b"x"),
    "set": {1},
    "frozenset": frozenset(),
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "int enum": Level.LOW,
    "str enum": Colour.RED,
    "str subclass": Text("x"),
    "int subclass": Number(1),
    "namedtuple": Point(1, 2),
    "ordered dict": OrderedDict(a=1),
    "default dict": defaultdict(int, a=1),
    "complex": 1j,
    "decimal": Decimal(1),
    "uuid": UUID(int=1),
    "dataclass": Data(),
    "object": object(),
    "no repr": Silent(),
    "function": len,
    "ellipsis": ...,
    "lone surrogate": "a\ud800b",
    "split pair": "\ud83d" + "\ude00",
    "too many digits": 10**4300,
    "too many digits below zero": -(10**4300),
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
def test_what_json_would_change_is_refused_with_its_path(value):
    """At the top, in a list, in a dict: the error names the exact place, and one of our own kind."""
    for wrapped, path in ((value, "state"), ({"a": [0, {"b": value}]}, "state['a'][1]['b']"), ([[], value], "state[1]")):
        with pytest.raises(SnapshotError) as refused:
            codec.encode(wrapped, "state")
        assert refused.value.message.startswith(f"{path}: ")
        assert refused.value.diagnostics()["path"] == path
        assert refused.value.message.isprintable()


KEYS = {
    "int": 1,
    "float": 1.5,
    "none": None,
    "bool": True,
    "tuple": (1,),
    "bytes": b"x",
    "str enum": Colour.RED,
    "str subclass": Text("x"),
    "huge int": 10**5000,
    "no repr": Silent(),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_a_key_must_be_a_str(key):
    """JSON would turn 1 into "1"; a key of another type is refused, and the path is that of its dict."""
    with pytest.raises(SnapshotError, match=r"^state\['a'\]: key .* keys must be str"):
        codec.encode({"a": {key: 1}}, "state")


@pytest.mark.parametrize("key", ["\ud800", "\ud83d" + "\ude00"])
def test_a_key_must_be_text_that_utf_8_can_carry(key):
    """A surrogate in a key is found like one in a value."""
    with pytest.raises(SnapshotError, match=r"^state\['a'\]: key: .*lone surrogate"):
        codec.encode({"a": {key: 1}}, "state")


def nested(levels: int, make: Any = lambda inner: [inner]) -> Any:
    value = make(0)
    for _ in range(levels - 1):
        value = make(value)
    return value


SHAPES = {
    "lists": lambda inner: [inner],
    "dicts": lambda inner: {"k": inner},
    "crowded": lambda inner: [[], {}, inner, []],
    "brackets in text": lambda inner: ["]", inner, "["],
    "braces in text": lambda inner: {"}": "}", "k": inner, "{": "{"},
    "quotes in text": lambda inner: ['"]\\"', inner, '["\\'],
    "lines in text": lambda inner: ["\n" + " " * 200, inner],
}


@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES.keys())
def test_sixty_four_levels_are_accepted_and_no_more(make):
    """The limit is exact, whatever brackets the texts hold."""
    assert codec.decode(codec.encode(nested(64 - (make is SHAPES["crowded"]), make)))
    for levels in (65, 66, 100, 250, 300, 2000):
        with pytest.raises(SnapshotError, match="nested more than 64 levels deep"):
            codec.encode(nested(levels, make))


@pytest.mark.parametrize("value", [[], {}])
def test_an_empty_container_is_a_level(value):
    """Sixty-four around nothing are accepted, one more is not."""
    for _ in range(63):
        value = [value]
    assert exactly(codec.decode(codec.encode(value))) == exactly(value)
    with pytest.raises(SnapshotError, match="nested more than 64 levels deep"):
        codec.encode([value])


def test_deep_brackets_in_flat_text_are_only_text():
    """A long text of brackets is not deep."""
    value = {"text": "[" * 1000 + "{" * 1000, "more": ["]" * 500] * 100}
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("sign", [1, -1])
def test_four_thousand_three_hundred_digits_are_accepted(sign):
    """The largest integer Python itself reads back, and not one digit more."""
    value = sign * (10**4300 - 1)
    assert codec.decode(codec.encode([value])) == [value]
    with pytest.raises(SnapshotError, match=r"more than 4,300 digits"):
        codec.encode([sign * 10**4300])


def test_a_value_that_contains_itself_is_refused():
    """It is deeper than any limit, and does not hang."""
    value: dict[str, Any] = {}
    value["self"] = value
    with pytest.raises(SnapshotError, match="nested more than 64 levels deep"):
        codec.encode(value)


def test_hostile_keys_do_not_drive_a_terminal():
    """The path in a message is escaped and cut."""
    with pytest.raises(SnapshotError) as refused:
        codec.encode({"\x1b[2J" + "k" * 500: math.nan}, "state")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    "data", [b"", b"{", b"#", b"#{", b"nul", b"\xff", b'{"a":1}x', b"#[" * 100_000, b"[" * 100_000, b"NaN"]
)
def test_bytes_that_were_never_written_are_damage(data):
    """Reading raises one error of ours; it repairs, guesses and executes nothing."""
    with pytest.raises(StoreCorruptError, match="stored JSON cannot be read back"):
        codec.decode(data)


def test_stored_bytes_are_plain_json():
    """Anybody can read them; only integers beyond 64 bits need the mark."""
    assert codec.encode({"a": [1, 2.5, None, True, "ü"]}) == '{"a":[1,2.5,null,true,"ü"]}'.encode()
    assert codec.encode([2**63]) == b"[9223372036854775808]"
    assert codec.encode([2**64]) == b"#[18446744073709551616]"
