"""The command line of the benchmarks: choose, measure, print, and keep what was measured."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, page, place
from benchmarks.counts import FULL, QUICK, TINY, Counts
from benchmarks.families import Family, chosen
from benchmarks.place import Bench
from benchmarks.results import Report, Row
from benchmarks.table import as_text


def main(arguments: list[str]) -> int:
    """Run as the arguments say; 0 unless something broke. A figure over its bar is a finding, not a failure."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        families = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        print("\n".join(f"{family.name:10} {family.title}" for family in families))
        return 0
    counts = TINY if options.tiny else QUICK if options.quick else FULL
    if options.write_docs and options.results is None and (options.only or counts is not FULL):
        parser.error("--write-docs keeps a full table: leave --quick and --only away")
    report = _loaded(options.results) if options.results else _measured(options, families, counts)
    if options.json:
        options.json.write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")
    if options.write_docs:
        page.write(report)
        print(f"written: {page.PAGE.relative_to(place.ROOT)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.py", description="What agentos costs, as ratios to a raw baseline.")
    parser.add_argument("--quick", action="store_true", help="small counts: every row in seconds, for a glance")
    parser.add_argument("--tiny", action="store_true", help="only see that every row still runs; the figures mean nothing")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="one family of rows; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the families")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="how often cycles and lookups take turns")
    parser.add_argument("--dir", type=Path, help="measure beneath this folder (default: the checkout, which is on a disk)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    parser.add_argument("--write-docs", action="store_true", help="also write docs/benchmarks.md anew")
    parser.add_argument("--results", type=Path, metavar="FILE", help="take the results of an earlier --json, measure nothing")
    parser.add_argument("--install", action="store_true", help="first install what agentos is compared with (the extra bench)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number of rounds")
    return number


def _loaded(path: Path) -> Report:
    return Report.from_dict(json.loads(path.read_text("utf-8")))


def _measured(options: argparse.Namespace, families: list[Family], counts: Counts) -> Report:
    started = time.monotonic()
    if options.rounds:
        counts = replace(counts, rounds=options.rounds)
    with place.opened(options.dir, counts) as bench:
        about = machine.described(bench.scratch)
        before = machine.sync_us(bench.scratch)
        print("  ".join(f"{name}: {value}" for name, value in about.items()))
        if machine.is_in_memory(about["file system"]):
            print("agentos: this folder is in memory, where a sync costs nothing; choose a disk with --dir", file=sys.stderr)
        print(f"8 KB write + fdatasync: {before:,.0f} us")
        rows = [row for family in families for row in _of(family, bench)]
        after = machine.sync_us(bench.scratch)
    seconds = round(time.monotonic() - started, 1)
    date = datetime.now(UTC).date().isoformat()
    report = Report(about, (round(before, 1), round(after, 1)), date, counts.name, seconds, tuple(rows))
    over = [row for row in rows if row.verdict == "over"]
    bars = sum(row.bar is not None and row.figure is not None for row in rows)
    print(f"\n{len(rows)} rows in {seconds:,.0f} s; {len(over)} of {bars} figures are over their bar")
    if report.was_disturbed:
        print(f"the disk was not quiet: a sync cost {before:,.0f} us before the run and {after:,.0f} us after it")
    return report


def _of(family: Family, bench: Bench) -> list[Row]:
    print(f"\n{family.title} ({family.name})", flush=True)
    started = time.monotonic()
    rows = list(family.rows(bench))
    print(as_text(rows))
    print(f"  in {time.monotonic() - started:.1f} s", flush=True)
    return rows
