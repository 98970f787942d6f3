"""One SQLite file, opened and used the way a recovery manager must.

WAL, with `synchronous` set and read back; one connection, one lock, closed around every fork; write transactions that take
the write lock first and check the schema inside it; a commit that failed on the disk is never retried: the connection is
closed, the outcome is unknown, and the next call settles it with a synced write. What the tables mean is not known here.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from typing import TypeVar

from agentos import _fork
from agentos._text import shown
from agentos.errors import ManagerClosedError, StoreBusyError, StoreReplacedError, StoreUnavailableError
from agentos.store import failures, opening, unsettled, waiting
from agentos.store.watching import WatchedFiles

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_log = logging.getLogger("agentos.store")
_NORMAL, _FULL = 1, 2
# The first SQLite without the bug that can corrupt a WAL database when several connections write and checkpoint.
_WAL_RESET_FIXED = (3, 51, 3)
_LOOK_FOR_OTHERS_EVERY = 32
# SQLite moves the log into the database when it has grown to so many pages; and of so many unsynced writes one is synced,
# enough of them for small states to fill the log, so that this sync is the checkpoint's own.
_LOG_PAGES = 1000
_MOST_UNSYNCED = 256
_warned_about_wal_reset = False


class Database:
    """Reads and writes one file. Safe to share between threads and across fork.

    Args:
        path: absolute path of the file; it is created with its folder if it is not there.
        prepare: runs on every new connection, before anything else: migrations and checks.
        check: runs inside every write transaction; raises if this code must not write any more. None if each work does.
        lock_timeout: seconds to wait for the write lock before giving up with a sentence.
    """

    def __init__(self, path: str, prepare: Work[None], check: Work[None] | None, lock_timeout: float) -> None:
        self.path = path
        self._prepare = prepare
        self._check = check
        self._lock_timeout = lock_timeout
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._synchronous = 0
        self._files: WatchedFiles | None = None
        self._unsettled = False
        self._closed = False
        self._writes = 0
        self._unsynced = 0
        self._data_version = 0
        # Which file this was, also while it is closed around a fork.
        self._identity: tuple[int, int] | None = None
        _fork.close_on_fork(self)

    def read(self, work: Work[T]) -> T:
        """Run `work`, which only reads, on one consistent view of the file."""
        with self._exclusively():
            connection = self._open()
            try:
                connection = self._settled_for_reading(connection)
                # A reader waits only while another process recovers the log of one that was killed.
                return waiting.patiently(lambda: in_read_transaction(connection, work), self.path, self._lock_timeout)
            except failures.RAISED as error:
                self._disconnect()
                raise failures.translated(error, self.path, "read") from error
            except BaseException:
                self._rollback(connection)
                raise

    def write(self, work: Work[T], *, synced: bool) -> T:
        """Run `work` in one transaction; when this returns it is committed, and on disk if `synced`.

        Raises:
            StoreBusyError: the write lock was not to be had in time; nothing was stored.
            OutcomeUnknownError: the disk failed during the commit.
            StoreReplacedError: the file is not the one that was opened any more.
        """
        # Every save takes this way, after a sync that left the caches of the processor cold: what it calls, it pays for.
        if not self._lock.acquire(timeout=self._lock_timeout):
            raise self._in_use()
        try:
            if self._closed:
                raise _closed()
            connection = self._connection or self._open()
            try:
                if self._unsettled:
                    self._settle_first(connection)
                level = _FULL if synced or self._unsynced >= _MOST_UNSYNCED else _NORMAL
                if level != self._synchronous:
                    self._set_synchronous(connection, level)
                self._begin_immediate(connection)
                if self._check is not None:
                    self._check(connection)
                result = work(connection)
                self._commit(connection)
            except failures.RAISED as error:
                self._disconnect()
                raise failures.translated(error, self.path, "write") from error
            except BaseException:
                # Also Control-C between two statements: no lock stays behind.
                self._rollback(connection)
                raise
            return result
        finally:
            self._lock.release()

    def settle(self) -> None:
        """Make everything that can be read now durable, by a synced write. Reading alone does not prove that."""
        with self._exclusively():
            connection = self._open()
            try:
                self._settle(connection)
            except failures.RAISED as error:
                self._disconnect()
                raise failures.translated(error, self.path, "write") from error
            except BaseException:
                self._rollback(connection)
                raise

    def size(self) -> int:
        """Bytes on disk, the log included."""
        return sum(os.stat(name).st_size for name in (self.path, f"{self.path}-wal") if os.path.exists(name))

    def give_back(self) -> None:
        """Give the space of what was deleted back to the disk, as far as other processes let go of the file in time."""
        with self._exclusively():
            connection = self._open()
            try:
                self._set_synchronous(connection, _FULL)
                waiting.patiently(lambda: connection.execute("vacuum"), self.path, self._lock_timeout)
                waiting.until_log_is_empty(connection, self.path, self._lock_timeout)
            except failures.RAISED as error:
                if failures.primary(error) == sqlite3.SQLITE_IOERR:
                    self._distrust_log(connection)
                self._disconnect()
                raise failures.translated(error, self.path, "write") from error

    def close(self) -> None:
        """Let go of the file. Every later call raises ManagerClosedError."""
        with self._exclusively(even_closed=True):
            self._closed = True
            self._disconnect()

    # Called by agentos._fork: the lock is held over the fork, so no thread is inside SQLite while memory is copied.

    def before_fork(self) -> None:
        self._lock.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        self._lock.release()

    # The rest is how.

    def _exclusively(self, *, even_closed: bool = False) -> _Held:
        if not self._lock.acquire(timeout=self._lock_timeout):
            raise self._in_use()
        if self._closed and not even_closed:
            self._lock.release()
            raise _closed()
        return _Held(self._lock.release)

    def _in_use(self) -> StoreBusyError:
        return StoreBusyError(
            f"{shown(self.path)}: another thread of this process has used the registry for {self._lock_timeout:g} s",
            hint="give each thread its own manager, or raise lock_timeout",
        )

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._refuse_replaced()
            connection = opening.connect(self.path, self._lock_timeout)
            try:
                opening.switch_to_wal(connection, self.path, self._lock_timeout)
                self._synchronous = 0
                self._set_synchronous(connection, _FULL)
                self._prepare(connection)
                opening.sync_names(self.path)
                self._files = WatchedFiles(self.path)
                self._data_version = _data_version(connection)
                self._identity = _identity(self.path)
                self._unsettled = self._unsettled or unsettled.is_left(self.path)
            except failures.RAISED as error:
                if failures.primary(error) == sqlite3.SQLITE_IOERR:
                    self._distrust_log(connection)
                connection.close()
                raise failures.translated(error, self.path, "open") from error
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _refuse_replaced(self) -> None:
        """What took the place of a file that was in use, an empty one above all, must not read as "nothing was ever done"."""
        if self._identity is not None and _identity(self.path) != self._identity:
            raise self._replaced()

    def _replaced(self) -> StoreReplacedError:
        self._disconnect()
        return StoreReplacedError(
            f"{shown(self.path)}: the file was removed or replaced while it was in use; what was just written may be lost",
            hint="find out who replaced it and put it back, or start again with a new manager",
        )

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as error:
                # Closing tidies the WAL up; whatever fails there fails again, and is reported, when the file is next opened.
                _log.debug("closing the database failed: %s", error)

    def _set_synchronous(self, connection: sqlite3.Connection, level: int) -> None:
        # Only between transactions: inside one SQLite ignores it.
        connection.execute(f"pragma synchronous = {level}")
        found = connection.execute("pragma synchronous").fetchone()[0]
        if found != level:
            raise failures.not_durable(self.path, found)
        # SQLite does not tell when its own checkpoint fails, and that one syncs the log first, with all that was never
        # synced. So it may checkpoint only right after a synced commit, when there is nothing of that kind.
        connection.execute(f"pragma wal_autocheckpoint = {_LOG_PAGES if level == _FULL else 0}")
        self._synchronous = level

    def _begin_immediate(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("begin immediate")
        except sqlite3.Error:
            try:
                waiting.begin_immediate(connection, self.path, self._lock_timeout)
            except failures.RAISED as error:
                self._disconnect()
                raise failures.translated(error, self.path, "write") from error
        self._writes += 1
        if self._writes % _LOOK_FOR_OTHERS_EVERY == 1:
            self._look_for_others(connection)

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("commit")
        except sqlite3.Error as error:
            # After a failed sync the kernel may report the next one as good though the data is gone. So: never again on this
            # connection, and nobody is told that it worked or that it did not.
            self._distrust_log(connection)
            self._disconnect()
            raise failures.commit_failed(error, self.path) from error
        self._unsynced = 0 if self._synchronous == _FULL else self._unsynced + 1
        if self._files is None or not self._files.are_in_place():
            raise self._replaced()

    def _settled_for_reading(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        try:
            self._settle_first(connection)
        except StoreUnavailableError as error:
            # A disk that is full, or was made read-only, still has what was synced to it, and looking must remain possible.
            _log.debug("not settled before a look: %s", error)
        return self._open()

    def _settle_first(self, connection: sqlite3.Connection) -> None:
        """After a commit that may have been lost nothing is answered, nor written, before what can be read is durable."""
        if self._unsettled:
            self._start_new_log(connection)
            self._settle(connection)
            self._unsettled = False
            unsettled.remove(self.path)

    def _settle(self, connection: sqlite3.Connection) -> None:
        self._set_synchronous(connection, _FULL)
        self._begin_immediate(connection)
        if self._check is not None:
            self._check(connection)
        if connection.execute("update settlement set settled = settled + 1").rowcount != 1:
            # A transaction that changes nothing syncs nothing.
            raise failures.nothing_to_settle(self.path)
        self._commit(connection)

    def _distrust_log(self, connection: sqlite3.Connection) -> None:
        """A sync may have failed. Leave a mark, and mend the log before the connection is closed, which moves it."""
        self._unsettled = True
        unsettled.leave(self.path)
        try:
            self._mend_log(connection)
        except (StoreBusyError, sqlite3.Error, OSError) as error:
            # Then closing fails as well, and moves nothing. The next write tries again, and says so if it cannot.
            _log.debug("the log could not be mended: %s", error)

    def _mend_log(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("rollback")
        waiting.begin_immediate(connection, self.path, self._lock_timeout)
        try:
            unsettled.mend_log(self.path)
        finally:
            connection.execute("rollback")

    def _start_new_log(self, connection: sqlite3.Connection) -> None:
        """Mend the log, move what it holds into the database, where a sync may have failed too, and empty it."""
        try:
            self._mend_log(connection)
            waiting.until_log_is_empty(connection, self.path, self._lock_timeout)
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            raise failures.commit_failed(error, self.path) from error

    def _rollback(self, connection: sqlite3.Connection) -> None:
        try:
            if connection is self._connection and connection.in_transaction:
                connection.execute("rollback")
        except sqlite3.Error as error:
            _log.debug("rollback failed, reconnecting: %s", error)
            self._disconnect()

    def _look_for_others(self, connection: sqlite3.Connection) -> None:
        global _warned_about_wal_reset  # noqa: PLW0603 - once per process, whatever number of managers
        if _warned_about_wal_reset or sqlite3.sqlite_version_info >= _WAL_RESET_FIXED:
            return
        now = _data_version(connection)
        if now != self._data_version:
            self._data_version = now
            _warned_about_wal_reset = True
            _log.warning(
                "several connections write to %s, and SQLite %s has a rare bug that can corrupt such a database: "
                "use a Python linked to SQLite 3.51.3 or newer, or let one process write",
                shown(self.path),
                sqlite3.sqlite_version,
            )


class _Held:
    """Releases a lock that was taken already."""

    __slots__ = ("_release",)

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._release()


def _closed() -> ManagerClosedError:
    return ManagerClosedError("this manager is closed", hint="make a new CheckpointManager")


def in_read_transaction(connection: sqlite3.Connection, work: Work[T]) -> T:
    """Run `work` on one consistent view."""
    connection.execute("begin")
    try:
        return work(connection)
    finally:
        connection.execute("commit")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _data_version(connection: sqlite3.Connection) -> int:
    """Changes when another connection has committed."""
    return int(connection.execute("pragma data_version").fetchone()[0])
