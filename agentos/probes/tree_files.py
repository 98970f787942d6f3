"""Read the files of a tree: small ones one after the other, large ones side by side, and those that are open here elsewhere.

Each is opened once by its name in an open folder, and never through a link. Its stamp from before it was read is remembered:
whoever looks at all of them again, when the last was read, knows that all of it was there at one moment. There may be a million
files: what can be done once for many is done so, and no object is made for one.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from hashlib import sha256
from typing import Any

from agentos._descriptors import Readings
from agentos._text import shown
from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.trees import EXECUTABLE, FILE, Entry
from agentos.probes.cannot_see import ABSENT, CannotSee, Deadline, Moved, timed_out, unreadable
from agentos.probes.content import refuse_unread
from agentos.probes.elsewhere import measure_elsewhere
from agentos.probes.hashing import TICKS, measure, wait_for_tick
from agentos.probes.large_files import LargeFiles
from agentos.probes.paths import Place

_TYPE, _REGULAR, _EXECUTABLE = 0o170000, stat.S_IFREG, stat.S_IXUSR
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_SMALL, _LARGE = 64 << 10, 1 << 20
_BATCH = 64
_DATA = getattr(os, "SEEK_DATA", os.SEEK_SET)
# The name was listed a moment ago: what is said of it now is said of something else.
_SWAPPED = (*ABSENT, errno.ELOOP, errno.ENXIO)


class TreeFiles:
    """The files of one tree; `entries` and `stamps` grow as they are read, in no order."""

    def __init__(self, root: str, device: int, most_bytes: int, deadline: Deadline, cancel: Cancel | None) -> None:
        self.entries: list[Entry] = []
        # Of each path in turn: itself, its inode, its size, and when it was modified and changed. One list: no object for each.
        self.stamps: list[Any] = []
        self.bytes = 0
        self._root, self._device, self._most, self._deadline, self._cancel = root, device, most_bytes, deadline, cancel
        self._readings = Readings()
        # There only while there are large ones to read: it knows this, and a circle would outlive the look with all it holds.
        self._large: LargeFiles | None = None
        # Of the large ones, what is known before they are read.
        self._kinds: dict[bytes, int] = {}

    def read(self, names: list[str], directory: int, above: bytes) -> None:
        """Read the files of these names in that folder.

        Raises:
            CannotSee: one of them cannot be read, or moved.
        """
        for start in range(0, len(names), _BATCH):
            self._read(*self._opened(names[start : start + _BATCH], directory, above))
            if len(self._readings.descriptors) >= _BATCH:
                self._readings.let_go()
                self.in_time()

    @property
    def maybe_held(self) -> set[int]:
        """The inodes of files that this process may have open already."""
        return self._readings.inodes

    def read_held(self, name: str, directory: int, above: bytes) -> None:
        """Read one that this process may have open: opening it here would drop the locks that are held on it.

        Raises:
            CannotSee: it cannot be read, or moved.
        """
        path = above + os.fsencode(name)
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            raise self.lost(path, error) from error
        if (status.st_dev, status.st_ino) not in self._readings.held:
            self.read([name], directory, above)
            return
        place = Place(self.name(path), "", name, status, directory)
        answer = measure_elsewhere(place, self._deadline, self._cancel)
        if answer.get("identity", [status.st_dev, status.st_ino]) != [status.st_dev, status.st_ino]:
            raise Moved(place.path, "was replaced")
        self._take(path, status)
        self._measured(path, answer, _kind(status))

    def read_rules(self, name: str, directory: int, above: bytes) -> bytes:
        """Read a small file, and what it holds.

        Raises:
            CannotSee: it is not small, cannot be read, or moved.
        """
        number, (path,) = self._opened([name], directory, above)
        size = self._readings.statuses[number].st_size
        if size > _SMALL:
            said = f"{shown(self.name(path))}: has {size:,} bytes, more than rules may have"
            raise CannotSee("RULES_UNREADABLE", said, "shorten it, or claim the tree without gitignore")
        self._read(number, [path])
        return os.pread(self._readings.descriptors[number], size, 0)

    def in_time(self) -> None:
        """Go on only while somebody waits.

        Raises:
            CannotSee: it is too late.
        """
        if self._deadline.passed() or (self._cancel is not None and self._cancel.is_set):
            raise timed_out(self._root)

    def finish(self) -> None:
        """Wait for what is still being read.

        Raises:
            CannotSee: one of them cannot be read, or moved.
        """
        if self._large is not None:
            self._large.finish()
            self._large = None
        self._readings.let_go()

    def give_up(self) -> None:
        """Leave nothing open."""
        if self._large is not None:
            self._large.give_up()
            self._large = None
        self._readings.let_go()

    def name(self, path: bytes) -> str:
        """A path of the tree as whoever claims it would write it."""
        return f"{self._root.rstrip('/')}/{os.fsdecode(path)}"

    def lost(self, path: bytes, error: OSError) -> CannotSee:
        """What became of something that was listed."""
        return Moved(self.name(path), "was replaced") if error.errno in _SWAPPED else unreadable(self.name(path), error)

    def _opened(self, names: list[str], directory: int, above: bytes) -> tuple[int, list[bytes]]:
        """The files of these names, opened: the number of the first among what is open, and their paths."""
        first = len(self._readings.descriptors)
        try:
            self._readings.open(names, directory)
        except OSError as error:
            raise self.lost(above + os.fsencode(error.filename), error) from error
        return first, [above + name.encode(_ENCODING, _ERRORS) for name in names]

    def _read(self, first: int, paths: list[bytes]) -> None:
        # Most files are small, and nothing in here is done twice for one, nor called where it can stand here.
        entries, stamps, device, lseek, pread = self.entries, self.stamps, self._device, os.lseek, os.pread
        descriptors, statuses, total = self._readings.descriptors, self._readings.statuses, 0
        for number, path in enumerate(paths, first):
            status = statuses[number]
            mode, size = status.st_mode, status.st_size
            if mode & _TYPE != _REGULAR or size > _SMALL or status.st_dev != device:
                self._read_other(number, path, status)
                continue
            stamps += (path, status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns)
            if TICKS:
                wait_for_tick(status)
            try:  # noqa: SIM105 - suppress() takes longer than what it would be put around
                # A write that is under way holds a lock to its end, and this waits for that lock.
                lseek(descriptors[number], 0, _DATA)
            except OSError:
                pass  # it is empty
            try:
                data = pread(descriptors[number], size + 1, 0)
            except OSError as error:
                raise unreadable(self.name(path), error) from error
            if len(data) != size:
                # Fewer may be a read that was cut short; the patient reader tells that from a file that is made up.
                self._measured(path, measure(descriptors[number], self._deadline.at), _kind(status))
            else:
                entries.append((path, EXECUTABLE if mode & _EXECUTABLE else FILE, sha256(data).digest(), size))
            total += size
        self.bytes += total
        self._refuse_too_much()

    def _read_other(self, number: int, path: bytes, status: os.stat_result) -> None:
        """Read what is not small, and refuse what is no file of this tree."""
        if not stat.S_ISREG(status.st_mode):
            raise Moved(self.name(path), "was replaced")
        if status.st_dev != self._device:
            raise crossing(self.name(path))
        self._take(path, status)
        descriptors = self._readings.descriptors
        if status.st_size < _LARGE:
            self._measured(path, measure(descriptors[number], self._deadline.at), _kind(status))
            return
        self._kinds[path] = _kind(status)
        descriptor, descriptors[number] = descriptors[number], -1
        if self._large is None:
            self._large = LargeFiles(self._deadline.at, self._measured, self._cancel)
        self._large.add(descriptor, path)

    def _take(self, path: bytes, status: os.stat_result) -> None:
        self.stamps += (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        self.bytes += status.st_size
        self._refuse_too_much()

    def _refuse_too_much(self) -> None:
        if self.bytes > self._most:
            raise too_large(self._root, f"holds more than {self._most:,} bytes", "max_bytes")

    def _measured(self, path: bytes, answer: dict[str, Any], kind: int = 0) -> None:
        if answer.get("problem") == "broke":
            raise answer["error"]
        refuse_unread(self.name(path), answer)
        self.entries.append((path, kind or self._kinds[path], bytes.fromhex(answer["sha256"]), answer["size"]))


def _kind(status: os.stat_result) -> int:
    return EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE


def crossing(path: str) -> CannotSee:
    """Another file system begins there, and what lies on it is no part of the folder."""
    return CannotSee(
        "CROSSES_MOUNT",
        f"{shown(path)}: another file system is mounted there",
        "leave it out, or claim it as a tree of its own",
    )


def too_large(root: str, how: str, name: str) -> CannotSee:
    """More than a look takes upon itself."""
    said = f"{shown(root)}: {how}, which is more than is read for this claim"
    return CannotSee("TOO_LARGE", said, f"allow more with metadata['{name}']")
