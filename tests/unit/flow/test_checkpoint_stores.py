"""The asynchronous store that workflow engines expect: one suite over every implementation."""

import asyncio

import pytest

from agentos.flow.checkpoint import CheckpointStore, FileCheckpointStore, MemoryCheckpointStore, RunCheckpointStore
from agentos.store import FileStore, MemoryStore, SQLiteStore
from tests.unit.flow.samples import checkpoint, run

MAKERS = {
    "file": lambda tmp_path: FileCheckpointStore(tmp_path / "checkpoints"),
    "memory": lambda _: MemoryCheckpointStore(),
    "on memory": lambda _: RunCheckpointStore(MemoryStore()),
    "on files": lambda tmp_path: RunCheckpointStore(FileStore(tmp_path / "runs")),
    "on sqlite": lambda tmp_path: RunCheckpointStore(SQLiteStore(tmp_path / "runs.sqlite")),
}


@pytest.fixture(params=MAKERS)
def store(request, tmp_path):
    return MAKERS[request.param](tmp_path)


class TestEveryStore:
    def test_it_is_a_store(self, store):
        """Every call of the protocol is there."""
        assert isinstance(store, CheckpointStore)

    def test_what_was_saved_comes_back_equal(self, store):
        """With everything that JSON carries."""
        results = [{"name": "á\u2028", "output": {"n": 10**30, "f": 0.1, "l": [None, True, "", {}]}, "duration_ms": 0}]
        saved = checkpoint(results=results)
        run(store.save("run", saved))
        assert saved == run(store.load("run", "a"))

    def test_changing_it_afterwards_changes_nothing(self, store):
        """Neither on the way in nor on the way out is anything shared."""
        result = {"output": [1]}
        run(store.save("run", checkpoint(results=[result])))
        result["output"].append(2)
        run(store.load("run", "a")).step_results[0]["output"].append(3)
        assert [1] == run(store.load("run", "a")).step_results[0]["output"]

    def test_what_is_not_there_is_none(self, store):
        """Not an error: a first run has nothing to resume from."""
        assert (None, None, []) == (
            run(store.load("run", "a")),
            run(store.load_latest("run")),
            run(store.list_checkpoints("run")),
        )
        run(store.save("run", checkpoint()))
        assert (None, None) == (run(store.load("run", "b")), run(store.load("other", "a")))

    def test_saving_again_overwrites(self, store):
        """One checkpoint an id."""
        run(store.save("run", checkpoint(results=[{"n": 1}])))
        run(store.save("run", checkpoint(results=[{"n": 2}])))
        assert ({"n": 2},) == run(store.load("run", "a")).step_results
        assert ["a"] == run(store.list_checkpoints("run"))

    def test_the_latest_is_the_newest_by_its_own_time(self, store):
        """Not by the order of the saves, and not by the letters of the time: offsets count."""
        for name, saved_at in (
            ("c", "2025-12-20T15:30:00Z"),
            ("a", "2025-12-20T16:00:00+00:00"),
            ("b", "2025-12-20T17:00:00+02:00"),
            ("d", "2025-12-20T15:59:59.999999"),
        ):
            run(store.save("run", checkpoint(name, saved_at)))
        assert "a" == run(store.load_latest("run")).checkpoint_id
        assert ["a", "b", "c", "d"] == run(store.list_checkpoints("run"))

    def test_of_two_at_one_moment_every_store_takes_the_same(self, store):
        """The last by name."""
        for name in ("b", "c", "a"):
            run(store.save("run", checkpoint(name)))
        assert "c" == run(store.load_latest("run")).checkpoint_id

    def test_clearing_forgets_the_run_and_no_other(self, store):
        """Twice is as good as once."""
        run(store.save("run", checkpoint("a")))
        run(store.save("runs", checkpoint("b")))
        for _ in range(2):
            run(store.clear("run"))
        assert (None, None, []) == (
            run(store.load("run", "a")),
            run(store.load_latest("run")),
            run(store.list_checkpoints("run")),
        )
        assert ["b"] == run(store.list_checkpoints("runs"))
        run(store.save("run", checkpoint("c")))
        assert ["c"] == run(store.list_checkpoints("run"))

    @pytest.mark.parametrize("name", ["é", "a b", "Ünï-1.2", "x" * 250, "con", "a:b", "\U0001f600", "json", "a.json"])
    def test_an_id_that_can_name_a_file_is_right(self, store, name):
        """Whatever it looks like."""
        run(store.save(name, checkpoint(name)))
        assert ([name], name) == (run(store.list_checkpoints(name)), run(store.load(name, name)).checkpoint_id)

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "../x", "/etc", "a/b", ".hidden", ".staging", "a\0b", "\ud800", "x" * 251, "é" * 126, None, 7],
        ids=ascii,
    )
    def test_an_id_that_cannot_is_a_value_error(self, store, name):
        """By every call, and nothing is stored or left."""
        calls = [store.save(name, checkpoint()), store.load(name, "a"), store.load("run", name)]
        calls += [store.load_latest(name), store.clear(name), store.list_checkpoints(name)]
        for call in calls:
            with pytest.raises(ValueError, match=r"workflow_id|checkpoint_id"):
                run(call)
        assert [] == run(store.list_checkpoints("run"))

    def test_a_result_that_json_would_change_is_refused_with_its_path(self, store):
        """Before anything is stored."""
        for wrong in ((1, 2), {1}, float("nan"), b"x", {1: 2}, "\ud800"):
            with pytest.raises(ValueError, match=r"checkpoint\['step_results'\]\[0\]\['output'\]"):
                run(store.save("run", checkpoint(results=[{"output": wrong}])))
        assert [] == run(store.list_checkpoints("run"))

    def test_many_tasks_may_save_at_once(self, store):
        """No save is lost."""

        async def work():
            await asyncio.gather(*(store.save("run", checkpoint(f"c{number:02}")) for number in range(20)))
            return await store.list_checkpoints("run")

        assert [f"c{number:02}" for number in range(20)] == run(work())
