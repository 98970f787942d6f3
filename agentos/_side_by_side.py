"""Wait for the disk many times at once: what waits together is taken together, and one after the other takes ten times as long.

For work that waits and hardly computes. Few things are done one after the other, in their order, without any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from agentos._fork import importing

Item = TypeVar("Item")

_MANY, _THREADS = 32, 8


def side_by_side(work: Callable[[Item], object], items: Sequence[Item]) -> None:
    """Do this with each. All of it has ended when this returns or raises the first error, in the order of the items."""
    if len(items) < _MANY:
        for item in items:
            work(item)
        return
    with importing:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - few have many things to wait for
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="agentos-sync") as pool:
        for _ in pool.map(work, items):
            pass
