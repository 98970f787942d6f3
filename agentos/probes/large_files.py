"""Hash large files side by side: hashing lets other threads run, and one thread keeps no disk busy.

What is handed over is an open descriptor, which is given back without dropping a lock. Whoever asks helps until all are done.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from agentos._descriptors import let_go
from agentos.core.checkpoints.cancelling import Cancel
from agentos.probes.hashing import read_still

# More open descriptors than this are not piled up: whoever finds the next file reads one first.
_MOST_WAITING = 16
# What is called with the path of a file and what was measured.
Done = Callable[[bytes, dict[str, Any]], None]


class _StoppedError(Exception):
    """Nobody waits for it any more."""


class LargeFiles:
    """The large files of one tree. Threads are started for them as they come; `done` is called in the thread of the owner."""

    def __init__(self, until: float, done: Done, cancel: Cancel | None) -> None:
        self._until = until
        self._cancel = cancel
        self._stopped = False
        self._done = done
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._measured: deque[tuple[bytes, dict[str, Any]]] = deque()
        self._busy = 0

    def add(self, descriptor: int, path: bytes) -> None:
        """Have this file read; from now on the descriptor is ours."""
        with self._changed:
            self._waiting.append((descriptor, path))
            helps = self._busy < (os.cpu_count() or 1) - 1
            self._busy += helps
        if helps:
            threading.Thread(target=self._read_beside, name="agentos-read", daemon=True).start()
        if len(self._waiting) > _MOST_WAITING:
            self._read_next()
        self._report()

    def finish(self) -> None:
        """Wait for all of them, and read along."""
        while self._read_next():
            self._report()
        self._wait()
        self._report()

    def give_up(self) -> None:
        """Read no further, and wait for what is being read: nothing may be left open."""
        self._stopped = True
        while self._waiting:
            self._drop()
        self._wait()

    def _drop(self) -> None:
        try:
            descriptor, _ = self._waiting.popleft()
        except IndexError:
            return  # another thread was faster
        let_go(descriptor)

    def _wait(self) -> None:
        with self._changed:
            while self._busy:
                self._changed.wait()

    def _report(self) -> None:
        while self._measured:
            self._done(*self._measured.popleft())

    def _read_beside(self) -> None:
        try:
            while self._read_next():
                pass
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def _read_next(self) -> bool:
        with self._changed:
            if not self._waiting:
                return False
            descriptor, path = self._waiting.popleft()
        try:
            answer = self._measure(descriptor)
        except _StoppedError:
            answer = {"problem": "late"}
        except Exception as error:  # noqa: BLE001 - in a thread nobody would hear of it, and the file would be missing
            answer = {"problem": "broke", "error": error}
        finally:
            let_go(descriptor)
        self._measured.append((path, answer))
        return True

    def _measure(self, descriptor: int) -> dict[str, Any]:
        digest = sha256()

        def take(piece: memoryview) -> None:
            if self._stopped or (self._cancel is not None and self._cancel.is_set):
                raise _StoppedError
            digest.update(piece)

        answer = read_still(descriptor, self._until, take)
        return answer if "problem" in answer else {"sha256": digest.hexdigest(), **answer}
