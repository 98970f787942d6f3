"""A folder, and everything that hands do in it: below open descriptors, never through a link, never out of it.

Each folder on the way is opened from the one above it, and a link in place of one is refused, whoever put it there and when.
What is at a path is seen by its own status and, of a file, by its bytes, which must hold still while they are read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from agentos import _descriptors
from agentos._text import shown
from agentos.core.checkpoints.restores import NOTHING, Kind, Thing
from agentos.errors import RestoreRefusedError
from agentos.vault.entering import enter

_PIECE = 1 << 20
_EXECUTABLE, _READABLE = 0o111, 0o444
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


class Root:
    """One folder that is held open."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # The folder itself may be reached through links; what lies in it may not.
            self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise RestoreRefusedError(
                f"{shown(path)}: the folder to restore in cannot be opened: {error.strerror}",
                hint="mount it, or tell the manager where the workspace is now (base_path)",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self.descriptor)

    @contextmanager
    def folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder that a path lies in, open, and its name there.

        Raises:
            FileNotFoundError, NotADirectoryError: the way to it is not there.
            RestoreRefusedError: the path leads out, through a link or onto another file system.
        """
        *above, name = parts_of(path)
        opened: list[int] = []
        try:
            folder = self.descriptor
            for part in above:
                folder = self._enter(folder, part, path)
                opened.append(folder)
            yield folder, name
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _enter(self, folder: int, part: str, path: str) -> int:
        try:
            return enter(folder, part)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(folder, part):
                raise _through_link(path) from error
            if error.errno == errno.EXDEV:
                raise RestoreRefusedError(
                    f"{shown(path)}: lies on what is mounted in {shown(self.path)}", hint="nothing is put back across a mount"
                ) from error
            raise

    def look(self, path: str) -> Thing:
        """What is at the path now.

        Raises:
            RestoreRefusedError: it cannot be looked at, or did not hold still.
        """
        try:
            with self.folder_of(path) as (folder, name):
                return thing_at(folder, name, path)
        except (FileNotFoundError, NotADirectoryError):
            return NOTHING
        except OSError as error:
            raise RestoreRefusedError(f"{shown(path)}: cannot be looked at: {error.strerror}") from error


def thing_at(folder: int, name: str, path: str) -> Thing:
    """What has this name in an open folder."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in _ABSENT:
            return NOTHING
        raise
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Thing(Kind.LINK, target=os.readlink(name, dir_fd=folder))
    if stat.S_ISDIR(status.st_mode):
        return Thing(Kind.DIRECTORY, mode=mode)
    if not stat.S_ISREG(status.st_mode):
        return Thing(Kind.SPECIAL, mode=mode)
    with opened(folder, name) as descriptor:
        return measured(descriptor, path)


def measured(descriptor: int, path: str) -> Thing:
    """The file behind a descriptor.

    Raises:
        RestoreRefusedError: it changed while it was read.
    """
    before, sha256, size = os.fstat(descriptor), hashlib.sha256(), 0
    if not stat.S_ISREG(before.st_mode):
        return Thing(Kind.SPECIAL)
    while piece := os.read(descriptor, _PIECE):
        sha256.update(piece)
        size += len(piece)
    after = os.fstat(descriptor)
    if size != before.st_size or (before.st_mtime_ns, before.st_ctime_ns) != (after.st_mtime_ns, after.st_ctime_ns):
        raise RestoreRefusedError(f"{shown(path)}: changed while it was read", hint="wait until whoever writes it is done")
    mode = stat.S_IMODE(before.st_mode)
    return Thing(Kind.FILE, sha256.hexdigest(), size, bool(mode & stat.S_IXUSR), mode=mode)


@contextmanager
def opened(folder: int, name: str) -> Iterator[int]:
    """A file of an open folder, to be read; never a link, never waited for, and without dropping a lock on it."""
    with _descriptors.reading(lambda flags: os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)) as descriptor:
        yield descriptor


def with_bit(mode: int, wanted: Thing) -> int:
    """The permissions, executable as wanted; whoever may read it may run it."""
    if wanted.executable is None or bool(mode & stat.S_IXUSR) == wanted.executable:
        return mode
    return mode | (mode & _READABLE) >> 2 if wanted.executable else mode & ~_EXECUTABLE


def sync(descriptor: int) -> None:
    """Make it durable, where there is something to be made durable."""
    with suppress_nothing_to_sync():
        os.fsync(descriptor)


@contextmanager
def suppress_nothing_to_sync() -> Iterator[None]:
    """Some file systems have nothing to sync, and say so."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def parts_of(path: str) -> list[str]:
    """The names on the way to a path beneath a folder.

    Raises:
        RestoreRefusedError: it is none.
    """
    parts = path.split("/")
    if path.startswith("/") or not path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise RestoreRefusedError(
            f"{shown(path)}: no path beneath a folder", hint="a manifest that names it is damaged or forged"
        )
    return parts


def above_of(path: str) -> Iterator[str]:
    """The folders on the way to a path, topmost first."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        yield "/".join(parts[:count])


def _is_link(folder: int, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _through_link(path: str) -> RestoreRefusedError:
    return RestoreRefusedError(
        f"{shown(path)}: a symbolic link stands on the way to it", hint="nothing is put back through a link; take it away first"
    )
