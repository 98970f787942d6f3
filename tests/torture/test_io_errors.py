"""I/O errors: EIO and ENOSPC at the calls of a step that write, once and for good, in every scene of insisting.py.

An error is raised as one of ours, or harmless. What was acknowledged, before it or after, is there: as the process left it, and
after a power cut in which everything that a failed sync had in its hands is gone for good, whatever a later sync said.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from tests.faults.channel import Fault
from tests.faults.inject import fault_points
from tests.faults.record import Recorder, Recording
from tests.faults.replay import Cut, Survival, states
from tests.torture.audit import missing
from tests.torture.insisting import Trial, argv

# How many cuts each trial gets besides those at its acknowledgements.
ANYWHERE = 5
# How many of the trials ask again through a new manager.
ANEW = 0.3


@dataclass(frozen=True)
class Series:
    """A scene in one durability: how many errors it gets in either run, and how many trials share a process."""

    scene: str
    durability: str
    few: int
    many: int
    size: int = 12

    def __str__(self) -> str:
        return f"{self.scene}, {self.durability}"


SERIES = [
    Series("new", "full", 14, 100),
    Series("known", "full", 10, 60),
    Series("warm", "full", 12, 96),
    Series("neighbour", "full", 8, 60),
    Series("neighbour", "commit", 8, 60),
    Series("full log", "full", 4, 24, size=4),
    Series("full log", "commit", 4, 24, size=4),
]


def points(recorder: Recorder, scratch: Path, trial: Trial) -> list[Fault]:
    """Every fault there is for the calls between arming and disarming."""
    totals = []
    for stop in ("prepared", "stepped"):
        folder = scratch / stop
        folder.mkdir(parents=True)
        totals.append(recorder.count(argv([replace(trial, folder=str(folder))], stop=stop), scratch))
    return fault_points({call: number - totals[0][call] for call, number in totals[1].items()})


def groups(faults: list[Fault], series: Series, scratch: Path, rng: Random) -> Iterator[tuple[Path, list[Trial]]]:
    """Trials that share a process and a directory; faults that happen once and those that last apart, to count the hits."""
    for lasting in (False, True):
        chosen = [fault for fault in faults if fault.lasting is lasting]
        for at in range(0, len(chosen), series.size):
            directory = scratch / f"{'lasting' if lasting else 'once'}-{at}"
            yield (
                directory,
                [
                    Trial(str(directory / f"{number}"), series.scene, series.durability, str(fault), rng.random() < ANEW)
                    for number, fault in enumerate(chosen[at : at + series.size])
                ],
            )


def record(recorder: Recorder, directory: Path, group: list[Trial], fault: str = "") -> Recording:
    for trial in group:
        Path(trial.folder).mkdir(parents=True)
    return recorder.record(argv(group, fault=fault), directory, timeout=300)


def marked(recording: Recording, *kinds: str) -> list[str]:
    return [name for name in recording.marks if name.split()[0] in kinds]


def violations(recording: Recording, group: list[Trial], rng: Random) -> Iterator[str]:
    """What is not as acknowledged: as the process left it, after cuts at its end and at each acknowledgement, and anywhere."""
    for number, trial in enumerate(group):
        start, end = recording.marks[f"trial {number}"], recording.marks[f"end {number}"]
        acks = [ack for ack in recording.acks if start < ack.index < end]
        cuts = [Cut(end, Survival.KEEP, "strict", number), Cut(end, Survival.DROP, "strict", number)]
        cuts += [Cut(ack.index + 1, Survival.DROP, "strict", number) for ack in acks]
        cuts += [Cut(rng.randint(start, end), rng.choice([*Survival]), "strict", number) for _ in range(ANYWHERE)]
        for state in states(recording, cuts):
            acked = [ack.text for ack in acks if ack.index < state.cut.prefix]
            cut_off = state.cut.survival is not Survival.KEEP
            for line in missing(state.path / Path(trial.folder).name, acked, after_cut=cut_off):
                yield f"{line} | {trial} | {state.description}"


@pytest.mark.parametrize("series", SERIES, ids=str)
def test_an_io_error_is_raised_or_harmless(recorder: Recorder, tmp_path: Path, rng: Random, count, series: Series):
    """Never a bare error of SQLite, never acknowledged and lost, never committed twice; the answer after it is durable."""
    faults = points(recorder, tmp_path / "count", Trial("", series.scene, series.durability))
    faults = rng.sample(faults, min(count(series.few, series.many), len(faults)))
    raised = 0
    for directory, group in groups(faults, series, tmp_path, rng):
        recording = record(recorder, directory, group)
        assert recording.fired >= len(group), f"a fault was never reached: {group}"
        assert [] == marked(recording, "bare", "twice")
        assert [] == list(violations(recording, group, rng))
        raised += len({name.split()[1] for name in marked(recording, "raised")})
    print(f"{series}: {len(faults)} errors, raised in {raised}, not noticed by the manager's caller in {len(faults) - raised}")
