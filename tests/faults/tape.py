"""Read the tape that the recorder wrote: the calls of a run in the order in which they happened.

A record exists only up to the end the header names; what lies beyond was being written when its process died.
The layout is that of tape.c. What the calls mean for a disk is not decided here: see filesystem.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

HEADER_BYTES = 4096
_HEADER = struct.Struct("<8sQQ16Q")
_NAME_BYTES = 12
_RECORD = struct.Struct("<IiiHHQqBc6x")


class TapeError(Exception):
    """The tape cannot be read, or does not account for what is on the disk."""


class Effect(StrEnum):
    """What a call did. The letters are those of tape.h."""

    WRITE = "W"
    RESIZE = "T"
    SYNC = "S"
    CREATE = "C"
    MKDIR = "D"
    LINK = "L"
    SYMLINK = "Y"
    RENAME = "R"
    UNLINK = "U"
    ACK = "A"


@dataclass(frozen=True, slots=True)
class Op:
    """One call: by whom, on what, with which bytes. `error` is its errno, 0 if it succeeded.

    `offset` is where a write landed, the new size of a resize, the flags of a rename. `other` is the new name of a
    rename and the target of a symlink. Paths are relative to the recorded directory, which itself is ''.
    """

    index: int
    pid: int
    call: str
    effect: Effect
    path: str
    other: str
    inode: int
    offset: int
    data: bytes
    error: int

    def __str__(self) -> str:
        if self.effect is Effect.ACK:
            return f"ack {self.data.decode().strip()!r}"
        where = f"{self.path or '.'}{' -> ' + self.other if self.other else ''}"
        size = f" {self.offset}+{len(self.data)}" if self.effect is Effect.WRITE else ""
        return f"{self.call} {where}{size}{f' failed with errno {self.error}' if self.error else ''}"


@dataclass(frozen=True, slots=True)
class Tape:
    """The calls, how many of each kind there were below the directory, and how often a fault was injected."""

    ops: tuple[Op, ...]
    totals: dict[str, int]
    fired: int


def read_tape(path: Path) -> Tape:
    """Parse a whole tape; raises TapeError if it is none."""
    raw = memoryview(path.read_bytes())
    if len(raw) < HEADER_BYTES or bytes(raw[:8]) != b"agostape":
        raise TapeError(f"{path.name}: not a tape of the recorder; was the library preloaded?")
    _, end, fired, *totals = _HEADER.unpack_from(raw)
    names = _call_names(raw)
    return Tape(_parse(raw[:end], names), dict(zip(names, totals, strict=False)), fired)


def _call_names(raw: memoryview) -> list[str]:
    start = _HEADER.size
    cells = (bytes(raw[at : at + _NAME_BYTES]) for at in range(start, start + 16 * _NAME_BYTES, _NAME_BYTES))
    return [cell.rstrip(b"\0").decode() for cell in cells if cell[0]]


def _parse(raw: memoryview, names: list[str]) -> tuple[Op, ...]:
    ops: list[Op] = []
    at = HEADER_BYTES
    while at < len(raw):
        size, pid, error, path_size, other_size, inode, offset, call, effect = _RECORD.unpack_from(raw, at)
        path_at = at + _RECORD.size
        other_at = path_at + path_size
        data_at = other_at + other_size
        ops.append(
            Op(
                index=len(ops),
                pid=pid,
                call=names[call],
                effect=Effect(effect.decode()),
                path=_text(raw[path_at:other_at]),
                other=_text(raw[other_at:data_at]),
                inode=inode,
                offset=offset,
                data=bytes(raw[data_at : at + size]),
                error=error,
            )
        )
        at += size
    return tuple(ops)


def _text(raw: memoryview) -> str:
    return bytes(raw).decode("utf-8", "surrogateescape")
