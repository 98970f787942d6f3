"""Opening a run store by its address, and what `import agentos.store` brings with it."""

import json
import subprocess
import sys

import pytest

import agentos.store
from agentos.errors import InvalidInputError
from agentos.store import FileStore, MemoryStore, SQLiteStore, open_store


def test_an_address_opens_its_store(tmp_path, monkeypatch):
    """Paths may be relative or absolute, and hold anything after the first colon."""
    monkeypatch.chdir(tmp_path)
    with open_store("memory:") as memory, open_store("file:a:b c") as file, open_store(f"sqlite:{tmp_path}/x.db") as sqlite:
        assert [MemoryStore, FileStore, SQLiteStore] == [type(store) for store in (memory, file, sqlite)]
        assert [str(tmp_path / "a:b c"), str(tmp_path / "x.db")] == [getattr(store, "path", "") for store in (file, sqlite)]


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    """When the process moves on, the store does not."""
    monkeypatch.chdir(tmp_path)
    with open_store("file:runs") as file, open_store("sqlite:runs.db") as sqlite:
        monkeypatch.chdir("/")
        for store in (file, sqlite):
            store.save("run", "node", b"x")
    assert {"runs", "runs.db"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("address", ["runs.db", "/tmp/runs", "", "postgres:x", "FILE:x", "C:\\runs", ":x", None, 7, b"file:x"])
def test_an_address_without_a_known_scheme_is_refused_with_all_of_them(address):
    """Nothing is guessed from how a path ends."""
    with pytest.raises(InvalidInputError, match="known scheme") as refused:
        open_store(address)
    assert all(scheme in refused.value.hint for scheme in ("memory:", "file:", "sqlite:"))


@pytest.mark.parametrize("address", ["file:", "sqlite:", "memory:x", "file://x", "sqlite:///x", "sqlite::memory:"])
def test_an_address_that_can_be_read_in_two_ways_is_refused(address, tmp_path, monkeypatch):
    """A relative path in one tool is an absolute one in another; nothing is created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=r"address|path"):
        open_store(address)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("memory:", {"key": b"k"}),
        ("sqlite:x", {"key": b"k"}),
        ("memory:", {"durability": "full"}),
        ("file:x", {"durability": "relaxed"}),
        ("sqlite:x", {"durability": "off"}),
    ],
)
def test_an_option_that_the_store_does_not_have_is_refused(address, options, tmp_path, monkeypatch):
    """It would otherwise be a promise that nobody keeps."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        open_store(address, **options)


def test_options_reach_the_store(tmp_path):
    """Each of them does what it says."""
    with open_store(f"file:{tmp_path}/runs", key=b"k", lock_timeout=1) as store:
        store.save("run", "node", b"x")
    assert b"hmac-sha256" in next((tmp_path / "runs").rglob("*.node")).read_bytes()
    with open_store(f"sqlite:{tmp_path}/runs.db", durability="relaxed") as store:
        store.save("run", "node", b"x")


def test_every_public_name_is_there():
    """Though each is loaded only when it is used."""
    assert [] == [name for name in agentos.store.__all__ if not hasattr(agentos.store, name)]
    with pytest.raises(AttributeError, match="nothing"):
        _ = agentos.store.nothing


def test_importing_the_package_loads_no_store():
    """Nor what a store needs."""
    lines = ["import json, sys, agentos", "before = {*sys.modules}", "import agentos.store"]
    program = "\n".join([*lines, "print(json.dumps([*{*sys.modules} - before]))"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= {"agentos.store"}
