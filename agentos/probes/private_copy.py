"""A private copy of a database and its log, for a database that cannot be opened without writing beside it.

The copy is of one moment: both files must have held still while they were read. It lies in a folder that only this user can
enter and is removed at the end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from agentos._descriptors import held, reading
from agentos._text import shown
from agentos.probes.cannot_see import CannotSee, Deadline, Moved, timed_out, unreadable
from agentos.probes.hashing import CHUNK, still
from agentos.probes.paths import Place

MOST_BYTES = 256 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextmanager
def copied(place: Place, database: str, deadline: Deadline) -> Iterator[str]:
    """The path of a copy of `database` with its `-wal`, as they were together."""
    import tempfile  # noqa: PLC0415 - hardly ever needed

    before = _statuses(place, database)
    with tempfile.TemporaryDirectory(prefix="agentos-") as folder:
        copy = os.path.join(folder, "copy.sqlite")
        try:
            _copy(place.open, copy, place, deadline)
            _copy(partial(_open_log, place, database), f"{copy}-wal", place, deadline)
        except OSError as error:
            raise unreadable(place.path, error) from error
        if [still(each) for each in _statuses(place, database)] != [still(each) for each in before]:
            raise Moved(place.path, "changed")
        yield copy


def _open_log(place: Place, database: str, flags: int) -> int:
    if place.directory is None:
        return os.open(f"{database}-wal", flags | os.O_NOFOLLOW)
    return os.open(f"{place.name}-wal", flags | os.O_NOFOLLOW, dir_fd=place.directory)


def _statuses(place: Place, database: str) -> list[os.stat_result]:
    try:
        found = [os.lstat(path) for path in (database, f"{database}-wal")]
    except OSError as error:
        raise Moved(place.path, "was replaced") from error
    if not all(stat.S_ISREG(each.st_mode) for each in found):
        raise CannotSee("NOT_A_DATABASE", f"{shown(place.path)}: what lies beside it is no log of a database")
    if sum(each.st_size for each in found) > MOST_BYTES:
        raise CannotSee(
            "TOO_LARGE_TO_COPY",
            f"{shown(place.path)}: has a log but no index of it, and is too large to read from a copy",
            "let its own program open it once, or checkpoint it, then verify again",
        )
    if any(held(each) for each in found):
        raise CannotSee(
            "DATABASE_BUSY",
            f"{shown(place.path)}: this process has it open in a way that nobody else can read beside",
            "close it before it is verified",
        )
    return found


def _copy(opened: Callable[[int], int], target: str, place: Place, deadline: Deadline) -> None:
    out = os.open(target, _CREATE, 0o600)
    try:
        with reading(opened) as descriptor:
            while chunk := os.read(descriptor, CHUNK):
                os.write(out, chunk)
                if deadline.passed():
                    raise timed_out(place.path)
    finally:
        os.close(out)
