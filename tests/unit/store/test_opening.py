"""Opening what cannot be used is one sentence a user can act on, and what is not ours is not touched."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import ForeignDatabaseError, StoreCorruptError, StoreError, StoreUnavailableError
from tests.faults.disk import DiskUnavailableError, SmallDisk, limit_file_size, small_disk
from tests.support import environment, execute, exists, run, start


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


def fill(db: Path, base: Path, steps: int = 5, size: int = 4000) -> None:
    (base / "out.txt").write_text("one")
    with CheckpointManager(db, base) as manager:
        for n in range(steps):
            manager.commit_step(manager.begin_step("t", "tool_executed", {"n": n, "text": "x" * size}), exists("out.txt"))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is not there.


def test_a_missing_folder_is_created(tmp_path: Path):
    """A path in folders that do not exist is no obstacle."""
    with CheckpointManager(tmp_path / "a" / "b" / "c" / "registry.sqlite") as manager:
        manager.begin_step("t", "tool_executed", {})
    assert (tmp_path / "a" / "b" / "c" / "registry.sqlite").stat().st_size > 0


def test_an_empty_file_becomes_a_registry(db: Path):
    """Nothing is in it, so nothing can be lost."""
    db.touch()
    with CheckpointManager(db) as manager:
        manager.begin_step("t", "tool_executed", {})
        assert 1 == len(manager.list_open_steps("t"))


def test_a_link_to_nowhere_makes_a_private_registry(db: Path, tmp_path: Path):
    """The registry is made where the link points, for its owner alone."""
    db.symlink_to(tmp_path / "real.sqlite")
    before = os.umask(0)
    try:
        CheckpointManager(db).close()
    finally:
        os.umask(before)
    assert 0o600 == (tmp_path / "real.sqlite").stat().st_mode & 0o777


@pytest.mark.parametrize("place", ["folder", "beneath a file", "name too long", "fifo"])
def test_a_path_that_cannot_be_a_file_is_a_sentence(tmp_path: Path, place: str):
    """A folder, a path through a file, an impossible name, a pipe: the path is named, and nothing waits."""
    path = tmp_path / "x.sqlite"
    if place == "folder":
        path.mkdir()
    elif place == "beneath a file":
        path.write_text("")
        path = path / "registry.sqlite"
    elif place == "name too long":
        path = tmp_path / ("x" * 300)
    else:
        os.mkfifo(path)
    with pytest.raises(StoreUnavailableError) as error:
        CheckpointManager(path)
    assert str(path)[:100] in error.value.message
    assert error.value.hint


# What is somebody else's.


def make_rollback(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table notes (text)")
        connection.execute("insert into notes values ('mine')")
        connection.commit()


def make_wal(path: Path) -> None:
    make_rollback(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")


CRASH = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma cache_size = 2")
connection.execute("pragma journal_mode = " + sys.argv[2])
connection.execute("create table if not exists more (text)")
connection.execute("begin")
for _ in range(300):
    connection.execute("insert into more values (hex(randomblob(500)))")
if sys.argv[2] == "wal":
    connection.execute("commit")
os.kill(os.getpid(), 9)
"""


def make_crashed(mode: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        make_rollback(path)
        with start(CRASH, path, mode) as process:
            process.wait()
        assert Path(f"{path}-{'wal' if mode == 'wal' else 'journal'}").stat().st_size > 0

    return make


def make_text(path: Path) -> None:
    path.write_text("dear diary,\n" * 200)


def make_short(path: Path) -> None:
    path.write_text("hi")


def make_one_byte(path: Path) -> None:
    path.write_text("x")


def make_other_owner(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma application_id = 12345")
        connection.execute("create table t (a)")
        connection.execute("drop table t")


FOREIGN = {
    "rollback": make_rollback,
    "wal": make_wal,
    "crashed wal": make_crashed("wal"),
    "crashed rollback": make_crashed("delete"),
    "text": make_text,
    "short": make_short,
    "one byte": make_one_byte,
    "other owner": make_other_owner,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_somebody_else_is_refused_and_not_touched(tmp_path: Path, kind: str):
    """Neither its bytes nor those of its journal change, nothing is left beside it, and the sentence says what it is."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    FOREIGN[kind](folder / "x.sqlite")
    before = tree(folder)
    with pytest.raises(ForeignDatabaseError) as error:
        CheckpointManager(folder / "x.sqlite")
    assert str(folder / "x.sqlite") in error.value.message
    assert "this file was not touched" in error.value.hint
    assert before == tree(folder)


# What is damaged.


def test_garbage_in_the_middle_of_the_file_is_reported_and_never_served(db: Path, tmp_path: Path):
    """Damaged pages are found when they are read, and the sentence says what to do."""
    fill(db, tmp_path, 40)
    with db.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for page in range(4096 * 8, size - 4096, 4096):
            file.seek(page)
            file.write(b"\xa5" * 4096)
    with pytest.raises(StoreCorruptError) as error, CheckpointManager(db, tmp_path) as manager:
        manager.list_checkpoints("t")
    assert "restore a backup" in error.value.hint


def test_a_truncated_file_is_reported(db: Path, tmp_path: Path):
    """Half a registry is no registry."""
    fill(db, tmp_path, 20)
    os.truncate(db, db.stat().st_size // 2)
    with pytest.raises(StoreError), CheckpointManager(db, tmp_path) as manager:
        manager.list_checkpoints("t")


def test_a_registry_cut_to_nothing_beside_its_log_is_not_begun_anew(db: Path, tmp_path: Path):
    """An empty file whose log is not empty was a registry once; starting over would say `fresh` over committed work."""
    code = """
import os, sys
from agentos import CheckpointManager
CheckpointManager(sys.argv[1]).begin_step("t", "tool_executed", {})
os._exit(0)
"""
    run(code, db)
    os.truncate(db, 0)
    with pytest.raises(StoreCorruptError, match="the database is empty, but its log is not"):
        CheckpointManager(db)


def test_a_damaged_header_is_reported(db: Path, tmp_path: Path):
    """A registry whose first bytes are gone is not taken for an empty one."""
    fill(db, tmp_path)
    with db.open("r+b") as file:
        file.write(bytes(100))
    before = db.read_bytes()
    with pytest.raises(StoreError, match=r"registry.sqlite"):
        CheckpointManager(db)
    assert before == db.read_bytes()


def test_a_file_damaged_while_it_is_open_is_a_sentence_too(db: Path, tmp_path: Path):
    """Whatever call meets the damage first: the error is ours."""
    fill(db, tmp_path, 30)
    with CheckpointManager(db, tmp_path) as manager:
        with db.open("r+b") as file:
            for page in range(1, 60):
                file.seek(page * 4096)
                file.write(b"\x5a" * 4096)
        for call in (
            lambda: manager.list_checkpoints("t"),
            lambda: manager.begin_step("t", "tool_executed", {}),
            lambda: manager.get_last_verified_checkpoint("t"),
        ):
            with pytest.raises(StoreError):
                call()


def test_a_table_that_is_gone_is_a_sentence(db: Path, tmp_path: Path):
    """A registry that lost a table says so in words, not with `no such table` alone."""
    fill(db, tmp_path)
    execute(db, "drop table snapshots")
    with pytest.raises(StoreCorruptError, match=r"registry.sqlite: ") as error:
        CheckpointManager(db)
    assert "restore a backup" in error.value.hint


def test_a_table_that_goes_under_a_running_manager_is_a_sentence(db: Path, tmp_path: Path):
    """Also a process that is using the registry says it in words."""
    fill(db, tmp_path)
    with CheckpointManager(db, tmp_path) as manager:
        execute(db, "drop table snapshots")
        for call in (lambda: manager.list_checkpoints("t"), lambda: manager.begin_step("t", "tool_executed", {})):
            with pytest.raises(StoreCorruptError, match=r"registry.sqlite: ") as error:
                call()
            assert "restore a backup" in error.value.hint


# What may not be written.

AS_NOBODY = """
import os, sys, tempfile
from agentos import CheckpointError, CheckpointManager
from tests.support import exists

def attempt(path, base):
    with CheckpointManager(path, base, lock_timeout=1) as manager:
        manager.list_checkpoints("t")
        step = manager.begin_step("t", "tool_executed", {})
        manager.commit_step(step, exists("out.txt"))

# Once with everything permitted: afterwards the interpreter's own files may be out of reach.
with tempfile.TemporaryDirectory() as scratch:
    open(os.path.join(scratch, "out.txt"), "w").close()
    attempt(os.path.join(scratch, "r.sqlite"), scratch)
    try:
        CheckpointManager(scratch)
    except CheckpointError:
        pass
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    attempt(sys.argv[1], sys.argv[2])
except CheckpointError as error:
    print(type(error).__name__)
    print(error.message)
    print(error.hint)
else:
    print("worked")
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="agentos-open-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("what", ["file", "folder", "no folder", "unreadable", "log"])
def test_a_registry_that_this_user_may_not_write_is_a_sentence(open_folder: Path, what: str):
    """As a user without the right, on a read-only file or folder: one of our errors, with the path and what is wrong."""
    db = open_folder / "registry.sqlite"
    if what != "no folder":
        fill(db, open_folder)
        db.chmod({"file": 0o444, "folder": 0o666, "unreadable": 0o000, "log": 0o666}[what])
    open_folder.chmod(0o777 if what in ("file", "unreadable") else 0o555)
    kind, message, hint = run(AS_NOBODY, db, open_folder).splitlines()
    assert "StoreUnavailableError" == kind
    assert str(db) in message
    assert hint
    if what in ("folder", "log"):
        assert f"the folder {open_folder} is not writable for this user" in hint


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with small_disk(tmp_path / "disk", 1024 * 1024) as disk:
            yield disk
    except DiskUnavailableError as reason:
        pytest.skip(str(reason))


def test_a_full_disk_is_a_sentence_and_costs_nothing_that_was_acknowledged(small: SmallDisk, tmp_path: Path):
    """Each write says that the disk is full and stored nothing; once there is room the same manager goes on."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(small.path / "registry.sqlite", tmp_path) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        manager.commit_step(step, exists("out.txt"))
        waiting = manager.begin_step("t", "tool_executed", {})
        small.fill()
        text = {"text": "x" * 100_000}
        for call in (
            lambda: manager.begin_step("t", "tool_executed", text),
            lambda: manager.commit_step(waiting, exists("out.txt"), snapshot=text),
        ):
            with pytest.raises(StoreError, match=r"registry.sqlite: the disk is full; nothing was stored") as error:
                call()
            assert "free some space and try again" == error.value.hint
        assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]
        small.drain()
        assert 2 == manager.commit_step(waiting, exists("out.txt"), snapshot=text).sequence_number


def test_a_new_registry_on_a_full_disk_is_a_sentence(small: SmallDisk):
    """There is no room for the schema: said at once, and once there is room it works."""
    small.fill()
    with pytest.raises(StoreUnavailableError, match=r"registry.sqlite: the disk is full"):
        CheckpointManager(small.path / "registry.sqlite")
    small.drain()
    CheckpointManager(small.path / "registry.sqlite").close()


def test_a_disk_mounted_read_only_is_a_sentence(small: SmallDisk, tmp_path: Path):
    """Also for root: the disk is read-only, and nothing was stored."""
    db = small.path / "registry.sqlite"
    fill(db, tmp_path, 1)
    small.make_read_only()
    for path in (db, small.path / "new.sqlite", small.path / "new" / "new.sqlite"):
        with pytest.raises(StoreUnavailableError, match=path.name) as error, CheckpointManager(path, tmp_path) as manager:
            manager.begin_step("t", "tool_executed", {})
        assert error.value.hint


LIMITED = """
import sys
from agentos import CheckpointError, CheckpointManager
from tests.support import exists
manager = CheckpointManager(sys.argv[1], sys.argv[2])
acknowledged = 0
try:
    while True:
        step = manager.begin_step("t", "tool_executed", {"text": "x" * 20_000})
        acknowledged = manager.commit_step(step, exists("out.txt")).sequence_number
except CheckpointError as error:
    print(acknowledged, type(error).__name__, error.message.replace(chr(10), " "))
"""


def test_a_file_that_may_not_grow_is_a_sentence_and_loses_nothing(db: Path, tmp_path: Path):
    """A limit on file sizes, which needs no root: what was acknowledged before it is there, the rest is an error of ours."""
    (tmp_path / "out.txt").write_text("one")
    CheckpointManager(db).close()
    command = limit_file_size([sys.executable, "-c", LIMITED, str(db), str(tmp_path)], 600_000)
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=60)
    acknowledged, kind, message = ended.stdout.split(maxsplit=2)
    assert kind in ("OutcomeUnknownError", "StoreUnavailableError")
    assert str(db) in message
    with CheckpointManager(db, tmp_path) as manager:
        stored = [each.sequence_number for each in manager.list_checkpoints("t", 1000)]
    assert list(range(len(stored), 0, -1)) == stored
    assert int(acknowledged) in (len(stored), len(stored) - 1)
    assert int(acknowledged) > 3
