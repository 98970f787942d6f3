"""The benchmarks: every row runs and says what it must; no test here asserts a time."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
ROW_KEYS = {"family", "name", "against", "figure", "unit", "bar", "detail", "raw", "skipped", "verdict"}


@pytest.fixture(autouse=True)
def _beside_the_scripts(monkeypatch):
    """The package lies where the program finds it."""
    monkeypatch.syspath_prepend(str(SCRIPTS))


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program in this environment, and never let it build another."""
    command = [sys.executable, str(SCRIPTS / "bench.py"), *map(str, arguments)]
    environment = {**os.environ, "AGENTOS_VENV": sys.prefix}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A run of every row with the smallest counts."""
    folder = tmp_path_factory.mktemp("bench")
    done = bench("--quick", "--tiny", "--json", folder / "report.json", "--dir", folder / "scratch")
    assert done.returncode == 0, done.stderr
    assert [] == list((folder / "scratch").iterdir()), "the scratch folder is removed"
    return json.loads((folder / "report.json").read_text())


@pytest.mark.xdist_group("bench")
class TestProgram:
    def test_every_family_runs_and_every_row_has_its_fields(self, report):
        """A row has a figure or a reason, and what it is measured against."""
        from benchmarks.families import FAMILIES

        assert 1 == report["format"]
        assert [family.name for family in FAMILIES if family.is_there] == list(
            dict.fromkeys(r["family"] for r in report["rows"])
        )
        for row in report["rows"]:
            assert ROW_KEYS == row.keys()
            assert (row["figure"] is None) == bool(row["skipped"]) == (row["verdict"] == "skipped")
            assert row["figure"] is None or isinstance(row["figure"], (int, float))
            assert (row["verdict"] in ("ok", "over")) == (row["bar"] is not None and row["figure"] is not None)

    def test_the_rows_that_were_promised_are_there(self, report):
        """Each with the bar that was set for it."""
        bars = {
            (row["family"], row["name"]): row["bar"] and (row["bar"]["kind"], row["bar"]["limit"]) for row in report["rows"]
        }
        for durability, limits in {"full": (1.4, 1.5, 2.2), "commit": (1.0, 1.2, 1.9)}.items():
            for size, limit in zip(("2 KB", "20 KB", "200 KB"), limits, strict=True):
                assert ("at most", limit) == bars["cycle", f"{durability}, {size}"]
        assert ("at most", 1.25) == bars["imports", "import agentos.core.checkpoints"]
        assert ("below", 500) == bars["processes", "2 processes: worst wait"]
        assert ("at least", 0.5) == bars["processes", "2 processes: fairness"]
        assert ("at least", 0.95) in bars.values()
        evidence = [bar for (family, _), bar in bars.items() if family == "evidence"]
        assert [("at most", 1.5), ("at least", 0.9), ("at least", 0.9), ("at most", 50), ("at most", 50)] == evidence
        vault = [bar for (family, _), bar in bars.items() if family == "vault"]
        assert [("at most", 1.5), ("at most", 1.5), ("at most", 2.0), None, ("at most", 0.1), ("at most", 0.1)] == vault
        assert {"bytes", "lookup", "langgraph", "syscalls"} <= {family for family, _ in bars}

    def test_what_a_cycle_asks_of_the_disk_is_exact(self, report):
        """Counts are no times: two syncs, one, or none, wherever this runs."""
        rows = {row["name"]: row for row in report["rows"] if row["family"] == "syscalls"}
        if any(row["skipped"] for row in rows.values()):
            pytest.skip(next(row["skipped"] for row in rows.values()))
        assert [2, 1, 0] == [rows[f"{name}: syncs, 2 KB"]["figure"] for name in ("full", "commit", "relaxed")]
        assert all(row["verdict"] == "ok" for row in rows.values())

    def test_the_machine_is_described_without_names(self, report):
        """Neither host nor folder: a table is meant to be shown."""
        assert {"processor", "memory", "system", "file system", "Python", "SQLite"} == {*report["machine"]}
        assert 2 == len(report["sync_us"])
        text = json.dumps(report)
        assert os.uname().nodename not in text
        assert str(ROOT) not in text

    def test_results_of_an_earlier_run_can_be_taken_again(self, report, tmp_path):
        """What was measured is kept whole, and read back as it was."""
        from benchmarks.results import Report

        assert report == Report.from_dict(report).to_dict()
        (tmp_path / "old.json").write_text(json.dumps(report))
        done = bench("--results", tmp_path / "old.json", "--json", tmp_path / "new.json")
        assert (0, "") == (done.returncode, done.stderr)
        assert report == json.loads((tmp_path / "new.json").read_text())

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--only", "nothing"], "'nothing' is no family of rows: one of imports, cycle"),
            (["--rounds", "0"], "0 is not a number of rounds"),
            (["--quick", "--write-docs"], "--write-docs keeps a full table"),
            (["--only", "imports", "--write-docs"], "--write-docs keeps a full table"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, arguments, complaint):
        """Before anything is measured."""
        done = bench(*arguments)
        assert 2 == done.returncode
        assert complaint in done.stderr


class TestRounds:
    def test_contenders_take_turns_and_each_goes_first_in_its_round(self):
        """Going first, or after a certain neighbour, is nobody's advantage."""
        from benchmarks.rounds import interleaved

        order: list[str] = []

        def turn(name):
            order.append(name)
            return 1.0

        interleaved({name: partial(turn, name) for name in "abc"}, 3)
        assert list("abcbcacab") == order

    def test_ratios_are_taken_inside_a_round(self):
        """A round in which everything was slow does not move the figure."""
        from benchmarks.rounds import Rounds

        rounds = Rounds({"raw": [1.0, 10.0, 1.0], "ours": [1.5, 15.0, 9.0]})
        assert [1.5, 1.5, 9.0] == rounds.ratios("ours", "raw")
        assert 1.5 == rounds.ratio("ours", "raw")

    def test_a_contest_gives_mean_and_median(self):
        """One dear cycle is in the mean of its turn, and not in its median."""
        from benchmarks.contest import contest
        from benchmarks.counts import TINY

        done = {"raw": 0, "ours": 0}

        def cycle(name):
            done[name] += 1

        outcome = contest({name: partial(cycle, name) for name in done}, 200, TINY)
        assert min(done.values()) > 2
        figures = outcome.raw("ours", "raw")
        assert {"us", "baseline_us", "typical_us", "typical_baseline_us", "typical_ratio", "cpu_us", "cpu_baseline_us"} == {
            *figures
        }


class TestResults:
    @pytest.mark.parametrize(
        ("kind", "limit", "good", "bad"),
        [("at most", 1.4, 1.4, 1.41), ("below", 500, 499, 500), ("at least", 0.95, 0.95, 0.94), ("exactly", 2, 2, 3)],
    )
    def test_a_bar_is_held_or_missed(self, kind, limit, good, bad):
        """Over means missed, whichever the direction."""
        from benchmarks.results import Bar, Row

        assert ["ok", "over"] == [Row("r", "raw", figure, bar=Bar(kind, limit)).verdict for figure in (good, bad)]

    def test_a_bar_of_unknown_kind_is_refused(self):
        """A bar that cannot be missed is none."""
        from benchmarks.results import Bar

        with pytest.raises(ValueError, match="no kind of bar"):
            Bar("about", 1)

    def test_a_skipped_row_says_why_in_every_form(self):
        """And has no figure that somebody could quote."""
        from benchmarks.results import skipped
        from benchmarks.table import as_markdown, as_text

        row = skipped("syncs", "no C compiler")
        assert ("skipped", None) == (row.verdict, row.figure)
        assert "no C compiler" in as_text([row])
        assert "no C compiler" in as_markdown([row])


class TestParts:
    @pytest.mark.parametrize("size", [2_048, 20_480, 204_800])
    def test_states_have_the_size_that_is_asked_for_and_differ(self, size):
        """Never less, because a smaller row shares its page; and one seed always makes the same."""
        from benchmarks.states import encoded, state

        lengths = [len(encoded(state(size, seed))) for seed in range(8)]
        assert all(size <= length <= size * 1.15 for length in lengths)
        assert 8 == len({encoded(state(size, seed)) for seed in range(8)})
        assert state(size, 3) == state(size, 3)
        assert state(size, 3) == json.loads(encoded(state(size, 3)))

    def test_cycles_with_a_checkpoint_of_the_log_are_counted_apart(self):
        """A sync that belongs to many cycles is not charged to one."""
        from benchmarks.syscalls import _per_cycle

        def op(call, path="cycles.sqlite-wal", offset=32):
            return SimpleNamespace(call=call, path=path, offset=offset)

        plain = [op("pwrite"), op("pwrite"), op("fdatasync")]
        moving = [*plain, op("fdatasync"), op("pwrite", "cycles.sqlite"), op("fdatasync", "cycles.sqlite")]
        starting = [op("pwrite", offset=0), op("fdatasync"), *plain]
        tape: Any = SimpleNamespace(ops=[*plain, *moving, *starting, *plain], marks={"0": 0, "1": 3, "2": 9, "3": 14, "4": 17})
        counted = _per_cycle(tape, 4)
        assert ([1, 1], [2, 2], 2) == (counted.syncs, counted.writes, counted.with_checkpoint)

    def test_a_long_timeline_is_made_of_real_checkpoints(self, tmp_path):
        """Each number once, each sealed, each with the state of its own place."""
        from benchmarks.filler import TASK, fill

        from agentos.core.checkpoints import CheckpointManager

        (tmp_path / "report.md").write_text("there")
        fill(tmp_path / "registry.sqlite", tmp_path, 40)
        with CheckpointManager(tmp_path / "registry.sqlite", tmp_path) as manager:
            found = manager.list_checkpoints(TASK)
            assert list(range(40, 0, -1)) == [each.sequence_number for each in found]
            assert all(each.snapshot_data["iteration"] == each.sequence_number and each.verified for each in found)
            assert 40 == manager.get_last_verified_checkpoint(TASK).sequence_number
            assert manager.verify_checkpoint(found[7].checkpoint_id)


class TestPage:
    def test_the_page_is_what_the_program_writes(self, tmp_path):
        """Head, machine, and a table for every family that was run."""
        from benchmarks import page
        from benchmarks.results import Bar, Report, Row

        rows = (
            Row("full, 2 KB", "raw", 1.38, bar=Bar("at most", 1.4), family="cycle"),
            Row("2 KB", "raw", 1.2, family="bytes"),
        )
        page.write(Report({"processor": "2 x made up"}, (70.0, 75.0), "2026-01-02", "full", 300.0, rows), tmp_path / "page.md")
        text = (tmp_path / "page.md").read_text()
        assert "| 8 KB write + fdatasync | 70 us before the run, 75 us after it |" in text
        assert "Others used the disk" not in text
        assert "Measured on 2026-01-02, with the full counts, in 300 s." in text
        assert "| processor | 2 x made up |" in text
        assert "## A step cycle\n\n| row | against | figure | bar |  | measured |" in text
        assert "| full, 2 KB | raw | 1.38 | at most 1.4 | ok |  |" in text

    def test_a_disturbed_run_is_called_one(self):
        """A sync that became dearer in the meantime was paid by figures that do not know it."""
        from benchmarks import page
        from benchmarks.results import Report

        report = Report({}, (70.0, 400.0), "2026-01-02", "full", 300.0, ())
        assert report.was_disturbed
        assert "Others used the disk" in page.rendered(report)

    def test_what_was_added_after_a_run_has_no_figures_yet(self):
        """The page says so, and does not pass over it."""
        from benchmarks import page
        from benchmarks.results import Report, Row

        row = Row("x", "raw", 1.0, family="cycle")
        text = page.rendered(Report({}, (70.0, 70.0), "2026-01-02", "full", 300.0, (row,)))
        assert "## The run store\n\nAdded after this run: no figures yet.\n" in text
        assert "## A step cycle\n\nAdded" not in text

    def test_the_page_in_the_docs_is_a_whole_table_without_names(self):
        """Written by the program: every family has its table, and nothing tells whose machine it was."""
        from benchmarks.families import FAMILIES

        text = (ROOT / "docs" / "benchmarks.md").read_text()
        missing = [
            family.title for family in FAMILIES if family.module.startswith("benchmarks.") and f"## {family.title}" not in text
        ]
        assert [] == missing
        assert [] == re.findall(r"(?:/home|/root|/work|/tmp|/Users)\b\S*", text)
