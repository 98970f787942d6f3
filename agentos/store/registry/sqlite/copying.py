"""Copy a whole registry, page by page, as it is in one view of it: writers are neither held up nor half seen."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress

from agentos._text import shown
from agentos.errors import StoreUnavailableError
from agentos.store import failures

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy(connection: sqlite3.Connection, path: str) -> None:
    """Into a file of its own, which is made anew: an attempt before this one may have left a part of it.

    Raises:
        StoreUnavailableError: there is no space for it.
    """
    with suppress(FileNotFoundError):
        os.unlink(path)
    try:
        # Private from its first moment.
        os.close(os.open(path, _CREATE, 0o600))
        with closing(sqlite3.connect(path, isolation_level=None)) as target:
            connection.backup(target)
    except sqlite3.Error as error:
        if failures.primary(error) != sqlite3.SQLITE_FULL:
            raise
        raise StoreUnavailableError(f"{shown(path)}: the disk is full", hint="choose a disk with more space") from error
