"""What lies outside of a workspace, and whoever looks at it: nothing there may be read, written or deleted.

A snapshot of everything is compared afterwards. Whether something was opened or read is told by inotify, so that a look that
changes nothing is found too; a pipe that nobody writes to would hold up whoever opens it and waits.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

_LIBC = ctypes.CDLL(None, use_errno=True)
_ACCESS, _MODIFY, _ATTRIB, _WRITTEN, _OPEN = 0x1, 0x2, 0x4, 0x8, 0x20
_MOVED, _CREATED, _DELETED = 0x40 | 0x80, 0x100, 0x200 | 0x400
_ALL = _ACCESS | _MODIFY | _ATTRIB | _WRITTEN | _OPEN | _MOVED | _CREATED | _DELETED
_DIRECTORY = 0x40000000
_EVENT = struct.Struct("iIII")
_WORDS = {_ACCESS: "read", _MODIFY: "written", _ATTRIB: "changed", _WRITTEN: "written", _OPEN: "opened"}
# What is told of a thing: not when it was last read, which inotify sees better, nor how many names it has.
Stamp = tuple[int, int, int, int, int, int, bytes]


class Outside:
    """A folder with everything that somebody could be led to."""

    def __init__(self, place: Path, names: list[str], rng: Random) -> None:
        self.place = place
        place.mkdir()
        for name in (*names, "secret", "deep/er/secret"):
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_bytes(b"outside " + rng.randbytes(20))
        os.mkfifo(place / "pipe")
        (place / "link").symlink_to("secret")
        self._before: dict[str, Stamp] = {}

    def look(self) -> None:
        """From here on nothing may change."""
        self._before = self._stamps()

    def changes(self) -> list[str]:
        """What is not as it was."""
        now, before = self._stamps(), self._before
        return [f"outside: {path} changed" for path in sorted(now.keys() | before.keys()) if now.get(path) != before.get(path)]

    def _stamps(self) -> dict[str, Stamp]:
        return {str(path.relative_to(self.place)): _stamp(path) for path in (self.place, *sorted(self.place.rglob("*")))}

    @contextmanager
    def watched(self) -> Iterator[list[str]]:
        """Whoever opens, reads or changes anything there while this lasts is noticed; afterwards the list says what was."""
        watcher = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert watcher >= 0, os.strerror(ctypes.get_errno())
        try:
            places = {}
            for folder in (self.place, *(path for path in self.place.rglob("*") if stat.S_ISDIR(path.lstat().st_mode))):
                places[_LIBC.inotify_add_watch(watcher, os.fsencode(folder), _ALL)] = folder
            assert -1 not in places
            told: list[str] = []
            yield told
            told += [f"outside: {line}" for line in _events(watcher, places)]
        finally:
            os.close(watcher)


def _events(watcher: int, places: dict[int, Path]) -> Iterator[str]:
    while True:
        try:
            data = os.read(watcher, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, _, size = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + size].rstrip(b"\0")
            at += _EVENT.size + size
            what = next((word for bit, word in _WORDS.items() if mask & bit), "moved, made or deleted")
            if mask & _DIRECTORY and mask & _OPEN and not name:
                what = "listed"
            yield f"{places[number].name}/{os.fsdecode(name)} was {what}"


def _stamp(path: Path) -> Stamp:
    status = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    return status.st_mode, status.st_ino, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns, content
