"""The contract suite in the hands of somebody else: a store of theirs passes it, and a broken one does not.

Run as they would: plain pytest, in a folder of its own, without the plugins and settings of this project.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import environment

# One worker runs the suite for all of them.
pytestmark = pytest.mark.xdist_group("contract")

THEIRS = """
import pytest
from agentos.store import AsyncTwins, CheckpointInfo, MemoryStore
from agentos.testing import StoreContract


class Kept(MemoryStore):
    pass


class Forgetful(MemoryStore):
    def delete(self, run_id, node_id):
        super().delete(run_id, node_id)
        if not self.list(run_id):
            self.delete_run(run_id)


class Unordered(MemoryStore):
    def list(self, run_id):
        return sorted(super().list(run_id), key=lambda info: info.node_id)


class Careless(MemoryStore):
    def save_many(self, run_id, items):
        for node_id, data in items:
            self.save(run_id, node_id, data)


class Folding(MemoryStore):
    def save(self, run_id, node_id, data):
        super().save(run_id, node_id.lower() if type(node_id) is str else node_id, data)

    def load(self, run_id, node_id):
        return super().load(run_id, node_id.lower() if type(node_id) is str else node_id)


def suite(kind):
    class Suite(StoreContract):
        @pytest.fixture
        def store(self):
            with kind() as store:
                yield store

    return Suite


TestKept, TestForgetful, TestUnordered = suite(Kept), suite(Forgetful), suite(Unordered)
TestCareless, TestFolding = suite(Careless), suite(Folding)
"""

FOUND_BY = {
    "Forgetful": "test_a_run_without_nodes_is_not_listed_and_counts_on",
    "Unordered": "test_numbers_follow_the_saves",
    "Careless": "test_anything_else_is_a_type_error",
    "Folding": "test_ids_that_look_alike_stay_apart",
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory) -> set[tuple[str, str]]:
    """Which tests of the suite fail, by store."""
    folder: Path = tmp_path_factory.mktemp("theirs")
    (folder / "test_theirs.py").write_text(THEIRS)
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:xdist", "-p", "no:cacheprovider", "test_theirs.py"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert " passed" in done.stdout, done.stdout + done.stderr
    return set(re.findall(r"^FAILED test_theirs.py::Test(\w+)::(\w+)", done.stdout, re.MULTILINE))


def test_a_store_that_keeps_its_promises_passes(failed):
    """Nothing about it is asked that was not promised."""
    assert set() == {name for store, name in failed if store == "Kept"}


@pytest.mark.parametrize("store", FOUND_BY)
def test_a_store_that_breaks_one_is_found(failed, store):
    """By the test that is named after the promise."""
    assert (store, FOUND_BY[store]) in failed
