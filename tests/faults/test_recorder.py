"""The recorder and the model of the disk: what they must see, and what they must refuse.

That the harnesses built on them find planted faults is proven in test_harness.py.
"""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.faults import workload
from tests.faults.channel import Fault
from tests.faults.filesystem import Change, Entry, Filesystem
from tests.faults.record import Recorder, RecorderUnavailableError
from tests.faults.replay import SECTOR, Cut, Survival, sample_cuts, states, tear
from tests.faults.tape import Effect, Op, TapeError

EVERY_CALL = """
    import os, shutil, sys, threading
    os.chdir(sys.argv[1])
    here = os.open(".", os.O_RDONLY)
    fd = os.open("a", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"write"); os.pwrite(fd, b"pwrite", 700); os.writev(fd, [b"wri", b"tev"]); os.pwritev(fd, [b"v"], 900)
    os.ftruncate(fd, 800); os.truncate("a", 850); os.posix_fallocate(fd, 0, 1000); os.fsync(fd); os.fdatasync(fd)
    appending = os.open("a", os.O_WRONLY | os.O_APPEND)
    os.write(appending, b"at the end"); os.pwrite(appending, b"at the end too", 3)
    os.mkdir("d"); os.mkdir("e", dir_fd=here); os.rmdir("e")
    os.close(os.open("in", os.O_CREAT | os.O_WRONLY, dir_fd=os.open("d", os.O_RDONLY)))
    os.link("a", "d/b"); os.symlink("a", "s"); os.rename("d/in", "moved"); os.replace("moved", "d/again")
    with open("buffered", "w") as text: text.write("x" * 20_000)
    shutil.copyfile("buffered", "copied")
    os.copy_file_range(os.open("buffered", os.O_RDONLY), os.open("ranged", os.O_WRONLY | os.O_CREAT), 9_000)
    with open("copied", "w") as text: text.write("shorter")
    os.dup2(fd, 77); os.write(77, b"through a duplicate")
    if os.fork() == 0:
        os.write(fd, b"from a child"); os._exit(0)
    os.wait()
    os.unlink("a"); os.write(fd, b"to a file without a name")
    threads = [threading.Thread(target=lambda n=n: open(f"t{n}", "wb").write(bytes(n))) for n in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    nameless = os.open(".", os.O_TMPFILE | os.O_WRONLY); os.write(nameless, b"named later")
    os.link(f"/proc/self/fd/{nameless}", "named", src_dir_fd=here)
"""

UNSEEN = """
    import mmap, os, sys
    fd = os.open(sys.argv[1] + "/a", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"0123")
    with mmap.mmap(fd, 4) as window: window[:] = b"4567"
"""


def program(source: str, directory: Path) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source), str(directory)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


def test_every_way_of_changing_a_file_is_on_the_tape(recorder: Recorder, directory: Path):
    """A program that uses each call leaves a directory that the tape explains byte for byte; record() checks it."""
    (directory / "there before").write_bytes(b"durable")
    recording = recorder.record(program(EVERY_CALL, directory), directory)
    seen = {op.effect for op in recording.ops}
    assert set(Effect) - {Effect.ACK} == seen
    assert [] == [op for op in recording.ops if op.error]


def test_a_change_the_recorder_does_not_see_is_reported(recorder: Recorder, directory: Path):
    """A write through a mapping is on no tape, so the recording is refused and not replayed."""
    with pytest.raises(TapeError, match="does not explain a:"):
        recorder.record(program(UNSEEN, directory), directory)


def test_processes_share_one_tape_in_one_order(recorder: Recorder, directory: Path):
    """Four processes at once: no record is lost, and the order on the tape gives the bytes on the disk."""
    source = f"""
        import subprocess, sys
        argv = {workload.argv(directory, steps=10)!r}
        running = [subprocess.Popen([*argv, "--task", f"t{{n}}"]) for n in range(4)]
        sys.exit(max(process.wait() for process in running))
    """
    recording = recorder.record(program(source, directory), directory)
    assert 40 == len(recording.acks)
    assert 4 == len({ack.pid for ack in recording.acks})


def test_calls_are_counted_between_marks(recorder: Recorder, directory: Path):
    """One sync of the log per step: the count that a budget of syncs is held against, free of noise."""
    recording = recorder.record(workload.argv(directory, steps=7), directory)
    calls = recording.calls_between("start", "end")
    assert 7 == calls["fdatasync", "store.db-wal"]
    assert 7 == calls["fsync", ""]
    again = directory / "again"
    again.mkdir()
    assert recording.totals == recorder.count(workload.argv(again, steps=7), again)


def test_the_nth_call_fails_once_or_for_good(recorder: Recorder, directory: Path):
    """A fault hits the call it names; `+` hits all later ones too."""
    once = recorder.record(workload.argv(directory), directory, fault=Fault.parse("fdatasync:3:EIO"), check=False)
    assert [5] == [op.error for op in once.ops if op.call == "fdatasync" and op.error]
    assert 1 == once.fired
    lasting = recorder.record(workload.argv(directory), directory, fault=Fault.parse("pwrite64:40:ENOSPC+"), check=False)
    assert {28} == {op.error for op in lasting.ops if op.call == "pwrite"} - {0}
    assert lasting.fired > 1
    assert "disk is full" in lasting.stderr


def test_a_fault_can_be_a_signal(recorder: Recorder, directory: Path):
    """A process can be killed exactly at a call."""
    killed = recorder.record(workload.argv(directory), directory, fault=Fault("rename", 2, "SIGKILL"), check=False)
    assert -signal.SIGKILL == killed.returncode
    assert 1 == len(killed.acks)


def test_a_process_can_be_stopped_inside_a_write(recorder: Recorder, directory: Path, tmp_path: Path):
    """It holds the write lock for as long as it stands still, and nobody else is held up by the recorder."""
    fault = Fault("fdatasync", 9, "SIGSTOP")
    environment = recorder.environment(directory, tmp_path / "tape", tmp_path / "acks", fault)
    with subprocess.Popen(workload.argv(directory), env=environment) as stopped:
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        try:
            assert os.WIFSTOPPED(status)
            with (
                closing(sqlite3.connect(directory / "store.db", timeout=0)) as other,
                pytest.raises(sqlite3.OperationalError, match="locked"),
            ):
                other.execute("begin immediate")
        finally:
            stopped.kill()


def test_a_worker_arms_faults_while_it_runs(recorder: Recorder, directory: Path):
    """One process can go through many faults, without paying for a start each time."""
    source = """
        import os, sys
        from tests.faults.channel import Fault, ack, arm, disarm
        for nth in (1, 2, 3):
            fd = os.open(f"{sys.argv[1]}/{nth}", os.O_WRONLY | os.O_CREAT)
            arm(Fault("write", nth, "EIO"))
            for attempt in (1, 2, 3):
                try: os.write(fd, b"x")
                except OSError: ack(f"{nth} failed at {attempt}")
            disarm()
    """
    recording = recorder.record(program(source, directory), directory)
    assert ["1 failed at 1", "2 failed at 2", "3 failed at 3"] == [ack.text for ack in recording.acks]


def test_without_a_compiler_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A machine without a compiler skips with a sentence and does not pass silently."""
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RecorderUnavailableError, match="no C compiler: none of no-such-compiler"):
        Recorder.build(tmp_path)


def test_a_sample_of_cuts_is_the_same_for_the_same_seed(recorder: Recorder, directory: Path, seed: int):
    """Every acknowledgement is followed by a cut that drops what was not synced, and the seed decides the rest."""
    recording = recorder.record(workload.argv(directory), directory)
    cuts = sample_cuts(recording, 100, Random(seed))
    assert cuts == sample_cuts(recording, 100, Random(seed))
    assert 100 == len(set(cuts))
    dropped = {cut.prefix for cut in cuts if cut.survival is Survival.DROP}
    assert {ack.index + 1 for ack in recording.acks} <= dropped
    first, second = ([(s.description, _bytes_in(s.path)) for s in states(recording, cuts[:20])] for _ in range(2))
    assert first == second


def _bytes_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def _op(index: int, effect: Effect, path: str = "f", data: bytes = b"", **more: int | str) -> Op:
    fields = {"pid": 1, "call": "x", "other": "", "inode": 9, "offset": 0, "error": 0, **more}
    return Op(index=index, effect=effect, path=path, data=data, **fields)  # type: ignore[arg-type]


def test_a_sync_that_succeeds_after_one_that_failed_saves_nothing():
    """The kernel forgets that the pages were dirty, so trying again must not look durable."""
    disk = Filesystem([Entry("f", 9, b"old")], root_inode=1)
    disk.apply(_op(0, Effect.WRITE, data=b"new"))
    disk.apply(_op(1, Effect.SYNC, error=5))
    disk.apply(_op(2, Effect.SYNC))
    node = disk.files[0]
    assert (b"old", b"new") == (bytes(node.durable), bytes(node.live))


@pytest.mark.parametrize(("namespace", "survives"), [("strict", False), ("ext4", True)])
def test_a_new_name_is_durable_after_the_sync_its_model_asks_for(namespace, survives):
    """`strict` wants a sync of the directory, `ext4` is content with a sync of the file."""
    disk = Filesystem([], root_inode=1, namespace=namespace)
    disk.apply(_op(0, Effect.CREATE))
    disk.apply(_op(1, Effect.SYNC))
    assert survives == ("f" in disk.root.durable)
    disk.apply(_op(2, Effect.SYNC, path="", inode=1))
    assert "f" in disk.root.durable


def test_a_torn_write_ends_at_a_sector_of_the_disk(seed: int):
    """Sectors are those of the disk, not of the write; within one of them a write is whole or absent."""
    rng = Random(seed)
    sizes = {len(tear(Change(0, 100, bytes(2000)), rng).data or b"") for _ in range(300)}
    assert {0, 2000, *(n * SECTOR - 100 for n in range(1, 5))} == sizes
    assert {0, 24} == {len(tear(Change(0, 0, bytes(24)), rng).data or b"") for _ in range(100)}


def test_a_cut_prints_what_rebuilds_it():
    """The line in a failure can be pasted to get the same state."""
    cut = Cut(12, Survival.TORN, "ext4", 7)
    assert cut == eval(str(cut))


def test_the_example_in_the_readme_runs(recorder: Recorder, tmp_path: Path, seed: int):
    """What the page shows is what the parts do."""
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example, {"recorder": recorder, "tmp_path": tmp_path, "seed": seed})
