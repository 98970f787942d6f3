"""Many writers on one file: how much they get done together, how long the unluckiest call waited, and how fairly it is shared.

Each writer is a process with a manager and a task of its own, or a thread of one process that shares the manager. Durability is
`full`, states are of 2 KB. The worst wait is the longest single call of anybody in any round; fairness is the commits of the
slowest over those of the fastest, in the worst round. Raw INSERTs with SQLite's own waiting show what the file gives.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.cycles import SIZES, connect_raw
from benchmarks.place import Bench, environment
from benchmarks.results import Bar, Row

LONGEST_WAIT_MS = 500
FAIR = 0.5
_PATIENCE = 60


@dataclass(frozen=True, slots=True)
class Setting:
    """Who writes."""

    kind: str
    processes: int
    threads: int = 1

    @property
    def name(self) -> str:
        """For the table."""
        if self.threads > 1:
            return f"{self.threads} threads, one manager"
        many = "process" if self.processes == 1 else "processes"
        return f"{self.processes} {many}{', raw with busy_timeout' if self.kind == 'raw' else ''}"


@dataclass(frozen=True, slots=True)
class Written:
    """What one round of writers did: commits of each, the longest call of all, errors."""

    commits: list[int]
    seconds: float
    worst_ms: float
    errors: list[str]

    @property
    def rate(self) -> float:
        """Commits per second of all together."""
        return sum(self.commits) / self.seconds

    @property
    def fairness(self) -> float:
        """The slowest against the fastest."""
        return min(self.commits) / max(1, *self.commits)


def rows(bench: Bench) -> Iterator[Row]:
    """Rate, worst wait and fairness of every setting; with one writer only the first two say anything."""
    writers = bench.counts.writers
    settings = [Setting("agentos", many) for many in writers]
    settings += [Setting("agentos", 1, writers[-1]), Setting("raw", writers[-1])]
    rounds: dict[Setting, list[Written]] = {setting: [] for setting in settings}
    for number in range(bench.counts.writing_rounds):
        for setting in settings if number % 2 == 0 else settings[::-1]:
            rounds[setting].append(_round(bench, setting))
    alone = median(each.rate for each in rounds[settings[0]])
    for setting in settings:
        yield from _rows(setting, rounds[setting], alone, judged=setting == settings[len(writers) - 1])


def _rows(setting: Setting, rounds: list[Written], alone: float, *, judged: bool) -> Iterator[Row]:
    rate = median(each.rate for each in rounds)
    errors = [error for each in rounds for error in each.errors]
    detail = f"{rate:,.0f} commits/s" + (f"; {len(errors)} errors, first: {errors[0]}" if errors else "; no error")
    figures = {"commits_per_s": round(rate, 1), "errors": len(errors)}
    yield Row(f"{setting.name}: rate", "1 process", round(rate / alone, 3), detail=detail, raw=figures)
    waited = round(max(each.worst_ms for each in rounds), 1)
    yield Row(f"{setting.name}: worst wait", "the clock", waited, "ms", Bar("below", LONGEST_WAIT_MS) if judged else None)
    if setting.processes * setting.threads > 1:
        commits = ", ".join(f"{min(each.commits):,} to {max(each.commits):,}" for each in rounds)
        fairness = round(min(each.fairness for each in rounds), 3)
        bar = Bar("at least", FAIR) if judged else None
        yield Row(f"{setting.name}: fairness", "slowest / fastest", fairness, bar=bar, detail=f"commits {commits}")
    if judged:
        yield Row(f"{setting.name}: errors", "", len(errors), "", Bar("exactly", 0), detail=errors[0] if errors else "")


def _round(bench: Bench, setting: Setting) -> Written:
    seconds, size = bench.counts.writing_seconds, SIZES["2 KB"]
    workspace = bench.workspace
    with bench.folder("writers") as folder, ExitStack() as stack:
        options = [setting.kind, str(folder / "shared.sqlite"), str(workspace), str(setting.threads), str(seconds), str(size)]
        command = [sys.executable, "-m", "benchmarks.writer", *options]
        if setting.kind == "raw":
            # SQLite refuses some of many that switch a new file to WAL at the same moment.
            stack.enter_context(closing(connect_raw(folder / "shared.sqlite")))
        writers = [stack.enter_context(_started(command)) for _ in range(setting.processes)]
        for writer in writers:
            _wait_until_ready(writer)
        for writer in writers:
            _let_go(writer)
        answers = [_answer(writer, seconds + _PATIENCE) for writer in writers]
    return Written(
        [count for answer in answers for count in answer["commits"]],
        seconds,
        max(answer["worst_ms"] for answer in answers),
        [error for answer in answers for error in answer["errors"]],
    )


def _started(command: list[str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def _wait_until_ready(writer: subprocess.Popen[str]) -> None:
    assert writer.stdout is not None
    if writer.stdout.readline() != "ready\n":
        raise RuntimeError(f"a writer did not start: {writer.communicate()[1]}")


def _let_go(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()


def _answer(writer: subprocess.Popen[str], patience: float) -> dict[str, Any]:
    said, complaints = writer.communicate(timeout=patience)
    if writer.returncode:
        raise RuntimeError(f"a writer failed: {complaints}")
    answer: dict[str, Any] = json.loads(said)
    return answer
