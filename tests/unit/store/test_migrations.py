"""Numbered SQL files bring a registry to today's schema: in order, under a lock, once, each one wholly or not at all."""

import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import (
    MigrationEditedError,
    MigrationError,
    MigrationGapError,
    SchemaTooNewError,
    StoreBusyError,
    StoreError,
)
from agentos.store import ensure_migrations, schema
from tests.support import dump, environment, execute, exists, run, start

REAL = Path(__file__).resolve().parents[3] / "store" / "migrations" / "sqlite"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A copy of the migrations, which this process takes for the real ones."""
    copy = tmp_path / "migrations"
    shutil.copytree(REAL, copy / "sqlite")
    monkeypatch.setattr(schema, "migrations_folder", lambda: copy)
    return copy / "sqlite"


@pytest.fixture
def connection(db: Path):
    with closing(sqlite3.connect(db, isolation_level=None, timeout=0)) as connection:
        yield connection


def add(folder: Path, number: int, name: str, sql: str) -> Path:
    path = folder / f"schema_v{number}_{name}.sql"
    path.write_text(sql)
    return path


def version(db: Path) -> tuple[int, list[int]]:
    """What the file says of itself: `user_version`, and the registry's rows of `schema_version`."""
    with closing(sqlite3.connect(db)) as connection:
        number = connection.execute("pragma user_version").fetchone()[0]
        rows = connection.execute("select number from schema_version where component = 'registry' order by 1").fetchall()
    return number, [each for (each,) in rows]


def tables(db: Path) -> set[str]:
    with closing(sqlite3.connect(db)) as connection:
        return {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}


# What is applied.


def test_an_empty_file_gets_the_schema_once(db: Path):
    """The first call says what it applied, the second that there was nothing to do."""
    assert ["registry 30 recovery"] == ensure_migrations(db)
    assert [] == ensure_migrations(db)
    assert (30, [30]) == version(db)


def test_schema_version_says_what_was_applied(db: Path):
    """Component, number, name, checksum of the file and an aware time, one row each."""
    ensure_migrations(db)
    [row] = [each for each in dump(db)["schema_version"] if each[0] == "registry"]
    assert ("registry", 30, "recovery") == row[:3]
    assert re.fullmatch("[0-9a-f]{64}", row[3])
    moment = datetime.fromisoformat(row[4])
    assert moment.utcoffset() is not None


def test_the_tables_of_the_design_are_there(db: Path):
    """Tasks, steps, snapshots, claims, verifications, idempotency keys, and a view of the checkpoints."""
    ensure_migrations(db)
    assert {"tasks", "steps", "snapshots", "claims", "verifications", "idempotency_keys", "schema_version"} <= tables(db)
    assert 0 == execute(db, "select count(*) from checkpoints") + 1


def test_migrations_are_applied_in_the_order_of_their_numbers(folder: Path, db: Path):
    """Numbers count, not the order of names on disk: 100 comes after 31."""
    for number in range(31, 101):
        add(
            folder,
            number,
            "more",
            f"create table t{number} (a); create index i{number} on t{number - 1 if number > 31 else 31} (a);",
        )
    assert [f"registry {number} more" for number in range(31, 101)] == ensure_migrations(db)[1:]
    assert (100, list(range(30, 101))) == version(db)


def test_an_older_database_is_brought_up_to_date_and_keeps_what_it_has(folder: Path, db: Path, tmp_path: Path):
    """Work that was committed under the older schema is there under the newer."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {"n": 1}), exists("out.txt"))
    add(folder, 31, "more", "create table more (a);\nalter table tasks add column colour text;\n")
    assert ["registry 31 more"] == ensure_migrations(db)
    with CheckpointManager(db, tmp_path) as manager:
        assert {"n": 1} == manager.rollback_to_checkpoint(checkpoint.checkpoint_id)


def test_opening_a_manager_migrates(db: Path):
    """Nobody has to call anything: the schema is brought up to date at boot."""
    CheckpointManager(db).close()
    assert (30, [30]) == version(db)


def test_a_database_that_is_up_to_date_is_only_read(db: Path):
    """Booting takes no write lock, so a busy writer does not keep a process from starting."""
    ensure_migrations(db)
    with closing(sqlite3.connect(db, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        assert [] == ensure_migrations(db)


def test_other_line_ends_are_no_edit(folder: Path, db: Path):
    """A checkout on another system has CRLF: the same migration."""
    ensure_migrations(db)
    path = folder / "schema_v30_recovery.sql"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert [] == ensure_migrations(db)
    other = db.with_name("other.sqlite")
    assert ["registry 30 recovery"] == ensure_migrations(other)
    shutil.rmtree(folder)
    shutil.copytree(REAL, folder)
    assert [] == ensure_migrations(other)


# What is refused.


def test_a_newer_database_is_refused_by_its_rows(folder: Path, db: Path):
    """A row of a migration this code does not know means: hands off, and nothing changes."""
    path = add(folder, 31, "more", "create table more (a);")
    ensure_migrations(db)
    path.unlink()
    before = dump(db)
    with pytest.raises(SchemaTooNewError, match="the database is at schema 31, this agentos knows 30") as error:
        ensure_migrations(db)
    assert (31, 30) == (error.value.diagnostics()["found"], error.value.diagnostics()["known"])
    assert "upgrade agentos" in error.value.hint
    assert before == dump(db)


@pytest.mark.parametrize("how", ["pragma", "row"])
def test_a_newer_database_is_refused_whichever_place_says_so(db: Path, how: str):
    """`user_version` alone is enough, and so is a row of `schema_version`."""
    ensure_migrations(db)
    if how == "pragma":
        execute(db, "pragma user_version = 31")
    else:
        execute(db, "insert into schema_version values ('registry', 31, 'more', 'x', '2026-01-01T00:00:00+00:00')")
    with pytest.raises(SchemaTooNewError):
        CheckpointManager(db)


def test_an_edited_migration_is_refused(folder: Path, db: Path):
    """A file that is not the one that was applied is refused by name, whatever the edit."""
    ensure_migrations(db)
    path = folder / "schema_v30_recovery.sql"
    path.write_text(path.read_text() + "-- harmless?\n")
    with pytest.raises(MigrationEditedError, match=r"migration 30 \(recovery\) of registry was applied with other content"):
        ensure_migrations(db)


def test_a_gap_in_the_files_is_refused_before_the_database_is_made(folder: Path, db: Path):
    """30 and 32 without 31: said at once, and no file is created."""
    add(folder, 32, "more", "create table more (a);")
    with pytest.raises(MigrationGapError, match="32 follows 30"):
        ensure_migrations(db)
    assert not db.exists()


def test_a_number_that_is_there_twice_is_refused(folder: Path, db: Path):
    """Two files called 31 are no order."""
    add(folder, 31, "one", "select 1;")
    add(folder, 31, "two", "select 1;")
    with pytest.raises(MigrationGapError, match="31 follows 31"):
        ensure_migrations(db)


def test_a_gap_in_the_database_is_refused(folder: Path, db: Path):
    """31 was never applied and 32 was: somebody changed this database by other means."""
    add(folder, 31, "one", "create table one (a);")
    add(folder, 32, "two", "create table two (a);")
    ensure_migrations(db)
    execute(db, "delete from schema_version where number = 31")
    with pytest.raises(MigrationGapError, match="migration 31 of registry was never applied, but 32 was"):
        ensure_migrations(db)


def test_a_file_that_is_not_named_like_a_migration_is_refused(folder: Path, db: Path):
    """A typo in a name must not make a migration disappear."""
    (folder / "schema_v31.sql").write_text("select 1;")
    with pytest.raises(MigrationError, match=r"schema_v31.sql: not named like a migration"):
        ensure_migrations(db)


def test_an_installation_without_migrations_says_so(folder: Path, db: Path):
    """No files is no schema."""
    shutil.rmtree(folder)
    with pytest.raises(MigrationError, match="no migrations for registry"):
        ensure_migrations(db)


# One transaction each, under the lock.

HALF = "create table half (a);\ninsert into half values (1);\ninsert into nowhere values (1);\ncreate table rest (a);\n"


def test_a_failing_second_migration_leaves_the_first_version_intact(folder: Path, db: Path):
    """31 fails in the middle: nothing of it is there, 30 is, the error names 31, and the mended file applies."""
    path = add(folder, 31, "half", HALF)
    with pytest.raises(MigrationError, match=r"migration 31 \(half\) of registry failed: .*no such table: .*nowhere") as error:
        ensure_migrations(db)
    assert "nothing of it was applied" in str(error.value)
    assert (30, [30]) == version(db)
    assert not {"half", "rest"} & tables(db)
    path.write_text(HALF.replace("nowhere", "half"))
    assert ["registry 31 half"] == ensure_migrations(db)
    assert (31, [30, 31]) == version(db)
    assert {"half", "rest"} <= tables(db)


def test_each_migration_is_a_transaction_of_its_own(folder: Path, db: Path):
    """What was applied before the failing one is kept with its number; a later attempt goes on from there."""
    add(folder, 31, "one", "create table one (a);")
    add(folder, 32, "two", "create table two (a);")
    path = add(folder, 33, "half", HALF)
    with pytest.raises(MigrationError):
        ensure_migrations(db)
    assert (32, [30, 31, 32]) == version(db)
    path.unlink()
    assert [] == ensure_migrations(db)


def test_the_write_lock_is_held_throughout_a_migration(folder: Path, db: Path, connection: sqlite3.Connection):
    """Between any two statements of a migration no other process can write: executescript would have let it."""
    answers: list[str] = []

    def look() -> int:
        with closing(sqlite3.connect(db, isolation_level=None, timeout=0)) as other:
            try:
                other.execute("begin immediate")
                answers.append("free")
            except sqlite3.OperationalError as error:
                answers.append(str(error))
        return 1

    connection.create_function("look", 0, look)
    add(folder, 31, "looking", "create table one (a);\nselect look();\ncreate table two (a);\nselect look();\n")
    connection.execute("pragma journal_mode = wal")
    schema.migrate(connection, schema.load(schema.REGISTRY), str(db), 5.0)
    assert ["database is locked"] * 2 == answers
    assert (31, [30, 31]) == version(db)


@pytest.mark.parametrize("ending", ["killed", "interrupted"])
def test_a_process_that_dies_in_the_middle_leaves_nothing_half_applied(folder: Path, db: Path, ending: str):
    """SIGKILL or Control-C between two statements: the old version, whole, and the next process applies the new one."""
    add(folder, 31, "dying", "create table one (a);\nselect die();\ncreate table two (a);\n")
    code = """
import os, signal, sqlite3, sys
from pathlib import Path
from agentos.store import schema
# Whoever started us in the background let us ignore Control-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma journal_mode = wal")
def die():
    if sys.argv[3] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGINT)
    return 1
connection.create_function("die", 0, die)
schema.migrate(connection, schema.load(schema.REGISTRY, Path(sys.argv[2])), sys.argv[1], 5.0)
print("applied")
"""
    with start(code, db, folder.parent, ending) as process:
        said, _ = process.communicate(timeout=30)
    assert "" == said
    assert process.returncode != 0
    assert (30, [30]) == version(db)
    assert not {"one", "two"} & tables(db)
    add(folder, 31, "dying", "create table one (a);\ncreate table two (a);\n")
    assert ["registry 31 dying"] == ensure_migrations(db)


def test_migrations_wait_for_a_writer_and_not_for_ever(folder: Path, db: Path, connection: sqlite3.Connection):
    """The lock is waited for within the limit, and who holds it is an error like any other."""
    ensure_migrations(db)
    add(folder, 31, "more", "create table more (a);")
    with closing(sqlite3.connect(db, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        with pytest.raises(StoreBusyError, match=r"the write lock was not free for 0.2 s"):
            schema.migrate(connection, schema.load(schema.REGISTRY), str(db), 0.2)
    assert (30, [30]) == version(db)


# Many processes.

BOOT = """
import sys
from agentos.store import ensure_migrations
import agentos.store.boot, sqlite_utils
print("ready", flush=True)
sys.stdin.readline()
print(len(ensure_migrations(sys.argv[1])), flush=True)
"""


def test_ten_processes_boot_on_one_empty_file(db: Path):
    """Started together: exactly one applies the schema, none fails, and it is there once."""
    processes = [start(BOOT, db) for _ in range(10)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [("1\n", "")] + [("0\n", "")] * 9 == sorted(answers, reverse=True)
    assert (30, [30]) == version(db)


UPGRADE = """
import sys
from pathlib import Path
from agentos.store import ensure_migrations, schema
schema.migrations_folder = lambda: Path(sys.argv[2])
print(ensure_migrations(sys.argv[1]))
"""


def test_a_running_process_is_refused_at_its_next_write_after_an_upgrade(db: Path, tmp_path: Path):
    """Another process upgrades the schema: this one, which knows only the old, writes nothing more, whatever it calls."""
    copy = tmp_path / "migrations"
    shutil.copytree(REAL, copy / "sqlite")
    add(copy / "sqlite", 31, "more", "create table more (a);")
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"))
        step = manager.begin_step("t", "tool_executed", {})
        assert "['registry 31 more']\n" == run(UPGRADE, db, copy)
        before = dump(db)
        for call in (
            lambda: manager.begin_step("t", "tool_executed", {}),
            lambda: manager.commit_step(step, exists("out.txt")),
            lambda: manager.verify_checkpoint(checkpoint.checkpoint_id),
            lambda: manager.rollback_to_checkpoint(checkpoint.checkpoint_id),
            lambda: manager.delete_checkpoint(checkpoint.checkpoint_id),
            lambda: manager.finish_task("t"),
            lambda: manager.note_error(step, ValueError("x")),
        ):
            with pytest.raises(SchemaTooNewError, match="at schema 31, this agentos knows 30"):
                call()
        assert before == dump(db)


def test_a_registry_that_lost_its_version_is_refused_by_a_running_process(db: Path):
    """A version that reads 0 under a running process is no older schema, it is damage."""
    with CheckpointManager(db) as manager:
        execute(db, "pragma user_version = 0")
        with pytest.raises(StoreError):
            manager.begin_step("t", "tool_executed", {})


# The command.


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    import sys

    line = [sys.executable, "-m", "agentos", "migrate", *map(str, arguments)]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, check=False, timeout=60)


def test_agentos_migrate_creates_and_says_what_it_applied(db: Path):
    """The command does what every boot does, and says it."""
    first, second = command("--db", db), command("--db", db)
    assert (0, "applied registry 30 recovery\n", "") == (first.returncode, first.stdout, first.stderr)
    assert (0, "up to date\n", "") == (second.returncode, second.stdout, second.stderr)


def test_agentos_migrate_refuses_a_newer_database_with_its_own_exit_code(db: Path):
    """A script can tell `too new` from every other failure."""
    ensure_migrations(db)
    execute(db, "pragma user_version = 99")
    ended = command("--db", db)
    assert (7, "") == (ended.returncode, ended.stdout)
    assert "agentos: registry: the database is at schema 99, this agentos knows 30\n  -> upgrade agentos here" in ended.stderr
    assert "Traceback" not in ended.stderr
