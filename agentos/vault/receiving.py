"""Content that comes in pieces: small in memory, large straight into a draft."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentos._disk import unavailable, write_all
from agentos.vault.objects import Header
from agentos.vault.streams import Packing

if TYPE_CHECKING:
    from agentos.vault.keeping import Keeping

CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ChangedError(Exception):
    """What was read to be kept is not what was measured."""


class Receiver:
    """Hand it every piece with `take`, then ask for the digest with `done`; leaving the block without that keeps nothing."""

    def __init__(self, keeping: Keeping, expected: str | None, like: str | None, path: str | None) -> None:
        self._keeping, self._expected, self._like, self._path = keeping, expected, like, path
        self._pieces: list[bytes] = []
        self._sha256, self._size = hashlib.sha256(), 0
        self._draft = -1
        self._packing: Packing | None = None

    def take(self, piece: bytes | memoryview) -> None:
        """The next bytes; what is given may be used again afterwards."""
        self._sha256.update(piece)
        self._size += len(piece)
        if self._path is None:
            self._pieces.append(bytes(piece))
        else:
            self._written(bytes(piece), self._path)

    def done(self) -> str:
        """That was all of it; its digest.

        Raises:
            ChangedError: it has another one than was expected; nothing was kept.
        """
        digest = self._sha256.hexdigest()
        if self._expected not in (None, digest):
            raise ChangedError
        if self._path is None or self._packing is None:
            return self._keeping.add(b"".join(self._pieces), like=self._like)
        if not self._keeping.has(digest):
            self._settle(digest, self._path, self._packing)
        return digest

    def _written(self, piece: bytes, path: str) -> None:
        try:
            if self._packing is None:
                self._draft = os.open(path, CREATE, 0o600)
                self._packing = Packing(piece)
                write_all(self._draft, [Header(self._packing.kind, 0, 0, b"").packed()])
            write_all(self._draft, [self._packing.pack(piece)])
        except OSError as error:
            raise unavailable(error, path, "keep content") from error

    def _settle(self, digest: str, path: str, packing: Packing) -> None:
        try:
            write_all(self._draft, [packing.end()])
            os.pwrite(self._draft, Header(packing.kind, 0, self._size, b"").packed(), 0)
            stored = os.fstat(self._draft).st_size
        except OSError as error:
            raise unavailable(error, path, "keep content") from error
        self._keeping.drafted(digest, path, stored)
        self._path = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._draft >= 0:
            os.close(self._draft)
            if self._path is not None:
                with suppress(OSError):
                    os.unlink(self._path)
