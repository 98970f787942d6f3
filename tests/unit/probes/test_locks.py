"""A look never drops a lock that this process holds: POSIX takes them all away when any descriptor of the file is closed.

Each attack is also run with the answer switched off, and must then succeed: otherwise these tests would prove nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from agentos import _descriptors as descriptors
from agentos.core.checkpoints.observing import Seen, Unseen
from agentos.probes import content, elsewhere, file_sha256, hashing, readonly_sqlite
from tests.unit.probes.databases import Look

OVERLOOK = "import agentos._descriptors as d, agentos.probes.content as f; d.held = f.held = lambda status: []"


def other_process(program: str, *arguments: object) -> str:
    """What another process prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


TAKE_LOCK = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    writer.execute("begin immediate")
    print("taken")
except sqlite3.OperationalError as error:
    print(error)
"""


LOCK_FILE = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("taken")
except OSError:
    print("locked")
"""


@pytest.fixture
def database(base: Path) -> Path:
    with closing(sqlite3.connect(base / "db")) as writer:
        writer.execute("create table t(id)")
    return base / "db"


def overlook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "held", lambda status: [])
    monkeypatch.setattr(content, "held", lambda status: [])


@pytest.mark.parametrize("answered", [True, False])
def test_hashing_a_locked_database_keeps_its_lock(look: Look, database: Path, monkeypatch, answered):
    """This process is in the middle of a write; after the hash nobody else can get in, and without the answer anybody can."""
    if not answered:
        overlook(monkeypatch)
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        seen = look("file_sha256", path="db")
        assert isinstance(seen, Seen)
        said = other_process(TAKE_LOCK, database)
    assert said == ("database is locked" if answered else "taken")


COMMIT_A_HUNDRED = """
import sqlite3, sys
from agentos.core.checkpoints import Evidence, EvidenceVerifier
{overlook}
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("pragma journal_mode=wal")
writer.execute("pragma synchronous=full")
writer.execute("create table t(id)")
claim = Evidence("file_sha256", "the registry itself", {{"path": sys.argv[1], "sha256": "0" * 64}})
EvidenceVerifier().verify_evidence(claim)
print(claim.result.code, flush=True)
sys.stdin.readline()
for number in range(100):
    writer.execute("insert into t values (?)", (number,))
print("acknowledged", flush=True)
sys.stdin.readline()
"""

OPEN_AND_CLOSE = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select * from t').fetchall(); c.close()"


@pytest.mark.parametrize("answered", [True, False])
def test_acknowledged_commits_survive_a_hash_of_their_own_database(base: Path, answered):
    """Hash the registry, let others open and close it, commit 100 rows, die: all are there, or none without the answer."""
    program = COMMIT_A_HUNDRED.format(overlook="" if answered else OVERLOOK)
    path = base / "registry.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as agent:
        assert agent.stdin
        assert agent.stdout
        assert agent.stdout.readline() == "HASH_MISMATCH\n"
        other_process(OPEN_AND_CLOSE, path)
        agent.stdin.write("go on\n")
        assert agent.stdout.readline() == "acknowledged\n"
        agent.send_signal(signal.SIGKILL)
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("select count(*) from t").fetchone() == ((100,) if answered else (0,))


def test_a_file_opened_while_it_is_hashed_is_not_closed_under_its_lock(look: Look, database: Path, monkeypatch):
    """A thread locks the file in the middle of the hash: the descriptor is parked, and closed when the file is free again."""
    real, opened = hashing.measure, []

    def measure(*arguments):
        writer = sqlite3.connect(database, isolation_level=None)
        writer.execute("begin immediate")
        opened.append(writer)
        monkeypatch.setattr(file_sha256, "measure", real)
        return real(*arguments)

    monkeypatch.setattr(file_sha256, "measure", measure)
    assert isinstance(look("file_sha256", path="db"), Seen)
    assert other_process(TAKE_LOCK, database) == "database is locked"
    assert len(descriptors._parked) == 1
    opened[0].close()
    descriptors.release_parked()
    assert not descriptors._parked
    assert descriptors._ours == set()


def test_a_lock_of_another_kind_is_kept_too(look: Look, base: Path):
    """Any file this process has open is read elsewhere, not only databases."""
    with open(base / "x", "w+b") as file:
        file.write(b"locked")
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX)
        seen = look("file_sha256", path="x")
        taken = other_process(LOCK_FILE, base / "x")
    assert isinstance(seen, Seen)
    assert seen.facts["size"] == 6
    assert taken == "locked"


def test_a_database_read_for_a_row_keeps_its_lock(look: Look, database: Path):
    """db_row goes through SQLite's own table of locks: the writer of this process stays the only one."""
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        seen = look("db_row", table="t", where={"id": 1}, metadata={"db_path": "db"})
        assert other_process(TAKE_LOCK, database) == "database is locked"
    assert isinstance(seen, Seen)


@pytest.mark.parametrize("answered", [True, False])
def test_a_database_that_this_process_locked_by_itself_is_not_read(look: Look, base: Path, wal: Path, monkeypatch, answered):
    """A lock that SQLite knows nothing of would be gone when it closes the file; without the answer it is."""
    if not answered:
        monkeypatch.setattr(readonly_sqlite, "_refuse_locked_here", lambda *_: None)
    with open(wal, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
        seen = look("db_row", table="t", where={"id": 1}, metadata={"db_path": "db"})
        taken = other_process(LOCK_FILE, wal)
    if answered:
        assert isinstance(seen, Unseen)
        assert ("DATABASE_BUSY", "locked") == (seen.code, taken)
    else:
        assert taken == "taken"


@pytest.mark.parametrize("name", ["plain", "with space", "quote'\"$(x)", "-I", "ünï\u202e", "new\nline"])
def test_the_child_process_reads_any_name(look: Look, base: Path, name):
    """No shell, no encoding and no option parser comes between the name and the file."""
    with open(base / name, "wb") as file:
        file.write(b"content")
        file.flush()
        for path in (name, str(base / name)):
            assert look("file_sha256", path=path).facts["size"] == 7


def test_the_child_process_ends_at_the_deadline(look: Look, base: Path, monkeypatch):
    """A child that does not answer is killed, and does not outlive the look."""
    monkeypatch.setattr(hashing, "__file__", str(base / "sleep.py"))
    (base / "sleep.py").write_text(f"import os, time; open({str(base / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    started = time.monotonic()
    with open(base / "x", "wb"):
        assert look("file_sha256", path="x", around={"timeout": 1.0}).code == "TIMED_OUT"
    assert time.monotonic() - started < 5
    child = (base / "pid").read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)


@pytest.mark.parametrize("attribute", ["executable", "frozen"])
def test_without_an_interpreter_the_file_is_not_read_at_all(look: Look, base: Path, monkeypatch, attribute):
    """A frozen program must not be started a second time; then the file cannot be seen, which is better than a lost lock."""
    monkeypatch.setattr(sys, attribute, "" if attribute == "executable" else True, raising=False)
    with open(base / "x", "wb"):
        seen = look("file_sha256", path="x")
    assert isinstance(seen, Unseen)
    assert seen.code == "NO_CHILD_PROCESS"


@pytest.mark.parametrize("program", ["print('rubbish')", "print([1])", "raise SystemExit(3)"])
def test_a_child_that_talks_nonsense_is_not_believed(look: Look, base: Path, monkeypatch, program):
    """Whatever the child says that is no answer is a reason."""
    monkeypatch.setattr(hashing, "__file__", str(base / "odd.py"))
    (base / "odd.py").write_text(program)
    with open(base / "x", "wb"):
        assert look("file_sha256", path="x").code == "NO_CHILD_PROCESS"


def test_a_file_that_vanishes_before_the_child_opens_it_is_looked_for_again(look: Look, base: Path, monkeypatch):
    """The child's ENOENT is a change while looking, not a digest and not a guess."""
    real = elsewhere.measure_elsewhere

    def vanish(*arguments):
        (base / "x").unlink(missing_ok=True)
        return real(*arguments)

    monkeypatch.setattr(file_sha256, "measure_elsewhere", vanish)
    with open(base / "x", "wb"):
        assert look("file_sha256", path="x").facts["exists"] is False


def test_descriptors_that_only_name_a_file_are_not_in_the_way(look: Look, base: Path, monkeypatch):
    """An O_PATH descriptor can hold no lock, so the file is read here."""
    (base / "x").write_bytes(b"x")
    monkeypatch.setattr(file_sha256, "measure_elsewhere", None)
    descriptor = os.open(base / "x", os.O_PATH)
    try:
        assert isinstance(look("file_sha256", path="x"), Seen)
    finally:
        os.close(descriptor)


def test_without_a_listing_every_number_is_tried(base: Path, monkeypatch):
    """No /proc must not mean that an open file is overlooked."""
    (base / "x").write_bytes(b"x")

    def nothing(_: object) -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(os, "listdir", nothing)
    monkeypatch.setattr(descriptors, "_MOST", 1024)
    with open(base / "x", "rb") as file:
        assert descriptors.held(os.stat(base / "x")) == [file.fileno()]
    assert descriptors.held(os.stat(base / "x")) == []
