"""Large content, piece by piece: packed when it is kept, unpacked when it is read, never in memory as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agentos._compression import zstd
from agentos.vault.objects import RAW, ZSTD, Header, MalformedError, is_worth_packing

PIECE = 1 << 20


class Packing:
    """Turns pieces of content into the body of an object. Whether that is compressed the first piece decides."""

    def __init__(self, first: bytes) -> None:
        self.kind = ZSTD if is_worth_packing(first) else RAW
        self._compressor = zstd().ZstdCompressor() if self.kind == ZSTD else None

    def pack(self, piece: bytes) -> bytes:
        """The next bytes of the body."""
        return piece if self._compressor is None else bytes(self._compressor.compress(piece))

    def end(self) -> bytes:
        """The last bytes of it."""
        return b"" if self._compressor is None else bytes(self._compressor.flush())


def unpacked(source: int, header: Header) -> Iterator[bytes]:
    """The content of an object, in pieces, from a descriptor that stands behind its header.

    Raises:
        MalformedError: it cannot be read back, or is longer than it says.
    """
    left = header.size
    for piece in _pieces(source) if header.kind == RAW else _decompressed(source):
        left -= len(piece)
        if left < 0:
            raise MalformedError
        yield piece


def _pieces(source: int) -> Iterator[bytes]:
    while piece := os.read(source, PIECE):
        yield piece


def _decompressed(source: int) -> Iterator[bytes]:
    module = zstd()
    decompressor = module.ZstdDecompressor()
    try:
        for piece in _pieces(source):
            yield decompressor.decompress(piece, PIECE)
            while not decompressor.needs_input and not decompressor.eof:
                yield decompressor.decompress(b"", PIECE)
    except (module.ZstdError, EOFError):
        raise MalformedError from None
    if not decompressor.eof or decompressor.unused_data:
        raise MalformedError
