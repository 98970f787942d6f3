"""The format of a run's checkpoint: a JSON envelope around a state, readable by people and by other languages.

    version, run_id, node_id, sequence, timestamp, state, attempt, prev_node_id, next_node, compressed

When `compressed` is true, `state` is base64 of zstd. That happens by itself above 1 MiB, and from 1 KiB on request. A state
of more than 256 MiB is refused at both ends, and decompression stops there. Version 1 is what is written; 0, from before
there were versions, is migrated; anything else is refused. The bytes can go into any run store, which adds digests of its
own.
"""

from __future__ import annotations

import base64
import binascii
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.identifiers import check_id
from agentos.errors import CheckpointFormatError, InvalidInputError, SerializeStateError, SnapshotError
from agentos.store import envelope
from agentos.store.runs.contract import Data
from agentos.store.runs.inputs import checked_data

CURRENT_VERSION = 1
COMPRESS_FROM = 1 << 10
COMPRESS_ALWAYS_ABOVE = 1 << 20
WARN_ABOVE = 100 << 20
MAX_STATE = 256 << 20
# More than the other fields of an envelope can take.
_OTHER_FIELDS = 64 << 10

_log = logging.getLogger("agentos.store")


@dataclass(frozen=True, slots=True)
class CheckpointEnvelope:
    """A decoded checkpoint. `compressed` says how its state was stored; `state` is the state itself."""

    version: int
    run_id: str
    node_id: str
    sequence: int
    timestamp: datetime
    state: Any
    attempt: int
    prev_node_id: str
    next_node: str
    compressed: bool


def encode_checkpoint(
    state: Any,
    *,
    run_id: str,
    node_id: str,
    sequence: int,
    attempt: int = 1,
    prev_node_id: str = "",
    next_node: str = "",
    compress: bool = False,
) -> bytes:
    """The state with what says where in its run it belongs.

    Args:
        state: what JSON carries and gives back equal: dict with str keys, list, str, int, float, bool, None.
        compress: compress it from 1 KiB on, and not only above 1 MiB.

    Raises:
        SerializeStateError: some part of the state would not come back; names its path. Or it is larger than 256 MiB.
        InvalidInputError: another argument is not what it should be.
    """
    _check_place(run_id, node_id, sequence, attempt, prev_node_id, next_node, compress)
    encoded = _encoded(state)
    packed = len(encoded) > COMPRESS_ALWAYS_ABOVE or (compress and len(encoded) >= COMPRESS_FROM)
    if packed:
        encoded = b'"' + base64.b64encode(envelope.compressed(encoded)) + b'"'
    before = {
        "version": CURRENT_VERSION,
        "run_id": run_id,
        "node_id": node_id,
        "sequence": sequence,
        "timestamp": datetime.now(UTC).isoformat(),
    }
    after = {"attempt": attempt, "prev_node_id": prev_node_id, "next_node": next_node, "compressed": packed}
    # The state is JSON already: putting it between two objects saves encoding it twice.
    return b"".join((orjson.dumps(before)[:-1], b',"state":', encoded, b",", orjson.dumps(after)[1:]))


def decode_checkpoint(data: Data) -> CheckpointEnvelope:
    """The checkpoint in these bytes; one of version 0 is migrated on the way.

    Raises:
        CheckpointFormatError: no checkpoint of a known version, or larger than it may be. It is a ValueError.
    """
    given = checked_data(data)
    fields = envelope.checked(envelope.parsed(given))
    state = fields["state"]
    if fields["compressed"]:
        state = envelope.parsed(_unpacked(state), codec.MAX_DEPTH, "state")
    elif len(given) > MAX_STATE + _OTHER_FIELDS:
        raise CheckpointFormatError(f"state: {len(given):,} bytes with its envelope, at most {MAX_STATE:,} are allowed")
    return CheckpointEnvelope(**{**fields, "timestamp": envelope.timestamp_of(fields), "state": state})


def migrate_checkpoint(data: Data) -> bytes:
    """The same checkpoint in the current version; what is in it already comes back as it is."""
    given = checked_data(data)
    raw = envelope.parsed(given)
    fields = envelope.checked(raw)
    return given if envelope.version_of(raw) == CURRENT_VERSION else envelope.closed(fields)


def _encoded(state: Any) -> bytes:
    try:
        # An integer beyond 64 bits marks the document for the registry's reader; the mark is no part of the JSON.
        encoded = codec.encode(state, "state").removeprefix(b"#")
    except SnapshotError as error:
        raise SerializeStateError(error.message, hint=error.hint, path=error.diagnostics().get("path")) from error
    if len(encoded) > MAX_STATE:
        raise SerializeStateError(
            f"state: {len(encoded):,} bytes of JSON, at most {MAX_STATE:,} are allowed", hint="keep large content in files"
        )
    if len(encoded) > WARN_ABOVE:
        _log.warning("a state of %s bytes is stored; keep it below 100 MB and large content in files", f"{len(encoded):,}")
    return encoded


def _unpacked(state: Any) -> bytes:
    try:
        packed = base64.b64decode(state.encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise CheckpointFormatError("state: expected base64 of zstd, because `compressed` is true") from None
    return envelope.decompressed(packed, MAX_STATE)


def _check_place(
    run_id: Any, node_id: Any, sequence: Any, attempt: Any, prev_node_id: Any, next_node: Any, compress: Any
) -> None:
    check_id("run_id", run_id)
    check_id("node_id", node_id)
    for name, text in (("prev_node_id", prev_node_id), ("next_node", next_node)):
        if text != "":
            check_id(name, text)
    for name, number, least in (("sequence", sequence, 0), ("attempt", attempt, 1)):
        if type(number) is not int or not least <= number <= envelope.LARGEST:
            raise InvalidInputError(f"{name} must be a whole number from {least} to 2^63 - 1, found {shown(number, 60)}")
    if type(compress) is not bool:
        raise InvalidInputError(f"compress must be True or False, found {shown(compress, 60)}")
