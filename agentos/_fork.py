"""Make `os.fork` safe for what must not be shared between two processes.

SQLite's table of locks is process-global memory: a child that inherits it believes it holds locks it does not hold, and what
it commits can be lost. So whoever keeps a connection registers here: before a fork it is locked and closed, and both sides
reopen when they next need it. Registration is weak; a thing that is garbage is not kept alive by this module.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that must be quiet and closed while the process forks."""

    def before_fork(self) -> None:
        """Take the lock and let go of everything a child must not inherit."""

    def after_fork(self) -> None:
        """Give the lock back; runs in the parent and in the child."""


# Held around an import that a function makes when it is first called. A child that was forked in the middle of it would wait
# for a thread that it does not have. Taken before any other lock here; imports made under a lock of a Forkable need it not.
importing = threading.RLock()

_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()
_registering = threading.Lock()
_held: list[Forkable] = []
_hooked = False


def close_on_fork(thing: Forkable) -> None:
    """From now on `thing` is closed around every fork of this process."""
    global _hooked  # noqa: PLW0603 - the process has one set of hooks
    with _registering:
        if not _hooked:
            # Hooks run newest first. Whoever holds a lock of ours may be about to log, or to import something that does, so
            # ours must be taken before logging's own: logging has to be there already.
            import logging  # noqa: F401, PLC0415

            os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
            _hooked = True
        _registered.add(thing)


def _before() -> None:
    # One order for every forking thread, so that two of them cannot wait for each other.
    importing.acquire()
    _registering.acquire()
    for thing in sorted(_registered, key=id):
        thing.before_fork()
        _held.append(thing)


def _after() -> None:
    while _held:
        _held.pop().after_fork()
    _registering.release()
    importing.release()
