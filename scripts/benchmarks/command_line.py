"""What the command line costs: help, one checkpoint as JSON, and a page of a registry with very many checkpoints.

The first two are whole processes, in turns with one that only does what none can do without: a click program that says its
help, and one that imports click and `agentos.core.checkpoints`. A page is what the verb asks of its manager, which only reads;
a registry with 1,000 checkpoints of one task takes turns with a large one, and both have the same other tasks.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

from agentos.core.checkpoints import CheckpointManager
from benchmarks.cycles import claim
from benchmarks.filler import TASK, fill
from benchmarks.place import Bench
from benchmarks.results import Bar, Row
from benchmarks.rounds import Rounds, Turn, interleaved
from benchmarks.states import state

MOST_HELP, MOST_SHOW, MOST_PAGE = 1.5, 1.3, 1.3
LARGE = 100_000
_OTHERS = 60
_PAGE = 30
_BARE = """
import click
@click.command()
@click.option("--name", help="A name.")
def main(name): "Say something."
main(["--help"])
"""
_LOADED = "import click, agentos.core.checkpoints"
_AGENTOS = "import sys; from agentos.cli.main import main; main(sys.argv[1:])"


def rows(bench: Bench) -> Iterator[Row]:
    """Two rows of processes, and one for each page."""
    length = max(each for each in bench.counts.timelines if each <= LARGE)
    with bench.folder("command_line") as folder, ExitStack() as stack:
        paths = {each: folder / f"{each}.sqlite" for each in (bench.counts.timelines[0], length)}
        newest = {each: _filled(path, bench.workspace, each) for each, path in paths.items()}
        yield from _processes(bench, paths[length], newest[length])
        managers = [stack.enter_context(CheckpointManager(path, bench.workspace, readonly=True)) for path in paths.values()]
        yield from _pages(bench, managers, list(paths))


def _processes(bench: Bench, path: Path, newest: str) -> Iterator[Row]:
    programs: dict[str, tuple[str, ...]] = {
        "bare": (_BARE,),
        "help": (_AGENTOS, "--help"),
        "loaded": (_LOADED,),
        "show": (_AGENTOS, "show", newest, "--json", "--db", str(path)),
    }
    worked: dict[str, list[float]] = {name: [] for name in programs}
    turns = {name: _process(bench, worked[name], *words) for name, words in programs.items()}
    # The first ones write byte code and fill the page cache.
    for name, turn in turns.items():
        turn()
        worked[name].clear()
    measured = interleaved(turns, bench.counts.interpreters)
    for words, against, pair, most in (
        ("agentos --help", "a bare click program", ("help", "bare"), MOST_HELP),
        ("agentos show … --json", "click and import agentos.core.checkpoints", ("show", "loaded"), MOST_SHOW),
    ):
        row = _row(measured, words, against, pair, most)
        ours, base = (median(worked[name]) * 1e3 for name in pair)
        yield replace(row, detail=f"{row.detail}; of the processor alone {ours:.1f} ms against {base:.1f}, {ours / base:.2f}")


def _pages(bench: Bench, managers: list[CheckpointManager], lengths: list[int]) -> Iterator[Row]:
    asked: dict[str, Callable[[CheckpointManager], object]] = {
        "log": lambda manager: manager.task_log(TASK, limit=_PAGE),
        "log, from the middle": lambda manager: manager.task_log(TASK, limit=_PAGE, before=_middle(manager)),
        "tasks": lambda manager: manager.list_tasks(limit=_PAGE),
    }
    for name, ask in asked.items():
        turns = {str(length): _page(manager, ask) for length, manager in zip(lengths, managers, strict=True)}
        measured = interleaved(turns, bench.counts.rounds)
        long, short = str(lengths[-1]), str(lengths[0])
        bar = MOST_PAGE if lengths[-1] == LARGE else None
        yield _row(
            measured, f"a page of {name}: {lengths[-1]:,} checkpoints", f"{lengths[0]:,} checkpoints", (long, short), bar
        )


def _middle(manager: CheckpointManager) -> str:
    return f"{max(manager.task_overview(TASK).newest // 2, 1)}/-/-"


def _row(measured: Rounds, name: str, against: str, pair: tuple[str, str], most: float | None) -> Row:
    ours, base = pair
    ms, base_ms = measured.median(ours) * 1e3, measured.median(base) * 1e3
    return Row(
        name,
        against,
        round(measured.ratio(ours, base), 3),
        bar=None if most is None else Bar("at most", most),
        detail=f"{ms:,.2f} ms against {base_ms:,.2f}; quartiles {measured.spread(ours, base)}",
        raw={"ms": round(ms, 3), "baseline_ms": round(base_ms, 3)},
    )


def _filled(path: Path, workspace: Path, length: int) -> str:
    """A registry with so many checkpoints of one task, and a few other tasks; the id of the newest checkpoint."""
    fill(path, workspace, length - 1)
    with CheckpointManager(path, workspace, durability="relaxed") as manager:
        for number in range(_OTHERS):
            manager.begin_step(f"another {number:03}", "tool_executed", {})
        newest = manager.commit_step(manager.begin_step(TASK, "tool_executed", state(2_000)), claim())
    assert newest.sequence_number == length
    return newest.checkpoint_id


def _process(bench: Bench, worked: list[float], program: str, *arguments: str) -> Turn:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [sys.executable, "-c", program, *arguments]

    def take() -> float:
        before, started = _processor(), time.perf_counter()
        subprocess.run(command, cwd=bench.scratch, env=plain, capture_output=True, check=True)
        took = time.perf_counter() - started
        # Others on the machine make a process wait, not work.
        worked.append(_processor() - before)
        return took

    return take


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _page(manager: CheckpointManager, ask: Callable[[CheckpointManager], object]) -> Turn:
    def take() -> float:
        started = time.perf_counter()
        for _ in range(10):
            assert ask(manager)
        return (time.perf_counter() - started) / 10

    return take
