"""What is special to the run store in SQLite: one file with a registry, its schema, what a list reads."""

import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from agentos import CheckpointManager
from agentos.errors import (
    ForeignDatabaseError,
    InvalidInputError,
    OutcomeUnknownError,
    SchemaTooNewError,
    StoreCorruptError,
)
from agentos.store import SQLiteStore, ensure_migrations
from agentos.store.runs.rows import SQL
from agentos.store.runs.saving import MOST_RUNS
from tests.support import environment, execute, exists

WRITE_BESIDE = """
import sys
from agentos.store import SQLiteStore
with SQLiteStore(sys.argv[1]) as store:
    for number in range(30):
        store.save("run", f"{sys.argv[2]} {number}", b"x" * 300)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "runs.sqlite"


@pytest.fixture
def store(path: Path):
    with SQLiteStore(path) as store:
        yield store


# One file with a registry


def both(path: Path, order: str) -> tuple[CheckpointManager, SQLiteStore]:
    if order == "registry first":
        manager = CheckpointManager(path)
        return manager, SQLiteStore(path)
    store = SQLiteStore(path)
    return CheckpointManager(path), store


@pytest.mark.parametrize("order", ["registry first", "run store first"])
def test_a_registry_and_a_run_store_share_a_file(path, order):
    """Each finds its own tables and leaves the other's alone, in one process and after it."""
    manager, store = both(path, order)
    with manager, store:
        for number in range(5):
            step = manager.begin_step("task", "tool_executed", {"n": number})
            store.save("run", f"node {number}", b"x")
            manager.commit_step(step, exists(path))
        store.delete_run("another")
    with sqlite3.connect(path) as connection:
        assert {("registry",), ("runs",)} == set(connection.execute("select component from schema_version").fetchall())
    connection.close()
    with CheckpointManager(path) as manager, SQLiteStore(path) as store:
        assert (5, 5) == (len(manager.list_checkpoints("task")), len(store.list("run")))


def test_a_registry_and_a_run_store_of_two_processes_share_a_file(path, store):
    """Nothing is lost while both write."""
    command = [sys.executable, "-W", "error", "-c", WRITE_BESIDE, str(path), "child"]
    with CheckpointManager(path) as manager, subprocess.Popen(command, env=environment()) as child:
        for number in range(30):
            manager.commit_step(manager.begin_step("task", "tool_executed", {"n": number}), exists(path))
            store.save("run", f"parent {number}", b"y")
        assert 0 == child.wait(60)
        assert 30 == len(manager.list_checkpoints("task", limit=100))
    assert list(range(1, 61)) == [info.sequence for info in store.list("run")]


def test_migrating_a_registry_leaves_a_run_store_alone(path, store):
    """The numbers of the two components have nothing to do with each other."""
    store.save("run", "node", b"x")
    assert ["registry 30 recovery"] == ensure_migrations(path)[:1]
    assert [] == ensure_migrations(path)
    assert b"x" == store.load("run", "node")


# The schema


def be_upgraded(path: Path) -> None:
    execute(path, "insert into schema_version values ('runs', 2, 'later', '', '')")


WRITES = {
    "save": lambda store: store.save("run", "node", b"new"),
    "save_many": lambda store: store.save_many("run", [("node", b"new")]),
    "delete": lambda store: store.delete("run", "node"),
    "delete_run": lambda store: store.delete_run("run"),
}


@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
def test_a_schema_that_became_newer_is_not_written_to(path, store, call):
    """Also by a store that was open when it did; and not opened by another."""
    store.save("run", "node", b"old")
    be_upgraded(path)
    with pytest.raises(SchemaTooNewError, match="runs"):
        call(store)
    assert b"old" == store.load("run", "node")
    with pytest.raises(SchemaTooNewError, match="runs"):
        SQLiteStore(path)


def test_a_newer_registry_does_not_concern_a_run_store(path, store):
    """Its own component is all it looks at."""
    ensure_migrations(path)
    execute(path, "insert into schema_version values ('registry', 99, 'later', '', '')")
    store.save("run", "node", b"x")
    assert b"x" == store.load("run", "node")


def test_a_database_of_somebody_else_is_refused(tmp_path):
    """And not touched."""
    path = tmp_path / "other.db"
    execute(path, "create table mine (x)")
    before = path.read_bytes()
    with pytest.raises(ForeignDatabaseError, match="mine"):
        SQLiteStore(path)
    assert before == path.read_bytes()


@pytest.mark.parametrize("bad", [":memory:", "", None, 7, b"runs.db", "a\0b"], ids=repr)
def test_a_path_that_is_none_is_refused(bad, tmp_path, monkeypatch):
    """With a sentence, and nothing is created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match="path"):
        SQLiteStore(bad)
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("options", [{"durability": "off"}, {"lock_timeout": 0}, {"lock_timeout": "1"}], ids=repr)
def test_an_option_of_another_kind_is_refused(path, options):
    """With what it may be."""
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        SQLiteStore(path, **options)


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("commit", 2), ("relaxed", 1)])
def test_durability_is_what_sqlite_was_told(path, durability, level):
    """FULL where a sync is promised, NORMAL where it is not, OFF never."""
    with SQLiteStore(path, durability=durability) as store:
        store.save("run", "node", b"x")
        assert (level,) == store._database._open().execute("pragma synchronous").fetchone()


def test_files_are_for_this_user_alone(path, store):
    """Whatever the umask, the database and its log are 0600, and the folder made for them 0700."""
    store.save("run", "node", b"x")
    modes = {name: stat.S_IMODE(os.stat(path.parent / name).st_mode) for name in (path.name, f"{path.name}-wal")}
    assert {0o600} == set(modes.values())
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)


# What calls do


def test_many_are_saved_together_or_not_at_all(path, store):
    """When the second of two cannot be written, the first is not there either."""
    execute(path, "create trigger no before insert on run_nodes when new.node_id = 'bad' begin select raise(abort, 'no'); end")
    with pytest.raises(StoreCorruptError):
        store.save_many("run", [("good", b"x"), ("bad", b"x")])
    assert ([], []) == (store.list("run"), store.list_runs())


def test_a_list_reads_no_data(path, store):
    """SQLite itself is asked which columns a list, and the names of runs, look at."""
    store.save_many("run", [(f"node {number}", b"x" * 9000) for number in range(50)])
    read: set[tuple[str | None, str | None]] = set()

    def watch(action: int, table: str | None, column: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ:
            read.add((table, column))
        return sqlite3.SQLITE_OK

    store._database._open().set_authorizer(watch)
    store.list("run")
    store.list_runs()
    assert ("run_nodes", "sequence") in read
    assert "run_data" not in {table for table, _ in read}


def test_a_list_takes_at_most_600_bytes_an_entry(store, count):
    """At its peak, with the list it returns."""
    nodes = count(2000, 20_000)
    store.save_many("run", [(f"node {number}", b"x") for number in range(nodes)])
    tracemalloc.start()
    try:
        infos = store.list("run")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert nodes == len(infos)
    assert peak / nodes <= 600


# What a store remembers of a run's own row, and what happened to that row since.
BEHIND_ITS_BACK = {
    "another store saved": (lambda other: other.save("run", "other", b"o"), {"a": 1, "other": 2, "b": 3}),
    "another store overwrote": (lambda other: other.save("run", "a", b"o"), {"a": 2, "b": 3}),
    "another store saved the same node": (lambda other: other.save("run", "b", b"o"), {"a": 1, "b": 3}),
    "another store deleted": (lambda other: other.delete("run", "a"), {"b": 2}),
    "another store deleted the run": (lambda other: other.delete_run("run"), {"b": 1}),
}


@pytest.mark.parametrize("happened", BEHIND_ITS_BACK.values(), ids=BEHIND_ITS_BACK)
def test_what_another_did_to_a_run_since_is_seen_by_the_next_save(path, store, happened):
    """The number it draws follows the last one that anybody drew, and nothing that was stored is missed."""
    call, expected = happened
    store.save("run", "a", b"a")
    with SQLiteStore(path) as other:
        call(other)
    store.save("run", "b", b"b")
    assert (expected, b"b") == ({info.node_id: info.sequence for info in store.list("run")}, store.load("run", "b"))


def test_a_save_that_was_rolled_back_draws_no_number(path, store):
    """Neither in the file nor in what the store remembers of the run."""
    store.save("run", "a", b"a")
    execute(path, "create trigger no before insert on run_nodes when new.node_id = 'bad' begin select raise(abort, 'no'); end")
    for call in (
        lambda: store.save("run", "bad", b"x"),
        lambda: store.save_many("run", [("good", b"x"), ("a", b"x"), ("bad", b"x")]),
    ):
        with pytest.raises(StoreCorruptError):
            call()
    store.save("run", "b", b"b")
    assert {"a": 1, "b": 2} == {info.node_id: info.sequence for info in store.list("run")}
    assert b"a" == store.load("run", "a")


def test_a_node_is_saved_again_in_one_call(store):
    """The later one stays, under a number of its own."""
    store.save("run", "a", b"0")
    store.save_many("run", [("b", b"1"), ("b", b"2"), ("a", b"3")])
    assert [("b", 3), ("a", 4)] == [(info.node_id, info.sequence) for info in store.list("run")]
    assert (b"2", b"3") == (store.load("run", "b"), store.load("run", "a"))


def test_no_more_than_so_many_runs_are_remembered(path):
    """A process that goes from run to run for years does not grow by that."""
    with SQLiteStore(path, durability="relaxed") as store:
        for number in range(MOST_RUNS + 10):
            store.save(f"run {number}", "node", b"x")
        assert len(store._saver._owns) <= MOST_RUNS
        store.save("run 0", "another", b"x")
        assert [1, 2] == [info.sequence for info in store.list("run 0")]


@pytest.mark.parametrize("name", [name for name in SQL if name not in ("runs", "count_of_runs")])
def test_every_statement_finds_its_rows_by_a_key(store, name):
    """None of them walks through a table, however many rows it has."""
    values = {"draw_for_new": 8, "before_save": 2, "put_rows": 9}.get(name, SQL[name].count("?"))
    values = 1 if name == "delete_data_of_run" else values
    plan = store._database._open().execute(f"explain query plan {SQL[name]}", ("",) * values).fetchall()
    tables = {"own", "node", "runs", "run_nodes", "run_data", "schema_version"}
    assert [] == [step[-1] for step in plan if step[-1].startswith("SCAN") and step[-1].split()[1] in tables]


def test_deleting_what_is_not_there_is_made_durable(path, store):
    """Whoever deleted it may have been killed before that was on disk, so the answer stands on a synced write."""

    def settled() -> int:
        return int(store._database._open().execute("select settled from settlement").fetchone()[0])

    before = settled()
    store.delete("run", "node")
    store.delete_run("run")
    assert before + 2 == settled()


def test_after_an_unclear_commit_reading_settles_it_first(store, monkeypatch):
    """What is shown might otherwise be gone after a power cut."""
    store.save("run", "node", b"old")
    settled = []
    with monkeypatch.context() as patch:
        patch.setattr(store._database, "write", lambda *_, **__: (_ for _ in ()).throw(OutcomeUnknownError("the disk failed")))
        with pytest.raises(OutcomeUnknownError):
            store.save("run", "node", b"new")
    monkeypatch.setattr(store._database, "settle", lambda: settled.append(True))
    assert (b"old", [True]) == (store.load("run", "node"), settled)
    store.load("run", "node")
    assert [True] == settled


def test_a_forked_child_and_its_parent_both_save(store):
    """Neither loses what it was told is stored."""
    store.save("run", "before", b"x")
    child = multiprocessing.get_context("fork").Process(target=store.save, args=("run", "child", b"x"))
    child.start()
    store.save("run", "parent", b"x")
    child.join(30)
    assert 0 == child.exitcode
    assert {"before", "child", "parent"} == {info.node_id for info in store.list("run")}
