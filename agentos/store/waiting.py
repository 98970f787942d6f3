"""Wait for the write lock: fairly, and never for ever.

SQLite's own busy handler lets late comers starve: one of eight writers made 1 commit while another made 7,275. Short random
pauses share the lock within a factor of two. tenacity drives the loop, and only once the lock was found taken.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from agentos._text import shown
from agentos.errors import StoreBusyError
from agentos.store import failures

T = TypeVar("T")
_SHORTEST, _LONGEST = 0.0002, 0.002


def begin_immediate(connection: sqlite3.Connection, path: str, timeout: float) -> None:
    """Begin a write transaction as soon as nobody else has one.

    Raises:
        StoreBusyError: not within `timeout` seconds; names who holds the lock where the system tells.
    """
    patiently(lambda: connection.execute("begin immediate"), path, timeout)


def patiently(attempt: Callable[[], T], path: str, timeout: float) -> T:
    """Do it now if the database is free, else repeat until `timeout`. Other errors of SQLite are the caller's."""
    started = time.monotonic()
    try:
        return attempt()
    except sqlite3.Error as error:
        if not failures.is_busy(error):
            raise
        if time.monotonic() - started >= timeout:
            raise _busy(path, timeout) from error
    return _retrying(attempt, path, timeout)


class _LogInUseError(sqlite3.OperationalError):
    """Another process still reads from the log."""

    sqlite_errorcode = sqlite3.SQLITE_BUSY


def until_log_is_empty(connection: sqlite3.Connection, path: str, timeout: float) -> None:
    """Checkpoint and truncate the write-ahead log, waiting for whoever reads from it."""

    def attempt() -> None:
        in_use = connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
        if in_use:
            raise _LogInUseError("the log is in use")

    patiently(attempt, path, timeout)


def _retrying(attempt: Callable[[], T], path: str, timeout: float) -> T:
    from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_random  # noqa: PLC0415 - 30 ms, rarely needed

    again = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, sqlite3.Error) and failures.is_busy(error)),
        wait=wait_random(_SHORTEST, _LONGEST),
        stop=stop_before_delay(timeout),
        reraise=True,
    )
    try:
        return again(attempt)
    except sqlite3.Error as error:
        if not failures.is_busy(error):
            raise
        raise _busy(path, timeout) from error


def _busy(path: str, timeout: float) -> StoreBusyError:
    return StoreBusyError(
        f"{shown(path)}: the write lock was not free for {timeout:g} s; nothing was stored. {_who(path)}",
        hint="stop or continue that process, or raise lock_timeout",
    )


def _who(path: str) -> str:
    """Who holds a lock on the database, as far as this system tells."""
    try:
        inode = b":%d " % os.stat(f"{path}-shm").st_ino
        # As bytes: see _process.py.
        with open("/proc/locks", "rb") as table:
            holders = {int(line.split()[-4]) for line in table if inode in line and b" WRITE " in line}
    except (OSError, ValueError, IndexError):
        holders = set()
    holders.discard(os.getpid())
    if not holders:
        return "Another process holds it"
    return "Held by " + ", ".join(_described(pid) for pid in sorted(holders))


def _described(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(200).replace(b"\0", b" ").decode(errors="replace").strip()
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return f"process {pid}"
    stopped = ", stopped" if state in "Tt" else ""
    return f"process {pid} ({shown(command, 80)}{stopped})"
