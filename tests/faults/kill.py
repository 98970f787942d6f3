"""Kill worker processes at random moments and hand back what they had acknowledged.

Each worker writes a line to its own pipe after each acknowledged call (channel.py). Its moment is drawn from the
seed: after so many acknowledgements, and then after so many microseconds, so that a slow machine gets the same kills
as a fast one. The pipe is drained after the process is dead: what was written before SIGKILL is read, and counts.
Whether the store still has it is not decided here. Nothing is killed but what was started here, by its own handle.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO

from tests.faults.record import worker_environment

# How long a process that died without closing its pipe, because a child of its own holds it, may go unnoticed.
LONGEST_NAP = 0.02

ArgvOf = Callable[[int], Sequence[str]]


@dataclass(slots=True)
class Worker:
    """One process: what it acknowledged, and how it ended."""

    number: int
    argv: Sequence[str]
    acks: list[str] = field(default_factory=list)
    killed: bool = False
    returncode: int = 0
    stderr: str = ""


@dataclass(slots=True)
class _Running:
    worker: Worker
    process: subprocess.Popen[bytes]
    pipe: int
    errors: IO[bytes]
    moment: tuple[int, float] | None
    kill_at: float | None = None
    tail: bytes = b""


def kill_rounds(
    worker_argv_factory: ArgvOf,
    processes: int,
    rng: Random,
    *,
    rounds: int = 1,
    acks: int = 12,
    delay: float = 0.002,
    cwd: Path | None = None,
    timeout: float = 60,
) -> list[list[Worker]]:
    """Start `processes` workers, kill each at its own moment, wait for all; `rounds` times over.

    A worker dies after 0 to `acks` acknowledgements plus up to `delay` seconds. One that ends by itself first is handed
    back with killed=False. A round that takes longer than `timeout` is killed and raises TimeoutError.
    """

    def moment() -> tuple[int, float]:
        return rng.randint(0, acks), rng.uniform(0, delay)

    return [_round(worker_argv_factory, [moment() for _ in range(processes)], cwd, timeout) for _ in range(rounds)]


def run_together(worker_argv_factory: ArgvOf, processes: int, *, cwd: Path | None = None, timeout: float = 60) -> list[Worker]:
    """The same without the kill: every worker runs to its end."""
    return _round(worker_argv_factory, [None] * processes, cwd, timeout)


def _round(argv_of: ArgvOf, moments: Sequence[tuple[int, float] | None], cwd: Path | None, timeout: float) -> list[Worker]:
    running: list[_Running] = []
    try:
        for number, moment in enumerate(moments):
            running.append(_start(Worker(number, argv_of(number)), moment, cwd))
        _watch(running, time.monotonic() + timeout)
    finally:
        for each in running:
            _bury(each)
    return [each.worker for each in running]


def _start(worker: Worker, moment: tuple[int, float] | None, cwd: Path | None) -> _Running:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    # Standard error goes to a file: a pipe that nobody reads would stop a talkative worker.
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when its process is buried
    try:
        environment = worker_environment({"REC_ACK": f"/dev/fd/{writer}"})
        process = subprocess.Popen(
            worker.argv, cwd=cwd, env=environment, pass_fds=(writer,), stdout=subprocess.DEVNULL, stderr=errors
        )
    finally:
        os.close(writer)
    running = _Running(worker, process, reader, errors, moment)
    _take_aim(running)
    return running


def _take_aim(each: _Running) -> None:
    if each.moment is not None and len(each.worker.acks) >= each.moment[0]:
        each.kill_at = time.monotonic() + each.moment[1]
        each.moment = None


def _watch(running: list[_Running], deadline: float) -> None:
    with selectors.DefaultSelector() as selector:
        for each in running:
            selector.register(each.pipe, selectors.EVENT_READ, each)
        while any(each.process.poll() is None for each in running):
            if time.monotonic() > deadline:
                raise TimeoutError("a worker neither ended nor reached the acknowledgements it was to be killed after")
            for key, _ in selector.select(_patience(running)):
                if not _read(key.data):
                    selector.unregister(key.fd)
                    # Its end of the pipe is closed, so it is dead or dying: wait for it instead of polling.
                    key.data.process.wait(timeout=max(0.0, deadline - time.monotonic()))
            _kill_due(running)


def _patience(running: list[_Running]) -> float:
    due = [each.kill_at - time.monotonic() for each in running if each.kill_at is not None]
    return max(0.0, min([*due, LONGEST_NAP]))


def _kill_due(running: list[_Running]) -> None:
    for each in running:
        if each.kill_at is not None and each.kill_at <= time.monotonic():
            each.kill_at = None
            each.worker.killed = each.process.poll() is None
            each.process.kill()


def _read(each: _Running) -> bool:
    """Take what is in the pipe; False when every writer has closed it."""
    try:
        chunk = os.read(each.pipe, 1 << 16)
    except BlockingIOError:
        return True
    *lines, each.tail = (each.tail + chunk).split(b"\n")
    each.worker.acks += [line.decode() for line in lines if line[:1] not in (b"", b"#", b"!")]
    _take_aim(each)
    return bool(chunk)


def _bury(each: _Running) -> None:
    each.process.kill()  # Has no effect unless the round was given up: every other process has ended.
    each.worker.returncode = each.process.wait()
    # A pipe holds at most 64 KiB by default, so one read after the death takes all that was written before it.
    _read(each)
    each.errors.seek(0)
    each.worker.stderr = each.errors.read().decode(errors="replace")
    each.errors.close()
    os.close(each.pipe)
