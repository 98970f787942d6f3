"""What `import agentos.core.checkpoints` costs: an agent pays for it at every restart.

Fresh interpreters, one after the other, in turns with one that imports only what the types and the store stand on. The clock
runs inside the interpreter, around the import alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.place import Bench
from benchmarks.results import Bar, Row
from benchmarks.rounds import Turn, interleaved

MOST = 1.25
BASELINE = "pydantic.dataclasses, sqlite3"
_PROGRAM = "import time; started = time.perf_counter(); import {}; print(time.perf_counter() - started)"


def rows(bench: Bench) -> Iterator[Row]:
    """The one row."""
    turns = {"agentos": _turn(bench, "agentos.core.checkpoints"), "baseline": _turn(bench, BASELINE)}
    # The first ones write byte code and fill the page cache.
    for turn in turns.values():
        turn()
    measured = interleaved(turns, bench.counts.interpreters)
    ms, base_ms = measured.median("agentos") * 1e3, measured.median("baseline") * 1e3
    yield Row(
        "import agentos.core.checkpoints",
        f"import {BASELINE}",
        round(measured.ratio("agentos", "baseline"), 3),
        bar=Bar("at most", MOST),
        detail=f"{ms:.1f} ms against {base_ms:.1f}; quartiles {measured.spread('agentos', 'baseline')}",
        raw={"ms": round(ms, 2), "baseline_ms": round(base_ms, 2)},
    )


def _turn(bench: Bench, names: str) -> Turn:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [sys.executable, "-c", _PROGRAM.format(names)]

    def take() -> float:
        done = subprocess.run(command, cwd=bench.scratch, env=plain, capture_output=True, text=True, check=True)
        return float(done.stdout)

    return take
