"""Archives: plain tar files that any `tar` unpacks, written and read by the few rules that ours need.

Written are regular files, and folders only to say that they are private. Read is what was written and nothing else: no links,
devices, sparse files or extended headers, no name twice, none that is absolute or leads elsewhere, nothing behind the end.
Nothing is compressed, so an archive cannot become larger than it is. What the files mean is not known here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import IO, NamedTuple

from agentos._text import shown
from agentos.errors import ArchiveRefusedError

_BLOCK = 512
_PIECE = 1 << 20
_FILE, _FOLDER = b"0", b"5"
_MAGIC = b"ustar\x0000"
_LARGEST_OCTAL, _BINARY = 8**11, b"\x80"
_LONGEST_PREFIX, _LONGEST_NAME = 155, 100
# What a name may be made of. Ours are; a name that tempts a terminal, a shell or a file system is not ours.
_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


class Member(NamedTuple):
    """One file of an archive; `content` yields its bytes, once, before the next one is asked for."""

    name: str
    size: int
    content: Iterator[bytes]


class Writer:
    """Writes files one after another; `end` is the last word."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._now = int(time.time())

    def folder(self, name: str) -> None:
        """A folder that is for its owner alone."""
        self._file.write(_header(f"{name}/", 0, 0o700, self._now, _FOLDER))

    def file(self, name: str, size: int, content: Iterator[bytes]) -> None:
        """A file of exactly so many bytes.

        Raises:
            ArchiveRefusedError: there were more or fewer.
        """
        self._file.write(_header(name, size, 0o600, self._now, _FILE))
        written = 0
        for piece in content:
            written += len(piece)
            self._file.write(piece)
        if written != size:
            raise ArchiveRefusedError(f"{shown(name, 120)}: changed while it was written")
        self._file.write(bytes(-size % _BLOCK))

    def end(self) -> None:
        """Two empty blocks end a tar; then all of it is on the disk."""
        self._file.write(bytes(2 * _BLOCK))
        self._file.flush()
        os.fsync(self._file.fileno())


def members(file: IO[bytes]) -> Iterator[Member]:
    """The files of an archive in their order.

    Raises:
        ArchiveRefusedError: it holds what no archive of ours does, or is cut off.
    """
    seen: set[str] = set()
    while True:
        block = _exactly(file, _BLOCK)
        if block == bytes(_BLOCK):
            _refuse_rest(file)
            return
        name, size, kind = _parsed(block)
        if kind == _FOLDER:
            continue
        # Where case counts for nothing, two names are one.
        if name.casefold() in seen:
            raise ArchiveRefusedError(f"{shown(name, 120)}: is in the archive twice")
        seen.add(name.casefold())
        content = _content(file, size)
        yield Member(name, size, content)
        # Whoever did not want it leaves it: then it is passed over.
        for _ in content:
            pass
        if any(_exactly(file, -size % _BLOCK)):
            raise ArchiveRefusedError(f"{shown(name, 120)}: something lies behind it")


def pieces(descriptor: int) -> Iterator[bytes]:
    """What can be read from an open file."""
    while piece := os.read(descriptor, _PIECE):
        yield piece


def _content(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size:
        piece = file.read(min(size, _PIECE))
        if not piece:
            raise _cut_off()
        size -= len(piece)
        yield piece


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise _cut_off()
    return data


def _refuse_rest(file: IO[bytes]) -> None:
    # Tools pad the end to their own block size.
    while piece := file.read(_PIECE):
        if any(piece):
            raise ArchiveRefusedError("something lies behind the end of the archive")


def _header(name: str, size: int, mode: int, now: int, kind: bytes) -> bytes:
    prefix, name = _split(name)
    fields = b"".join(
        (
            name.encode().ljust(_LONGEST_NAME, b"\0"), b"%07o\0" % mode, b"0000000\0", b"0000000\0", _number(size),
            _number(now), b" " * 8, kind, bytes(100), _MAGIC, bytes(64), b"0000000\0", b"0000000\0",
            prefix.encode().ljust(_LONGEST_PREFIX, b"\0"),
        )
    ).ljust(_BLOCK, b"\0")  # fmt: skip
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


def _number(value: int) -> bytes:
    """Octal, as tar has always had it; beyond 8 GiB in binary, as every tar of today reads it."""
    return b"%011o\0" % value if value < _LARGEST_OCTAL else _BINARY + value.to_bytes(11, "big")


def _split(name: str) -> tuple[str, str]:
    if len(name) <= _LONGEST_NAME:
        return "", name
    at = name.index("/", len(name) - _LONGEST_NAME - 1)
    return name[:at], name[at + 1 :]


def _parsed(block: bytes) -> tuple[str, int, bytes]:
    told = sum(block[:148]) + 8 * ord(" ") + sum(block[156:])
    if block[257:265] != _MAGIC or _octal(block[148:156]) != told:
        raise ArchiveRefusedError("no archive of agentos, or a damaged one", hint="what `agentos export` wrote is read here")
    kind = block[156:157]
    prefix, last = (block[start:end].split(b"\0")[0] for start, end in ((345, 500), (0, 100)))
    name = b"/".join(part for part in (prefix, last) if part).decode("ascii", "backslashreplace")
    size = int.from_bytes(block[125:136], "big") if block[124:125] == _BINARY else _octal(block[124:136])
    if kind == _FOLDER:
        name = name.removesuffix("/")
    if kind not in (_FILE, _FOLDER) or (kind == _FOLDER and size):
        raise ArchiveRefusedError(f"{shown(name, 120)}: neither a file nor a folder; links and the like are not followed")
    if not _NAME.fullmatch(name) or any(set(part) == {"."} for part in name.split("/")):
        raise ArchiveRefusedError(f"{shown(name, 120)}: no name that agentos gives; nothing was written")
    return name, size, kind


def _octal(field: bytes) -> int:
    text = field.rstrip(b"\0 ")
    if not text or not all(byte in b"01234567" for byte in text):
        raise ArchiveRefusedError("a header of the archive is damaged")
    return int(text, 8)


def _cut_off() -> ArchiveRefusedError:
    return ArchiveRefusedError("the archive is cut off", hint="copy it again, or take another one")
