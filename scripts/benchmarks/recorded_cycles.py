"""A program for the recorder: cycles of one kind, with a mark on the tape before and after each.

python -m benchmarks.recorded_cycles raw|full|commit|relaxed COUNT SIZE STORE WORKSPACE
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from agentos.core.checkpoints import CheckpointManager
from benchmarks.cycles import Cycle, agentos_cycle, connect_raw, raw_cycle
from tests.faults.channel import mark

# The first cycles create the task, and fill pages that were empty.
_WARM_UP = 20


def main() -> None:
    """Run them."""
    who, count, size, store, workspace = sys.argv[1:]
    path = Path(store) / "cycles.sqlite"
    if who == "raw":
        with closing(connect_raw(path)) as connection:
            _run(raw_cycle(connection, int(size)), int(count))
    else:
        with CheckpointManager(path, workspace, durability=who) as manager:
            _run(agentos_cycle(manager, int(size)), int(count))


def _run(cycle: Cycle, count: int) -> None:
    for _ in range(_WARM_UP):
        cycle()
    mark("0")
    for number in range(count):
        cycle()
        mark(str(number + 1))


if __name__ == "__main__":
    main()
