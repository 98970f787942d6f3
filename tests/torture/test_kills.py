"""kill -9: of one to eight agents at random moments, and of one agent at every call that writes.

A round is a number of processes, a durability, and a moment for each process; some rounds aim at the boot, before anything is
acknowledged. A registry lives through several rounds, and is held to everything that was ever acknowledged in it: see audit.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.faults.inject import sweep_errors
from tests.faults.kill import Worker, kill_rounds
from tests.faults.record import Recorder
from tests.torture.agent import Errand
from tests.torture.audit import missing

# Rounds that one registry lives through.
LIVES = 10
# Seconds that one process takes to start, on a core of its own.
BOOT = 0.25


def round_of_kills(directory: Path, number: int, rng: Random) -> list[Worker]:
    """Agents of every kind on one registry; half of them share a task."""
    processes = 1 + number % 8
    durability = rng.choice(["full", "full", "commit", "relaxed"])
    body = rng.choice([200, 2000, 20_000])
    errand = Errand(str(directory), steps=0, durability=durability, artifacts=rng.random() < 0.3, body_bytes=body)

    def argv_of(worker: int) -> list[str]:
        task = "shared" if worker % 2 else f"round-{number}-{worker}"
        return replace(errand, task=task, seed=rng.getrandbits(32)).argv

    # One round in four aims at the boot, which grows with the number of processes that boot together.
    acks, delay = (0, BOOT * max(1.0, processes / 2)) if rng.random() < 0.25 else (12, 0.002)
    [workers] = kill_rounds(argv_of, processes, rng, acks=acks, delay=delay)
    return workers


def rounds_of_kills(scratch: Path, rounds: int, rng: Random) -> Iterator[tuple[int, Path, list[Worker]]]:
    for number in range(rounds):
        directory = scratch / f"life-{number // LIVES}"
        directory.mkdir(exist_ok=True)
        yield number, directory, round_of_kills(directory, number, rng)


def test_kills_take_nothing_that_was_acknowledged(tmp_path: Path, rng: Random, count):
    """No acknowledged begin or checkpoint is lost, none is half there, no number is drawn twice, the file is sound."""
    acked: dict[Path, list[str]] = {}
    killed = number = 0
    for number, directory, workers in rounds_of_kills(tmp_path, count(25, 500), rng):
        assert [("", True)] * len(workers) == [(worker.stderr, worker.killed) for worker in workers]
        acked.setdefault(directory, []).extend(ack for worker in workers for ack in worker.acks)
        assert [] == missing(directory, acked[directory]), f"round {number}"
        killed += len(workers)
    assert all(acked.values())
    print(f"{number + 1} rounds, {killed} processes killed, {sum(map(len, acked.values()))} acknowledgements")


def test_a_kill_at_any_call_of_a_life_takes_nothing(recorder: Recorder, tmp_path: Path, rng: Random, count):
    """From the making of the folder to the tidying up at the end: the agent dies at each call that writes, in turn."""
    fallen = 0
    for run in sweep_errors(
        recorder,
        lambda to: Errand(str(to), steps=2, artifacts=True).argv,
        tmp_path,
        rng,
        actions=["SIGKILL"],
        lasting=[False],
        count=count(8, 1000),
    ):
        assert run.recording.fired, f"{run.fault} was never reached"
        assert -9 == run.recording.returncode, run.recording.stderr
        assert [] == missing(run.directory, run.acked), run.fault
        fallen += 1
    assert fallen >= count(8, 16)
    print(f"killed at {fallen} different calls")
