"""The end of a look, told to everyone who takes part in it: who waits wakes up, and what was started is ended.

Nothing is looked at or judged here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Cancel:
    """Tells everyone who takes part in a look that it is over, and ends what they started."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._enders: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()

    def set(self) -> None:
        """End it: whoever waits wakes up, and what was registered is called, once."""
        self._over.set()
        with self._lock:
            enders, self._enders = self._enders, []
        for end in enders:
            end()

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until it is over; whether it is."""
        return self._over.wait(seconds)

    def calls(self, end: Callable[[], None]) -> None:
        """Call this when it is over, such as what kills a child process; at once if it is over already."""
        with self._lock:
            if not self._over.is_set():
                self._enders.append(end)
                return
        end()

    def forget(self, end: Callable[[], None]) -> None:
        """There is nothing left to end."""
        with self._lock:
            if end in self._enders:
                self._enders.remove(end)
