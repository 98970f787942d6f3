"""Turn what sqlite3 raises into a sentence that a user can act on.

Decides which of our errors it is; never retries and never swallows.
"""

from __future__ import annotations

import os
import sqlite3

from agentos._text import shown
from agentos.errors import (
    ForeignDatabaseError,
    OutcomeUnknownError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
)

# SQLITE_PROTOCOL: SQLite gave up, after ten seconds of its own, on a process that stands still while it opens the log.
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
# What using a database can raise: sqlite3 takes the text of an error for UTF-8, and one that quotes a damaged schema is not.
RAISED = (sqlite3.Error, UnicodeDecodeError)
_DAMAGED = "nothing was served from it; restore a backup, or move the file away and start again"


def primary(error: Exception) -> int:
    """SQLite's primary result code; 0 when the error did not come from SQLite itself."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether trying again can help."""
    return primary(error) in _BUSY


def translated(error: Exception, path: str, doing: str) -> StoreError:
    """Our error for this one; `doing` is open, read or write."""
    code, name, where = primary(error), _name(error), shown(path)
    if code in _BUSY:
        return StoreBusyError(f"{where}: locked by another process", hint="find who holds it; `fuser` shows who has it open")
    if code == sqlite3.SQLITE_NOTADB:
        return ForeignDatabaseError(f"{where}: not a SQLite database", hint="choose another path; this file was not touched")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreCorruptError(f"{where}: the database is damaged ({name})", hint=_DAMAGED)
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailableError(f"{where}: the disk is full; nothing was stored", hint="free some space and try again")
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailableError(f"{where}: read-only ({name}); nothing was stored", hint=_permissions(path))
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreUnavailableError(f"{where}: cannot {doing} ({name})", hint=_permissions(path))
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailableError(
            f"{where}: the disk failed during {doing} ({name}); nothing was stored",
            hint="look at the system log and the free space; the registry is opened anew by the next call",
        )
    if code in (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM):
        return StoreUnavailableError(f"{where}: too large to {doing} ({name})", hint="keep the snapshot smaller")
    return StoreCorruptError(f"{where}: cannot {doing}: {shown(str(error), 200)} ({name})", hint=_DAMAGED)


def commit_failed(error: Exception, path: str) -> StoreError:
    """A commit that failed: a full disk stored nothing; after any other failure nobody knows."""
    if primary(error) in {sqlite3.SQLITE_FULL, *_BUSY}:
        return translated(error, path, "write")
    return OutcomeUnknownError(
        f"{shown(path)}: the disk failed during a commit ({_name(error)}); it may or may not be stored",
        hint="look at the disk, then make the same call again: it settles what happened and never commits twice",
    )


def nothing_to_settle(path: str) -> StoreError:
    """The row that a synced write touches is not there."""
    return StoreCorruptError(f"{shown(path)}: the row of settlement is gone, so nothing can be made durable", hint=_DAMAGED)


def not_durable(path: str, found: int) -> StoreError:
    """The connection would not take the promised setting."""
    return StoreUnavailableError(
        f"{shown(path)}: SQLite would not set synchronous (found {found}), so nothing it acknowledges could be trusted"
    )


def _name(error: Exception) -> str:
    return str(getattr(error, "sqlite_errorname", None) or type(error).__name__)


def _permissions(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f"the folder {shown(folder)} is not there"
    if not os.access(folder, os.W_OK):
        return f"the folder {shown(folder)} is not writable for this user; SQLite keeps its log beside the file"
    if os.path.exists(path) and not os.access(path, os.W_OK):
        return "the file is not writable for this user"
    return "is the file system mounted read-only, or full?"
