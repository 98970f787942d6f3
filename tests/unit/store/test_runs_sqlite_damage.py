"""The run store in SQLite with its rows changed behind its back: each change is noticed by whoever looks at it."""

from pathlib import Path

import pytest

from agentos.errors import CheckpointNotFoundError, StoreCorruptError
from agentos.store import SQLiteStore
from tests.support import execute


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


@pytest.fixture
def store(path: Path):
    with SQLiteStore(path) as store:
        yield store


DAMAGE = {
    "a sequence number": "update run_nodes set sequence = 7 where node_id = 'b'",
    "a size": "update run_nodes set size = size + 1 where node_id = 'b'",
    "a time": "update run_nodes set saved_at = saved_at + 1 where node_id = 'b'",
    "a seal": "update run_nodes set seal = zeroblob(16) where node_id = 'b'",
    "the seal of the bytes": "update run_data set seal = zeroblob(32) where node_id = 'b'",
    "bytes of another time": "update run_data set seal = (select seal from run_data where node_id = 'a') where node_id = 'b'",
    "another type": "update run_nodes set sequence = 'x' where node_id = 'b'",
    "a node's name": "update run_nodes set node_id = 'bb' where node_id = 'b'",
    "a node's run": "update run_nodes set run_id = 'ruN' where node_id = 'b'",
    "a node's row": "delete from run_nodes where node_id = 'b'",
    "the bytes": "update run_data set data = x'00' where node_id = 'b'",
    "text for bytes": "update run_data set data = 'x' where node_id = 'b'",
    "the row of the bytes": "delete from run_data where node_id = 'b'",
    "another's bytes": "update run_nodes set data_id = (select data_id from run_nodes where node_id = 'a') where node_id = 'b'",
    "the run's own row": "delete from run_nodes where run_id = 'run' and node_id = ''",
    "the run's counter": "update run_nodes set sequence = 1 where run_id = 'run' and node_id = ''",
    "the run's nodes": "delete from run_nodes where run_id = 'run'",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_row_is_refused(path, store, damage):
    """By load or by list, whichever looks at it; and deleting the run makes it whole again."""
    store.save_many("run", [("a", b"1"), ("b", b"2"), ("c", b"3")])
    assert execute(path, damage) >= 1
    refused = 0
    for call in (lambda: store.load("run", "b"), lambda: store.list("run"), store.list_runs):
        try:
            call()
        except StoreCorruptError:
            refused += 1
        except CheckpointNotFoundError:
            pytest.fail("a node that was saved is said not to be there")
    assert refused >= 1
    store.delete_run("run")
    store.delete_run("ruN")
    store.save("run", "b", b"new")
    assert (b"new", ["b"]) == (store.load("run", "b"), [info.node_id for info in store.list("run")])


def test_a_run_that_is_missing_from_the_list_of_runs_is_noticed(path, store):
    """Neither list_runs nor a new run of its name goes on as if nothing was there."""
    store.save("run", "node", b"x")
    execute(path, "delete from runs")
    with pytest.raises(StoreCorruptError):
        store.list_runs()
    assert b"x" == store.load("run", "node")


def test_a_damaged_node_can_be_saved_again_and_deleted(path, store):
    """Both replace what is damaged, and need not understand it."""
    store.save_many("run", [("a", b"1"), ("b", b"2"), ("c", b"3")])
    execute(path, "update run_nodes set seal = zeroblob(16) where node_id in ('a', 'b')")
    execute(path, "update run_nodes set data_id = 3 where node_id = 'a'")
    store.save("run", "a", b"new")
    store.delete("run", "b")
    assert (b"new", b"3") == (store.load("run", "a"), store.load("run", "c"))
    assert [("c", 3), ("a", 4)] == [(info.node_id, info.sequence) for info in store.list("run")]


def test_a_refusal_that_is_kept_does_not_keep_the_store_in_the_past(path, store):
    """Whoever holds on to the error holds on to nothing of the database."""
    store.save_many("run", [(f"node {number}", b"x") for number in range(200)])
    execute(path, "update run_nodes set seal = zeroblob(16) where node_id = 'node 50'")
    with pytest.raises(StoreCorruptError) as kept:
        store.list("run")
    with SQLiteStore(path) as other:
        other.save("run", "node 50", b"new")
    store.save("run", "another", b"y")
    assert (b"new", True) == (store.load("run", "node 50"), "run" in str(kept.value))
