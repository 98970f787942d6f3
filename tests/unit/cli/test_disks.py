"""At three in the morning on a disk that is full, or that the system made read-only: what is intact is still told and leaves.

Real disks: a small tmpfs is mounted, filled and remounted, if this user may do that. What was there before is there afterwards,
byte for byte, and nothing else is. With the log of a process that died beside the registry, and without one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.faults.disk import DiskUnavailableError, SmallDisk, small_disk
from tests.support import execute, run
from tests.unit.cli.program import agentos

_MAKE = """
import os, sys
from pathlib import Path
from agentos.core.checkpoints import CheckpointManager
folder, dies = Path(sys.argv[1]), sys.argv[2] == "dies"
(folder / "work").mkdir()
with CheckpointManager(folder / "store" / "registry.sqlite", folder / "work", keep=True) as manager:
    for task in ("report", "other"):
        with manager.task(task) as handle:
            state = handle.resume({"n": 0})
            for number in range(3):
                with handle.step("tool_executed", state) as step:
                    (folder / "work" / task).write_text(f"{task} {number} " * 50)
                    step.proves_file(task)
                    state["n"] = number
    print(manager.list_checkpoints("report")[0].checkpoint_id, flush=True)
    if dies:
        os._exit(0)
"""


@pytest.fixture(params=["log of a dead process", "no log"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SmallDisk, str]]:
    """A small disk with a store on it, and the newest checkpoint of the task `report`."""
    try:
        with small_disk(tmp_path / "disk", 2 << 20) as made:
            told = run(_MAKE, made.path, "dies" if request.param.startswith("log") else "ends").strip()
            assert request.param.startswith("log") is (made.path / "store" / "registry.sqlite-wal").exists()
            yield made, told
    except DiskUnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["full", "read-only"])
def stopped(request: pytest.FixtureRequest, disk: tuple[SmallDisk, str]) -> Iterator[tuple[Path, str]]:
    """The same disk, on which nothing can be written any more."""
    made, told = disk
    if request.param == "full":
        made.fill()
    else:
        made.make_read_only()
    yield made.path, told
    if request.param != "full":
        made.make_writable()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")}


def test_what_is_intact_is_told_and_nothing_is_written(stopped: tuple[Path, str], tmp_path: Path):
    """tasks, log, show, verify, recover, doctor, vault, export and backup, each with its answer and its exit code."""
    folder, checkpoint = stopped
    db, before = folder / "store" / "registry.sqlite", everything(folder)
    for arguments, expected, code in (
        (("tasks",), "report", 0),
        (("log", "report"), checkpoint, 0),
        (("show", checkpoint), checkpoint, 0),
        (("verify", checkpoint), "VERIFIED", 0),
        # From where is told; but nobody could go on there, so it is not 0.
        (("recover", "report"), checkpoint, Exit.UNAVAILABLE),
        (("resume", "report", "--dry-run"), checkpoint, Exit.UNAVAILABLE),
        (("doctor", "--deep"), "everything is there", 0),
        (("vault",), "task report", 0),
        (("export", "report", tmp_path / "report.tar"), "3 kept contents", 0),
        (("backup", tmp_path / "backup.tar"), "6 kept contents", 0),
    ):
        ended = agentos(*arguments, "--db", db)
        assert (code, True) == (ended.returncode, expected in ended.stdout), (arguments, ended.stdout, ended.stderr)
        assert before == everything(folder), arguments
    other = tmp_path / "other" / "registry.sqlite"
    assert 0 == agentos("migrate", "--db", other).returncode
    assert 0 == agentos("import", tmp_path / "report.tar", "--db", other).returncode
    with CheckpointManager(other, readonly=True) as manager:
        assert checkpoint == manager.list_checkpoints("report")[0].checkpoint_id


def test_what_must_write_there_says_that_it_cannot(stopped: tuple[Path, str], tmp_path: Path):
    """A backup onto that disk, an import into that registry, a removal: a sentence, not 0, and nothing half there."""
    folder, _ = stopped
    db, before = folder / "store" / "registry.sqlite", everything(folder)
    assert 0 == agentos("export", "report", tmp_path / "report.tar", "--db", db).returncode
    for arguments in (
        ("backup", folder / "backup.tar"),
        ("export", "report", folder / "report.tar"),
        ("import", tmp_path / "report.tar"),
        ("prune", "--keep-verified", 1, "--yes"),
    ):
        ended = agentos(*arguments, "--db", db)
        assert ended.returncode in (5, 6), (arguments, ended.stdout, ended.stderr)
        assert ended.stderr.startswith("agentos: ")
    # A write that failed may leave an empty log, and the mark that what was not synced is to be settled.
    left = {Path(name).name for name in everything(folder).keys() - before.keys()}
    assert left <= {"registry.sqlite-wal", "registry.sqlite-unsettled"}
    assert 0 == agentos("doctor", "--deep", "--db", db).returncode


def test_one_damaged_task_does_not_keep_the_other_from_leaving(disk: tuple[SmallDisk, str], tmp_path: Path):
    """On a read-only disk, of which a row is damaged too: the intact task is shown, recovered and exported."""
    made, checkpoint = disk
    db = made.path / "store" / "registry.sqlite"
    execute(db, "update steps set verified = 0 where task_id = 'other' and place = 2")
    made.make_read_only()
    try:
        for arguments, code in (
            (("show", checkpoint), 0),
            (("recover", "report"), Exit.UNAVAILABLE),
            (("export", "report", tmp_path / "report.tar"), 0),
            (("export", "other", tmp_path / "other.tar"), 6),
            (("doctor",), 1),
        ):
            ended = agentos(*arguments, "--db", db)
            assert code == ended.returncode, (arguments, ended.stdout, ended.stderr)
    finally:
        made.make_writable()
