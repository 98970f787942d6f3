"""What is special to the run store in files: names, modes, locks, and what a crash leaves behind."""

import asyncio
import fcntl
import multiprocessing
import os
import stat
import threading
import time
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentos import _disk as disk
from agentos.errors import InvalidInputError, StoreBusyError, StoreCorruptError, StoreUnavailableError
from agentos.store import FileStore
from agentos.store.runs.nodefile import file_name, folder_name


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "a" / "b"


@pytest.fixture
def store(base: Path):
    with FileStore(base) as store:
        yield store


@contextmanager
def held(folder: Path):
    """Hold a run's lock, as a process that writes to it does."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def numbers(store: FileStore, run_id: str = "run") -> dict[str, int]:
    return {info.node_id: info.sequence for info in store.list(run_id)}


# Names and modes


def test_names_are_digests(store, base):
    """Nothing of an id reaches the file system, so no id can be too long, too short or somebody else's."""
    store.save("../run", "NUL", b"x")
    [folder] = os.listdir(base)
    assert folder_name("../run") == folder
    assert {file_name("NUL"), "last"} == set(os.listdir(base / folder))


def test_files_and_folders_are_for_this_user_alone(tmp_path):
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        FileStore(tmp_path / "a" / "b").save("run", "node", b"x")
    finally:
        os.umask(before)
    found = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert {0o700} == {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_dir()}
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_file()}


def test_a_folder_reached_through_a_link_is_a_folder(tmp_path):
    """The caller's path may hold links; only below it are none followed."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with FileStore(tmp_path / "link") as store:
        store.save("run", "node", b"x")
        store.delete_run("other")
    with FileStore(tmp_path / "real") as store:
        assert b"x" == store.load("run", "node")


@pytest.mark.parametrize("bad", ["", None, 7, "a\0b"], ids=repr)
def test_a_path_that_is_none_is_refused(bad):
    """With a sentence."""
    with pytest.raises(InvalidInputError, match="path"):
        FileStore(bad)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    """With its path, when the store is opened."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailableError, match="file"):
        FileStore(tmp_path / "file" / "runs")


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [make_link, os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_not_read(store, base, make):
    """A link, a pipe and a folder are refused with their name, and none of them makes a reader wait."""
    store.save("run", "node", b"x")
    path = base / folder_name("run") / file_name("node")
    path.unlink()
    make(path)
    for call in (lambda: store.load("run", "node"), lambda: store.list("run")):
        with pytest.raises(StoreCorruptError, match=path.name):
            call()


def test_a_link_in_place_of_a_run_is_not_followed(store, base, tmp_path):
    """Neither to read nor to write, nor to delete what it leads to."""
    store.save("run", "node", b"x")
    (base / folder_name("run")).rename(tmp_path / "outside")
    (base / folder_name("run")).symlink_to(tmp_path / "outside")
    calls = [lambda: store.load("run", "node"), lambda: store.list("run"), lambda: store.save("run", "node", b"y")]
    for call in [*calls, lambda: store.delete("run", "node"), lambda: store.delete_run("run"), store.list_runs]:
        with pytest.raises(StoreCorruptError, match="folder"):
            call()
    assert 2 == len(os.listdir(tmp_path / "outside"))


# What a crash leaves behind


def leftovers(base: Path) -> list[str]:
    return sorted(path.name for path in base.rglob("*") if path.name == "new" or path.name.startswith("deleted-"))


def leave_behind(base: Path) -> None:
    (base / folder_name("run") / "new").write_bytes(b"half a no")
    (base / "deleted-1").mkdir()
    (base / "deleted-1" / file_name("node")).write_bytes(b"x")


def test_leftovers_are_out_of_sight_and_collected_by_the_next_writer(store, base):
    """Also those of runs that nobody writes to any more."""
    store.save("run", "node", b"x")
    leave_behind(base)
    with FileStore(base) as other:
        assert (["run"], {"node": 1}) == (other.list_runs(), numbers(other))
        assert ["deleted-1", "new"] == leftovers(base)
        other.save("another", "node", b"x")
    assert [] == leftovers(base)


def test_leftovers_are_not_collected_while_someone_writes(store, base):
    """What looks like one may be the file that is being written."""
    store.save("run", "node", b"x")
    leave_behind(base)
    with held(base / folder_name("run")), FileStore(base) as other:
        other.save("another", "node", b"x")
        assert ["new"] == leftovers(base)


def test_a_leftover_is_never_written_through(store, base, tmp_path):
    """It may be a second name of something; the next save makes a file of its own."""
    store.save("run", "node", b"x")
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    os.link(victim, base / folder_name("run") / "new")
    store.save("run", "node", b"y")
    assert (b"mine", b"y") == (victim.read_bytes(), store.load("run", "node"))


# Locks


def test_a_run_that_another_process_writes_to_is_waited_for_and_not_for_ever(base):
    """Other runs, and reading a node, do not wait at all."""
    with FileStore(base, lock_timeout=0.05) as store:
        store.save("run", "node", b"x")
        with held(base / folder_name("run")):
            calls = [lambda: store.save("run", "node", b"y"), lambda: store.list("run"), lambda: store.delete_run("run")]
            for call in calls:
                with pytest.raises(StoreBusyError, match="held its lock"):
                    call()
            assert b"x" == store.load("run", "node")
            store.save("another", "node", b"x")
        store.save("run", "node", b"y")
        assert {"node": 2} == numbers(store)


def test_waiting_for_a_lock_does_not_block_the_event_loop(store, base):
    """Other tasks go on, and the save is done once the lock is free."""
    store.save("run", "node", b"x")

    async def work() -> int:
        ticks = 0
        with held(base / folder_name("run")):
            save = asyncio.ensure_future(store.asave("run", "node", b"y"))
            while ticks < 20:
                await asyncio.sleep(0.001)
                ticks += 1
            assert not save.done()
        await save
        return ticks

    assert 20 == asyncio.run(work())
    assert b"y" == store.load("run", "node")


def test_a_run_that_is_deleted_while_another_saves_is_there_or_not(base):
    """Every save that returned after the last deletion is found; none fails."""
    with FileStore(base) as saver, FileStore(base) as deleter:
        stop = threading.Event()

        def delete() -> None:
            while not stop.is_set():
                deleter.delete_run("run")

        thread = threading.Thread(target=delete)
        thread.start()
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            saver.save("run", "node", b"x")
        stop.set()
        thread.join()
        saver.save("run", "last", b"y")
        assert b"y" == saver.load("run", "last")
    assert [] == leftovers(base)


def test_a_forked_child_and_its_parent_both_save(store):
    """Neither holds the other's lock."""
    store.save("run", "before", b"x")
    child = multiprocessing.get_context("fork").Process(target=store.save, args=("run", "child", b"x"))
    child.start()
    store.save("run", "parent", b"x")
    child.join(30)
    assert 0 == child.exitcode
    assert [1, 2, 3] == sorted(numbers(store).values())


def test_a_list_reads_headers_only_and_takes_at_most_600_bytes_an_entry(store, count, monkeypatch):
    """Large nodes cost a list no more than small ones, however long their names are."""
    nodes = count(300, 20_000)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    store.save_many("run", [(f"node {number}", b"x" * 10_000) for number in range(nodes)])
    asked: set[int] = set()
    honest = disk.read_file

    def watch(folder, name, where, most=-1):
        asked.add(most)
        return honest(folder, name, where, most)

    monkeypatch.setattr(disk, "read_file", watch)
    tracemalloc.start()
    try:
        infos = store.list("run")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (nodes, True, {512}) == (len(infos), peak / nodes <= 600, asked)
    store.save("run", "\U0001f600" * 512, b"x")
    assert (nodes + 1, {512, 8192}) == (len(store.list("run")), asked)
