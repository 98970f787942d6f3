"""No look writes to, creates, locks or unlocks what it looks at: every type, on a world that is compared before and after."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints.kinds import KINDS, kind_of
from agentos.core.checkpoints.models import EvidencePack
from agentos.core.checkpoints.verifier import EvidenceVerifier
from tests.unit.probes.everything import World, world

# In the index of a log that is in use each reader says how far it sees: it is a part of SQLite's locks, and of no content. And
# who reads as root gives the log the owner of its database, who it has already; that too leaves its time.
_MARKS = slice(100, 120)
_TIMES_OF = {"-shm": 2, "-wal": 1}

Trace = dict[str, tuple[Any, ...]]


def trace(folder: Path) -> Trace:
    """All that is known of everything beneath a folder, but when it was last read."""
    found = {".": status_of(folder)}
    for where, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(where, name)
            found[str(path.relative_to(folder))] = (*status_of(path), content_of(path), *attributes_of(path))
    return found


def status_of(path: Path) -> tuple[Any, ...]:
    found = path.lstat()
    times = (found.st_mtime_ns, found.st_ctime_ns)
    kept = times[: 2 - _TIMES_OF.get(path.name[-4:], 0)]
    return (found.st_mode, found.st_ino, found.st_nlink, found.st_uid, found.st_gid, found.st_size, *kept)


def content_of(path: Path) -> Any:
    """The bytes as anybody reads them, in another process: closing a file here would drop locks."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return os.readlink(path)
    if not stat.S_ISREG(mode):
        return None
    content = bytearray(subprocess.run(["cat", path], capture_output=True, check=True).stdout)
    if path.name.endswith("-shm"):
        content[_MARKS] = b""
    return bytes(content)


def attributes_of(path: Path) -> list[Any]:
    return [(name, os.getxattr(path, name, follow_symlinks=False)) for name in os.listxattr(path, follow_symlinks=False)]


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where things might be left by the way: the current folder, the home, and what is for temporary files."""
    for variable, name in (("HOME", "home"), ("TMPDIR", "temporary"), ("XDG_CONFIG_HOME", "home/config"), ("", "current")):
        (tmp_path / "around" / name).mkdir(parents=True)
        if variable:
            monkeypatch.setenv(variable, str(tmp_path / "around" / name))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path / "around/current")
    return tmp_path / "around"


@pytest.fixture
def everything(base: Path, tmp_path: Path, around: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 's'}")
    with world(base, tmp_path / "s") as made:
        yield made


def looked(made: World, kind: str) -> tuple[str, str]:
    """What came of the claim that holds, and of one look at the other one."""
    verifier, (holds, differs) = EvidenceVerifier(made.base, timeout=20), made.claims[kind]
    verifier.verify_evidence_pack(EvidencePack([holds]))
    once = kind_of(differs).result(differs, verifier.observe(differs, verifier.around, once=True))
    assert holds.result is not None
    return holds.result.outcome.value, once.outcome.value


def test_a_look_leaves_no_trace(everything, around):
    """Whether the claim holds or not: no name, byte, time, mode or link is another one, here or anywhere around."""
    assert set(KINDS) == {kind.partition(" ")[0] for kind in everything.claims}
    before, beside = trace(everything.base), trace(around)
    for kind in everything.claims:
        assert (kind, "verified", "failed") == (kind, *looked(everything, kind))
        assert (kind, before) == (kind, trace(everything.base))
    # Folders for a moment are made in the one for temporary files, and leave its time of change.
    left = {name: found for name, found in trace(around).items() if name != "temporary"}
    assert {name: found for name, found in beside.items() if name != "temporary"} == left


def test_services_are_asked_and_never_told(everything):
    """What goes over a wire is a question without a body, or nothing at all."""
    for kind in ("network_reachable", "api_response", "container_running", "port_listening"):
        assert ("verified", "failed") == looked(everything, kind)
    heard = [each for each in everything.asked if each]
    assert heard
    assert all(each.startswith(b"GET ") and each.endswith(b"\r\n\r\n") for each in heard)
    assert all(target.endswith("/json") for target in everything.engine.asked)


# Takes every lock there is on each file.
LOCK_ALL = """
import fcntl, sys
files = [open(path, "r+b") for path in sys.argv[1:]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""
FILES = ("log", "data.json", "tree/.gitignore", "tree/inner/run.sh", "repo/a", "repo/.git/HEAD", "repo/.git/index", "rest")
IN_USE = ("used", "old")


def lockless(made: World) -> list[str]:
    """All but looks at databases that somebody uses: those are read with SQLite's shared lock."""
    return [kind for kind in made.claims if not kind.endswith(IN_USE)]


def test_a_look_takes_no_lock(everything):
    """With every file locked by somebody else it sees what it saw before, and waits for nobody."""
    paths = [str(everything.base / name) for name in FILES]
    with subprocess.Popen([sys.executable, "-c", LOCK_ALL, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"
        for kind in lockless(everything):
            assert (kind, "verified", "failed") == (kind, *looked(everything, kind))
        other.stdin.close()


TRY_ALL = """
import fcntl, sys
for path in sys.argv[1:]:
    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("free", path)
        except OSError:
            pass
"""


def test_a_look_drops_no_lock(everything):
    """This process holds a lock on every file; after the look they are all held still. What would cost one is not read."""
    paths = [str(everything.base / name) for name in FILES]
    with ExitStack() as held:
        for path in paths:
            fcntl.lockf(held.enter_context(open(path, "r+b")), fcntl.LOCK_EX)
        for kind in lockless(everything):
            expected = "error" if kind.startswith("db_row") else "verified"
            assert (kind, expected) == (kind, looked(everything, kind)[0])
            said = subprocess.run([sys.executable, "-c", TRY_ALL, *paths], capture_output=True, text=True, check=True).stdout
            assert (kind, "") == (kind, said)


LOCK_WHOLLY = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
writer.execute("begin exclusive")
writer.execute("update t set v = v")
writer.execute("commit")
print(writer.execute("pragma wal_checkpoint(truncate)").fetchone()[0])
"""


def test_a_look_at_a_database_in_use_keeps_no_lock(everything):
    """It is read with SQLite's shared lock, as everybody reads it; afterwards another process may lock all of it."""
    for kind in everything.claims.keys() - lockless(everything):
        assert (kind, "verified", "failed") == (kind, *looked(everything, kind))
        path = everything.base / kind.rpartition(" ")[2]
        done = subprocess.run([sys.executable, "-c", LOCK_WHOLLY, path], capture_output=True, text=True, check=False)
        assert (kind, "0\n", "") == (kind, done.stdout, done.stderr)


def _touched(path: Path) -> None:
    (path / "tree/passing").touch()
    (path / "tree/passing").unlink()


def _written_back(path: Path) -> None:
    found = (path / "log").stat()
    (path / "log").write_bytes((path / "log").read_bytes())
    os.utime(path / "log", ns=(found.st_atime_ns, found.st_mtime_ns))


def _index_refreshed(path: Path) -> None:
    subprocess.run(["git", "status"], cwd=path / "repo", capture_output=True, check=True)


def _opened_as_usual(path: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(f"file:{path / 'rest'}?mode=ro", uri=True)) as reader:
        reader.execute("select * from t").fetchall()


@pytest.mark.parametrize(
    "careless", [_touched, _written_back, _index_refreshed, _opened_as_usual], ids=lambda each: each.__name__
)
def test_a_trace_that_is_left_is_found(everything, careless: Callable[[Path], None]):
    """What careless probes would do is seen by the comparison."""
    before = trace(everything.base)
    careless(everything.base)
    assert before != trace(everything.base)
