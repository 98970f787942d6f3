"""The envelope of a checkpoint as plain data: read strictly, migrated, checked field by field, and written again.

What is missing, unknown or of another type is refused with its name. See format.py for what the fields mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from agentos._compression import zstd
from agentos._strict_json import parse
from agentos._text import listed, shown
from agentos.core.checkpoints.codec import MAX_DEPTH
from agentos.core.checkpoints.identifiers import check_id
from agentos.errors import CheckpointFormatError, InvalidInputError

# base64 of the largest state, if zstd cannot make it any smaller, and the other fields.
MAX_ENVELOPE = ((256 << 20) + (1 << 20)) // 3 * 4 + (64 << 10)
# What every backend and every JSON reader can keep.
LARGEST = 2**63 - 1
_WANTED = {
    "version": "the integer 1",
    "run_id": "an id",
    "node_id": "an id",
    "sequence": "a whole number from 0",
    "timestamp": "an ISO 8601 time with its offset from UTC",
    "state": "the state",
    "attempt": "a whole number from 1",
    "prev_node_id": "an id or empty",
    "next_node": "an id or empty",
    "compressed": "true or false",
}
# What a writer may leave out of version 1, and what version 0 did not have.
_OPTIONAL = {"next_node": "", "compressed": False}
_OPTIONAL_IN_0 = {"attempt": 1, "prev_node_id": "", **_OPTIONAL}


def checked(raw: Any) -> dict[str, Any]:
    """The fields of a checkpoint of any known version, as those of the current one."""
    version = version_of(raw)
    fields = {**(_OPTIONAL_IN_0 if version == 0 else _OPTIONAL), **raw, "version": 1}
    wrong = [name for name in _WANTED if name not in fields or not _FITS[name](fields[name])]
    if wrong:
        expected = f"expected {_WANTED[wrong[0]]}, found {shown(fields.get(wrong[0], 'nothing'), 60)}"
        raise CheckpointFormatError(f"checkpoint: {wrong[0]}: {expected}")
    unknown = sorted(fields.keys() - _WANTED.keys())
    if unknown:
        raise CheckpointFormatError(f"checkpoint: unknown fields: {listed(unknown)}", hint="it was written by other code")
    return {name: fields[name] for name in _WANTED}


def parsed(data: bytes, depth: int = MAX_DEPTH + 1, what: str = "checkpoint") -> Any:
    """The JSON in these bytes; an envelope is one level around its state."""
    if len(data) > MAX_ENVELOPE:
        raise CheckpointFormatError(f"{what}: {len(data):,} bytes, at most {MAX_ENVELOPE:,} are allowed")
    try:
        return parse(data, depth)
    except ValueError as error:
        raise CheckpointFormatError(f"{what}: {error}") from None


def version_of(raw: Any) -> int:
    """0 or 1."""
    if type(raw) is not dict:
        raise CheckpointFormatError(f"checkpoint: expected a JSON object, found {type(raw).__name__}")
    version = raw.get("version", 0)
    # True and 1.0 equal 1, and are not what was written.
    if type(version) is not int or version not in (0, 1):
        raise CheckpointFormatError(
            f"checkpoint: version {shown(version, 60)} is unknown", hint="this agentos reads versions 0 and 1; upgrade it"
        )
    return version


def closed(fields: dict[str, Any]) -> bytes:
    """The bytes of an envelope with these fields."""
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def timestamp_of(fields: dict[str, Any]) -> datetime:
    """When it was encoded; fields that were checked have one."""
    return datetime.fromisoformat(fields["timestamp"])


def compressed(data: bytes) -> bytes:
    """As one zstd frame."""
    return bytes(zstd().compress(data))


def decompressed(data: bytes, most: int) -> bytes:
    """What one zstd frame holds, which may be at most so many bytes.

    Raises:
        CheckpointFormatError: it holds more, or is not one whole frame.
    """
    module = zstd()
    decompressor = module.ZstdDecompressor()
    try:
        plain = bytes(decompressor.decompress(data, max_length=most + 1))
    except module.ZstdError:
        raise CheckpointFormatError("state: not what zstd wrote") from None
    if len(plain) > most:
        raise CheckpointFormatError(f"state: more than {most:,} bytes when decompressed, which is not allowed")
    if not decompressor.eof or decompressor.unused_data:
        raise CheckpointFormatError("state: expected one whole zstd frame, found a part of one or more than one")
    return plain


def _is_id(value: Any) -> bool:
    try:
        check_id("id", value)
    except InvalidInputError:
        return False
    return True


def _is_time(value: Any) -> bool:
    try:
        return type(value) is str and datetime.fromisoformat(value).utcoffset() is not None
    except ValueError:
        return False


_FITS: dict[str, Callable[[Any], bool]] = {
    "version": lambda value: type(value) is int,
    "run_id": _is_id,
    "node_id": _is_id,
    "sequence": lambda value: type(value) is int and 0 <= value <= LARGEST,
    "timestamp": _is_time,
    "state": lambda _: True,
    "attempt": lambda value: type(value) is int and 1 <= value <= LARGEST,
    "prev_node_id": lambda value: value == "" or _is_id(value),
    "next_node": lambda value: value == "" or _is_id(value),
    "compressed": lambda value: type(value) is bool,
}
