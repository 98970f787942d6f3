"""Everything a run store promises, as a suite: inherit it, and give it one fixture, `store`, an empty store.

What survives a crash or a power cut cannot be asked of every store in the same way, and is not asked here.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from agentos.errors import CheckpointNotFoundError, InvalidInputError, StoreClosedError
from agentos.store.runs.contract import CheckpointStore
from agentos.testing.store_inputs import InputsContract

THREADS, SAVES = 4, 10


def numbered(store: CheckpointStore, run_id: str = "run") -> list[tuple[str, int]]:
    """The nodes of a run with their sequence numbers, as listed."""
    return [(info.node_id, info.sequence) for info in store.list(run_id)]


class StoreContract(InputsContract):
    """The promises of `agentos.store.CheckpointStore`."""

    def test_it_is_a_checkpoint_store(self, store: CheckpointStore) -> None:
        """Every call of the protocol is there."""
        assert isinstance(store, CheckpointStore)

    def test_an_empty_store_has_nothing(self, store: CheckpointStore) -> None:
        """Asking for what was never saved is an error only where there is nothing to return."""
        assert ([], []) == (store.list_runs(), store.list("run"))
        with pytest.raises(CheckpointNotFoundError, match=r"run.*node"):
            store.load("run", "node")

    def test_a_node_that_is_not_there_is_not_found(self, store: CheckpointStore) -> None:
        """Also when its run, or a node of that name elsewhere, is."""
        store.save("run", "node", b"x")
        for run_id, node_id in (("run", "other"), ("other", "node"), ("run", "nod"), ("run", "nodes")):
            with pytest.raises(CheckpointNotFoundError):
                store.load(run_id, node_id)

    def test_numbers_follow_the_saves(self, store: CheckpointStore) -> None:
        """Each run counts from 1, in the order of its saves and not of its names."""
        for node_id in ("b", "c", "a"):
            store.save("run", node_id, b"x")
        store.save("other", "z", b"x")
        assert ([("b", 1), ("c", 2), ("a", 3)], [("z", 1)]) == (numbered(store), numbered(store, "other"))

    def test_saving_again_overwrites_and_takes_the_next_number(self, store: CheckpointStore) -> None:
        """There is one value a node, and it moves to the end of the list."""
        for node_id, data in (("a", b"old"), ("b", b"kept"), ("a", b"newer")):
            store.save("run", node_id, data)
        assert [("b", 2), ("a", 3)] == numbered(store)
        assert (b"newer", b"kept") == (store.load("run", "a"), store.load("run", "b"))

    def test_a_list_says_what_was_saved_and_when(self, store: CheckpointStore) -> None:
        """With the size in bytes and an aware time in UTC, in the order of the saves."""
        before = datetime.now(UTC) - timedelta(milliseconds=1)
        store.save("run", "a", b"four")
        store.save("run", "b", b"")
        infos = store.list("run")
        assert [("run", "a", len(b"four")), ("run", "b", 0)] == [(each.run_id, each.node_id, each.size) for each in infos]
        assert before <= infos[0].timestamp <= infos[1].timestamp <= datetime.now(UTC)
        assert [timedelta(0)] * len(infos) == [each.timestamp.utcoffset() for each in infos]

    def test_saving_many_is_saving_one_after_the_other(self, store: CheckpointStore) -> None:
        """Also when a node is named twice; any iterable of pairs will do."""
        store.save("run", "b", b"old")
        store.save_many("run", ((node_id, data) for node_id, data in (("a", b"1"), ("b", b"2"), ("a", b"3"))))
        assert [("b", 3), ("a", 4)] == numbered(store)
        assert (b"3", b"2") == (store.load("run", "a"), store.load("run", "b"))

    def test_saving_none_of_many_changes_nothing(self, store: CheckpointStore) -> None:
        """Not even which runs there are."""
        store.save_many("run", [])
        assert [] == store.list_runs()

    @pytest.mark.parametrize("items", [None, "ab", b"ab", {"a": b"x"}, [b"x"], [("a",)], [("a", b"x", 1)], ["ab"]], ids=repr)
    def test_items_that_are_no_pairs_are_refused(self, store: CheckpointStore, items: object) -> None:
        """Everything is checked before the first is written."""
        with pytest.raises(InvalidInputError, match="items"):
            store.save_many("run", items)  # type: ignore[arg-type]
        assert [] == store.list_runs()

    def test_a_deleted_node_is_gone_and_its_number_with_it(self, store: CheckpointStore) -> None:
        """The next save counts on, also after the newest node was deleted."""
        store.save_many("run", [("a", b"x"), ("b", b"x"), ("c", b"x")])
        store.delete("run", "c")
        store.delete("run", "a")
        with pytest.raises(CheckpointNotFoundError):
            store.load("run", "c")
        store.save("run", "d", b"x")
        assert [("b", 2), ("d", 4)] == numbered(store)

    def test_deleting_what_is_not_there_is_no_error(self, store: CheckpointStore) -> None:
        """Twice is as good as once, and neighbours stay."""
        store.save("run", "node", b"x")
        for _ in range(2):
            store.delete("run", "other")
            store.delete("other", "node")
            store.delete_run("other")
        assert b"x" == store.load("run", "node")

    def test_a_run_without_nodes_is_not_listed_and_counts_on(self, store: CheckpointStore) -> None:
        """Deleting its last node does not make it another run."""
        store.save("run", "node", b"x")
        store.delete("run", "node")
        assert ([], []) == (store.list_runs(), store.list("run"))
        store.save("run", "node", b"y")
        assert ([("node", 2)], ["run"]) == (numbered(store), store.list_runs())

    def test_a_deleted_run_is_forgotten(self, store: CheckpointStore) -> None:
        """All of it, and nothing of another; a run of the same name begins anew."""
        store.save_many("run", [("a", b"x"), ("b", b"x")])
        store.save("runs", "a", b"kept")
        store.delete_run("run")
        assert ([], ["runs"], b"kept") == (store.list("run"), store.list_runs(), store.load("runs", "a"))
        store.save("run", "c", b"x")
        assert [("c", 1)] == numbered(store)

    def test_threads_share_a_store(self, store: CheckpointStore) -> None:
        """No save is lost and no number is given twice."""
        start = threading.Barrier(THREADS)

        def work(number: int) -> None:
            start.wait()
            for count in range(SAVES):
                store.save("run", f"{number}-{count}", f"{number}-{count}".encode())

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        assert list(range(1, THREADS * SAVES + 1)) == [info.sequence for info in store.list("run")]
        assert all(info.node_id.encode() == store.load("run", info.node_id) for info in store.list("run"))

    def test_a_closed_store_refuses_everything(self, store: CheckpointStore) -> None:
        """With one sentence; closing again is no error."""
        with store as entered:
            assert store is entered
        store.close()
        for call in (
            lambda: store.save("run", "node", b"x"),
            lambda: store.save_many("run", []),
            lambda: store.load("run", "node"),
            lambda: store.list("run"),
            lambda: store.delete("run", "node"),
            lambda: store.delete_run("run"),
            store.list_runs,
        ):
            with pytest.raises(StoreClosedError, match="closed"):
                call()

    def test_every_call_has_an_asynchronous_twin(self, store: CheckpointStore) -> None:
        """The twins do what the calls do."""

        async def work() -> None:
            async with store as entered:
                assert store is entered
                await store.asave("run", "a", bytearray(b"1"))
                await store.asave_many("run", [("b", b"2"), ("c", b"3")])
                assert b"2" == await store.aload("run", "b")
                await store.adelete("run", "a")
                assert ["b", "c"] == [info.node_id for info in await store.alist("run")]
                assert ["run"] == await store.alist_runs()
                await store.adelete_run("run")
                assert [] == await store.alist_runs()
            with pytest.raises(StoreClosedError):
                await store.alist_runs()
            await store.aclose()

        asyncio.run(work())

    def test_asynchronous_saves_may_run_together(self, store: CheckpointStore) -> None:
        """Each takes its copy before anything is awaited, and each gets a number of its own."""

        async def work() -> None:
            buffer = bytearray(b"0")
            saves = []
            for number in range(SAVES):
                buffer[:] = str(number).encode()
                saves.append(asyncio.ensure_future(store.asave("run", str(number), buffer)))
                await asyncio.sleep(0)
            await asyncio.gather(*saves)

        asyncio.run(work())
        assert [str(number).encode() for number in range(SAVES)] == [store.load("run", str(number)) for number in range(SAVES)]
        assert list(range(1, SAVES + 1)) == [info.sequence for info in store.list("run")]
