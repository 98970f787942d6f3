"""kill -9 of an agent that edits a shared folder: anywhere in its steps, in commits, in restores and while it collects.

After every resume the folder is exactly what the steps before it make of it without agentos, and so it is at the end; in every
other round a stranger edits the folder meanwhile, and gets everything back by the calls that explain() prints.
"""

import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.record import worker_environment
from tests.torture.lives import PLACES, Rounds


def play(rounds: Rounds) -> tuple[Counter[str], list[str]]:
    """Where the kills fell, and what went wrong, with what repeats it."""
    played = subprocess.run(rounds.argv, env=worker_environment(), capture_output=True, text=True, check=False)
    assert 0 == played.returncode, played.stderr
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for line in map(json.loads, played.stdout.splitlines()):
        counts.update(line["counts"])
        wrong += [f"{each} | {replace(rounds, first=line['round'], count=1).argv}" for each in line["wrong"]]
    return counts, wrong


@pytest.fixture
def memory() -> Iterator[str]:
    """A folder in memory, if there is such a place here."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="agentos-hands-", dir=place if os.access(place, os.W_OK) else None) as folder:
        yield folder


def test_an_agent_killed_anywhere_ends_where_an_uninterrupted_one_does(tmp_path: Path, memory: str, seed: int, count):
    """After each resume the last committed bytes, at the end those of an uninterrupted run; no byte of a stranger's is lost."""
    rounds = Rounds(str(tmp_path), seed, count=count(25, 500), memory=memory)
    counts, wrong = play(rounds)
    assert [] == wrong
    assert rounds.count == counts["rounds"]
    assert [] == [place for place in PLACES if not counts[f"killed in {place}"]], counts
    assert counts["strangers"]
    print(dict(sorted(counts.items())))


@pytest.mark.planted
@pytest.mark.parametrize(
    ("fault", "signs"),
    [
        ("keeps-nothing", ("not back: ", "collect misses")),
        ("commits-before-it-keeps", ("raised: ", "after the resume", "lost: ", "collect misses")),
        ("collects-what-open-steps-need", ("after the resume", "raised: ")),
        ("collects-what-was-overwritten", ("not back: ",)),
        ("journal-afterwards", ("after the resume", "not back: ", "raised: ", "touched: ", "at the end", "collect misses")),
    ],
)
def test_kills_and_strangers_find(tmp_path: Path, memory: str, seed: int, fault: str, signs: tuple[str, ...]):
    """Each fault planted in the hands is found within the rounds of a normal run, and for what it is."""
    _, wrong = play(Rounds(str(tmp_path), seed, count=60, fault=fault, memory=memory))
    assert any(line.startswith(signs) for line in wrong), wrong
