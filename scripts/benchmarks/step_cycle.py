"""What a step costs: begin and commit with one item of evidence, in each durability, against two raw INSERTs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

from agentos.core.checkpoints import CheckpointManager
from benchmarks.contest import Outcome, contest
from benchmarks.cycles import AGAINST_RAW, DURABILITIES, SIZES, Cycle, agentos_cycle, connect_raw, raw_cycle
from benchmarks.place import Bench
from benchmarks.results import Bar, Row

BARS = {
    ("full", "2 KB"): 1.4,
    ("full", "20 KB"): 1.5,
    ("full", "200 KB"): 2.2,
    ("commit", "2 KB"): 1.0,
    ("commit", "20 KB"): 1.2,
    ("commit", "200 KB"): 1.9,
}


def rows(bench: Bench) -> Iterator[Row]:
    """One row per durability and size; each size is a contest of its own."""
    for label, size in SIZES.items():
        outcome = _measured(bench, size)
        for durability in DURABILITIES:
            limit = BARS.get((durability, label))
            yield Row(
                f"{durability}, {label}",
                AGAINST_RAW,
                round(outcome.mean.ratio(durability, "raw"), 3),
                bar=None if limit is None else Bar("at most", limit),
                detail=outcome.detail(durability, "raw"),
                raw=outcome.raw(durability, "raw"),
            )


def _measured(bench: Bench, size: int) -> Outcome:
    workspace = bench.workspace
    with bench.folder("cycle") as folder, ExitStack() as stack:
        cycles: dict[str, Cycle] = {"raw": raw_cycle(stack.enter_context(closing(connect_raw(folder / "raw.sqlite"))), size)}
        for durability in DURABILITIES:
            manager = CheckpointManager(folder / f"{durability}.sqlite", workspace, durability=durability)
            cycles[durability] = agentos_cycle(stack.enter_context(manager), size)
        return contest(cycles, size, bench.counts)
