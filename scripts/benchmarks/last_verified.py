"""What looking up the last verified checkpoint costs as a task's timeline grows, against a short one.

The registries are filled through agentos's own rows and seals (filler.py); before anything is timed, checkpoints from all over
the timeline are read back, and one more is committed on top by the manager. Then all registries take turns.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from agentos._ids import checkpoint_id_of
from agentos.core.checkpoints import CheckpointManager
from benchmarks.cycles import claim
from benchmarks.filler import TASK, fill
from benchmarks.place import Bench
from benchmarks.results import Bar, Row
from benchmarks.rounds import Rounds, Turn, interleaved
from benchmarks.states import state

LONGEST = 1_000_000
MOST = 1.3
_READ_BACK = 20


def rows(bench: Bench) -> Iterator[Row]:
    """One row per length, the shortest aside."""
    lengths = bench.counts.timelines
    workspace = bench.workspace
    with bench.folder("timeline") as folder, ExitStack() as stack:
        turns = {}
        for length in lengths:
            manager = _filled(folder / f"{length}.sqlite", workspace, length)
            turns[str(length)] = _turn(stack.enter_context(manager), bench.counts.lookups)
        measured = interleaved(turns, bench.counts.rounds)
    for length in lengths[1:]:
        yield _row(measured, length, lengths[0])


def _row(measured: Rounds, length: int, shortest: int) -> Row:
    ours, base = str(length), str(shortest)
    us, base_us = measured.median(ours) * 1e6, measured.median(base) * 1e6
    return Row(
        f"{length:,} checkpoints",
        f"{shortest:,} checkpoints",
        round(measured.ratio(ours, base), 3),
        bar=Bar("at most", MOST) if length == LONGEST else None,
        detail=f"{us:,.1f} us against {base_us:,.1f}; quartiles {measured.spread(ours, base)}",
        raw={"us": round(us, 2), "baseline_us": round(base_us, 2)},
    )


def _filled(path: Path, workspace: Path, length: int) -> CheckpointManager:
    """A manager on a task of this length, proven to be one."""
    ids = fill(path, workspace, length - 1)
    manager = CheckpointManager(path, workspace, durability="relaxed")
    newest = manager.commit_step(manager.begin_step(TASK, "tool_executed", state(2_000)), claim())
    assert newest.sequence_number == length
    drawn = random.Random(length).sample(ids, min(_READ_BACK, len(ids)))  # noqa: S311 - a sample, no secret
    for step_id in drawn:
        found = manager.get_checkpoint(checkpoint_id_of(step_id))
        assert found is not None
        assert found.verified
        assert found.snapshot_data["iteration"] == found.sequence_number
    assert [each.sequence_number for each in manager.list_checkpoints(TASK, 3)] == [length, length - 1, length - 2]
    return manager


def _turn(manager: CheckpointManager, lookups: int) -> Turn:
    def take() -> float:
        started = time.perf_counter()
        for _ in range(lookups):
            assert manager.get_last_verified_checkpoint(TASK) is not None
        return (time.perf_counter() - started) / lookups

    return take
