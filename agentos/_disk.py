"""Files that are replaced in one move and read without surprises.

A file is replaced by writing another one beside it, syncing that and renaming it over: a reader sees the old content or the
new, and so does whoever comes after a power cut, once the folder was synced too (_folders.py). Links are not followed, what is
created is for this user alone, and what the files mean is not known here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentos._text import shown
from agentos.errors import StoreCorruptError, StoreUnavailableError

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(folder: int, name: str, temporary: str, parts: list[bytes]) -> None:
    """Put a file with this content in place of what is there. Its name is durable only after `sync_folder`.

    Only under the folder's lock: a temporary file that is found there was left behind by a crash.
    """
    try:
        descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=folder)
    except FileExistsError:
        os.unlink(temporary, dir_fd=folder)
        descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=folder)
    with _filled(descriptor, folder, temporary, parts):
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def written(folder: int, name: str, parts: list[bytes]) -> Iterator[None]:
    """A new file with this content, on disk, for the block to rename. It is removed if something fails before that."""
    with _filled(os.open(name, _CREATE, 0o600, dir_fd=folder), folder, name, parts):
        yield


@contextmanager
def _filled(descriptor: int, folder: int, name: str, parts: list[bytes]) -> Iterator[None]:
    try:
        try:
            write_all(descriptor, parts)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def write_all(descriptor: int, parts: list[bytes]) -> None:
    """Write every part, whatever number of calls it takes."""
    left = sum(map(len, parts))
    done = os.writev(descriptor, parts)
    if done < left:
        rest = memoryview(b"".join(parts))[done:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def read_file(folder: int, name: str, where: str, most: int = -1) -> bytes:
    """The content of a regular file, or its first `most` bytes.

    Raises:
        FileNotFoundError: there is none.
        StoreCorruptError: something else has its name; `where` says so.
    """
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_file(where) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _no_file(where)
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read(most) if most >= 0 else file.readall()
    finally:
        os.close(descriptor)


def _no_file(where: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{shown(where)}: expected a file, found something else", hint="a link is not followed; move it away", file=where
    )


def unavailable(error: OSError, path: str, doing: str) -> StoreUnavailableError:
    """Our error for what the system said; nothing was changed."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StoreUnavailableError(
        f"{shown(path)}: cannot {doing}: {error.strerror}; nothing was changed",
        hint="free some space and try again" if full else "look at the permissions, the disk and the system log",
    )
