"""A file that is written because somebody named it must not take the place of a registry: that would lose every task in it.

A registry has whatever name its user gave it, so it is known by how it begins.
"""

from __future__ import annotations

import os
from contextlib import suppress

from agentos._text import shown
from agentos.errors import InvalidInputError

_MAGIC = b"SQLite format 3\0"
# What SQLite keeps beside a database, which is lost or misread without it.
_BESIDE = ("-wal", "-shm", "-journal")


def refuse_database(path: str) -> None:
    """Refuse to write here if a database is here, or what belongs to one; before anything is done.

    Raises:
        InvalidInputError: it is, or it does.
    """
    real = os.path.realpath(path)
    owners = [real.removesuffix(each) for each in _BESIDE if real.endswith(each)]
    if any(map(_is_database, [real, *owners])):
        raise InvalidInputError(f"{shown(path)}: would stand in the place of a registry", hint="name another file")


def _is_database(path: str) -> bool:
    # A pipe would have to be waited for, and what cannot be read is refused by whoever writes.
    if os.path.isfile(path):
        with suppress(OSError), open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    return False
