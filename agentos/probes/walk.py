"""A walk that cannot be raced out of its root.

The path is taken one name at a time: each directory is opened relative to the one before it and never through a symbolic link.
Links are read and resolved here, `..` goes back to a directory that is already open, and nothing leads above the root. So a
directory swapped for a link in the middle of the walk is either refused or followed inside the root; it is never trusted.

What is found at the end is not opened here, and nothing is judged.
"""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType
from typing import Self

from agentos._text import shown
from agentos.probes.cannot_see import ABSENT, CannotSee, Moved, unreadable

MAX_LINKS = 40
# O_PATH asks for no permission to list the directory, and closing such a descriptor drops no locks. macOS has none.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class Walk:
    """One descent from `root` along `parts`; holds every directory it passed open until it is closed."""

    def __init__(self, root: str, parts: list[str], subject: str) -> None:
        self.root = root
        self.subject = subject
        # Each name that was looked up: the directory it was found in, and what it is (a directory is held open).
        self.lookups: list[tuple[int, int | os.stat_result]] = []
        self._opened: list[int] = []
        self._names: list[str] = []
        self._stack: list[int] = []
        self._todo = parts[::-1]
        self.last_name = ""
        self._links = 0

    def __enter__(self) -> Self:
        try:
            self._hold(os.open(self.root, _DIRECTORY))
        except OSError as error:
            raise _without_root(self.root, error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._opened:
            os.close(self._opened.pop())

    @property
    def directory(self) -> int:
        """The directory the walk stands in."""
        return self._stack[-1]

    @property
    def start(self) -> int:
        """The root, as it was opened."""
        return self._opened[0]

    @property
    def names(self) -> list[str]:
        """The way from the root to that directory, without links."""
        return list(self._names)

    @property
    def at_last_name(self) -> bool:
        """Whether no name was left when the walk stopped: the directory of the last one is there."""
        return not self._todo

    def to_the_end(self, *, follow: bool = True) -> tuple[str, os.stat_result]:
        """The last name in `directory`, and what it is: a link only if the last one is not to be followed.

        Raises:
            OSError: some name on the way is not there or cannot be looked at.
            CannotSee: the path leads out of the root.
        """
        while self._todo:
            part = self.last_name = self._todo.pop()
            if part == "..":
                self._up()
            elif part in ("", "."):
                continue
            elif self._todo:
                self._enter(part)
            else:
                status = os.stat(part, dir_fd=self.directory, follow_symlinks=False)
                if not follow or not stat.S_ISLNK(status.st_mode):
                    self.lookups.append((self.directory, status))
                    return part, status
                self._follow(part)
        return ".", os.fstat(self.directory)

    def _hold(self, descriptor: int) -> None:
        self._opened.append(descriptor)
        self._stack.append(descriptor)

    def _up(self) -> None:
        if len(self._stack) == 1:
            raise self._escape()
        # The descriptor stays open: whoever asks later which directories were passed must be able to see it.
        self._stack.pop()
        self._names.pop()

    def _enter(self, part: str) -> None:
        parent = self.directory
        try:
            self._hold(os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent))
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            self._follow(part)
        else:
            self._names.append(part)
            self.lookups.append((parent, self.directory))

    def _follow(self, part: str) -> None:
        status = os.stat(part, dir_fd=self.directory, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            raise self._swapped() if stat.S_ISDIR(status.st_mode) else NotADirectoryError(errno.ENOTDIR, "not a directory")
        try:
            target = os.readlink(part, dir_fd=self.directory)
        except OSError as error:
            raise self._swapped() if error.errno == errno.EINVAL else error from None
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self.lookups.append((self.directory, status))
        self._todo.extend(reversed(self._from_root(target) if target.startswith("/") else target.split("/")))

    def _from_root(self, target: str) -> list[str]:
        """What is left of an absolute link beneath the root; the walk starts again there."""
        for root in (self.root, os.path.realpath(self.root)):
            rest = beneath(root, target)
            if rest is not None:
                del self._stack[1:]
                self._names.clear()
                return rest
        raise self._escape()

    def _escape(self) -> CannotSee:
        return CannotSee(
            "PATH_ESCAPES",
            f"{shown(self.subject)}: leads out of {shown(self.root)}",
            "claim something inside it, or give an absolute path where that is allowed",
        )

    def _swapped(self) -> Moved:
        return Moved(self.subject, "a directory on the way was replaced")


def _without_root(root: str, error: OSError) -> CannotSee:
    if error.errno not in ABSENT:
        return unreadable(root, error)
    return CannotSee(
        "BASE_MISSING",
        f"{shown(root)}: the folder that paths start from is not there",
        "mount it, or tell the manager where the workspace is now (base_path)",
    )


def beneath(root: str, path: str) -> list[str] | None:
    """The names from `root` down to `path`, or None if it does not start there. Nothing is looked up."""
    ends_as_directory = path.endswith(("/", "/."))
    above = [part for part in root.split("/") if part not in ("", ".")]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if parts[: len(above)] != above:
        return None
    return parts[len(above) :] + (["."] if ends_as_directory else [])
