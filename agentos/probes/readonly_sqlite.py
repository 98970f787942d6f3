"""Open somebody's SQLite database to read it, and leave no trace.

Reading a database in WAL mode makes SQLite create `-wal` and `-shm` beside it, and leave them. So how it is opened depends on
what lies there, seen before anything is opened:

| `-wal` | `-shm` | mode | opened |
|---|---|---|---|
| there | there | WAL, in use | read-only, with locks, beside whoever writes |
| there | not, or the database is empty | WAL, left behind | read-only, from a private copy |
| not | | WAL, at rest | as immutable: no locks and no files; afterwards it must be untouched and still without a `-wal` |
| not | | rollback | read-only, with locks |

Beside an empty database SQLite would delete a log, read-only or not. A database is never created and never rolled back: an
unfinished transaction that somebody else must settle is a reason to give up. Connections of this process stay out of a fork
(see `fork_gate.py`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from agentos._descriptors import held, is_on, locked_here, reading
from agentos._text import shown
from agentos.probes.cannot_see import CannotSee, Deadline, Moved, timed_out, unreadable
from agentos.probes.fork_gate import GATE
from agentos.probes.hashing import still
from agentos.probes.paths import Place
from agentos.probes.private_copy import copied

_MAGIC = b"SQLite format 3\x00"
_HEADER = 100
_READ_VERSION = 19
_WAL = 2
_STEPS_BETWEEN_LOOKS = 4000
# Where SQLite locks a database; what this process holds there SQLite knows of, and keeps.
_OF_SQLITE = range(0x40000000, 0x40000200)
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")

_SETUP = ("query_only=on", "trusted_schema=off", "cell_size_check=on", "mmap_size=0")
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
# Asked by us for the columns of a table, by full-text tables about themselves, and the form in which SQLite asks whether the
# columns of a virtual table may be declared; nothing is updated by that, and nothing here could be.
_ALLOWED_ON = frozenset(
    {
        (sqlite3.SQLITE_PRAGMA, "table_xinfo"),
        (sqlite3.SQLITE_PRAGMA, "data_version"),
        (sqlite3.SQLITE_UPDATE, "sqlite_master"),
    }
)


class Busy(CannotSee):
    """Somebody is writing; a moment later it may be over."""


class Forking(CannotSee):
    """A thread of this process waits to fork; the look starts over afterwards."""


class NotText(bytes):
    """Bytes that are stored as text and are no UTF-8."""


@contextmanager
def connected(place: Place, status: os.stat_result, deadline: Deadline) -> Iterator[sqlite3.Connection]:
    """A connection that can only read, in one transaction, until the deadline.

    Raises:
        CannotSee: with the reason; Busy, Forking and Moved are worth another try.
    """
    with (
        GATE.inside(),
        _address(place, status, deadline) as (address, private),
        _explained(place, deadline),
        closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as connection,
    ):
        # SQLite takes a path and follows it by itself: it must have opened what the walk found.
        if not private and not held(status):
            raise Moved(place.path, "was replaced")
        _restrict(connection, deadline)
        yield connection


@contextmanager
def _address(place: Place, status: os.stat_result, deadline: Deadline) -> Iterator[tuple[str, bool]]:
    """What to open, and whether it is a private copy. Afterwards the path must still name the same file."""
    _refuse_locked_here(place, status)
    path = place.without_links()
    logged = os.path.lexists(f"{path}-wal")
    private = logged and (status.st_size == 0 or not os.path.lexists(f"{path}-shm"))
    if private:
        with copied(place, path, deadline) as copy:
            yield _uri(copy, "mode=ro"), private
    elif not logged and _rests_in_wal_mode(place, status):
        with _untouched(place, path):
            yield _uri(path, "mode=ro&immutable=1"), private
    else:
        yield _uri(path, "mode=ro"), private
    _refuse_replaced(place, status)


def _refuse_locked_here(place: Place, status: os.stat_result) -> None:
    """A lock that is not SQLite's would be gone when SQLite closes the file."""
    if held(status) and any(first not in _OF_SQLITE or last not in _OF_SQLITE for first, last in locked_here(status)):
        # Whoever waits here may be the one who has it, so this is not waited for.
        raise CannotSee(
            "DATABASE_BUSY",
            f"{shown(place.path)}: this process holds a lock of its own on it, which reading would drop",
            "give the lock back before it is verified",
        )


@contextmanager
def _untouched(place: Place, path: str) -> Iterator[None]:
    """Without locks, only this proves that what was read was one state: nobody wrote before, during or after."""
    if os.path.lexists(f"{path}-journal"):
        raise _hot_journal(place)
    try:
        before = os.stat(path)
        try:
            yield
        finally:
            # Also when reading failed: torn pages look like damage, and are none.
            if os.path.lexists(f"{path}-wal") or still(os.stat(path)) != still(before):
                raise Moved(place.path, "changed")
    except OSError as error:
        raise Moved(place.path, "was replaced") from error


def _rests_in_wal_mode(place: Place, status: os.stat_result) -> bool:
    try:
        header = _header(place, status)
    except OSError as error:
        raise unreadable(place.path, error) from error
    return header.startswith(_MAGIC) and header[_READ_VERSION] == _WAL


def _header(place: Place, status: os.stat_result) -> bytes:
    descriptors = held(status)
    for descriptor in descriptors:
        # Through one that this process has anyway: its position stays where it is, and nothing is closed.
        with suppress(OSError):
            header = os.pread(descriptor, _HEADER, 0)
            if is_on(descriptor, status):
                return header
    if descriptors:
        raise Busy("DATABASE_BUSY", f"{shown(place.path)}: this process has it open for writing only")
    with reading(place.open) as descriptor:
        return os.pread(descriptor, _HEADER, 0)


def _refuse_replaced(place: Place, status: os.stat_result) -> None:
    try:
        now = place.status_by_name()
    except OSError as error:
        raise Moved(place.path, "was replaced") from error
    if (now.st_dev, now.st_ino) != (status.st_dev, status.st_ino):
        raise Moved(place.path, "was replaced")


def _uri(path: str, options: str) -> str:
    encoded = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(path))
    return f"file://{encoded}?{options}"


def _restrict(connection: sqlite3.Connection, deadline: Deadline) -> None:
    connection.text_factory = _text
    connection.set_progress_handler(lambda: deadline.passed() or GATE.wanted, _STEPS_BETWEEN_LOOKS)
    for setting in _SETUP:
        connection.execute(f"pragma {setting}")
    connection.execute("begin")
    connection.set_authorizer(_allows)


def _allows(action: int, first: str | None, *_: str | None) -> int:
    allowed = action in _ALLOWED or (action, first) in _ALLOWED_ON
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _text(stored: bytes) -> str | NotText:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return NotText(stored)


@contextmanager
def _explained(place: Place, deadline: Deadline) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _reason(place, error, deadline) from error


def _reason(place: Place, error: sqlite3.Error, deadline: Deadline) -> CannotSee:
    code, subject = getattr(error, "sqlite_errorcode", 0), shown(place.path)
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_INTERRUPT:
        return timed_out(place.path) if deadline.passed() else Forking("TIMED_OUT", f"{subject}: this process kept forking")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return Busy("DATABASE_BUSY", f"{subject}: somebody else holds it locked", "verify again when the writer is done")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CannotSee("NOT_A_DATABASE", f"{subject}: cannot be read as a database: {shown(str(error), 120)}")
    if code == sqlite3.SQLITE_READONLY_ROLLBACK:
        return _hot_journal(place)
    return CannotSee("DATABASE_UNREADABLE", f"{subject}: cannot be read: {shown(str(error), 120)}")


def _hot_journal(place: Place) -> CannotSee:
    return CannotSee(
        "HOT_JOURNAL",
        f"{shown(place.path)}: a writer died in the middle of a transaction, and looking does not roll it back",
        "let its own program open it once, then verify again",
    )
