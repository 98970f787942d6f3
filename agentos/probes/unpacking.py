"""Read a body that somebody else sent, and unpack it if it came packed, up to a limit that holds for both."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from agentos._text import shown
from agentos.probes.cannot_see import CannotSee

# What zlib is to expect: a gzip header, or its own.
_FORMATS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_PIECE = 1 << 16


class TooLarge(Exception):  # noqa: N818 - it is a limit, not an error
    """There is more than was asked for."""


class Broken(Exception):  # noqa: N818 - it says what came
    """What came is not what it says it is."""


def unpacked(pieces: Iterable[bytes], encoding: str, most: int) -> bytes:
    """The body, whole.

    Raises:
        TooLarge: it is longer than `most`, as it came or unpacked.
        Broken: it is not packed as it says.
        CannotSee: it is packed in a way that nobody here knows.
    """
    if encoding == "identity":
        return _whole(pieces, most)
    if encoding not in _FORMATS:
        raise CannotSee("ENCODING_UNKNOWN", f"the body came as {shown(encoding, 60)}, though it was asked for as it is")
    return _whole(_unpacked(_whole(pieces, most), _FORMATS[encoding], most), most)


def _whole(pieces: Iterable[bytes], most: int) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > most:
            raise TooLarge
    return bytes(body)


def _unpacked(packed: bytes, form: int, most: int) -> Iterator[bytes]:
    """Never more than a piece at once, however much a few bytes would become."""
    try:
        while packed:
            unpacker = zlib.decompressobj(form)
            while not unpacker.eof:
                piece = unpacker.decompress(packed, min(_PIECE, most + 1))
                if not piece and not unpacker.eof and not unpacker.unconsumed_tail:
                    raise Broken("the body ends in the middle of its compressed form")
                packed = unpacker.unconsumed_tail
                yield piece
            # Several packed bodies one after the other are one.
            packed = unpacker.unused_data
    except zlib.error as error:
        raise Broken(f"the body is not compressed as it says: {error}") from error
