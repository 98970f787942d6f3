"""Keep a fork from inheriting a connection that a probe has open.

SQLite's table of locks is copied into the child with it, and the child's commits could then be lost. Whoever is about to fork
waits until every probe is out; probes that run long are asked to leave (`wanted`) and start over afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agentos._fork import close_on_fork


class ForkGate:
    """Many may be inside at once; nobody is while the process forks."""

    def __init__(self) -> None:
        self._turn = threading.Condition(threading.Lock())
        self._inside: list[int] = []
        self.wanted = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold forks of other threads back until the end of the block."""
        me = threading.get_ident()
        with self._turn:
            while self.wanted:
                self._turn.wait()
            self._inside.append(me)
        try:
            yield
        finally:
            with self._turn:
                self._inside.remove(me)
                self._turn.notify_all()

    def before_fork(self) -> None:
        """Wait until everybody is out. The lock stays taken: it must not be in another thread's hands in the child."""
        me = threading.get_ident()
        self._turn.acquire()
        self.wanted = True
        # A thread that forks from inside a probe would wait for itself.
        while any(other != me for other in self._inside):
            self._turn.wait()

    def after_fork(self) -> None:
        """Let them in again, on both sides."""
        self.wanted = False
        self._turn.notify_all()
        self._turn.release()


GATE = ForkGate()
close_on_fork(GATE)
