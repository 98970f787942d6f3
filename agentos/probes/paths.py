"""From a path in evidence to the place it names, held still while it is looked at.

- A relative path starts at the base and may not leave it. A base that is not there says nothing about the work beneath it.
- An absolute path is followed as the system follows it; with `allowed_roots` it must stay beneath one of them.
- Nothing at the end of the path is a fact. Not being allowed to look is not.

Files are not opened here unless a probe asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentos._text import shown
from agentos.core.checkpoints.observing import Surroundings
from agentos.probes.cannot_see import ABSENT, CannotSee, unreadable
from agentos.probes.walk import Walk, beneath


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path led. Valid inside its `with` only."""

    path: str
    full: str
    name: str
    # None: nothing is there.
    status: os.stat_result | None
    # Where `name` was looked up. None if the system follows the path itself, or if that directory is not there.
    directory: int | None = None
    walk: Walk | None = None

    def open(self, flags: int) -> int:
        """A descriptor of what was found; a link that took its place inside a root is refused."""
        if self.directory is None:
            return os.open(self.full, flags | os.O_CLOEXEC)
        return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)

    def status_by_name(self) -> os.stat_result:
        """What the path names by now, whatever it named before."""
        return os.stat(self.full)

    def without_links(self) -> str:
        """The path with every link resolved, for those who cannot take a descriptor."""
        if self.walk is None:
            return os.path.realpath(self.full)
        return os.path.join(os.path.realpath(self.walk.root), *self.walk.names, self.name)


@contextmanager
def place_of(path: str, around: Surroundings, *, follow: bool = True) -> Iterator[Place]:
    """The place that `path` names, seen from `around`; the link itself, if the last name is one and is not to be followed.

    Raises:
        CannotSee: the base is not there, the path leads out of its root, or looking is not possible.
    """
    _refuse_unusable(path)
    if path.startswith("/") and not around.allowed_roots:
        yield Place(path, path, path, _status_as_system(path, follow=follow))
        return
    root, parts = _route(path, around)
    with Walk(root, parts, path) as walk:
        yield _end_of(walk, os.path.join(root, path), follow=follow)


def _route(path: str, around: Surroundings) -> tuple[str, list[str]]:
    if not path.startswith("/"):
        return around.base_path, path.split("/")
    spellings = [(root, text) for root in around.allowed_roots for text in (root, os.path.realpath(root))]
    fitting = [(root, parts) for root, text in spellings if (parts := beneath(text, path)) is not None]
    if not fitting:
        allowed = ", ".join(shown(root, 120) for root in around.allowed_roots)
        raise CannotSee("PATH_ESCAPES", f"{shown(path)}: is not beneath an allowed root", f"allowed: {allowed}")
    # The outermost one admits most: what leaves it leaves those inside it too.
    return max(fitting, key=lambda route: len(route[1]))


def _end_of(walk: Walk, full: str, *, follow: bool) -> Place:
    try:
        name, status = walk.to_the_end(follow=follow)
    except OSError as error:
        if error.errno not in ABSENT:
            raise unreadable(walk.subject, error) from error
        return Place(walk.subject, full, walk.last_name, None, walk.directory if walk.at_last_name else None, walk)
    return Place(walk.subject, full, name, status, walk.directory, walk)


def _status_as_system(path: str, *, follow: bool) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise unreadable(path, error) from error


def _refuse_unusable(path: str) -> None:
    try:
        unusable = not path or "\0" in path or not os.fsencode(path)
    except UnicodeEncodeError:
        unusable = True
    if unusable:
        raise CannotSee("PATH_INVALID", f"{shown(path) or 'an empty path'}: no file can have this name")
