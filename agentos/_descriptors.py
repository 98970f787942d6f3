"""Open a file without taking away a lock that this process holds on it.

POSIX locks belong to the process and not to the descriptor: closing any descriptor of a file drops every lock the process has
on that file, and with SQLite's locks go commits that were acknowledged. So nothing is opened that this process already has
open (see `held`), and a descriptor whose file was opened by somebody else in the meantime is not closed but parked, until
nobody else has that file open.

Between looking and closing a few microseconds are left in which another thread may open the file; nothing in POSIX closes them.
"""

from __future__ import annotations

import fcntl
import os
import resource
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ_HERE = READ | os.O_NOFOLLOW
_PATH_ONLY = getattr(os, "O_PATH", 0)
_MOST = 1 << 20
_END = 2**63 - 1

# Descriptors of our own reading hold no locks, so two threads may read one file; parked ones are among them.
_ours: set[int] = set()
_parked: deque[int] = deque()


def held(status: os.stat_result) -> list[int]:
    """The descriptors through which this process has that file open already, our own reading aside."""
    return [descriptor for descriptor in _open_here() if descriptor not in _ours and is_on(descriptor, status)]


def locked_here(status: os.stat_result) -> list[tuple[int, int]]:
    """The first and the last byte of each lock that this process holds on that file, as far as this system tells."""
    try:
        # As bytes: the first use of an encoding imports it, and a process that is forked meanwhile would wait for ever.
        with open("/proc/locks", "rb") as table:
            inode = b":%d " % status.st_ino
            mine = [line.split()[-4:] for line in table if inode in line and b" POSIX " in line]
    except OSError:
        return []
    # The device is not compared: on some file systems it is written another way here.
    return [(int(first), _END if last == b"EOF" else int(last)) for pid, _, first, last in mine if int(pid) == os.getpid()]


@contextmanager
def reading(opened: Callable[[int], int]) -> Iterator[int]:
    """A descriptor to read from, given back without dropping a lock."""
    release_parked()
    descriptor = opened(READ)
    _ours.add(descriptor)
    try:
        yield descriptor
    finally:
        _let_go(descriptor)


class Readings:
    """Descriptors to read many small files from, given back many at a time.

    Listing what this process has open costs more than reading a small file, so it is done once for all of them.
    """

    def __init__(self) -> None:
        release_parked()
        # In one order; a descriptor that is somebody else's by now is -1.
        self.descriptors: list[int] = []
        self.statuses: list[os.stat_result] = []
        # What this process has open elsewhere, as device and inode; and the inodes alone, for who does not know the device.
        self.held: set[tuple[int, int]] = set()
        self.inodes: set[int] = set()
        self.let_go()

    def open(self, names: list[str], directory: int) -> None:
        """Open these files of that directory, none of them through a link.

        Raises:
            OSError: with the name of the one that could not be opened.
        """
        first, opened, take = len(self.descriptors), os.open, self.descriptors.append
        try:
            for name in names:
                take(opened(name, _READ_HERE, dir_fd=directory))
        finally:
            # Somebody who lists them meanwhile takes them for another's, and only waits for them.
            _ours.update(self.descriptors[first:])
        self.statuses += map(os.fstat, self.descriptors[len(self.statuses) :])

    def let_go(self) -> None:
        """Give back what was read, and look anew at what is open elsewhere."""
        self.held = {(status.st_dev, status.st_ino) for status in _foreign()}
        self.inodes = {inode for _, inode in self.held}
        self.statuses += map(os.fstat, self.descriptors[len(self.statuses) :])
        inodes, close = self.inodes, []
        while self.descriptors:
            descriptor, status = self.descriptors.pop(), self.statuses.pop()
            if status.st_ino in inodes and (status.st_dev, status.st_ino) in self.held and descriptor >= 0:
                _parked.append(descriptor)
            elif descriptor >= 0:
                close.append(descriptor)
        # In this order: between the two lines a number may already belong to somebody else, who must not be overlooked.
        _ours.difference_update(close)
        for descriptor in close:
            os.close(descriptor)


def let_go(descriptor: int) -> None:
    """Give back one that was opened by `Readings`, in whatever thread."""
    _let_go(descriptor)


def _foreign() -> Iterator[os.stat_result]:
    """What this process has open, our own reading aside."""
    for descriptor in _open_here():
        if descriptor in _ours:
            continue
        try:
            if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & _PATH_ONLY:
                yield os.fstat(descriptor)
        except OSError:
            continue  # it was closed since it was listed


def release_parked() -> None:
    """Close what was parked and is shared with nobody any more."""
    # Without a lock, which a fork could leave taken in the child for ever: each step is atomic by itself.
    for _ in range(len(_parked)):
        try:
            descriptor = _parked.popleft()
        except IndexError:
            return  # another thread was faster
        _let_go(descriptor)


def _let_go(descriptor: int) -> None:
    if held(os.fstat(descriptor)):
        _parked.append(descriptor)
        return
    # In this order: between the two lines the number may already belong to somebody else, who must not be overlooked.
    _ours.discard(descriptor)
    os.close(descriptor)


def is_on(descriptor: int, status: os.stat_result) -> bool:
    """Whether that descriptor has this file open."""
    try:
        found = os.fstat(descriptor)
        if (found.st_ino, found.st_dev) != (status.st_ino, status.st_dev):
            return False
        # Such a descriptor names a file without opening it: it can hold no lock, and its closing drops none.
        return not fcntl.fcntl(descriptor, fcntl.F_GETFL) & _PATH_ONLY
    except OSError:
        return False  # it was closed since it was listed


def _open_here() -> Iterable[int]:
    for listing in ("/proc/self/fd", "/dev/fd"):
        try:
            return [int(name) for name in os.listdir(listing)]
        except OSError:
            continue
    # Without a listing every possible number is tried; slow, but overlooking one could cost a lock.
    return range(min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MOST))
