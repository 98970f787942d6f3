"""Identifiers: ULIDs that stay unique and ordered under threads, clock steps and fork.

python-ulid keeps its last value in memory: a forked child would repeat the parent's next one, a clock that steps back would
break the order. Here a lock covers clock and generator, the clock never goes back, and a child starts anew.
Order holds within one process only; across processes the registry's sequence numbers order things.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from agentos._fork import importing

STEP_PREFIX = "step_"
_RANDOM_BITS = 80
# So many of the random bits are in a step's key.
_KEPT_BITS = 15
_KEPT = (1 << _KEPT_BITS) - 1


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class IdSource:
    """Makes bare ULID strings."""

    def __init__(self, clock: Callable[[], int] = _wall_ms) -> None:
        self._wall = clock
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0
        self._last = 0
        self._generator: Any = None

    def __call__(self) -> str:
        with self._lock:
            if self._generator is None:
                # Importing python-ulid reads package metadata from disk; only a process that makes an id pays for it.
                with importing:
                    from ulid import ULIDGenerator  # noqa: PLC0415

                self._generator = ULIDGenerator(clock=lambda: self._newest)
            self._newest = max(self._newest, self._wall())
            made = self._generator.generate()
            if self._wraps(int(made)):
                # The next millisecond, a little early: the key of a step is to grow like its id.
                self._newest += 1
                made = self._generator.generate()
            self._last = int(made)
            return str(made)

    def _wraps(self, number: int) -> bool:
        """Whether the bits that a step's key keeps started over within one millisecond."""
        same_time = number >> _RANDOM_BITS == self._last >> _RANDOM_BITS
        return same_time and number & _KEPT < self._last & _KEPT


new_ulid = IdSource()


def new_step_id() -> str:
    """`step_` and a ULID; the same ULID names the checkpoint that the step becomes."""
    return STEP_PREFIX + new_ulid()


# The letters of a ULID, and the ones that Python's own base 32 has in their place.
_PLAIN_BASE_32 = str.maketrans("ABCDEFGHJKMNPQRSTVWXYZ", "abcdefghijklmnopqrstuv")
_LENGTH = 26
_SIGNED = (1 << 63) - 1


def step_key_of(step_id: str) -> int | None:
    """63 bits of the step's ULID: all of its time, the lowest of its random ones. None if this was never a step's id.

    Keys of one process differ and grow; two processes draw the same one once in 32,768 steps of the same millisecond.
    """
    letters = checkpoint_id_of(step_id)
    if len(letters) != _LENGTH or not letters.isascii() or not letters.isalnum() or letters == step_id:
        return None
    try:
        number = int(letters.translate(_PLAIN_BASE_32), 32)
    except ValueError:
        return None
    return ((number >> _RANDOM_BITS) << _KEPT_BITS) & _SIGNED | (number & ((1 << _KEPT_BITS) - 1))


_ALPHABET = frozenset("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
_TIME_LETTERS = 10
_LAST_TIME = (1 << 48) - 1


def step_keys_beginning(letters: str) -> tuple[int, int] | None:
    """The lowest and the highest key of all steps whose ULID begins with these letters. None if no ULID does."""
    if len(letters) > _LENGTH or not _ALPHABET.issuperset(letters):
        return None
    low, high = ((letters + filler * _LENGTH)[:_TIME_LETTERS].translate(_PLAIN_BASE_32) for filler in "0Z")
    first, last = int(low, 32), min(int(high, 32), _LAST_TIME)
    return None if first > last else (first << _KEPT_BITS, last << _KEPT_BITS | _KEPT)


def checkpoint_id_of(step_id: str) -> str:
    """The id a step's checkpoint gets unless the caller names another."""
    return step_id.removeprefix(STEP_PREFIX)
