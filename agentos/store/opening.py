"""Open or create a database file: private, in WAL mode, and never somebody else's.

A file that is not ours is refused before anything in it changes.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress

from agentos._text import listed, shown
from agentos.errors import ForeignDatabaseError, StoreCorruptError, StoreUnavailableError
from agentos.store import failures, waiting
from agentos.store.schema import APPLICATION_ID

_NOT_TOUCHED = "choose another path; this file was not touched"


def connect(path: str, timeout: float) -> sqlite3.Connection:
    """A connection in autocommit mode, on a file that is ours or empty."""
    _create_if_missing(os.path.realpath(path))
    _look_at_rest(path)
    try:
        # Waiting is ours (see waiting.py): SQLite's own busy handler is off.
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)
    except failures.RAISED as error:
        raise failures.translated(error, path, "open") from error
    try:
        # Even a pragma can meet a lock: that of a process which makes the file this one found empty.
        waiting.patiently(lambda: prepare(connection, path), path, timeout)
    except failures.RAISED as error:
        connection.close()
        raise failures.translated(error, path, "open") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _look_at_rest(path: str) -> None:
    """Look before touching: an ordinary connection would finish what a crashed owner left undone, and change the file."""
    try:
        with closing(sqlite3.connect(address(path, "mode=ro&immutable=1"), uri=True, timeout=0)) as connection:
            _refuse_foreign(connection, path)
    except failures.RAISED:
        # Not to be read, damaged, or being written to: judged by the connection that is to use it.
        return


def address(path: str, options: str) -> str:
    """The file as SQLite takes it with options."""
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file://{escaped}?{options}"


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Settings that every connection has, on a database that is ours or empty."""
    for pragma in ("trusted_schema = off", "cell_size_check = on", "mmap_size = 0", "auto_vacuum = none"):
        connection.execute(f"pragma {pragma}")
    _refuse_foreign(connection, path)


def switch_to_wal(connection: sqlite3.Connection, path: str, timeout: float) -> None:
    """Switch the file to WAL and read the answer back; concurrent switches answer "locked" now and then."""
    mode = waiting.patiently(lambda: connection.execute("pragma journal_mode = wal").fetchone()[0], path, timeout)
    if mode != "wal":
        raise StoreUnavailableError(
            f"{shown(path)}: this file system cannot hold a SQLite write-ahead log (journal mode is {mode})",
            hint="put the registry on a local disk",
        )


def sync_names(path: str) -> None:
    """Make the names of the database and its log durable.

    SQLite syncs the folder itself when it has made a log, and takes no notice if that fails; and whoever made the file may
    have been killed before it could.
    """
    try:
        _sync_folder(os.path.dirname(os.path.realpath(path)))
    except PermissionError:
        # Who may not list the folder cannot sync it either; SQLite's own attempt is all there is.
        return
    except OSError as error:
        raise StoreUnavailableError(
            f"{shown(path)}: its folder cannot be synced: {error.strerror}; nothing that is stored there could be trusted",
            hint="look at the system log and the free space",
        ) from error


def _refuse_foreign(connection: sqlite3.Connection, path: str) -> None:
    owner = connection.execute("pragma application_id").fetchone()[0]
    if owner == APPLICATION_ID:
        return
    tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table' limit 9")]
    if tables or owner != 0:
        raise ForeignDatabaseError(
            f"{shown(path)}: a database of something else (tables: {listed(tables) or 'none'})", hint=_NOT_TOUCHED
        )


def refuse_unusable(path: str) -> None:
    """Refuse what is not there, what is no file, and what SQLite would take for an empty database and is none."""
    if os.path.isdir(path):
        raise StoreUnavailableError(f"{shown(path)}: is a folder", hint="give the path of a file in it")
    if not os.path.lexists(path):
        raise StoreUnavailableError(f"{shown(path)}: no registry here", hint="nothing was created; is this the right folder?")
    if not os.path.isfile(path):
        raise StoreUnavailableError(f"{shown(path)}: is no regular file", hint="give the path of a file on a disk")
    _refuse_remnant(path)


def _create_if_missing(path: str) -> None:
    if os.path.lexists(path):
        refuse_unusable(path)
        return
    try:
        _make_folder(os.path.dirname(path))
        # Private from its first moment; SQLite gives its log the same permissions.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        _sync_folder(os.path.dirname(path))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailableError(
            f"{shown(path)}: cannot be created: {error.strerror}", hint="choose a path in a folder that this user may write to"
        ) from error


def _refuse_remnant(path: str) -> None:
    """Refuse what SQLite would take for an empty database, and is none."""
    try:
        size = os.path.getsize(path)
        if size == 1:
            raise ForeignDatabaseError(
                f"{shown(path)}: not a SQLite database", hint="choose another path; this file was not touched"
            )
        if size == 0 and os.path.getsize(f"{path}-wal") > 0:
            raise StoreCorruptError(
                f"{shown(path)}: the database is empty, but its log is not: the file was cut off or replaced",
                hint="restore a backup, or move both files away and start again",
            )
    except OSError:
        # Without a log, or not ours to look at: SQLite says what is wrong with it.
        return


def _make_folder(folder: str) -> None:
    """Create what is missing of the folder: for this user alone, and kept out of version control."""
    parent = os.path.dirname(folder)
    if os.path.isdir(folder):
        # Whoever made it may have been killed before its name was durable. Those above it were synced before it was made.
        with suppress(PermissionError):
            _sync_folder(parent)
        return
    _make_folder(parent)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if os.path.isdir(folder):
            return
        raise
    with open(os.path.join(folder, ".gitignore"), "w", encoding="utf-8") as ignore:
        ignore.write("*\n")
        ignore.flush()
        os.fsync(ignore.fileno())
    _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    """Without this the folder's new entry can be gone after a power cut, and the registry with it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
