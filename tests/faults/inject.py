"""Make every write-class call of a program fail, or kill it there, one run per point.

A first run counts the calls; each further run gets a fresh directory and one fault. What the program acknowledged in
spite of the fault is handed back with the directory it left, and the recording, so that power cuts can follow.
An error that was raised means the outcome is unknown, not that nothing happened: only what was acknowledged is held
against the store. A suite with many points and a slow start arms faults inside one process instead: see channel.arm.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.channel import Fault
from tests.faults.record import Recorder, Recording

WRITE_CLASS = (
    "write",
    "pwrite",
    "writev",
    "truncate",
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "open",
    "mkdir",
    "link",
)
ERRORS = ("EIO", "ENOSPC")


@dataclass(frozen=True, slots=True)
class Injected:
    """One run with one fault. `directory` is there until the next one is asked for."""

    fault: Fault
    directory: Path
    recording: Recording

    @property
    def acked(self) -> tuple[str, ...]:
        """What the program acknowledged, before the fault and after it."""
        return tuple(ack.text for ack in self.recording.acks)


def fault_points(
    totals: dict[str, int],
    actions: Sequence[str] = ERRORS,
    lasting: Sequence[bool] = (False, True),
    calls: Sequence[str] = WRITE_CLASS,
) -> list[Fault]:
    """Every fault there is for a program that makes so many calls of each kind."""
    places = [(call, nth) for call in calls for nth in range(1, totals.get(call, 0) + 1)]
    return [Fault(call, nth, action, stays) for call, nth in places for action in actions for stays in lasting]


def sweep_errors(
    recorder: Recorder,
    argv_of: Callable[[Path], Sequence[str]],
    scratch: Path,
    rng: Random,
    *,
    count: int | None = None,
    actions: Sequence[str] = ERRORS,
    lasting: Sequence[bool] = (False, True),
    calls: Sequence[str] = WRITE_CLASS,
    prepare: Callable[[Path], None] = lambda directory: None,
) -> Iterator[Injected]:
    """Run `argv_of(directory)` once per fault: all of them, or `count` drawn from the seed.

    `prepare` fills the fresh directory before each run, without the recorder: what it leaves counts as durable.
    """
    totals = recorder.count(argv_of(_fresh(scratch, prepare)), scratch / "run")
    faults = fault_points(totals, actions, lasting, calls)
    if count is not None and count < len(faults):
        faults = rng.sample(faults, count)
    for fault in faults:
        directory = _fresh(scratch, prepare)
        yield Injected(fault, directory, recorder.record(argv_of(directory), directory, fault=fault, check=False))


def _fresh(scratch: Path, prepare: Callable[[Path], None]) -> Path:
    directory = scratch / "run"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    prepare(directory)
    return directory
