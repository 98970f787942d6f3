"""How far long work is, on standard error, and only for a person who is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentos._text import shown

# Whoever looks sees no more than so many lines a second, and quick work shows none.
_EVERY = 0.1
_QUIET = 0.5


@contextmanager
def showing() -> Iterator[Callable[[str, int, int], None]]:
    """Tell what is being done, how much of it is done, and how much there is; the line is gone when the block is left."""
    if not sys.stderr.isatty():
        yield _silent
        return
    line = _Line()
    try:
        yield line.told
    finally:
        line.clear()


def _silent(what: str, done: int, total: int) -> None:
    """Nobody is looking."""


class _Line:
    def __init__(self) -> None:
        self._next = time.monotonic() + _QUIET
        self._shown = False

    def told(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        part = f" {done * 100 // total} %" if total > done else ""
        sys.stderr.write(f"\r\x1b[K{shown(what, 60)}: {done:,}{part}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
