"""A database that is only looked at: never made, never migrated, never written to, on whatever disk it lies.

Reading a database in WAL mode makes SQLite create `-wal` and `-shm` beside it, and leave them. So how it is opened depends on
what lies there:

| `-wal` | `-shm` | opened |
|---|---|---|
| there | there | read-only, with locks, beside whoever writes; if the disk does not allow that, from a private copy |
| there | not | from a private copy of both files |
| not | | as immutable: no locks and no files; what was read counts only if the file was not touched meanwhile |

A copy is of one moment: both files must have held still while they were read.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from agentos._descriptors import held, reading
from agentos._text import shown
from agentos.errors import StoreBusyError, StoreError, StoreUnavailableError
from agentos.store import failures, opening, waiting
from agentos.store.database import Database, Work, in_read_transaction

T = TypeVar("T")

_CHUNK = 1 << 20
_PAUSE = 0.02
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# What SQLite says where the disk does not let it keep its locks.
_NO_LOCKS = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM})

# The database and its log as they lie there: which files, how large, and when they were last changed.
_State = tuple[tuple[int, ...], ...]


class ReadOnlyDatabase(Database):
    """Reads one file and leaves no trace.

    Args:
        path: absolute path of the file.
        prepare: runs on every new connection: refuses what this code cannot read.
        lock_timeout: seconds to wait for a file that is written to all the time.
    """

    def __init__(self, path: str, prepare: Work[None], lock_timeout: float) -> None:
        super().__init__(path, prepare, prepare, lock_timeout)
        # The folder of a private copy, while there is one.
        self._folder: str | None = None
        # What was there when it was opened without locks: only while that is still there, what is read was ever true.
        self._rested: _State | None = None

    def read(self, work: Work[T]) -> T:
        until = time.monotonic() + self._lock_timeout
        with self._exclusively():
            while True:
                try:
                    return self._attempt(work)
                except StoreError:
                    # Also what looks like damage: torn pages do, and are none.
                    moved = self._moved()
                    self._disconnect()
                    if not moved or time.monotonic() > until:
                        raise
                time.sleep(_PAUSE)

    def write(self, work: Work[T], *, synced: bool) -> T:  # noqa: ARG002 - nothing is written here
        raise self._refused()

    def settle(self) -> None:
        raise self._refused()

    def give_back(self) -> None:
        raise self._refused()

    def _attempt(self, work: Work[T]) -> T:
        try:
            connection = self._open()
            result = waiting.patiently(lambda: in_read_transaction(connection, work), self.path, self._lock_timeout)
        except failures.RAISED as error:
            raise failures.translated(error, self.path, "read") from error
        if self._moved():
            raise _restless(self.path)
        return result

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._moved():
            self._disconnect()
            self._connection = self._connected()
            self._prepare(self._connection)
        return self._connection

    def _connected(self) -> sqlite3.Connection:
        opening.refuse_unusable(self.path)
        logged = os.path.lexists(f"{self.path}-wal")
        if logged and os.path.lexists(f"{self.path}-shm"):
            try:
                return _connect(self.path, "mode=ro", self._lock_timeout)
            except sqlite3.Error as error:
                if failures.primary(error) not in _NO_LOCKS:
                    raise
        if logged:
            return _connect(self._copied(), "mode=ro", self._lock_timeout)
        self._rested = _state(self.path)
        return _connect(self.path, "mode=ro&immutable=1", self._lock_timeout)

    def _moved(self) -> bool:
        return self._rested is not None and self._rested != _state(self.path)

    def _disconnect(self) -> None:
        super()._disconnect()
        self._rested = None
        if self._folder is not None:
            _remove(self._folder)
            self._folder = None

    def _copied(self) -> str:
        """The path of a copy of the database and its log, as they are together."""
        until = time.monotonic() + self._lock_timeout
        while True:
            before = _state(self.path)
            self._folder = _made()
            copy = os.path.join(self._folder, "copy.sqlite")
            try:
                for ending in ("", "-wal"):
                    _copy(f"{self.path}{ending}", f"{copy}{ending}")
            except OSError as error:
                raise StoreUnavailableError(
                    f"{shown(self.path)}: has a log that can only be read from a copy, and cannot be copied: {error.strerror}",
                    hint="TMPDIR names a folder with enough free space for both files",
                ) from error
            if before == _state(self.path):
                self._rested = before
                return copy
            _remove(self._folder)
            if time.monotonic() > until:
                raise _restless(self.path)
            time.sleep(_PAUSE)

    def _refused(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"{shown(self.path)}: opened only to be read; nothing was stored")


def _connect(path: str, options: str, timeout: float) -> sqlite3.Connection:
    address = opening.address(path, options)
    connection = sqlite3.connect(address, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        waiting.patiently(lambda: opening.prepare(connection, path), path, timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def _made() -> str:
    import tempfile  # noqa: PLC0415 - a copy is rare, and this loads four kinds of compression

    return tempfile.mkdtemp(prefix="agentos-")


def _remove(folder: str) -> None:
    import shutil  # noqa: PLC0415 - as above

    shutil.rmtree(folder, ignore_errors=True)


def _copy(source: str, target: str) -> None:
    status = os.stat(source)
    if held(status):
        # Closing what is read here would drop that one's locks.
        raise StoreBusyError(
            f"{shown(source)}: this process has it open in a way that nobody else can read beside",
            hint="read through the manager that has it open",
        )
    out = os.open(target, _CREATE, 0o600)
    try:
        with reading(_opener(source)) as descriptor:
            while chunk := os.read(descriptor, _CHUNK):
                _write_all(out, chunk)
    finally:
        os.close(out)


def _opener(path: str) -> Callable[[int], int]:
    return lambda flags: os.open(path, flags)


def _write_all(descriptor: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _state(path: str) -> _State:
    return tuple(_stamp(f"{path}{ending}") for ending in ("", "-wal"))


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _restless(path: str) -> StoreBusyError:
    return StoreBusyError(
        f"{shown(path)}: was written to all the time while it was read", hint="try again when the writer is done"
    )
