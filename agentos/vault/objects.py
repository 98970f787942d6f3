"""One kept content as bytes: whole, compressed, or as a difference to an earlier version of the same thing.

A text that changes in one line from step to step takes a few bytes a version. Versions follow each other in runs that begin
with a whole one, and each has its place in the run. Reading a difference means reading all beneath it, so it is not made to the
version just before: place 6 is made to 4, 7 to 6, 8 to 0. What a place stands on is its number with the lowest bit cleared, so
a run of 64 is never read through more than 6 differences, and damage to one takes few others along.

What was written is checked by whoever reads it, against the SHA-256 it is kept under; what is here decides nothing about that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from agentos._compression import zstd

MAGIC = b"agentos-kept-1\n"
RAW, ZSTD, DELTA = b"r", b"z", b"d"
# Versions in a run, of which the first is whole.
RUN = 64
# Beyond this nothing is held in memory as a whole, and nothing is stored as a difference.
MOST_IN_MEMORY = 8 << 20
_HEADER = struct.Struct(f">{len(MAGIC)}s c B Q")
_BASE = 32
_SMALLEST = 128
# Compressing must be worth reading it back.
_WORTH = 0.9
# A difference as small as this is taken without trying what else there is.
_TINY = 0.1
_LEVEL = 3
_WINDOW = (10, 27)


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes of an object say: its place in its run, and what it is a difference to, unless it is whole."""

    kind: bytes
    place: int
    size: int
    base: bytes

    @property
    def length(self) -> int:
        """How many bytes the header takes."""
        return _HEADER.size + len(self.base)

    def packed(self) -> bytes:
        """The header as it is stored."""
        return _HEADER.pack(MAGIC, self.kind, self.place, self.size) + self.base


class Base(NamedTuple):
    """An earlier version, for the next one to be a difference to."""

    digest: bytes
    content: bytes
    # Where the next version comes in the run.
    place: int


LONGEST_HEADER = _HEADER.size + _BASE


class MalformedError(ValueError):
    """These bytes are no object."""


def is_worth_packing(data: bytes) -> bool:
    """Whether what starts like this is worth compressing."""
    return len(data) >= _SMALLEST and len(_compressed(data)) < len(data) * _WORTH


def header_of(data: bytes) -> Header:
    """The header that these bytes start with.

    Raises:
        MalformedError: they start with none.
    """
    try:
        magic, kind, place, size = _HEADER.unpack_from(data)
    except struct.error:
        raise MalformedError from None
    base = data[_HEADER.size : _HEADER.size + _BASE] if kind == DELTA else b""
    if magic != MAGIC or kind not in (RAW, ZSTD, DELTA) or (kind == DELTA and len(base) != _BASE):
        raise MalformedError
    if (place > 0) is not (kind == DELTA):
        raise MalformedError
    return Header(kind, place, size, base)


def stands_on(place: int) -> int:
    """The place in a run of what the difference at this place is made to."""
    return place & (place - 1)


def encoded(data: bytes, base: Base | None = None) -> bytes:
    """The object for this content.

    Args:
        base: an earlier version, to store only the difference to it if that is smaller.
    """
    whole = Header(RAW, 0, len(data), b"")
    if len(data) < _SMALLEST:
        return whole.packed() + data
    difference = None if base is None or not _serves(base, len(data)) else _compressed(data, base.content)
    if base is None or difference is None or len(difference) > len(data) * _TINY:
        packed = _compressed(data)
        best = packed if len(packed) < len(data) * _WORTH else data
        if base is None or difference is None or len(difference) + _BASE >= len(best) * _WORTH:
            return (whole if best is data else Header(ZSTD, 0, len(data), b"")).packed() + best
    return Header(DELTA, base.place, len(data), base.digest).packed() + difference


def _serves(base: Base, size: int) -> bool:
    return 0 < base.place < RUN and size <= MOST_IN_MEMORY and len(base.content) >= _SMALLEST


def decoded(stored: bytes, content_of: Callable[[bytes], bytes]) -> bytes:
    """The content of an object.

    Args:
        content_of: the content of what it is a difference to, by its digest.

    Raises:
        MalformedError: these bytes cannot be read back.
    """
    header = header_of(stored)
    body = stored[header.length :]
    like = content_of(header.base) if header.base else b""
    data = body if header.kind == RAW else _decompressed(body, header.size, like)
    if len(data) != header.size:
        raise MalformedError
    return data


def _compressed(data: bytes, like: bytes = b"") -> bytes:
    module = zstd()
    options = {module.CompressionParameter.compression_level: _LEVEL}
    if not like:
        return bytes(module.compress(data, options=options))
    # Without a window over both, and a table for all of the older one, matches in it are silently not looked for.
    options[module.CompressionParameter.window_log] = _within(_WINDOW, (len(data) + len(like)).bit_length())
    options[module.CompressionParameter.hash_log] = _within((10, 26), len(like).bit_length() - 1)
    dictionary = module.ZstdDict(like, is_raw=True).as_prefix
    return bytes(module.compress(data, options=options, zstd_dict=dictionary))


def _decompressed(body: bytes, size: int, like: bytes) -> bytes:
    module = zstd()
    options = {module.DecompressionParameter.window_log_max: _WINDOW[1]}
    dictionary = module.ZstdDict(like, is_raw=True).as_prefix if like else None
    try:
        # One byte more than promised is enough to see that the promise is broken.
        data: bytes = module.ZstdDecompressor(zstd_dict=dictionary, options=options).decompress(body, size + 1)
    except (module.ZstdError, ValueError, OverflowError, MemoryError):
        raise MalformedError from None
    return data


def _within(bounds: tuple[int, int], number: int) -> int:
    return max(bounds[0], min(bounds[1], number))
