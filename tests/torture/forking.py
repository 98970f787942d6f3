"""Lives: processes forked from this one, which are heard to their end and may be killed on the way.

A life has a process group of its own, so that its commands die with it, and a pipe that they all hold: it is over when nobody
holds the pipe any more. Each line on it is JSON; ["in", place] and ["out", place] say where it is. What a life does is not
known here. This process must have one thread.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Aim:
    """Where a life is to end: in this place, when it is there for the `entry`th time, before the `calls`th call."""

    place: str
    entry: int = 1
    # 0: it is killed from outside, `delay` seconds after it came there.
    calls: int = 0
    delay: float = 0.0


@dataclass(slots=True)
class Heard:
    """What a life said, and where it ended: in no place if it ended by itself."""

    pid: int
    aim: Aim | None
    lines: list[list[Any]] = field(default_factory=list)
    places: list[str] = field(default_factory=lambda: ["life"])
    killed_in: str = ""
    _entries: int = 0
    _kill_at: float = float("inf")

    def last(self, verb: str) -> list[Any] | None:
        """The last line of this kind."""
        return next((line[1:] for line in reversed(self.lines) if line[0] == verb), None)

    def to_its_end(self, reader: int) -> None:
        """Hear everything, and kill when it is time."""
        tail, deadline = b"", time.monotonic() + _PATIENCE
        self._take_aim("life")
        while True:
            left = min(deadline, self._kill_at) - time.monotonic()
            if select.select([reader], [], [], max(0.0, left))[0]:
                if not (chunk := os.read(reader, 1 << 16)):
                    return
                *lines, tail = (tail + chunk).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} came to no end; it said {self.lines[-5:]}")
            if self._kill_at <= time.monotonic():
                self._kill_at = float("inf")
                self.kill()

    def _take(self, line: list[Any]) -> None:
        self.lines.append(line)
        if line[0] == "in":
            self.places.append(line[1])
            self._take_aim(line[1])
        elif line[0] == "out":
            self.places.pop()

    def _take_aim(self, place: str) -> None:
        if self.aim is not None and not self.aim.calls and self.aim.place == place:
            self._entries += 1
            if self._entries == self.aim.entry:
                self._kill_at = time.monotonic() + self.aim.delay

    def kill(self) -> None:
        """The life, and every command of it. It has not been waited for, so the number is still its own."""
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)


def listen(work: Callable[[int], None], aim: Aim | None) -> Heard:
    """Fork a life, hear it to its end and to that of every command it started, and end it where it is to end."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _be(work, writer)
    os.close(writer)
    heard = Heard(pid, aim)
    try:
        heard.to_its_end(reader)
    except BaseException:
        heard.kill()
        raise
    finally:
        os.close(reader)
        _, status = os.waitpid(pid, 0)
    heard.killed_in = heard.places[-1] if os.WIFSIGNALED(status) else ""
    return heard


@contextmanager
def beside(work: Callable[[int], None]) -> Iterator[list[list[Any]]]:
    """While this lasts another life is at work; it ends by a kill. What it said is in the list afterwards."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _be(work, writer)
    os.close(writer)
    heard = Heard(pid, None)
    try:
        yield heard.lines
    finally:
        heard.kill()
        heard.to_its_end(reader)
        os.close(reader)
        os.waitpid(pid, 0)


def _be(work: Callable[[int], None], writer: int) -> None:
    os.setpgid(0, 0)
    try:
        work(writer)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - whatever it is, it must be heard
        os.write(writer, json.dumps(["raised", traceback.format_exc()]).encode() + b"\n")
        os._exit(1)
