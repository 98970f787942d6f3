"""Several processes at one task: all start together, some are killed at random moments and started anew, until all have ended.

A process kills itself, if it was told to, or is killed after so many of its own lines and then after so many microseconds,
drawn from the seed, so that a slow machine gets the same kills as a fast one. Whoever is started anew has a moment too, until
the round has had its share of kills; then everybody runs to his end. What is true afterwards is not decided here. Nothing is
killed but what was started here, by its own handle.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import IO

from tests.support import environment

NAP = 0.01


@dataclass(slots=True)
class Runner:
    """One process: what it said, and how it ended."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    # Lines to wait for, then seconds; None: it is left alone.
    moment: tuple[int, float] | None
    lines: list[str] = field(default_factory=list)
    kill_at: float | None = None
    killed: bool = False
    tail: bytes = b""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Relay:
    """How many processes, how many of them die in all, and when."""

    # Told whether the process may be one that kills itself.
    argv_of: Callable[[bool], Sequence[str]]
    rng: Random
    processes: int = 8
    kills: int = 8
    # Nobody is killed from outside if this is 0.
    most_lines: int = 16
    delay: float = 0.003
    timeout: float = 120.0

    def run(self) -> list[Runner]:
        """Run until every process has ended by itself, or was killed and has had its follower."""
        running: list[Runner] = []
        ended: list[Runner] = []
        deadline = time.monotonic() + self.timeout
        try:
            running.extend(self._start(mortal=True) for _ in range(self.processes))
            _let_go(running, deadline)
            kills = self.kills
            while running:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"a process did not end: {[each.lines for each in running]}")
                for dead in self._watch(running, kills):
                    running.remove(dead)
                    ended.append(dead)
                    if dead.killed:
                        kills -= 1
                        running.append(self._start(mortal=kills > 0))
                        _say_go(running[-1])
        finally:
            for each in running:
                each.process.kill()
                _bury(each)
        return ended

    def _moment(self) -> tuple[int, float] | None:
        if not self.most_lines:
            return None
        return self.rng.randint(1, self.most_lines), self.rng.uniform(0, self.delay)

    def _start(self, *, mortal: bool) -> Runner:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when its process is buried
        process = subprocess.Popen(
            self.argv_of(mortal),
            env=environment(),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return Runner(process, errors, self._moment() if mortal else None)

    def _watch(self, running: list[Runner], kills: int) -> Iterator[Runner]:
        """Read what there is, kill who is due; those that have ended."""
        with selectors.DefaultSelector() as selector:
            for each in running:
                assert each.process.stdout is not None
                selector.register(each.process.stdout, selectors.EVENT_READ, each)
            due = [each.kill_at - time.monotonic() for each in running if each.kill_at is not None]
            for key, _ in selector.select(max(0.0, min([*due, NAP]))):
                read(key.data)
        for each in list(running):
            if kills > 0 and each.kill_at is not None and time.monotonic() >= each.kill_at:
                each.kill_at = None
                each.process.kill()
                each.killed = True
                kills -= 1
            if each.killed or each.process.poll() is not None:
                _bury(each)
                each.killed = each.process.returncode == -signal.SIGKILL
                yield each


def _let_go(running: list[Runner], deadline: float) -> None:
    """Once everybody is ready, all may start."""
    while any(not each.lines and each.process.poll() is None for each in running):
        assert time.monotonic() < deadline, "a process was never ready"
        for each in running:
            read(each)
        time.sleep(NAP)
    for each in running:
        _say_go(each)


def _say_go(each: Runner) -> None:
    assert each.process.stdin is not None
    try:
        each.process.stdin.write(b"go\n")
    except BrokenPipeError:
        # It ended before it began; its exit code and its words are in the result.
        return


def read(each: Runner) -> None:
    """Take what is in the pipe, and note the moment it reached."""
    assert each.process.stdout is not None
    chunk = each.process.stdout.read(1 << 16) or b""
    *lines, each.tail = (each.tail + chunk).split(b"\n")
    each.lines += [line.decode() for line in lines]
    if each.moment is not None and len(each.lines) > each.moment[0]:
        each.kill_at = time.monotonic() + each.moment[1]
        each.moment = None


def _bury(each: Runner) -> None:
    each.process.wait()
    # A pipe holds at most 64 KiB by default, so one read after the death takes all that was written before it.
    read(each)
    each.errors.seek(0)
    each.stderr = each.errors.read().decode(errors="replace")
    each.errors.close()
    for pipe in (each.process.stdin, each.process.stdout):
        if pipe is not None:
            pipe.close()
