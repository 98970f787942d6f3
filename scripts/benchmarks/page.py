"""docs/benchmarks.md: the last full table, with the machine and the date. Written by `bench.py --write-docs`, never by hand."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from benchmarks.families import FAMILIES
from benchmarks.place import ROOT
from benchmarks.results import Report
from benchmarks.table import as_markdown

PAGE = ROOT / "docs" / "benchmarks.md"

_HEAD = """# Benchmarks

What a step costs, as ratios to a raw baseline that ran interleaved with it on the same disk.
This page is written by `scripts/bench.py --write-docs`; what it says was measured in one run.

```console
$ python3 scripts/bench.py --quick
$ python3 scripts/bench.py
$ python3 scripts/bench.py --write-docs
```

How to read it:

- A figure is the median over rounds of the ratio inside each round; contenders take turns in every round.
- A cycle is `begin_step` and `commit_step` with one `artifact_exists` item, made anew each time.
- Its figure is the mean of a turn, checkpoints of SQLite's log included; the median cycle, without them, stands beside it.
- `raw` is two committed INSERTs of ready bytes, an intent of 100 bytes and then the payload, with WAL and synchronous=FULL.
- The time of the processor is that of the whole process, without waiting for the disk.
- Both write to the same disk, and the dearer its sync, the closer every ratio comes to the number of syncs.
- `bar` is the figure that was set as a goal; `over` means that it was missed.
"""

_DISTURBED = "Others used the disk during this run, so what waits for a sync is worth less than what was counted.\n"

# A run of some time ago knows nothing of families that were added since.
_LATER = "Added after this run: no figures yet.\n"


def write(report: Report, path: Path = PAGE) -> None:
    """Put the report where readers look for it."""
    path.write_text(rendered(report), encoding="utf-8")


def rendered(report: Report) -> str:
    """The whole page."""
    titles = {family.name: family.title for family in FAMILIES}
    before, after = report.sync_us
    about = {**report.machine, "8 KB write + fdatasync": f"{before:,.0f} us before the run, {after:,.0f} us after it"}
    machine = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in about.items())])
    when = f"Measured on {report.date}, with the {report.counts} counts, in {report.seconds:,.0f} s.\n"
    parts = [_HEAD, "## Machine and date\n", when + (_DISTURBED if report.was_disturbed else ""), f"{machine}\n"]
    for name, rows in groupby(report.rows, key=lambda row: row.family):
        parts += [f"## {titles.get(name, name)}\n", f"{as_markdown(rows)}\n"]
    measured = {row.family for row in report.rows}
    parts += [f"## {title}\n\n{_LATER}" for name, title in titles.items() if name not in measured]
    return "\n".join(parts)
