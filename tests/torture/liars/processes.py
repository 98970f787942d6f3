"""Liars about processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from agentos.core.checkpoints import Evidence
from tests.torture.liars.liar import Liar


class _Workers(Liar):
    """Processes that come and go, known by a number of their own."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.number = f"{self.rng.randrange(10**8, 10**9)}.5"
        self.running = [self.started()]

    def started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sleep", self.number])
        # For a moment after it was started it has no arguments, and then there may really be none that has these.
        while self.number.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            os.sched_yield()
        return process

    def asked(self, count: int) -> Evidence:
        expected = {"argv": {"equals": ["sleep", self.number]}, "count": count}
        return Evidence("process_exists", "workers", expected, {"deadline": 0.2})

    def close(self) -> None:
        while self.running:
            self.end()

    def end(self) -> None:
        first = self.running.pop(0)
        first.kill()
        first.wait()


class NeverTwo(_Workers):
    """A process ends, and then another one takes its place."""

    def claim(self) -> Evidence:
        return self.asked(2)

    def change(self) -> None:
        self.end()
        self.running.append(self.started())

    def tell_the_truth(self) -> None:
        self.running.append(self.started())


class NeverNone(_Workers):
    """Another one takes its place before a process ends: it is new in a list that the other one is gone from."""

    def claim(self) -> Evidence:
        return self.asked(0)

    def change(self) -> None:
        self.running.append(self.started())
        self.end()

    def tell_the_truth(self) -> None:
        self.close()
