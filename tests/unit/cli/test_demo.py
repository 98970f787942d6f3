"""The demonstration runs end to end, in colour on a terminal and in plain words elsewhere."""

import re
import subprocess
from pathlib import Path

from tests.support import environment
from tests.unit.cli.program import COMMAND, agentos, on_a_terminal


def test_the_demonstration_runs_end_to_end_in_plain_text():
    """Killed, meddled with, put back, resumed from what holds, finished: without a terminal in plain words."""
    ended = agentos("demo")
    assert (0, "") == (ended.returncode, ended.stderr)
    lines = ended.stdout.splitlines()
    assert 5 == sum(line.endswith("measured, kept, committed") for line in lines) + 1
    for times, words in (
        (2, r"^  KILLED +kill -9: process \d+ is gone in the middle of a step"),
        (1, r"^  open +report.md: half written"),
        (1, r"^  put back: restore to checkpoint \w+ in .*: overwrite 2; "),
        (1, r"^  what was there before is kept: notes.md, report.md; manager.undo_restore\('restore_\w+'\) brings it back"),
        (1, r"^  open +a step of .* never ended, runs again: "),
        (1, r"^  ok +number 3 holds, measured now: resuming after 'sources'"),
        (1, r"^  ok +a step of .* never ended, adopted: "),
        (1, r"^  ok +finished: 5 items"),
        (1, r"^  -- +notes.md: Bring milk. And a stranger was here."),
        (1, r"^task report-42: resume: go on from checkpoint number 3 "),
    ):
        assert times == sum(bool(re.match(words, line)) for line in lines), words
    assert "\x1b" not in ended.stdout


def test_the_demonstration_has_marks_on_a_terminal():
    """On a terminal the same story has colours and marks, also in the part that is read through a pipe."""
    code, said = on_a_terminal("demo")
    assert 0 == code
    for mark in ("\x1b[32m✓\x1b[0m number 2: plan", "\x1b[31m☠\x1b[0m kill -9", "\x1b[32m✓\x1b[0m manager.restore"):
        assert mark in said
    assert "KILLED" not in said


def test_a_terminal_that_wants_no_colour_gets_plain_text():
    """NO_COLOR and a dumb terminal are respected."""
    assert "\x1b[" not in on_a_terminal("demo", NO_COLOR="1")[1]


def test_the_demonstration_leaves_nothing_behind(tmp_path: Path):
    """It works in a scratch folder and takes that away again."""
    ended = agentos("demo", TMPDIR=str(tmp_path), cwd=tmp_path)
    assert 0 == ended.returncode
    assert [] == list(tmp_path.iterdir())


def test_the_demonstration_runs_where_only_ascii_can_be_shown():
    """Also its agent, which is a process of its own."""
    ended = subprocess.run(
        [*COMMAND, "demo"], env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=False, timeout=60
    )
    assert (0, b"") == (ended.returncode, ended.stderr)
