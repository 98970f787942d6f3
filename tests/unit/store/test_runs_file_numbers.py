"""The run store in files: where its sequence numbers come from, what it does with damage, and with keys."""

import os
import shutil
from pathlib import Path

import pytest

from agentos.errors import InvalidInputError, StoreCorruptError, StoreUnavailableError
from agentos.store import FileStore
from agentos.store.runs import counter
from agentos.store.runs.nodefile import file_name, folder_name


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def store(base: Path):
    with FileStore(base) as store:
        yield store


def numbers(store: FileStore, run_id: str = "run") -> dict[str, int]:
    return {info.node_id: info.sequence for info in store.list(run_id)}


def after_a_reboot(monkeypatch) -> None:
    monkeypatch.setattr(counter, "boot", lambda: "another-boot")


def test_after_a_reboot_the_files_are_asked_for_the_last_number(store, base, monkeypatch):
    """The counter is not synced with every save, so an old one is not believed."""
    store.save_many("run", [("a", b"x"), ("b", b"x")])
    old = (base / folder_name("run") / "last").read_bytes()
    store.save("run", "c", b"x")
    (base / folder_name("run") / "last").write_bytes(old)
    after_a_reboot(monkeypatch)
    store.save("run", "d", b"x")
    assert {"a": 1, "b": 2, "c": 3, "d": 4} == numbers(store)


@pytest.mark.parametrize("left", [b"", b"\0" * 512, None], ids=["empty", "zeros", "nothing"])
def test_a_counter_that_a_power_cut_took_is_made_anew(store, base, monkeypatch, left):
    """From the files of the run."""
    store.save_many("run", [("a", b"x"), ("b", b"x")])
    path = base / folder_name("run") / "last"
    path.unlink() if left is None else path.write_bytes(left)
    after_a_reboot(monkeypatch)
    store.save("run", "c", b"x")
    assert {"a": 1, "b": 2, "c": 3} == numbers(store)


def test_the_number_of_a_deleted_node_is_not_used_again_after_a_reboot(store, monkeypatch):
    """The file that had it is gone, so the counter was synced before."""
    store.save_many("run", [("a", b"x"), ("b", b"x")])
    store.delete("run", "b")
    after_a_reboot(monkeypatch)
    store.save("run", "c", b"x")
    assert {"a": 1, "c": 3} == numbers(store)


def test_the_highest_number_is_not_lost_with_the_first_deletion_after_a_reboot(store, base, monkeypatch):
    """The file that goes is asked before it does."""
    store.save("run", "a", b"x")
    old = (base / folder_name("run") / "last").read_bytes()
    store.save("run", "b", b"x")
    (base / folder_name("run") / "last").write_bytes(old)
    after_a_reboot(monkeypatch)
    store.delete("run", "b")
    store.save("run", "c", b"x")
    assert {"a": 1, "c": 3} == numbers(store)


def test_a_copy_of_a_store_counts_by_its_files(store, base, tmp_path):
    """Its counter may be older than they are."""
    store.save("run", "a", b"x")
    old = (base / folder_name("run") / "last").read_bytes()
    store.save_many("run", [("b", b"x"), ("c", b"x")])
    shutil.copytree(base, tmp_path / "copy")
    (tmp_path / "copy" / folder_name("run") / "last").write_bytes(old)
    with FileStore(tmp_path / "copy") as copy:
        copy.save("run", "d", b"x")
        assert {"a": 1, "b": 2, "c": 3, "d": 4} == numbers(copy)


def test_a_damaged_counter_is_refused(store, base):
    """A number that was used might be given again. Reading does not need it, and deleting the run makes a new one."""
    store.save("run", "a", b"x")
    path = base / folder_name("run") / "last"
    path.write_bytes(path.read_bytes().replace(b" 1\n", b" 0\n"))
    for call in (lambda: store.save("run", "b", b"x"), lambda: store.delete("run", "a")):
        with pytest.raises(StoreCorruptError, match="last"):
            call()
    assert b"x" == store.load("run", "a")
    store.delete_run("run")
    store.save("run", "b", b"x")
    assert {"b": 1} == numbers(store)


def test_a_save_that_failed_leaves_no_gap(store, monkeypatch):
    """The next one takes the number that it did not use."""
    store.save("run", "a", b"x")
    with monkeypatch.context() as patch:
        patch.setattr("agentos._disk.write_all", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(StoreUnavailableError, match="No space left"):
            store.save("run", "b", b"x")
    store.save("run", "c", b"x")
    assert {"a": 1, "c": 2} == numbers(store)


# Damage


def damage(base: Path, *nodes: str) -> None:
    for node_id in nodes:
        (base / folder_name("run") / file_name(node_id)).write_bytes(b"damaged")


def test_a_damaged_node_can_be_saved_again_and_deleted(store, base):
    """Both replace what is damaged, and need not understand it."""
    store.save_many("run", [("a", b"1"), ("b", b"2"), ("c", b"3")])
    damage(base, "a", "b")
    with pytest.raises(StoreCorruptError):
        store.list("run")
    store.save("run", "a", b"new")
    store.delete("run", "b")
    assert (b"new", {"c": 3, "a": 4}) == (store.load("run", "a"), numbers(store))


def test_after_a_reboot_damaged_nodes_are_to_be_deleted_first(store, base, monkeypatch):
    """The numbers they had cannot be asked for, and might be given again: that is refused, with the name of one of them."""
    store.save_many("run", [("a", b"1"), ("b", b"2"), ("c", b"3")])
    damage(base, "a", "b")
    after_a_reboot(monkeypatch)
    for call in (lambda: store.save("run", "d", b"x"), lambda: store.delete("run", "c")):
        with pytest.raises(StoreCorruptError, match=r"\.node"):
            call()
    store.delete("run", "a")
    store.save("run", "b", b"new")
    assert (b"new", {"c": 3, "b": 4}) == (store.load("run", "b"), numbers(store))


@pytest.mark.parametrize(("written", "read"), [(b"key", None), (None, b"key"), (b"key", b"yek")])
def test_files_of_another_key_are_refused(base, written, read):
    """With a key or without, what was sealed differently is not believed."""
    with FileStore(base, key=written) as store:
        store.save("run", "node", b"x")
    with FileStore(base, key=read) as store:
        calls = [lambda: store.load("run", "node"), lambda: store.list("run"), store.list_runs]
        for call in [*calls, lambda: store.save("run", "other", b"x")]:
            with pytest.raises(StoreCorruptError, match=r"\.node|last"):
                call()


def test_a_forged_file_is_refused(base):
    """Whoever has no key can write the file, but not its seal."""
    with FileStore(base, key=b"secret") as store:
        store.save("run", "node", b"right")
    with FileStore(base.parent / "forger") as forger:
        forger.save("run", "node", b"wrong")
    name = os.path.join(folder_name("run"), file_name("node"))
    forged = (base.parent / "forger" / name).read_bytes()
    for content in (forged, forged.replace(b" sha256 ", b" hmac-sha256 ")):
        (base / name).write_bytes(content)
        with FileStore(base, key=b"secret") as store, pytest.raises(StoreCorruptError, match=file_name("node")):
            store.load("run", "node")


@pytest.mark.parametrize("key", [b"", "text", 7])
def test_a_key_is_bytes(base, key):
    """Anything else is refused when the store is opened."""
    with pytest.raises(InvalidInputError, match="key"):
        FileStore(base, key=key)
