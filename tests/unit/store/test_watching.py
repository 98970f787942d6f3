"""Whether a database's files are still those that are open: asked after every commit, so cheaply, and never wrong."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.store.watching import WatchedFiles

_SECOND = 10**9


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A file and its log, open as SQLite has them."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with open(folder / "db", "wb"), open(folder / "db-wal", "wb"):
        yield folder / "db"


def stamped(folder: Path, seconds_ago: float, *, fine: bool) -> None:
    """Give the folder a time of change as a file system with a fine or a coarse clock would."""
    stamp = time.time_ns() - int(seconds_ago * _SECOND)
    stamp = stamp // _SECOND * _SECOND + (123_456_789 if fine else 0)
    os.utime(folder, ns=(stamp, stamp))


@pytest.mark.parametrize(("fine", "ago", "is_quiet"), [(True, 2, True), (False, 1, False), (False, 5, True)])
def test_a_stamp_is_believed_when_no_change_could_bear_it_again(path, fine, ago, is_quiet):
    """A fine clock has moved on after a tick, a coarse one after seconds."""
    files = WatchedFiles(str(path))
    stamped(path.parent, ago, fine=fine)
    assert files.are_in_place()
    assert is_quiet is (files._quiet_since != (0, 0))


def test_a_stamp_of_this_very_moment_is_not_believed(path):
    """Another change could still bear it."""
    files = WatchedFiles(str(path))
    now = time.time_ns()
    os.utime(path.parent, ns=(now, now + _SECOND // 2))
    assert files.are_in_place()
    assert files._quiet_since == (0, 0)


@pytest.mark.parametrize("name", ["db", "db-wal"])
def test_a_file_that_is_replaced_after_a_quiet_look_is_noticed(path, name, count):
    """However soon after the look: the folder has another time then."""
    for _ in range(count(10, 200)):
        files = WatchedFiles(str(path))
        while files._quiet_since == (0, 0):
            assert files.are_in_place()
        shutil.copy(path.parent / name, path.parent / "other")
        os.replace(path.parent / "other", path.parent / name)
        assert not files.are_in_place()
        # The next round watches what is there now.
        for each in ("db", "db-wal"):
            (path.parent / each).touch()
