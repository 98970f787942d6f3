"""The format of a run's checkpoint: what goes in comes back, and what cannot is refused with its place."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos import _compression
from agentos.errors import CheckpointFormatError, InvalidInputError, SerializeStateError, SnapshotError
from agentos.store import envelope, format  # noqa: A004 - the module's name is part of the interface
from agentos.store.format import CheckpointEnvelope, decode_checkpoint, encode_checkpoint
from tests.unit.store.documents import FIELDS, PLACE, packed

zstd = _compression.zstd()

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_every_json_value_comes_back_equal(state):
    """Whole numbers of any size, every character, every nesting; compressed or not."""
    for compress in (False, True):
        found = decode_checkpoint(encode_checkpoint(state, **PLACE, compress=compress)).state
        assert repr(state) == repr(found)


def test_an_envelope_says_where_its_state_belongs():
    """Field by field, in this order, as JSON that anybody can read."""
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    data = encode_checkpoint({"n": 1}, **PLACE, attempt=2, prev_node_id="before", next_node="after")
    raw = json.loads(data)
    assert FIELDS == list(raw)
    assert (1, "run-123", {"n": 1}, False) == (raw["version"], raw["run_id"], raw["state"], raw["compressed"])
    found = decode_checkpoint(data)
    assert before <= found.timestamp <= datetime.now(UTC)
    assert (
        CheckpointEnvelope(1, "run-123", "process", 1, found.timestamp, {"n": 1}, 2, "before", "after", compressed=False)
        == found
    )


@pytest.mark.parametrize(
    ("size", "compress", "expected"),
    [
        (1023, True, False),
        (1024, True, True),
        (1 << 20, False, False),
        ((1 << 20) + 1, False, True),
        ((1 << 20) + 1, True, True),
    ],
)
def test_compression_begins_where_it_should(size, compress, expected):
    """From 1 KiB on request, above 1 MiB by itself; the size is that of the state's JSON."""
    state = "x" * (size - 2)
    data = encode_checkpoint(state, **PLACE, compress=compress)
    assert (expected, state) == (json.loads(data)["compressed"], decode_checkpoint(data).state)
    assert len(data) < size or not expected


def test_a_compressed_state_is_base64_of_zstd():
    """For any program to read."""
    raw = json.loads(encode_checkpoint({"x": "y" * 5000}, **PLACE, compress=True))
    assert {"x": "y" * 5000} == json.loads(zstd.decompress(base64.b64decode(raw["state"])))


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({"a": [1, {"b": {1, 2}}]}, r"state\['a'\]\[1\]\['b'\]"),
        ({"a": float("nan")}, r"state\['a'\]"),
        ({"a": {1: 2}}, r"state\['a'\]: key 1"),
        ((1, 2), "state: tuple"),
        ({"f": len}, r"state\['f'\]"),
        ({"s": ["\ud800"]}, r"state\['s'\]\[0\]"),
        ({"n": 10**5000}, r"state\['n'\]"),
    ],
)
def test_a_state_that_json_cannot_carry_is_refused_with_its_path(state, path):
    """With one error, that callers of the manager know as well."""
    with pytest.raises(SerializeStateError, match=path) as refused:
        encode_checkpoint(state, **PLACE)
    assert isinstance(refused.value, SnapshotError)
    assert refused.value.diagnostics()["path"].startswith("state")


def test_a_state_that_is_nested_too_deep_is_refused():
    """At both ends, at the same depth."""
    state: Any = 1
    for _ in range(64):
        state = [state]
    assert state == decode_checkpoint(encode_checkpoint(state, **PLACE)).state
    with pytest.raises(SerializeStateError, match="64 levels"):
        encode_checkpoint([state], **PLACE)
    with pytest.raises(CheckpointFormatError, match="levels deep"):
        decode_checkpoint(packed(state=[state]))
    with pytest.raises(CheckpointFormatError, match="levels deep"):
        decode_checkpoint(b"[" * 100_000)


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": ""},
        {"run_id": 7},
        {"node_id": "a\0"},
        {"sequence": -1},
        {"sequence": True},
        {"sequence": "1"},
        {"attempt": 0},
        {"attempt": 1.0},
        {"prev_node_id": None},
        {"next_node": 7},
        {"compress": 1},
    ],
    ids=repr,
)
def test_an_argument_that_is_not_what_it_should_be_is_refused(change):
    """By name, before anything is encoded."""
    with pytest.raises(InvalidInputError, match=next(iter(change))):
        encode_checkpoint({}, **{**PLACE, **change})


# Sizes


def test_a_state_above_256_mib_is_refused_at_both_ends(monkeypatch):
    """The limits are what the docs say; that they hold is shown with smaller ones."""
    assert (256 << 20, 100 << 20) == (format.MAX_STATE, format.WARN_ABOVE)
    large = encode_checkpoint("x" * 5000, **PLACE, compress=True)
    plain = packed(state="y" * 70_000)
    monkeypatch.setattr(format, "MAX_STATE", 4000)
    with pytest.raises(SerializeStateError, match="at most 4,000"):
        encode_checkpoint("x" * 4000, **PLACE)
    for data in (large, plain):
        with pytest.raises(CheckpointFormatError, match="4,000"):
            decode_checkpoint(data)
    monkeypatch.setattr(envelope, "MAX_ENVELOPE", 100)
    with pytest.raises(CheckpointFormatError, match="at most 100"):
        decode_checkpoint(plain)


def test_decompression_stops_at_the_limit(monkeypatch):
    """A kilobyte that would become a gigabyte is refused for the price of the limit."""
    monkeypatch.setattr(format, "MAX_STATE", 1 << 20)
    bomb = zstd.compress(b'"' + b"x" * (64 << 20) + b'"')
    assert len(bomb) < 10_000
    with pytest.raises(CheckpointFormatError, match="1,048,576"):
        decode_checkpoint(packed(state=base64.b64encode(bomb).decode(), compressed=True))


def test_a_state_above_100_mb_is_warned_about(monkeypatch, caplog):
    """With its size and without its values."""
    monkeypatch.setattr(format, "WARN_ABOVE", 1000)
    encode_checkpoint("secret" * 100, **PLACE)
    assert [] == caplog.messages
    encode_checkpoint("secret" * 200, **PLACE)
    assert (1, True, False) == (len(caplog.messages), "1,202 bytes" in caplog.text, "secret" in caplog.text)
