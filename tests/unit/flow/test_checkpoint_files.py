"""Workflow checkpoints in files: where they lie, what they refuse, and what a crash leaves."""

import json
import os
import stat

import pytest

from agentos.flow.checkpoint import FileCheckpointStore
from tests.unit.flow.samples import DOCUMENT, checkpoint, run

DAMAGED = {
    "nothing": b"",
    "text": b"not json",
    "a list": b"[]",
    "null": b"null",
    "not UTF-8": b"\xff\xfe",
    "no keys": b"{}",
    "cut": json.dumps(DOCUMENT)[:-5].encode(),
    "another id": json.dumps({**DOCUMENT, "checkpoint_id": "other"}).encode(),
    "a key too many": json.dumps({**DOCUMENT, "checkpoint_id": "a", "more": 1}).encode(),
    "not a number": json.dumps({**DOCUMENT, "checkpoint_id": "a", "step_results": [{"x": float("nan")}]}).encode(),
    "a key twice": b'{"checkpoint_id": "a", ' + json.dumps(DOCUMENT).encode()[1:],
    "far too deep": b"[" * 100_000,
    "too deep": json.dumps({**DOCUMENT, "checkpoint_id": "a"}).replace("1000", "[" * 70 + "]" * 70).encode(),
    "half a character": json.dumps({**DOCUMENT, "checkpoint_id": "a", "step_results": [{"x": "\ud800"}]}).encode(),
}


class TestFiles:
    @pytest.fixture
    def base(self, tmp_path):
        return tmp_path / "a" / "b"

    @pytest.fixture
    def store(self, base) -> FileCheckpointStore:
        return FileCheckpointStore(base)

    def test_the_default_is_below_the_current_directory(self, tmp_path, monkeypatch):
        """And stays there when the process moves on."""
        monkeypatch.chdir(tmp_path)
        store = FileCheckpointStore()
        monkeypatch.chdir("/")
        run(store.save("run", checkpoint()))
        assert (tmp_path / ".agentos/checkpoints/run/a.json").is_file()

    def test_nothing_is_created_before_the_first_save(self, store, base):
        """Looking leaves no trace."""
        run(store.load("run", "a"))
        run(store.clear("run"))
        assert not base.exists()

    def test_the_folder_of_a_run_holds_only_its_checkpoints(self, store, base):
        """As JSON that people and other programs can read, for this user alone."""
        run(store.save("run", checkpoint("a")))
        run(store.save("run", checkpoint("b")))
        assert ["a.json", "b.json"] == sorted(os.listdir(base / "run"))
        assert checkpoint("a").to_dict() == json.loads((base / "run" / "a.json").read_text("utf-8"))
        assert 0o600 == stat.S_IMODE((base / "run" / "a.json").stat().st_mode)
        assert 0o700 == stat.S_IMODE((base / "run").stat().st_mode)

    @pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
    def test_content_that_is_no_checkpoint_of_that_id_is_a_value_error(self, store, base, content):
        """Never served, never skipped: also not by load_latest."""
        run(store.save("run", checkpoint("good")))
        (base / "run" / "a.json").write_bytes(content)
        for call in (store.load("run", "a"), store.load_latest("run")):
            with pytest.raises(ValueError, match=r"a\.json"):
                run(call)
        assert "good" == run(store.load("run", "good")).checkpoint_id

    def test_a_link_does_not_lead_out(self, store, base, tmp_path):
        """Neither a run's folder nor a checkpoint's file may be one; what it points to is neither read nor changed."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "a.json").write_text(json.dumps({**DOCUMENT, "checkpoint_id": "a"}))
        run(store.save("run", checkpoint("b")))
        (base / "link").symlink_to(outside)
        (base / "run" / "a.json").symlink_to(outside / "a.json")
        before = (outside / "a.json").read_bytes()
        calls = [store.load("link", "a"), store.load_latest("link"), store.list_checkpoints("link"), store.clear("link")]
        for call in [*calls, store.save("link", checkpoint("a")), store.load("run", "a")]:
            with pytest.raises(ValueError, match="link"):
                run(call)
        run(store.save("run", checkpoint("a")))
        assert (before, ["a.json"]) == ((outside / "a.json").read_bytes(), os.listdir(outside))
        assert checkpoint("a") == run(store.load("run", "a"))

    def test_a_folder_that_cannot_be_used_is_an_os_error(self, base, tmp_path):
        """With its path."""
        base.parent.mkdir()
        base.write_text("a file")
        with pytest.raises(OSError, match="b"):
            run(FileCheckpointStore(base).save("run", checkpoint()))

    def test_clearing_leaves_what_is_not_ours(self, store, base):
        """Only checkpoints are removed."""
        run(store.save("run", checkpoint("a")))
        (base / "run" / "notes.txt").write_text("mine")
        run(store.clear("run"))
        assert ["notes.txt"] == os.listdir(base / "run")

    def test_what_a_crash_left_behind_is_removed_by_the_next_process(self, store, base):
        """Unfinished files and half-removed runs are out of sight, and then gone."""
        run(store.save("run", checkpoint("a")))
        (base / ".staging" / "0123").write_text("half a checkp")
        (base / ".staging" / "4567").mkdir()
        (base / ".staging" / "4567" / "a.json").write_text("{}")
        assert ["a"] == run(store.list_checkpoints("run"))
        run(FileCheckpointStore(base).save("run", checkpoint("b")))
        assert [] == os.listdir(base / ".staging")
