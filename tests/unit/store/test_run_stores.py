"""Every run store keeps the contract: one class a backend, with the one fixture that the suite asks for."""

import pytest

from agentos.store import FileStore, MemoryStore, SQLiteStore
from agentos.testing import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        with MemoryStore() as store:
            yield store


class TestFileStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        with FileStore(tmp_path / "runs") as store:
            yield store


class TestFileStoreWithKey(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        with FileStore(tmp_path / "runs", key=b"a key of the caller") as store:
            yield store


class TestSQLiteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        with SQLiteStore(tmp_path / "runs.sqlite") as store:
            yield store
