"""Reading somebody's database leaves no trace beside it, sees what was committed, and settles nothing for others."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from agentos.core.checkpoints.observing import Seen
from agentos.probes import private_copy, tables
from tests.unit.probes.databases import everything, found, observe, reason, writing


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate", "persist"])
def test_looking_changes_nothing(look, base, mode):
    """Byte for byte, time for time, name for name: in every mode the folder is the same before and after."""
    with writing(base / "db", mode) as writer:
        writer.execute("create table t(id, v)")
        writer.execute("insert into t values (1, 'old')")
    before = everything(base)
    assert found(look) == 1
    assert everything(base) == before


def test_a_database_at_rest_in_wal_mode_gets_no_files(look, base, wal):
    """mode=ro alone would leave -shm and -wal beside a database it was only to look at; it really would."""
    assert found(look) == 1
    assert [entry.name for entry in base.iterdir()] == ["db"]
    with closing(sqlite3.connect(f"file:{wal}?mode=ro", uri=True)) as naive:
        naive.execute("select * from t").fetchall()
        assert sorted(entry.name for entry in base.iterdir()) == ["db", "db-shm", "db-wal"]


def test_rows_that_are_only_in_the_log_are_seen(look, base, wal):
    """A database in use is read as its users see it: the newest commit counts, not the newest checkpoint."""
    with writing(wal) as writer:
        writer.execute("update t set v = 'new'")
        assert (wal.with_name("db-wal")).stat().st_size > 0
        assert (found(look, "old"), found(look, "new")) == (0, 1)
    assert found(look, "new") == 1


def test_what_is_not_committed_is_not_seen(look, base, wal):
    """Somebody's open transaction is not the state of the world."""
    with writing(wal) as writer:
        writer.execute("begin immediate")
        writer.execute("update t set v = 'new'")
        assert (found(look, "old"), found(look, "new")) == (1, 0)


def abandoned(base: Path) -> None:
    """A writer died: its log is there, and after a copy or a reboot the index of it is not."""
    with writing(base / "db") as writer:
        writer.execute("update t set v = 'new'")
        for suffix in ("", "-wal"):
            shutil.copy(base / f"db{suffix}", base / f"copy{suffix}")
    os.replace(base / "copy", base / "db")
    os.replace(base / "copy-wal", base / "db-wal")


def test_a_log_without_an_index_is_read_from_a_private_copy(look, base, wal, tmp_path, monkeypatch):
    """The committed rows of an abandoned log are seen; beside it nothing is written, and the copy is gone afterwards."""
    abandoned(base)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    before = everything(base)
    assert (found(look, "old"), found(look, "new")) == (0, 1)
    assert everything(base) == before
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_log_too_large_to_copy_is_a_reason(look, base, wal, monkeypatch):
    """Looking does not fill the disk."""
    abandoned(base)
    monkeypatch.setattr(private_copy, "MOST_BYTES", 1000)
    assert reason(look) == "TOO_LARGE_TO_COPY"


def test_a_log_that_changes_while_it_is_copied_is_a_reason(look, base, wal, monkeypatch):
    """Database and log must be of one moment."""
    abandoned(base)
    real = private_copy._copy

    def copy(*arguments):
        real(*arguments)
        with open(base / "db-wal", "ab") as log:
            log.write(b"more")

    monkeypatch.setattr(private_copy, "_copy", copy)
    assert reason(look) == "CHANGED_WHILE_READING"


def test_a_database_this_process_keeps_to_itself_is_not_copied_from_under_it(look, base, wal):
    """In exclusive mode there is a log and no index; opening the file here would drop that very lock."""
    with closing(sqlite3.connect(wal, isolation_level=None)) as writer:
        writer.execute("pragma locking_mode=exclusive")
        writer.execute("update t set v = 'new'")
        assert sorted(entry.name for entry in base.iterdir()) == ["db", "db-wal"]
        assert reason(look) == "DATABASE_BUSY"


def test_a_database_that_wakes_up_while_it_is_read_is_read_again(look, base, wal, monkeypatch):
    """Without locks only stillness proves anything: a writer that came meanwhile makes it a new look, with locks."""
    real = tables._names

    def names(*arguments):
        monkeypatch.setattr(tables, "_names", real)
        with writing(wal) as writer:
            writer.execute("update t set v = 'new'")
        return real(*arguments)

    monkeypatch.setattr(tables, "_names", names)
    assert found(look, "new") == 1


def test_damage_seen_while_somebody_wrote_is_no_damage(look, base, wal, monkeypatch):
    """Torn pages look like damage. If the file changed meanwhile that is what is said, however reading failed."""

    def fail(*_):
        os.utime(wal)
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    monkeypatch.setattr(tables, "_names", fail)
    assert reason(look) == "CHANGED_WHILE_READING"


def test_a_locked_database_is_not_a_missing_row(look, base, monkeypatch):
    """A writer with the exclusive lock makes it impossible to look, for as long as patience lasts."""
    monkeypatch.setattr(tables, "MOST_PATIENCE", 0.2)
    with writing(base / "db", "delete") as writer:
        writer.execute("create table t(id, v)")
        writer.execute("begin exclusive")
        started = time.monotonic()
        assert reason(look) == "DATABASE_BUSY"
        assert 0.2 <= time.monotonic() - started < 3
        assert reason(look, timeout=0.1) == "DATABASE_BUSY"


def test_a_writer_that_finishes_in_time_is_waited_for(look, base):
    """A lock that is given back within the patience costs no more than the wait."""
    with closing(sqlite3.connect(base / "db", isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("create table t(id, v)")
        writer.execute("begin exclusive")
        writer.execute("insert into t values (1, 'old')")
        timer = threading.Timer(0.2, lambda: writer.execute("commit"))
        timer.start()
        assert found(look) == 1
        timer.join()


DIE_IN_A_TRANSACTION = """
import os, sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("pragma cache_size=1")
writer.execute("begin")
writer.execute("update t set v = 'torn'")
writer.execute("insert into t select id + 1, hex(randomblob(2000)) from t, (select 1 union select 2 union select 3)")
for _ in range(6):
    writer.execute("insert into t select id + 1, hex(randomblob(2000)) from t")
os.kill(os.getpid(), 9)
"""


def test_an_unfinished_transaction_is_left_to_its_owner(look, base):
    """A hot journal is not rolled back by somebody who only looks: the file and its journal stay as they are."""
    with writing(base / "db", "delete") as writer:
        writer.execute("create table t(id, v)")
        writer.execute("insert into t values (1, 'old')")
    died = subprocess.run([sys.executable, "-c", DIE_IN_A_TRANSACTION, base / "db"], check=False)
    assert died.returncode == -signal.SIGKILL
    assert (base / "db-journal").stat().st_size > 0
    before = everything(base)
    assert reason(look) == "HOT_JOURNAL"
    assert everything(base) == before


def test_a_stale_journal_beside_an_empty_file_is_left_alone(look, base):
    """SQLite deletes such a journal when it may write; a look may not."""
    (base / "db").touch()
    (base / "db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 600)
    before = everything(base)
    observe(look)
    assert everything(base) == before


def test_a_log_beside_an_empty_database_is_not_deleted(look, base, wal):
    """After a power cut the log may be all there is. SQLite would delete it, even when it is only to read; it really would."""
    with writing(wal) as writer:
        writer.execute("update t set v = 'new'")
        for suffix in ("-wal", "-shm"):
            shutil.copy(base / f"db{suffix}", base / f"kept{suffix}")
    for suffix in ("-wal", "-shm"):
        os.replace(base / f"kept{suffix}", base / f"db{suffix}")
    os.truncate(wal, 0)
    before = everything(base)
    seen = observe(look)
    assert isinstance(seen, Seen)
    assert seen.facts["problem"] == "NO_SUCH_TABLE"
    assert everything(base) == before
    with closing(sqlite3.connect(f"file:{wal}?mode=ro", uri=True)) as naive:
        naive.execute("select * from sqlite_master").fetchall()
        assert not (base / "db-wal").exists()


def test_a_journal_beside_a_database_at_rest_is_not_overlooked(look, base, wal):
    """An immutable look would not see that a transaction is unfinished."""
    (base / "db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 600)
    before = everything(base)
    assert reason(look) == "HOT_JOURNAL"
    assert everything(base) == before


def test_what_only_looks_like_a_log_is_not_read(look, base, wal, tmp_path):
    """A link or a FIFO in the place of the log is neither followed nor waited for."""
    for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo):
        make(base / "db-wal")
        assert reason(look) == "NOT_A_DATABASE"
        (base / "db-wal").unlink()
