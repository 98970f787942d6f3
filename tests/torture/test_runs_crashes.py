"""The durable run stores under kill -9, power cuts and failing disks: what returned is there, and nothing is there in part.

A node is its old value or its new value. What a run may hold follows from what its worker acknowledged: see runs_worker.py.
Each torture is also shown to find the mistake that was planted for it.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from agentos.errors import StoreCorruptError
from agentos.store import open_store
from agentos.store.runs import counter
from tests.faults.inject import WRITE_CLASS, Injected, sweep_errors
from tests.faults.kill import kill_rounds, run_together
from tests.faults.record import Recorder, Recording
from tests.faults.replay import Cut, Survival, sampled_states, states
from tests.torture.runs_worker import BACKENDS, Deeds, address, argv, one_after_the_other, wrong

Count = Callable[[int, int], int]
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def kill_and_compare(backend: str, directory: Path, rng: Random, rounds: int, fault: str = "") -> list[str]:
    """Two processes on one store, killed over and over; each round goes on with what the kills before have left."""
    found: list[str] = []
    for _ in range(rounds):
        seeds = [f"{rng.getrandbits(64):x}" for _ in range(2)]
        commands = [argv(backend, directory, seed, 100_000, fault=fault) for seed in seeds]
        [workers] = kill_rounds(commands.__getitem__, len(seeds), rng, acks=6, delay=0.01)
        assert [""] * len(seeds) == [worker.stderr for worker in workers]
        for worker, seed in zip(workers, seeds, strict=True):
            found += wrong(address(backend, directory), Deeds(seed, backend), worker.acks)
    return found


@every_backend
def test_kills_leave_the_old_value_or_the_new(backend, tmp_path: Path, rng: Random, count: Count):
    """Whatever moment a writer dies at, and whatever another one is doing then."""
    assert [] == kill_and_compare(backend, tmp_path, rng, count(20, 200))


@pytest.mark.planted
@pytest.mark.parametrize(("backend", "fault"), [("sqlite", "ack-early"), ("file", "ack-early"), ("file", "in-place")])
def test_kills_find(backend, fault, tmp_path: Path, rng: Random):
    """A store that speaks too early, or writes where its readers read."""
    for _ in range(60):
        try:
            found = kill_and_compare(backend, tmp_path, rng, 2, fault)
        except StoreCorruptError as refused:
            # Half a file is also found by its seal.
            found = [refused.message]
        if found:
            return
    pytest.fail("never found")


@pytest.fixture
def record(recorder: Recorder, tmp_path: Path, seed: int) -> Callable[..., Recording]:
    """Record a worker on a store that is not there yet."""

    def run(backend: str, fault: str = "", calls: int = 12) -> Recording:
        directory = tmp_path / "disk"
        directory.mkdir()
        return recorder.record(argv(backend, directory, str(seed), calls, fault=fault), directory)

    return run


def losses(recording: Recording, backend: str, seed: int, count: int, rng: Random, namespace: str) -> list[str]:
    """What power cuts take, in sentences that say which cut it was."""
    found: list[str] = []
    # After a power cut the system has booted again.
    with patch.object(counter, "boot", lambda: "another-boot"):
        for state in sampled_states(recording, count, rng, namespace):  # type: ignore[arg-type]
            try:
                problems = wrong(address(backend, state.path), Deeds(str(seed), backend), state.acked)
            except Exception as refused:  # noqa: BLE001 - a store that cannot be read has lost what it held
                problems = [f"cannot be read: {refused}"]
            found += [f"{problem} | {state.description}" for problem in problems[:1]]
    return found


@every_backend
@pytest.mark.parametrize("namespace", ["strict", "ext4"])
def test_power_cuts_take_nothing(backend, namespace, record, seed: int, rng: Random, count: Count):
    """In every state of the disk that a cut may leave, what returned is there, and the store can be written to."""
    assert [] == losses(record(backend), backend, seed, count(200, 4000), rng, namespace)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("backend", "fault", "namespace"),
    [
        ("sqlite", "relaxed", "strict"),
        ("sqlite", "relaxed", "ext4"),
        ("file", "no-folder-sync", "strict"),
        ("file", "no-file-sync", "ext4"),
        ("file", "in-place", "ext4"),
    ],
)
def test_power_cuts_find(backend, fault, namespace, record, seed: int, rng: Random):
    """A sync that is missing, and a file that is not replaced in one move."""
    assert losses(record(backend, fault), backend, seed, 80, rng, namespace)


@every_backend
def test_a_kill_and_then_a_power_cut_take_nothing(
    backend, recorder: Recorder, tmp_path: Path, seed: int, rng: Random, count: Count
):
    """Whatever a killed process left unsynced, the one that came after it and was acknowledged does not stand on it."""
    (tmp_path / "counted").mkdir()
    totals = recorder.count(argv(backend, tmp_path / "counted", str(seed), 1), tmp_path / "counted")
    points = [f"{call}:{nth}" for call in WRITE_CLASS for nth in range(1, totals.get(call, 0) + 1)]
    for number, die in enumerate(rng.sample(points, min(len(points), count(5, 100)))):
        directory = tmp_path / str(number)
        directory.mkdir()
        commands = [argv(backend, directory, str(seed), 1, die=die), argv(backend, directory, str(seed), 3)]
        recording = recorder.record(one_after_the_other(*commands), directory)
        # The first process may have been killed after its only acknowledgement; the second one repeats that call.
        acks = [ack.index for ack in recording.acks][-3:]
        cuts = [Cut(index + 1, Survival.DROP, "strict", 0) for index in acks]
        with patch.object(counter, "boot", lambda: "another-boot"):
            for returned, state in enumerate(states(recording, cuts), start=1):
                assert [] == wrong(address(backend, state.path), Deeds(str(seed), backend), ["ack"] * returned), die


def problems_after(run: Injected, backend: str, seed: int) -> list[str]:
    """What an injected error took: at once, and once the power is cut as well."""
    deeds = Deeds(str(seed), backend)
    if not run.acked and not any(run.directory.iterdir()):
        return []
    cut = Cut(len(run.recording.ops), Survival.DROP, "strict", 0)
    found: list[str] = []
    with patch.object(counter, "boot", lambda: "another-boot"):
        for state in states(run.recording, [cut]):
            found += wrong(address(backend, state.path), deeds, state.acked)
    return found + wrong(address(backend, run.directory), deeds, run.acked)


@every_backend
def test_an_error_of_the_disk_is_raised_or_harmless(backend, recorder, tmp_path: Path, seed: int, rng: Random, count: Count):
    """At any write-class call, once or for good: what returned is there, also if the power is cut on top of it."""
    runs = sweep_errors(recorder, lambda to: argv(backend, to, str(seed), 2), tmp_path, rng, count=count(8, 400))
    for run in runs:
        assert run.recording.fired, f"{run.fault} was never reached"
        assert [] == problems_after(run, backend, seed), run.fault


@every_backend
def test_processes_share_a_run(backend, tmp_path: Path, seed: int):
    """Four at once: no save is lost, and the numbers of the run they share are unique and have no gaps."""
    workers = run_together(lambda number: argv(backend, tmp_path, f"{seed}-{number}", 25), 4)
    assert [(0, "")] * 4 == [(worker.returncode, worker.stderr) for worker in workers]
    with open_store(address(backend, tmp_path)) as store:
        infos = store.list("shared")
        assert 24 == len(infos)
        assert 100 == infos[-1].sequence
        assert len(infos) == len({info.sequence for info in infos})
    for number in range(4):
        assert [] == wrong(address(backend, tmp_path), Deeds(f"{seed}-{number}", backend), workers[number].acks)
