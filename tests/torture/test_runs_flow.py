"""Workflow checkpoints in files under kill -9 and power cuts: what returned is there, whole."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.faults.kill import kill_rounds
from tests.faults.record import Recorder
from tests.faults.replay import sampled_states
from tests.torture.runs_flow_worker import argv, wrong

Count = Callable[[int, int], int]


def test_kills_leave_whole_checkpoints(tmp_path: Path, rng: Random, count: Count):
    """Of two processes on one folder, killed over and over."""
    for _ in range(count(5, 100)):
        seeds = [f"{rng.getrandbits(64):x}" for _ in range(2)]
        commands = [argv(tmp_path, seed, 100_000) for seed in seeds]
        [workers] = kill_rounds(commands.__getitem__, len(seeds), rng, acks=6, delay=0.01)
        assert [""] * len(seeds) == [worker.stderr for worker in workers]
        for worker, seed in zip(workers, seeds, strict=True):
            assert [] == wrong(tmp_path, seed, worker.acks)


@pytest.mark.parametrize("namespace", ["strict", "ext4"])
def test_power_cuts_take_nothing(namespace, recorder: Recorder, tmp_path: Path, seed: int, rng: Random, count: Count):
    """In every state of the disk that a cut may leave, what returned is there, and the store can be written to."""
    directory = tmp_path / "disk"
    directory.mkdir()
    recording = recorder.record(argv(directory, str(seed), 16), directory)
    for state in sampled_states(recording, count(100, 2000), rng, namespace):
        assert [] == wrong(state.path, str(seed), state.acked), state.description
