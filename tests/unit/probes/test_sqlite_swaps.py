"""SQLite follows paths by itself: it may read only what the walk found, and may only read."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from unittest.mock import Mock

import pytest

from agentos.core.checkpoints.observing import Seen
from agentos.probes import readonly_sqlite, tables
from tests.unit.probes.databases import found, reason, writing

FORBIDDEN = (
    "insert into t values (2, 2)",
    "delete from t",
    "create temp table x(y)",
    "attach 'other' as o",
    "pragma journal_mode=delete",
    "pragma writable_schema=on",
    "vacuum into 'copy'",
    "commit",
    "savepoint s",
    "analyze",
)


def test_the_connection_can_only_read(look, base, wal, monkeypatch):
    """Whatever a bug might ask of it, the connection refuses to write, attach or change settings."""
    monkeypatch.chdir(base)
    real = tables._names

    def names(connection, *arguments):
        for statement in FORBIDDEN:
            with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited|readonly|within a transaction"):
                connection.execute(statement)
        return real(connection, *arguments)

    monkeypatch.setattr(tables, "_names", names)
    assert found(look) == 1
    assert [entry.name for entry in base.iterdir()] == ["db"]


def test_sqlite_must_have_opened_what_the_walk_found(look, base, wal, tmp_path, monkeypatch):
    """SQLite follows paths by itself. If the file was swapped for a link in between, what it opened is not looked at."""
    with writing(tmp_path / "secret") as writer:
        writer.execute("create table t(id, v)")
        writer.execute("insert into t values (1, 'secret')")
    real = readonly_sqlite._uri

    def swap(path, options):
        monkeypatch.setattr(readonly_sqlite, "_uri", real)
        os.rename(wal, base / "kept")
        wal.symlink_to(tmp_path / "secret")
        return real(path, options)

    monkeypatch.setattr(readonly_sqlite, "_uri", swap)
    assert reason(look) == "PATH_ESCAPES"


def test_a_swap_that_is_undone_in_time_is_noticed(look, base, wal, tmp_path, monkeypatch):
    """The path is as before when the look ends, and still another file was opened in between: its rows are not looked at."""
    with writing(tmp_path / "secret") as writer:
        writer.execute("create table t(id, v)")
        writer.execute("insert into t values (1, 'secret')")
    real_uri, real_restrict, looks = readonly_sqlite._uri, readonly_sqlite._restrict, []

    def swap(path, options):
        os.rename(wal, base / "kept")
        wal.symlink_to(tmp_path / "secret")
        return real_uri(path, options)

    def restrict(*arguments):
        looks.append(arguments)
        return real_restrict(*arguments)

    def undo(*_):
        if (base / "kept").exists():
            os.replace(base / "kept", wal)
        return []

    monkeypatch.setattr(readonly_sqlite, "_uri", swap)
    monkeypatch.setattr(readonly_sqlite, "_restrict", restrict)
    monkeypatch.setattr(readonly_sqlite, "held", undo)
    assert reason(look) == "CHANGED_WHILE_READING"
    assert looks == []


def test_a_database_replaced_while_it_is_read_is_not_answered_from(look, base, monkeypatch):
    """SQLite reads on in the file it opened; by now the path names another."""
    with writing(base / "db", "delete") as writer:
        writer.execute("create table t(id, v)")
        writer.execute("insert into t values (1, 'old')")
    shutil.copy(base / "db", base / "new")
    real = tables._names

    def replace(*arguments):
        if (base / "new").exists():
            os.replace(base / "new", base / "db")
        return real(*arguments)

    monkeypatch.setattr(tables, "_names", replace)
    looks = Mock(wraps=tables._asked)
    monkeypatch.setattr(tables, "_asked", looks)
    assert found(look) == 1
    assert looks.call_count == 2


def test_a_row_cannot_be_raced_out_of_the_base(look, base, wal, tmp_path):
    """While the folder of a database is swapped for a link to the outside, the row outside is never seen."""
    (tmp_path / "outside").mkdir()
    (base / "d").mkdir()
    shutil.move(wal, base / "d" / "db")
    with writing(tmp_path / "outside" / "db") as writer:
        writer.execute("create table t(id, v)")
        writer.execute("insert into t values (1, 'secret')")
    (base / "link").symlink_to(tmp_path / "outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for source, target in (("d", "kept"), ("link", "d"), ("d", "link"), ("kept", "d")):
                os.rename(base / source, base / target)

    attack = threading.Thread(target=swap)
    attack.start()
    end, rows = time.monotonic() + 0.7, []
    try:
        while time.monotonic() < end:
            seen = look("db_row", table="t", where={"id": 1}, values={"v": "x"}, metadata={"db_path": "d/db"})
            if isinstance(seen, Seen):
                rows.append(seen.facts.get("row", {}).get("v"))
    finally:
        stop.set()
        attack.join()
    assert "secret" not in rows
