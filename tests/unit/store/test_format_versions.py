"""Checkpoints that this code did not write: of other versions, from other programs, or no checkpoints at all."""

import base64
import json
from datetime import UTC, datetime

import pytest

from agentos import _compression
from agentos.errors import CheckpointError, CheckpointFormatError
from agentos.store.format import decode_checkpoint, encode_checkpoint, migrate_checkpoint
from tests.unit.store.documents import FIELDS, PLACE, packed

zstd = _compression.zstd()


@pytest.mark.parametrize("version", [..., 0], ids=["no version", "version 0"])
def test_version_0_is_migrated(version):
    """A missing version is version 0; what it did not have gets its default, and nothing is lost."""
    old = packed(version=version, attempt=..., prev_node_id=...)
    new = json.loads(migrate_checkpoint(old))
    assert (FIELDS, 1, 1, "", "", False) == (
        *(list(new), new["version"], new["attempt"]),
        *(new["prev_node_id"], new["next_node"], new["compressed"]),
    )
    assert decode_checkpoint(old) == decode_checkpoint(migrate_checkpoint(old))
    assert {"a": 1} == decode_checkpoint(old).state


def test_a_compressed_state_of_version_0_is_migrated_as_it_is():
    """It is not unpacked on the way."""
    state = base64.b64encode(zstd.compress(b'{"a":[1]}')).decode()
    old = packed(version=0, state=state, compressed=True, attempt=...)
    assert (state, {"a": [1]}) == (json.loads(migrate_checkpoint(old))["state"], decode_checkpoint(old).state)


def test_the_current_version_comes_back_as_it_is():
    """Byte for byte."""
    for data in (encode_checkpoint({"n": 10**30}, **PLACE), packed(), bytearray(packed())):
        assert bytes(data) == migrate_checkpoint(data)


@pytest.mark.parametrize("version", [2, -1, 1.0, True, False, "1", None, [1]], ids=repr)
def test_any_other_version_is_refused(version):
    """Also what Python calls equal to 1 or 0."""
    for call in (decode_checkpoint, migrate_checkpoint):
        with pytest.raises(CheckpointFormatError, match="version"):
            call(packed(version=version))


# What somebody else wrote


def test_what_go_writes_is_read():
    """Nine digits of a second, a Z, and fields left out that are empty."""
    found = decode_checkpoint(packed(timestamp="2025-01-19T10:00:00.123456789Z"))
    assert (datetime(2025, 1, 19, 10, 0, 0, 123456, tzinfo=UTC), "", False) == (
        found.timestamp,
        found.next_node,
        found.compressed,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": ...},
        {"run_id": 7},
        {"run_id": ""},
        {"node_id": ...},
        {"sequence": 1.5},
        {"sequence": -1},
        {"sequence": True},
        {"timestamp": ...},
        {"timestamp": "yesterday"},
        {"timestamp": "2025-01-19T10:00:00"},
        {"timestamp": 7},
        {"state": ...},
        {"attempt": 0},
        {"attempt": ...},
        {"prev_node_id": None},
        {"next_node": 7},
        {"compressed": 1},
        {"surprise": 1},
        {"state": {"a": 1}, "compressed": True},
        {"state": "not base64!", "compressed": True},
        {"state": base64.b64encode(b"not zstd").decode(), "compressed": True},
        {"state": base64.b64encode(zstd.compress(b"not json")).decode(), "compressed": True},
        {"state": base64.b64encode(zstd.compress(b"1")[:-1]).decode(), "compressed": True},
        {"state": base64.b64encode(zstd.compress(b"1") + b"x").decode(), "compressed": True},
    ],
    ids=repr,
)
def test_what_is_missing_unknown_or_of_another_type_is_refused_by_name(change):
    """As a ValueError that is one of ours."""
    with pytest.raises(CheckpointFormatError, match=next(iter(change))) as refused:
        decode_checkpoint(packed(**change))
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, CheckpointError)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"a":NaN}',
        b'{"version":1,"version":1}',
        b'{"x":"\\ud800"}',
        packed()[:-1],
        packed() + b"x",
    ],
)
def test_what_is_no_document_is_refused(data):
    """Whatever it is."""
    for call in (decode_checkpoint, migrate_checkpoint):
        with pytest.raises(CheckpointFormatError):
            call(data)


@pytest.mark.parametrize("data", ["{}", None, 7, {}])
def test_what_is_no_bytes_is_a_type_error(data):
    """As in a run store."""
    with pytest.raises(TypeError, match="bytes"):
        decode_checkpoint(data)
