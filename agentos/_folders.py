"""Folders that survive what they promise to survive, and locks on them.

A folder is durable once its parent is synced, a name in it once the folder is. A sync that failed is never tried again: the
kernel may say yes to the second one though the data is gone. Only one process writes to a folder at a time, under a lock on the
folder itself, which the system drops when its holder dies. Links are not followed, and what is created is for this user alone.

What stands in the folders is not known here; for single files see _disk.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentos._text import shown
from agentos.errors import OutcomeUnknownError, StoreBusyError, StoreCorruptError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SHORTEST, _LONGEST = 0.0002, 0.002


def make_folder(path: str) -> None:
    """Have the folder, durably, with every parent that is missing.

    Each level is synced before the next is made, so a crash leaves at most the deepest one unsynced; therefore the parent of
    one that is there already is synced as well.
    """
    parent = os.path.dirname(path)
    if not os.path.isdir(path):
        if parent != path:
            make_folder(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
    with suppress(PermissionError):
        # Without the right to read the parent, this user has not made the folder either.
        sync_path(parent)


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """A descriptor of the folder. Raises FileNotFoundError if it is not there, StoreCorruptError if it is something else."""
    descriptor = _open_folder(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked_folder(path: str, timeout: float, *, create: bool = False, shared: bool = False) -> Iterator[tuple[int, int]]:
    """A descriptor of the folder whose lock is held, and its inode. Whoever has the lock may believe that the folder stays.

    Raises:
        FileNotFoundError: it is not there, and not to be created.
        StoreBusyError: the lock was not to be had within `timeout` seconds.
    """
    kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    descriptor, inode = _lock_in_place(path, kind, timeout, create=create)
    try:
        yield descriptor, inode
    finally:
        _unlock(descriptor)


def _lock_in_place(path: str, kind: int, timeout: float, *, create: bool) -> tuple[int, int]:
    while True:
        try:
            descriptor = _open_folder(path)
        except FileNotFoundError:
            if not create:
                raise
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
            continue
        try:
            _wait_for(descriptor, kind, path, timeout)
            inode = _inode_at(descriptor, path)
        except BaseException:
            os.close(descriptor)
            raise
        if inode:
            return descriptor, inode
        # Deleted while this process waited for it; what is at the path now is another folder, or nothing.
        _unlock(descriptor)


def _unlock(descriptor: int) -> None:
    # Not left to the closing: a child forked meanwhile would keep the lock with its copy of the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _open_folder(path: str) -> int:
    try:
        return os.open(path, _FOLDER)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise StoreCorruptError(
                f"{shown(path)}: expected a folder, found something else", hint="a link is not followed; move it away"
            ) from error
        raise


def _wait_for(folder: int, kind: int, path: str, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(folder, kind)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreBusyError(
                    f"{shown(path)}: another process has held its lock for {timeout:g} s; nothing was done",
                    hint="`lslocks` shows who; stop or continue that process, or raise lock_timeout",
                ) from None
            # Short random pauses share the lock fairly.
            time.sleep(random.uniform(_SHORTEST, _LONGEST))  # noqa: S311 - not for secrets
        else:
            return


def _inode_at(folder: int, path: str) -> int:
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    mine = os.fstat(folder)
    return mine.st_ino if (found.st_ino, found.st_dev) == (mine.st_ino, mine.st_dev) else 0


def remove_folder(path: str) -> None:
    """Remove a folder with its files. Somebody else may be at it as well."""
    with suppress(FileNotFoundError):
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(path, name))
        os.rmdir(path)


def sync_path(path: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_folder(descriptor, path)
    finally:
        os.close(descriptor)


def sync_folder(folder: int, path: str) -> None:
    """The same for a folder that is open.

    Raises:
        OutcomeUnknownError: the sync failed, so the change may or may not survive.
    """
    try:
        os.fsync(folder)
    except OSError as error:
        raise OutcomeUnknownError(
            f"{shown(path)}: the disk failed ({error.strerror}); what was just changed may or may not be stored",
            hint="look at the disk, then make the same call again",
        ) from error
