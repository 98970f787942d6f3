"""backup: one file from which a person can go on, proven before it has its name."""

import fcntl
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from agentos.errors import StoreBusyError
from tests.support import dump, execute
from tests.unit.checkpoints.steps import wrote
from tests.unit.cli.program import agentos, on_a_terminal


@pytest.fixture
def kept(db: Path, tmp_path: Path) -> Path:
    """A task with three checkpoints whose files are kept; the vault's objects."""
    with CheckpointManager(db, tmp_path, keep=True) as manager:
        for text in ("one", "two", "three"):
            wrote(manager, "a", text * 90)
    return tmp_path / "vault" / "objects"


def unpacked(archive: Path, to: Path) -> Path:
    """What any tar makes of it: the registry in its folder."""
    to.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", to], check=True)
    [top] = to.iterdir()
    assert ["README.txt", "registry.sqlite", "vault"] == sorted(path.name for path in top.iterdir())
    return top / "registry.sqlite"


def test_a_backup_is_restored_as_its_readme_says(db: Path, kept: Path, tmp_path: Path):
    """By tar and two moves: the same rows, the same contents, and the task goes on from there."""
    archive = tmp_path / "backup.tar"
    ended = agentos("backup", archive, "--db", db)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert f"{archive}: 1 task, 3 kept contents, " in ended.stdout
    assert "all of it is there, and as it was written" in ended.stdout
    rows, contents = dump(db), {path.name: path.read_bytes() for path in kept.rglob("??*") if path.is_file()}
    registry = unpacked(archive, tmp_path / "unpacked")
    assert "agentos doctor --deep" in (registry.parent / "README.txt").read_text()
    for path in (db, *tmp_path.glob("registry.sqlite-*")):
        path.unlink()
    (tmp_path / "vault").rename(tmp_path / "damaged-vault")
    registry.rename(db)
    (registry.parent / "vault").rename(tmp_path / "vault")
    assert rows == dump(db)
    assert contents == {path.name: path.read_bytes() for path in kept.rglob("??*") if path.is_file()}
    assert 0 == agentos("doctor", "--deep", "--db", db).returncode
    (tmp_path / "a").write_text("changed since")
    with CheckpointManager(db, tmp_path) as manager:
        assert {"a": "three" * 90} == manager.resume("t", {}, repair=True)
    assert "three" * 90 == (tmp_path / "a").read_text()


def test_it_is_for_its_owner_alone(db: Path, kept: Path, tmp_path: Path):
    """The file, and the folder that is unpacked."""
    archive = tmp_path / "backup.tar"
    told = json.loads(agentos("backup", archive, "--db", db, "--json").stdout)
    assert (str(archive), archive.stat().st_size, True) == (told["path"], told["bytes"], told["checkup"]["is_sound"])
    assert 0o600 == archive.stat().st_mode & 0o777
    with tarfile.open(archive) as tar:
        modes = {member.mode for member in tar if member.isfile()}, [member.mode for member in tar if member.isdir()]
    assert ({0o600}, [0o700]) == modes


def test_what_is_there_is_replaced_only_after_a_yes(db: Path, kept: Path, tmp_path: Path):
    """A script that forgot --yes overwrites nothing; on a terminal it is asked."""
    archive = tmp_path / "backup.tar"
    archive.write_text("precious")
    ended = agentos("backup", archive, "--db", db)
    assert (Exit.USAGE, "precious") == (ended.returncode, archive.read_text())
    code, said = on_a_terminal("backup", archive, "--db", db, typed="n\n")
    assert (Exit.INTERRUPTED, True, "precious") == (code, "is there already. Replace it?" in said, archive.read_text())
    assert 0 == agentos("backup", archive, "--yes", "--db", db).returncode
    assert tarfile.is_tarfile(archive)


@pytest.mark.parametrize("name", ["vault/backup.tar", "registry.sqlite-wal", "other.sqlite", "", "no/such/folder/b.tar"])
def test_a_name_that_would_do_harm_is_refused(db: Path, kept: Path, tmp_path: Path, name: str):
    """In the vault, in the place of a registry, a folder, nowhere: a sentence, and nothing is left behind."""
    before = sorted(tmp_path.rglob("*"))
    ended = agentos("backup", tmp_path / name, "--yes", "--db", db)
    assert ended.returncode in (Exit.USAGE, Exit.UNAVAILABLE)
    assert ended.stderr.startswith("agentos: ")
    assert before == sorted(tmp_path.rglob("*"))


def test_what_is_damaged_gets_no_name_unless_that_is_wanted(db: Path, kept: Path, tmp_path: Path):
    """A backup that is not sound is none; who wants what is left says so, and the exit code says what it is."""
    archive = tmp_path / "backup.tar"
    execute(db, "update steps set verified = 0 where place = 1")
    ended = agentos("backup", archive, "--db", db)
    assert (Exit.DIFFERS, False) == (ended.returncode, archive.exists())
    assert "is not sound: 1 x row" in ended.stderr
    ended = agentos("backup", archive, "--damaged", "--db", db)
    assert (Exit.DIFFERS, True) == (ended.returncode, archive.exists())
    assert dump(db) == dump(unpacked(archive, tmp_path / "unpacked"))


def test_without_a_vault_the_registry_is_all_there_is(made: dict[str, str], db: Path, tmp_path: Path):
    """Nothing was ever kept: the backup has the registry, and is sound."""
    ended = agentos("backup", tmp_path / "b.tar", "--db", db)
    assert (0, True) == (ended.returncode, "1 task, 0 kept contents, " in ended.stdout)


def test_what_a_dead_one_left_is_removed_by_the_next(db: Path, kept: Path, tmp_path: Path):
    """Its folder has no holder any more; that of one at work has, and stays."""
    archive = tmp_path / "backup.tar"
    for name in ("dead", "alive"):
        (tmp_path / f".backup.tar.{name}.part").mkdir()
    alive = os.open(tmp_path / ".backup.tar.alive.part", os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    assert 0 == agentos("backup", archive, "--db", db).returncode
    os.close(alive)
    assert [".backup.tar.alive.part"] == [path.name for path in tmp_path.iterdir() if path.name.startswith(".backup")]


def test_nothing_is_removed_while_it_is_copied_and_whoever_keeps_goes_on(db: Path, kept: Path, tmp_path: Path):
    """Between the copy of the registry and the last content: collecting waits, and gives up in its time; keeping does not."""
    asked: list[str] = []

    def others(what: str, done: int, total: int) -> None:
        if what == "copying" and not asked:
            asked.append(what)
            with CheckpointManager(db, tmp_path, keep=True, lock_timeout=0.2) as other:
                with pytest.raises(StoreBusyError):
                    other.collect()
                wrote(other, "a", "four" * 90)

    with CheckpointManager(db, readonly=True) as manager:
        made = manager.backup(tmp_path / "b.tar", progress=others)
    assert (["copying"], True, 3) == (asked, made.checkup.is_sound, made.checkup.rows["steps"])
