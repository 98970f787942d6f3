"""A registry that is only looked at: nothing is made, changed or left behind, on whatever disk it lies."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import (
    ForeignDatabaseError,
    MigrationError,
    SchemaTooNewError,
    StoreCorruptError,
    StoreUnavailableError,
)
from agentos.store.readonly import ReadOnlyDatabase
from agentos.store.schema import REGISTRY, load
from tests.support import exists, run

NOBODY = 65534


def commit(manager: CheckpointManager, name: str) -> None:
    manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("."), name)


def names(manager: CheckpointManager) -> list[str]:
    return [each.checkpoint_id for each in manager.list_checkpoints("t")]


def lying_there(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its content and the time of its last change."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.fixture
def db(folder: Path) -> Path:
    """A registry at rest, with one checkpoint."""
    with CheckpointManager(folder / "r.sqlite", folder) as manager:
        commit(manager, "one")
    return folder / "r.sqlite"


@pytest.fixture
def killed(db: Path) -> Path:
    """A registry whose last commit is only in its log: whoever made it was killed."""
    code = """
import os, signal, sys
from agentos.core.checkpoints import CheckpointManager
from tests.support import exists
manager = CheckpointManager(sys.argv[1], ".")
manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("."), "two")
print("done", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with pytest.raises(AssertionError):
        run(code, db)
    assert (db.parent / "r.sqlite-wal").stat().st_size > 0
    return db


def test_looking_at_a_registry_at_rest_leaves_no_trace(db: Path):
    """No file is made and none is touched."""
    before = lying_there(db.parent)
    with CheckpointManager(db, readonly=True) as manager:
        assert ["one"] == names(manager)
        assert "resume" == manager.recover("t").verdict
        assert manager.verify_checkpoint("one")
    assert before == lying_there(db.parent)


@pytest.mark.parametrize("path", ["r.sqlite", "missing/r.sqlite"])
def test_a_registry_that_is_not_there_is_not_made(folder: Path, path: str):
    """Looking creates neither the file nor its folder."""
    with pytest.raises(StoreUnavailableError, match="no registry here"):
        CheckpointManager(folder / path, readonly=True)
    assert [] == list(folder.iterdir())


def test_what_was_committed_before_a_kill_is_read_from_the_log(killed: Path):
    """The log beside the database counts."""
    with CheckpointManager(killed, readonly=True) as manager:
        assert ["two", "one"] == names(manager)


def test_a_log_without_its_index_is_read_from_a_copy(killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As after a copy of the two files: neither is touched, and the private copy is gone afterwards."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    (killed.parent / "r.sqlite-shm").unlink()
    before = lying_there(killed.parent)
    with CheckpointManager(killed, readonly=True) as manager:
        assert ["two", "one"] == names(manager)
        assert 1 == len(list(scratch.iterdir()))
    assert before == lying_there(killed.parent)
    assert [] == list(scratch.iterdir())


def test_beside_a_writer_the_newest_commit_is_seen(db: Path):
    """Whether it came before or after the reader."""
    with CheckpointManager(db, ".") as writer, CheckpointManager(db, readonly=True) as reader:
        commit(writer, "two")
        assert ["two", "one"] == names(reader)
        commit(writer, "three")
        assert ["three", "two", "one"] == names(reader)


def test_a_writer_that_comes_later_is_seen(db: Path):
    """What was opened without locks is opened anew once somebody writes, also when that one is gone again."""
    with CheckpointManager(db, readonly=True) as reader:
        assert ["one"] == names(reader)
        with CheckpointManager(db, ".") as writer:
            commit(writer, "two")
            assert ["two", "one"] == names(reader)
        with CheckpointManager(db, ".") as writer:
            commit(writer, "three")
        assert ["three", "two", "one"] == names(reader)


def test_a_read_during_which_the_file_changed_is_repeated(db: Path):
    """Without locks nothing else tells a torn read from a true one."""
    with closing(ReadOnlyDatabase(str(db), lambda _: None, 5)) as opened:
        looks: list[int] = []

        def work(connection: sqlite3.Connection) -> int:
            count = connection.execute("select count(*) from steps").fetchone()[0]
            if not looks:
                with CheckpointManager(db, ".") as writer:
                    commit(writer, "two")
            looks.append(count)
            return int(count)

        assert 2 == opened.read(work)
        assert [1, 2] == looks


def test_nothing_can_be_stored(db: Path):
    """Every call that would store something is refused with a sentence."""
    with CheckpointManager(db, ".", readonly=True) as manager:
        for call in (
            lambda: manager.begin_step("t", "tool_executed", {}),
            lambda: manager.delete_checkpoint("one"),
            manager.prune,
            lambda: manager.resume("t", {}),
        ):
            with pytest.raises(StoreUnavailableError, match="opened only to be read"):
                call()


def test_what_is_no_registry_of_this_version_is_refused(db: Path, folder: Path):
    """A newer one, an empty one, another's, a damaged one: each by its own name, and none is changed."""
    empty, foreign, newer, damaged = (folder / name for name in ("empty", "foreign", "newer", "damaged"))
    empty.touch()
    with sqlite3.connect(foreign) as connection:
        connection.execute("create table mine (a)")
    connection.close()
    shutil.copy(db, newer)
    with sqlite3.connect(newer) as connection:
        connection.execute(f"pragma user_version = {load(REGISTRY)[-1].number + 1}")
    connection.close()
    for left in folder.glob("newer-*"):
        left.unlink()
    damaged.write_bytes(db.read_bytes()[:5000])
    before = lying_there(folder)
    for path, refusal in (
        (empty, MigrationError),
        (foreign, ForeignDatabaseError),
        (newer, SchemaTooNewError),
        (damaged, StoreCorruptError),
    ):
        with pytest.raises(refusal):
            CheckpointManager(path, readonly=True, lock_timeout=0.2)
    assert before == lying_there(folder)


@pytest.fixture
def locked_away(killed: Path) -> Iterator[Path]:
    """The same in a folder and in files that the reader may not write to."""
    for path in (killed, *killed.parent.glob("r.sqlite-*")):
        path.chmod(0o444)
    killed.parent.chmod(0o555)
    yield killed
    killed.parent.chmod(0o755)


def test_a_registry_that_may_only_be_read_is_read(locked_away: Path):
    """Files and folder that this user may not write to, with a log beside them: read all the same, and left alone."""
    code = """
import os, sys
from agentos.core.checkpoints import CheckpointManager
def told():
    with CheckpointManager(sys.argv[1], "/", readonly=True) as manager:
        return [each.checkpoint_id for each in manager.list_checkpoints("t")], manager.recover("t").verdict.value
told()  # loads all that it takes: nobody may not read every folder of an installation
if os.getuid() == 0:
    os.setuid(int(sys.argv[2]))
print(told())
"""
    above = [parent for parent in locked_away.parents if parent.stat().st_uid == os.getuid()]
    modes = [(parent, parent.stat().st_mode) for parent in above]
    for parent in above:
        parent.chmod(parent.stat().st_mode | 0o555)
    before = lying_there(locked_away.parent)
    try:
        said = run(code, locked_away, NOBODY)
    finally:
        for parent, mode in modes:
            parent.chmod(mode)
    assert "(['two', 'one'], 'resume')\n" == said
    after = lying_there(locked_away.parent)
    assert before.keys() == after.keys()
    # The index of the log may be mended by whoever may write to it, as the first look, which loads the program, could.
    assert all(before[name] == after[name] for name in before if not name.endswith("-shm"))
