"""A write-ahead log that may have a hole, because a sync of it failed: how others are told, and how it is mended.

What a failed sync had in its hands stays readable in the page cache, and no later sync writes it: the kernel takes it for
written. What is appended behind such a hole is lost in a power cut, acknowledged or not. And to move such a log into the
database is to overwrite, if power fails half-way, what the log on the disk cannot put right any more.

The process that saw the sync fail knows. The next one cannot, so whoever knows leaves a mark beside the database, and whoever
opens it then mends the log before it writes. The mark needs no sync: after a power cut the log is read from the disk, as far as
it reaches, and there is nothing left to warn of.
"""

from __future__ import annotations

import logging
import os

_log = logging.getLogger("agentos.store")
_CHUNK = 1 << 20


def leave(path: str) -> None:
    """From now on the log of the database at `path` is not to be built upon before it is mended."""
    try:
        os.close(os.open(_mark(path), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        # The disk fails already; whoever asked is told that the outcome is unknown either way.
        _log.warning("no mark could be left beside a database whose disk failed: %s", error)


def is_left(path: str) -> bool:
    """Whether somebody left the mark."""
    return os.path.lexists(_mark(path))


def remove(path: str) -> None:
    """The log was mended."""
    try:
        os.unlink(_mark(path))
    except FileNotFoundError:
        return
    except OSError as error:
        # It stays, and costs whoever opens the database next one checkpoint.
        _log.debug("the mark of an unsettled log could not be removed: %s", error)


def mend_log(path: str) -> None:
    """Write the log over itself and sync it: what the kernel took for written is written. The write lock must be held."""
    descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
    try:
        at = 0
        while chunk := os.pread(descriptor, _CHUNK, at):
            at += os.pwrite(descriptor, chunk, at)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mark(path: str) -> str:
    return f"{path}-unsettled"
