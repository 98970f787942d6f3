"""Each harness finds nothing in an honest store, and finds the fault that was planted for it.

A harness that misses its planted fault is broken, whatever it says about agentos. The store is workload.py, on plain
sqlite3. How the recorder and the model of the disk work in detail is tested in test_recorder.py.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.faults import workload
from tests.faults.corrupt import KINDS, damage, damages
from tests.faults.disk import DiskUnavailableError, SmallDisk, limit_file_size, small_disk
from tests.faults.inject import Injected, sweep_errors
from tests.faults.kill import kill_rounds, run_together
from tests.faults.record import Recorder, Recording
from tests.faults.replay import Cut, Survival, sampled_states, states

Count = Callable[[int, int], int]


@pytest.fixture
def rng(seed: int) -> Random:
    return Random(seed)


@pytest.fixture
def record_store(recorder: Recorder, tmp_path: Path) -> Callable[[str], Recording]:
    """Record one run of the store with a fault planted."""

    def record(fault: str) -> Recording:
        directory = tmp_path / "store"
        directory.mkdir()
        return recorder.record(workload.argv(directory, fault=fault), directory)

    return record


# Power cuts


def losses(recording: Recording, count: int, rng: Random, namespace="strict") -> list[str]:
    found = []
    for state in sampled_states(recording, count, rng, namespace):
        found += [f"{line} | {state.description}" for line in workload.missing(state.path, state.acked)[:1]]
    return found


@pytest.mark.parametrize("namespace", ["strict", "ext4"])
def test_power_cuts_take_nothing_from_an_honest_store(record_store, rng: Random, count: Count, namespace):
    """What was acknowledged is there in every state, under both models of names."""
    assert [] == losses(record_store("none"), count(400, 5000), rng, namespace)


@pytest.mark.parametrize(
    ("fault", "namespace", "sign"),
    [
        ("ack-early", "strict", "row lost"),
        ("normal-sync", "strict", "row lost"),
        ("normal-sync", "ext4", "row lost"),
        ("no-directory-sync", "strict", "artifact lost"),
        ("no-file-sync", "ext4", "artifact lost"),
    ],
)
def test_power_cuts_find(record_store, rng: Random, fault, namespace, sign):
    """A store that acknowledges what is not synced is found out by its first few dozen states."""
    assert any(line.startswith(sign) for line in losses(record_store(fault), 60, rng, namespace))


def test_a_missing_directory_sync_is_a_matter_of_the_model(record_store, rng: Random):
    """Under `ext4` the commit that follows saves the name, which is why `strict` is the default."""
    assert [] == losses(record_store("no-directory-sync"), 200, rng, "ext4")


# kill -9


def kill_and_compare(directory: Path, fault: str, processes: int, rng: Random, rounds: int) -> tuple[list[str], int]:
    def argv_of(number: int) -> list[str]:
        # A new round gets a new task, so that no two workers ever write the same step.
        name = f"t{rng.getrandbits(64):x}-{number}"
        return workload.argv(directory, task=name, steps=100_000, fault=fault)

    workers = [worker for group in kill_rounds(argv_of, processes, rng, rounds=rounds) for worker in group]
    assert [""] * len(workers) == [worker.stderr for worker in workers]
    assert all(worker.killed for worker in workers)
    acks = [ack for worker in workers for ack in worker.acks]
    return workload.missing(directory, acks), len(acks)


@pytest.mark.parametrize("processes", [1, 4])
def test_kills_take_nothing_from_an_honest_store(tmp_path: Path, rng: Random, count: Count, processes):
    """What was acknowledged before SIGKILL is there afterwards, and something was acknowledged."""
    lost, acked = kill_and_compare(tmp_path, "none", processes, rng, count(10, 100))
    assert [] == lost
    assert acked > 0


def test_kills_find_an_acknowledgement_before_the_commit(tmp_path: Path, rng: Random):
    """The pipe is drained after the kill, so the step that was promised and never stored is seen."""
    lost, _ = kill_and_compare(tmp_path, "ack-early", 2, rng, 10)
    assert any(line.startswith("row lost") for line in lost)


def test_kills_cannot_tell_normal_from_full(tmp_path: Path, rng: Random):
    """The page cache survives a process: this is why there are power cuts, and no proof of durability without them."""
    lost, _ = kill_and_compare(tmp_path, "normal-sync", 2, rng, 5)
    assert [] == lost


# Several processes


@pytest.mark.parametrize(("fault", "found"), [("none", False), ("sequence-outside", True)])
def test_numbers_drawn_outside_the_write_lock_collide(tmp_path: Path, fault, found):
    """Four processes on one task: numbers are unique if they are drawn under the lock, and only then."""
    workers = run_together(lambda n: workload.argv(tmp_path, steps=40, fault=fault, seed=n), 4)
    assert [0] * 4 == [worker.returncode for worker in workers]
    assert [40] * 4 == [len(worker.acks) for worker in workers]
    assert found == bool(workload.duplicates(tmp_path))


# Injected errors


@pytest.fixture
def sweep(recorder: Recorder, tmp_path: Path, rng: Random) -> Callable[..., Iterator[Injected]]:
    """Run the store with each fault of a sweep in turn."""

    def run(fault: str, **options) -> Iterator[Injected]:
        return sweep_errors(recorder, lambda to: workload.argv(to, fault=fault, steps=2), tmp_path, rng, **options)

    return run


def after_power_cut(run: Injected) -> list[str]:
    cut = Cut(len(run.recording.ops), Survival.DROP, "strict", 0)
    return [line for state in states(run.recording, [cut]) for line in workload.missing(state.path, state.acked)]


def test_injected_errors_take_nothing_from_an_honest_store(sweep, count: Count):
    """At every write-class call: the error is raised or harmless; what was acknowledged is there, also after a cut."""
    for run in sweep("none", count=count(60, 1000)):
        assert run.recording.fired, f"{run.fault} was never reached"
        assert [] == workload.missing(run.directory, run.acked), run.fault
        assert [] == after_power_cut(run), run.fault


def test_injected_errors_find_an_error_that_is_swallowed(sweep):
    """A store that acknowledges after a failed commit is found out."""
    runs = sweep("ack-on-error", actions=["ENOSPC"], lasting=[True], count=40)
    assert any(line.startswith("row lost") for run in runs for line in workload.missing(run.directory, run.acked))


def test_injected_errors_find_a_sync_that_is_tried_again(sweep):
    """The second sync says yes and the data are gone: seen only because a failed sync condemns what was cached."""
    runs = sweep("retry-sync", actions=["EIO"], lasting=[False], calls=["fsync"])
    assert any(line.startswith("artifact lost") for run in runs for line in after_power_cut(run))


def test_kills_at_every_call_find_an_acknowledgement_before_the_commit(sweep, count: Count):
    """The same fault as above, without chance: the process dies at each write-class call in turn."""
    for fault, found in (("none", False), ("ack-early", True)):
        runs = sweep(fault, actions=["SIGKILL"], lasting=[False], count=count(30, 1000))
        assert found == any(workload.missing(run.directory, run.acked) for run in runs)


# Corruption


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A store at rest: everything is in the one file."""
    workload.write_steps(workload.Settings(tmp_path, "t", steps=30, body_bytes=600, fault="none", seed=0))
    return tmp_path / "store.db"


def wrongly_served(path: Path, seed: int, count: int, *, check_digest: bool) -> list[str]:
    whole, right, wrong = path.read_bytes(), workload.read_steps(path), []
    for done in damages(whole, seed, count):
        path.write_bytes(done.content)
        try:
            served = workload.read_steps(path, check_digest=check_digest)
        except (sqlite3.Error, workload.DamagedError):
            continue
        wrong += [done.description] if served != right else []
    return wrong


def test_corruption_is_never_served_as_right(stored: Path, seed: int, count: Count, capfd):
    """A reader that checks digests and counts returns what was stored, or raises."""
    assert [] == wrongly_served(stored, seed, count(300, 3000), check_digest=True)


def test_corruption_finds_a_digest_that_is_not_checked(stored: Path, seed: int):
    """Without the check wrong data are served, and the harness says which damage did it."""
    found = wrongly_served(stored, seed, 200, check_digest=False)
    assert f"damage(seed={seed}, index=" in found[0]


def test_a_damage_is_reproducible_and_always_changes_something(seed: int):
    """(seed, index) is all that is needed to see a finding again; zeros cannot hide a zeroed page."""
    for content in (bytes(20_000), Random(seed).randbytes(20_000), b"x"):
        done = list(damages(content, seed, 200))
        assert all(each.content != content for each in done)
        assert done[17] == damage(content, seed, 17)
    assert set(KINDS) == {each.kind for each in damages(Random(seed).randbytes(20_000), seed, 200)}


# Full and read-only disks


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 256 KiB."""
    try:
        with small_disk(tmp_path / "small") as disk:
            yield disk
    except DiskUnavailableError as reason:
        pytest.skip(str(reason))


def test_without_root_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user who may not mount skips with a sentence, and nothing was created."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(DiskUnavailableError, match="needs root"), small_disk(tmp_path / "small"):
        pass
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("fault", "found"), [("none", False), ("ack-on-error", True)])
def test_a_full_disk_takes_nothing_that_was_acknowledged(small: SmallDisk, fault, found):
    """The honest store stops with an error and keeps its word; one that swallows the error is found out."""
    [worker] = run_together(lambda n: workload.argv(small.path, steps=400, fault=fault), 1)
    assert worker.acks
    assert worker.returncode
    small.drain()
    assert found == bool(workload.missing(small.path, worker.acks))


def test_a_disk_can_be_filled_drained_and_made_read_only(small: SmallDisk):
    """Each state of the disk is what it says, for root as well."""
    file = small.path / "file"
    small.fill()
    with pytest.raises(OSError, match="No space left"):
        file.write_bytes(b"x" * 5000)
    small.drain()
    file.write_bytes(b"x" * 5000)
    small.make_read_only()
    with pytest.raises(OSError, match="Read-only"):
        file.write_bytes(b"y")
    small.make_writable()
    file.write_bytes(b"z")


@pytest.mark.parametrize(("fault", "found"), [("none", False), ("ack-on-error", True)])
def test_a_limit_on_file_sizes_stands_in_for_a_full_disk_without_root(tmp_path: Path, fault, found):
    """The log cannot grow beyond the limit: the same promise, the same finding."""
    argv = limit_file_size(workload.argv(tmp_path, steps=60, fault=fault), 150_000)
    [worker] = run_together(lambda n: argv, 1)
    assert worker.acks
    assert found == bool(workload.missing(tmp_path, worker.acks))
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        assert ("ok",) == db.execute("pragma integrity_check").fetchone()
