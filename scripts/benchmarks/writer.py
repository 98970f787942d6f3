"""A program that writes steps for a while, in one thread or several, and reports what that was like.

    python -m benchmarks.writer agentos|raw REGISTRY WORKSPACE THREADS SECONDS SIZE

It prints `ready` when it is open and warm, waits for a line, writes, and prints commits per thread, the longest single call in
milliseconds, and every error, as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from agentos.core.checkpoints import CheckpointManager
from benchmarks.cycles import VARIETY, claim, connect_raw, raw_cycle
from benchmarks.states import state

# One call that may have to wait.
Call = Callable[[], object]
_WARM_UP = 5


@dataclass(slots=True)
class Tally:
    """What one thread did."""

    commits: int = 0
    worst: float = 0.0
    errors: list[str] = field(default_factory=list)


def main() -> None:
    """Write as the command line says."""
    kind, path, workspace, threads, seconds, size = sys.argv[1:]
    if kind == "raw":
        with closing(connect_raw(Path(path))) as connection:
            _report([[raw_cycle(connection, int(size))]], float(seconds))
        return
    with CheckpointManager(path, workspace) as manager:
        tasks = [f"task-{os.getpid()}-{number}" for number in range(int(threads))]
        _report([_step(manager, task, int(size)) for task in tasks], float(seconds))


def _step(manager: CheckpointManager, task_id: str, size: int) -> list[Call]:
    """The two calls of a step, apart: each is a wait of its own."""
    states = itertools.cycle([state(size, seed) for seed in range(VARIETY)])
    begun = [""]

    def begin() -> None:
        begun[0] = manager.begin_step(task_id, "tool_executed", next(states))

    def commit() -> None:
        assert manager.commit_step(begun[0], claim()).verified

    return [begin, commit]


def _report(steps: list[list[Call]], seconds: float) -> None:
    for calls in steps:
        for _ in range(_WARM_UP):
            for call in calls:
                call()
    print("ready", flush=True)
    sys.stdin.readline()
    tallies = [Tally() for _ in steps]
    until = time.perf_counter() + seconds
    # The first one writes in this thread: the raw connection may be used in no other.
    others = zip(steps[1:], tallies[1:], strict=True)
    helpers = [threading.Thread(target=_write, args=(calls, tally, until)) for calls, tally in others]
    for helper in helpers:
        helper.start()
    _write(steps[0], tallies[0], until)
    for helper in helpers:
        helper.join()
    commits = [tally.commits for tally in tallies]
    errors = [error for tally in tallies for error in tally.errors]
    print(json.dumps({"commits": commits, "worst_ms": max(tally.worst for tally in tallies) * 1e3, "errors": errors}))


def _write(calls: list[Call], tally: Tally, until: float) -> None:
    clock = time.perf_counter
    while clock() < until:
        for call in calls:
            started = clock()
            try:
                call()
            except Exception as error:  # noqa: BLE001 - counted and reported: an error here is a finding
                tally.errors.append(f"{type(error).__name__}: {error}")
                return
            tally.worst = max(tally.worst, clock() - started)
        tally.commits += 1


if __name__ == "__main__":
    main()
