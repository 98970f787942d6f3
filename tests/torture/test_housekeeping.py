"""Backups beside writers, and kills in the middle of a backup, an export, an import and a removal.

A backup is whole and has every checkpoint that was committed before it began; whatever was killed left what was there before or
what was to be, and the same call again does the rest.
"""

import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.store import ensure_migrations
from tests.faults.inject import sweep_errors
from tests.faults.record import Recorder
from tests.support import dump, environment
from tests.torture import stored
from tests.unit.cli.program import agentos

WRITERS = 8


def ids(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {each for (each,) in connection.execute("select checkpoint_id from checkpoints")}


def committed(folder: Path) -> set[str]:
    """Every checkpoint that a writer was told is committed."""
    lines = [path.read_text() for path in folder.glob("committed-*")]
    return {line for text in lines for line in text.rpartition("\n")[0].splitlines()}


def unpacked(archive: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(to, filter="data")
    [top] = to.iterdir()
    return top / "registry.sqlite"


def sound(path: Path) -> bool:
    with CheckpointManager(path, readonly=True) as manager:
        return manager.check(deep=True).is_sound


@contextmanager
def writing(folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Writers at work, and one that removes what nothing needs."""
    names = [*map(str, range(WRITERS)), "collector"]
    line = [sys.executable, "-m", "tests.torture.backing", str(folder)]
    processes = [subprocess.Popen([*line, name], env=environment()) for name in names]
    try:
        yield processes
    finally:
        for each in processes:
            each.kill()
            each.wait()


def test_a_backup_beside_eight_writers_is_whole(tmp_path: Path, count):
    """Each one unpacks to a registry and a vault in which nothing is missing, with all that was committed before it began."""
    ensure_migrations(tmp_path / "store" / "registry.sqlite")
    taken, least = 0, 0
    with writing(tmp_path) as processes:
        while taken < count(2, 8):
            before = committed(tmp_path)
            if len({line.read_text() for line in tmp_path.glob("committed-*")}) < WRITERS or len(before) < least + 40:
                assert [None] * len(processes) == [each.poll() for each in processes]
                time.sleep(0.05)
                continue
            ended = agentos("backup", tmp_path / "backup.tar", "--yes", "--db", tmp_path / "store" / "registry.sqlite")
            assert 0 == ended.returncode, ended.stderr
            copy = unpacked(tmp_path / "backup.tar", tmp_path / "unpacked")
            assert sound(copy)
            assert set() == before - ids(copy)
            taken, least = taken + 1, len(before)
    after = committed(tmp_path)
    print(f"{taken} backups beside {WRITERS} writers, {len(after)} checkpoints, {least} of them before the last one")
    assert sound(tmp_path / "store" / "registry.sqlite")


# Kills.


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a registry with something of everything in it, an archive of a task, and an empty registry."""
    path = stored.make(tmp_path_factory.mktemp("whole"))
    assert 0 == agentos("export", "named", path.parent / "named.tar", "--db", path).returncode
    ensure_migrations(path.parent / "other" / "registry.sqlite")
    (path.parent / "tmp").mkdir()
    return path.parent


ARGUMENTS = {
    "backup": ("backup", "backup.tar", "--db", "registry.sqlite"),
    "export": ("export", "ws", "ws.tar", "--db", "registry.sqlite"),
    "import": ("import", "named.tar", "--db", "other/registry.sqlite"),
    "prune": ("prune", "--keep-verified", "2", "--yes", "--db", "registry.sqlite"),
}


def argv(to: Path, verb: str) -> list[str]:
    words = [str(to / word) if "." in word else word for word in ARGUMENTS[verb]]
    return ["env", f"TMPDIR={to / 'tmp'}", sys.executable, "-m", "agentos", *words]


def wrong(verb: str, to: Path, before: dict[str, list[tuple[object, ...]]]) -> Iterator[str]:
    """What is neither as it was nor as it was to be."""
    if not sound(to / "registry.sqlite"):
        yield "the registry is not sound"
    if verb in ("backup", "export") and dump(to / "registry.sqlite") != before:
        yield "the registry changed"
    if verb == "backup" and (to / "backup.tar").exists() and not sound(unpacked(to / "backup.tar", to / "tmp" / "unpacked")):
        yield "a backup that is not sound"
    if verb == "export" and (to / "ws.tar").exists():
        shutil.rmtree(to / "again", ignore_errors=True)
        ensure_migrations(to / "again" / "registry.sqlite")
        if agentos("import", to / "ws.tar", "--db", to / "again" / "registry.sqlite").returncode:
            yield "an archive that cannot be imported"
    if verb == "import":
        other = to / "other" / "registry.sqlite"
        if not sound(other):
            yield "the other registry is not sound"
        if len(dump(other)["steps"]) not in (0, len([row for row in before["steps"] if row[2] == "named"])):
            yield "half a task came in"


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_kill_at_any_call_leaves_before_or_after(
    recorder: Recorder, tmp_path: Path, whole: Path, rng: Random, count, verb: str
):
    """SIGKILL at each call that writes; then the same again, which ends as if nothing had been, and leaves nothing behind."""
    before, fallen, done = dump(whole / "registry.sqlite"), 0, 0

    def fill(to: Path) -> None:
        shutil.copytree(whole, to, dirs_exist_ok=True)

    for run in sweep_errors(
        recorder,
        lambda to: argv(to, verb),
        tmp_path / "sweep",
        rng,
        actions=["SIGKILL"],
        lasting=[False],
        count=count(5, 120),
        prepare=fill,
    ):
        assert run.recording.returncode in (-9, 137), run.recording.stderr
        assert [] == list(wrong(verb, run.directory, before)), run.fault
        again = subprocess.run([*argv(run.directory, verb), *(["--yes"] if verb in ("backup", "export") else [])],
                               env=environment(), capture_output=True, check=False)  # fmt: skip
        done += again.returncode != 0
        assert again.returncode == 0 or (verb == "import" and b"is here already" in again.stderr), again.stderr
        assert [] == list(wrong(verb, run.directory, before)), run.fault
        assert [] == [path for path in run.directory.iterdir() if path.name.endswith(".part")]
        fallen += 1
    print(f"{verb}: killed at {fallen} different calls; {done} had been done before the kill")
