"""What a user without privileges may not see is not known; on real files, also when the tests run as root."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agentos.core.checkpoints.observing import Seen
from tests.unit.probes.databases import Look

NOBODY = 65534


@pytest.fixture
def base() -> Iterator[Path]:
    # Not pytest's folder: that one is closed to everybody else.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        for entry in Path(folder).iterdir():
            entry.chmod(0o700)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root lays its power down for the length of the block; anybody else has none."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_folder_that_may_not_be_entered_hides_its_files(look: Look, base: Path):
    """Behind a closed door nothing is known: not that the file is there, and not that it is gone."""
    (base / "d").mkdir()
    (base / "d" / "x").write_bytes(b"x")
    (base / "d").chmod(0o000)
    with unprivileged():
        for path in ("d/x", "d/gone", str(base / "d" / "x")):
            assert look("artifact_exists", path=path).code == look("file_sha256", path=path).code == "UNREADABLE"


def test_a_folder_that_may_be_entered_but_not_listed_is_walked_through(look: Look, base: Path):
    """Passing through a directory asks for no more than the system does."""
    (base / "d").mkdir()
    (base / "d" / "x").write_bytes(b"x")
    (base / "d").chmod(0o711 if os.geteuid() == 0 else 0o311)
    with unprivileged():
        assert look("file_sha256", path="d/x").facts["size"] == 1
        assert look("file_sha256", path="d/gone").facts == {"exists": False, "type": None, "near": []}


def test_a_file_that_may_not_be_read_is_there_and_has_no_digest(look: Look, base: Path):
    """Existence needs no permission to read; content does."""
    (base / "x").write_bytes(b"x")
    (base / "x").chmod(0o000)
    with unprivileged():
        assert look("artifact_exists", path="x") == Seen({"exists": True, "type": "file"})
        assert look("file_sha256", path="x").code == "UNREADABLE"


def test_a_database_that_may_not_be_read_is_not_a_missing_row(look: Look, base: Path):
    """Permission is a reason for databases too."""
    with closing(sqlite3.connect(base / "db")) as writer:
        writer.execute("create table t(id)")
    (base / "db").chmod(0o000)
    with unprivileged():
        assert look("db_row", table="t", where={"id": 1}, metadata={"db_path": "db"}).code == "UNREADABLE"


@pytest.mark.skipif(os.geteuid() != 0, reason="takes two users")
def test_a_live_log_of_another_user_is_read_without_writing(look: Look, base: Path):
    """Whoever may only read a database in use still sees its newest rows."""
    with closing(sqlite3.connect(base / "db", isolation_level=None)) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("create table t(id)")
        writer.execute("insert into t values (1)")
        with unprivileged():
            seen = look("db_row", table="t", where={"id": 1}, metadata={"db_path": "db"})
    assert seen.facts["matching"] == 1
