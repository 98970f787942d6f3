"""Kept content, read: a folder of files that are named after the SHA-256 of what they hold, checked whenever they are read.

Reading needs no lock and changes nothing. Keeping and removing is vault.py's, the bytes of one file are objects.py's.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from agentos._disk import unavailable
from agentos._text import shown
from agentos.errors import ContentDamagedError, ContentMissingError
from agentos.vault.objects import (
    DELTA,
    LONGEST_HEADER,
    MOST_IN_MEMORY,
    RUN,
    Base,
    Header,
    MalformedError,
    decoded,
    header_of,
    stands_on,
)
from agentos.vault.streams import unpacked

OBJECTS = "objects"
_HEX = frozenset("0123456789abcdef")
_DIGEST = 64


class Contents:
    """What is kept in one folder."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path_of(self, digest: str) -> str:
        """The file that holds it."""
        return os.path.join(self.root, OBJECTS, digest[:2], digest[2:])

    def has(self, digest: str) -> bool:
        """Whether something is kept under this digest; whether it is whole shows when it is read."""
        return os.path.exists(self.path_of(digest))

    def size(self, digest: str) -> int:
        """Bytes that it takes on the disk."""
        try:
            return os.stat(self.path_of(digest)).st_size
        except OSError:
            raise missing(digest) from None

    def digests(self) -> Iterator[str]:
        """Everything that is kept, in no order."""
        folder = os.path.join(self.root, OBJECTS)
        for first in _names(folder):
            for rest in _names(os.path.join(folder, first)):
                if len(first) + len(rest) == _DIGEST and _HEX.issuperset(first + rest):
                    yield first + rest

    def header(self, digest: str) -> Header:
        """What is said of the content before it is read: how large it is, and what it is a difference to."""
        with self._opened(digest) as (_, header):
            return header

    def read(self, digest: str, most: int | None = None) -> bytes:
        """The content, checked.

        Raises:
            ContentMissingError, ContentDamagedError: it is not there, or is not what was kept.
        """
        data = self._content(bytes.fromhex(_checked(digest)))
        return data if most is None else data[:most]

    def copy(self, digest: str, descriptor: int) -> int:
        """Write the content to an open file, checked as it goes; how many bytes that were. Of any size, in little memory.

        Raises:
            ContentMissingError, ContentDamagedError: nothing that was written may be used.
            OSError: the open file does not take it.
        """
        try:
            return self._copied(digest, descriptor)
        except _UnwrittenError as error:
            # Not a word about the vault: it was the other file.
            raise error.reason from None

    def check(self, digest: str) -> int:
        """Read the content only to see that it is whole; how large it is.

        Raises:
            ContentMissingError, ContentDamagedError: it is not there, or is not what was kept.
        """
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            return self.copy(digest, nowhere)
        finally:
            os.close(nowhere)

    def chain(self, digest: str) -> list[str]:
        """This content, and everything that reading it needs beneath it.

        Raises:
            ContentMissingError, ContentDamagedError: something of that is not there, or says what cannot be.
        """
        chain, header = [digest], self.header(digest)
        while header.kind == DELTA:
            digest, expected = header.base.hex(), stands_on(header.place)
            chain.append(digest)
            header = self.header(digest)
            if header.place != expected:
                raise _damaged(digest)
        return chain

    def base_for_next(self, digest: str) -> Base | None:
        """What the next version of this content can be a difference to; None if it had better be whole.

        Raises:
            ContentMissingError, ContentDamagedError: what it would stand on is not there, or is not what was kept.
        """
        header = self.header(digest)
        place = header.place + 1
        if place >= RUN or header.size > MOST_IN_MEMORY:
            return None
        while header.place > stands_on(place):
            digest, expected = header.base.hex(), stands_on(header.place)
            header = self.header(digest)
            if header.place != expected:
                raise _damaged(digest)
        return Base(bytes.fromhex(digest), self.read(digest), place)

    def _copied(self, digest: str, descriptor: int) -> int:
        with self._opened(digest) as (source, header):
            if header.kind == DELTA or header.size <= MOST_IN_MEMORY:
                data = self.read(digest)
                _write(descriptor, data)
                return len(data)
            sha256, count = hashlib.sha256(), 0
            try:
                for piece in unpacked(source, header):
                    sha256.update(piece)
                    count += len(piece)
                    _write(descriptor, piece)
            except MalformedError:
                raise _damaged(digest) from None
        if sha256.hexdigest() != digest or count != header.size:
            raise _damaged(digest)
        return count

    def _content(self, digest: bytes, place: int | None = None) -> bytes:
        name = digest.hex()
        with self._opened(name) as (source, header):
            # Places only fall on the way down, so no circle is followed.
            if place is not None and header.place != place:
                raise _damaged(name)
            stored = header.packed() + _rest(source)
        try:
            data = decoded(stored, lambda base: self._content(base, stands_on(header.place)))
        except MalformedError:
            raise _damaged(name) from None
        if hashlib.sha256(data).digest() != digest:
            raise _damaged(name)
        return data

    @contextmanager
    def _opened(self, digest: str) -> Iterator[tuple[int, Header]]:
        try:
            source = os.open(self.path_of(_checked(digest)), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise missing(digest) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise _damaged(digest) from None
            raise unavailable(error, self.path_of(digest), "be read") from error
        try:
            _refuse_other(source)
            header = header_of(os.pread(source, LONGEST_HEADER, 0))
            os.lseek(source, header.length, os.SEEK_SET)
            yield source, header
        except MalformedError:
            raise _damaged(digest) from None
        except OSError as error:
            raise unavailable(error, self.path_of(digest), "be read") from error
        finally:
            os.close(source)


class _UnwrittenError(Exception):
    """What content is copied to could not be written."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _refuse_other(source: int) -> None:
    if not stat.S_ISREG(os.fstat(source).st_mode):
        raise MalformedError


def _checked(digest: str) -> str:
    if len(digest) != _DIGEST or not _HEX.issuperset(digest):
        raise ContentMissingError(f"{shown(digest, 80)}: no digest, so nothing is kept under it")
    return digest


def _rest(source: int) -> bytes:
    # As much as there is: what the header says of it may be damaged.
    with open(source, "rb", buffering=0, closefd=False) as file:
        return file.readall()


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        raise _UnwrittenError(error) from error


def missing(digest: str) -> ContentMissingError:
    """The error for what is not there."""
    return ContentMissingError(
        f"content {shown(digest, 80)}: it is not in the vault",
        hint="it was never kept, or was removed from the disk; what it is needed for cannot be put back",
        digest=digest,
    )


def _damaged(digest: str) -> ContentDamagedError:
    return ContentDamagedError(
        f"content {shown(digest, 80)}: what the vault holds is not what was kept; it is not served",
        hint="the disk is failing, or somebody changed it; restore a backup of the vault",
        digest=digest,
    )
