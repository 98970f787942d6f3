"""Notice that a database's files were removed or replaced while this process has them open.

What is committed to a file that no name leads to is lost, acknowledged or not. So after every commit it is asked whether the
names still lead to the files that are open, as cheaply as that can be known:

1. No name in a folder changed if the folder's time did not, and that time is old enough to be told from a newer one.
2. `/proc` tells the name of a descriptor.
3. `stat` of the files. Last, because on today's Linux it makes the next write to the log stamp a finer time, which costs its
   sync some 30 µs.
"""

from __future__ import annotations

import os
import time

_DESCRIPTORS = "/proc/self/fd"
# A clock tick is a few milliseconds at most, and some file systems keep whole seconds, or two. Which of them this is a stamp
# tells that is no whole millisecond.
_TICK_NS, _COARSE_NS, _MILLISECOND = 50_000_000, 3_000_000_000, 1_000_000


class WatchedFiles:
    """The database file and its write-ahead log, as they are when this is made: open, and under their names."""

    def __init__(self, path: str) -> None:
        real = os.path.realpath(path)
        # SQLite follows links and keeps its log beside the file itself.
        self._link = path if real != path else None
        self._names = (real, f"{real}-wal")
        self._folder = os.path.dirname(real)
        self._inodes = self._seen()
        self._links = self._found()
        self._quiet_since = (0, 0)

    def are_in_place(self) -> bool:
        """Whether both names still lead to the files that are open."""
        if self._link is not None and os.path.realpath(self._link) != self._names[0]:
            return False
        try:
            folder = os.stat(self._folder)
        except OSError:
            return False
        # A copy may have the same time, and is another folder.
        changed = (folder.st_ino, folder.st_mtime_ns)
        if changed == self._quiet_since:
            return True
        # Read before the names are checked: a change in between is seen the next time.
        in_place = self._links_fit() or self._seen() == self._inodes
        distinct = _TICK_NS if folder.st_mtime_ns % _MILLISECOND else _COARSE_NS
        self._quiet_since = changed if in_place and time.time_ns() - folder.st_mtime_ns > distinct else (0, 0)
        return in_place

    def _links_fit(self) -> bool:
        try:
            # A file that lost its name reads as "... (deleted)", one that was moved as its new name.
            if self._links and all(os.readlink(link) == target for link, target in self._links):
                return True
        except OSError:
            # That descriptor was another connection's, and is closed by now.
            self._links = self._found()
        return False

    def _seen(self) -> tuple[int, ...]:
        try:
            return tuple(os.stat(name).st_ino for name in self._names)
        except OSError:
            return ()

    def _found(self) -> list[tuple[str, str]]:
        """For each file, a descriptor of this process that is open on it, and its name; nothing if one is not to be found."""
        opened = _descriptors()
        found = [(opened[name], name) for name in map(os.path.realpath, self._names) if name in opened]
        return found if len(found) == len(self._names) else []


def _descriptors() -> dict[str, str]:
    """What this process has open: name to descriptor."""
    found = {}
    try:
        for number in os.listdir(_DESCRIPTORS):
            link = f"{_DESCRIPTORS}/{number}"
            try:
                found[os.readlink(link)] = link
            except OSError:
                # Closed since it was listed.
                continue
    except OSError:
        return {}
    return found
