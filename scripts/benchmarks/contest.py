"""Let cycles of several stores take turns on one disk.

A turn is so many cycles that it holds at least one checkpoint of SQLite's log, and its figure is the mean: what a cycle costs
with everything that it causes. The median cycle, which leaves those checkpoints out, is kept beside it, and so is the time of
the processor, which does not depend on the disk.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median

from benchmarks.counts import Counts
from benchmarks.cycles import Cycle
from benchmarks.rounds import Rounds, Turn, interleaved

# SQLite starts its log anew at 1,000 pages of 4 KB. Until it was once that long it grows, and a growing file is dearer to sync.
_LOG_PAGES = 1_000
_PAGE = 4_096
# Neither disk nor page cache should be filled by one contest.
_BYTES_A_TURN = 12_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds per cycle: in the mean and in the median of each turn, and of the processor alone."""

    mean: Rounds
    typical: Rounds
    cpu: Rounds

    def raw(self, name: str, baseline: str) -> dict[str, float]:
        """The figures behind a ratio."""
        return {
            "us": round(self.mean.median(name) * 1e6, 1),
            "baseline_us": round(self.mean.median(baseline) * 1e6, 1),
            "typical_us": round(self.typical.median(name) * 1e6, 1),
            "typical_baseline_us": round(self.typical.median(baseline) * 1e6, 1),
            "typical_ratio": round(self.typical.ratio(name, baseline), 3),
            "cpu_us": round(self.cpu.median(name) * 1e6, 1),
            "cpu_baseline_us": round(self.cpu.median(baseline) * 1e6, 1),
        }

    def detail(self, name: str, baseline: str) -> str:
        """The same in words."""
        us, base = self.mean.median(name) * 1e6, self.mean.median(baseline) * 1e6
        cpu, base_cpu = self.cpu.median(name) * 1e6, self.cpu.median(baseline) * 1e6
        return (
            f"{us:,.0f} us against {base:,.0f}, of which processor {cpu:,.0f} against {base_cpu:,.0f}; "
            f"quartiles {self.mean.spread(name, baseline)}; median cycle {self.typical.ratio(name, baseline):.2f}"
        )


def contest(cycles: Mapping[str, Cycle], size: int, counts: Counts) -> Outcome:
    """Warm up and let the cycles, which each store about `size` bytes, take turns."""
    slowest = max(_warmed(cycle, size, counts.contender_seconds) for cycle in cycles.values())
    per_turn = min(int(counts.contender_seconds / counts.rounds / slowest), _BYTES_A_TURN // size)
    typical: dict[str, list[float]] = {name: [] for name in cycles}
    cpu: dict[str, list[float]] = {name: [] for name in cycles}

    def turn(name: str, cycle: Cycle) -> Turn:
        def take() -> float:
            busy = time.process_time()
            seconds = _timed(cycle, max(2, per_turn))
            cpu[name].append((time.process_time() - busy) / len(seconds))
            typical[name].append(median(seconds))
            return fmean(seconds)

        return take

    mean = interleaved({name: turn(name, cycle) for name, cycle in cycles.items()}, counts.rounds)
    return Outcome(mean, Rounds(typical), Rounds(cpu))


def _warmed(cycle: Cycle, size: int, longest: float) -> float:
    """Run until the log is as long as it gets, or for `longest` seconds; what a cycle costs by then."""
    enough, until = int(_LOG_PAGES / (3 + size / _PAGE)) + 10, time.perf_counter() + longest
    seconds: list[float] = []
    while len(seconds) < enough and time.perf_counter() < until:
        seconds += _timed(cycle, 5)
    return fmean(seconds[len(seconds) // 2 :])


def _timed(cycle: Cycle, count: int) -> list[float]:
    clock = time.perf_counter
    moments = [clock()]
    for _ in range(count):
        cycle()
        moments.append(clock())
    return [after - before for before, after in itertools.pairwise(moments)]
