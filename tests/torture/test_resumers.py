"""Eight processes resume the same interrupted task and are killed: one goes on at a time, nothing happens twice, all is done.

A round is one task from its beginning to its end, through the hands of whoever was not killed. Afterwards it is held to the
registry's own rows, to the journal that the processes wrote past agentos, and to the effects, which can be counted.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.torture.relay import Relay, Runner
from tests.torture.resumer import EFFECTS, STEPS, TASK, Turn, open_manager, prepare, registry_of

# How much a process says that goes through the whole task alone.
LINES = 24


def round_of_resumers(directory: Path, rng: Random, fault: str = "", aim: int = 0) -> list[Runner]:
    """One task; what each process said is in the result. With `aim`, whoever is to die does so after that line."""
    prepare(directory)

    def argv(mortal: bool) -> list[str]:
        # Most of those who die do it at an exact moment; the others are killed from outside, whatever they are at.
        exact = mortal and (aim or rng.random() < 0.7)
        last_line = (aim or rng.randint(1, rng.choice([LINES // 2, LINES]))) if exact else 0
        return Turn(str(directory), fault, last_line).argv

    return Relay(argv, rng, kills=rng.randint(3, 6), most_lines=0 if aim else LINES).run()


def violations(directory: Path, runners: list[Runner]) -> Iterator[str]:
    """Everything that is not as it has to be after a round."""
    yield from _ends(runners)
    yield from _effects(directory)
    yield from _interleaved(directory)
    with closing(sqlite3.connect(registry_of(directory))) as database:
        yield from _rows(database)
    yield from _outcome(directory, runners)


def _ends(runners: list[Runner]) -> Iterator[str]:
    for each in runners:
        wanted = -9 if each.killed else 0
        if (each.process.returncode, each.stderr) != (wanted, ""):
            yield f"ended: {each.process.returncode} {each.stderr.strip()[-600:]}"


def _effects(directory: Path) -> Iterator[str]:
    for number in EFFECTS:
        found = directory.joinpath("work", f"effect-{number}").read_text()
        if found != f"{number}\n":
            yield f"effect: {number} happened {len(found.splitlines())} times"


def _interleaved(directory: Path) -> Iterator[str]:
    """Who goes on has a higher token than everybody before, and nobody before him does anything any more."""
    lines = directory.joinpath("journal").read_text().splitlines()
    tokens = [int(line.split()[0]) for line in lines]
    if tokens != sorted(tokens):
        at = next(at for at, (one, two) in enumerate(pairwise(tokens)) if one > two)
        yield f"interleaved: {lines[max(0, at - 2) : at + 3]}"


def _rows(database: sqlite3.Connection) -> Iterator[str]:
    placed = "select step_id, token from steps where state in ('committed', 'adopted') order by place"
    tokens = [token for _, token in database.execute(placed)]
    if tokens != sorted(tokens):
        yield f"interleaved: committed under {tokens}"
    adopted = Counter(about for (about,) in database.execute("select about from decisions where what = 'adopt'"))
    for step_id in [step_id for step_id, times in adopted.items() if times > 1]:
        yield f"adopted twice: {step_id}"
    states = dict(database.execute("select step_id, state from steps"))
    if {step_id for step_id, state in states.items() if state == "adopted"} != set(adopted):
        yield "adopted: the rows and what was decided differ"
    if "begun" in states.values():
        yield "open: a step was left begun"
    sound = database.execute("pragma integrity_check").fetchone()[0]
    if sound != "ok":
        yield f"damaged: {sound}"


def _outcome(directory: Path, runners: list[Runner]) -> Iterator[str]:
    with open_manager(directory) as manager:
        recovery = manager.recover(TASK)
        if (recovery.verdict, recovery.differences) != ("finished", ()):
            yield f"outcome: {recovery.explain()}"
        live = [checkpoint.snapshot_data["n"] for checkpoint in reversed(manager.list_checkpoints(TASK))]
        if live != [*range(1, STEPS + 1)]:
            yield f"outcome: the timeline is {live}"
        said = [line.split() for each in runners for line in each.lines]
        for checkpoint_id in [words[2] for words in said if words[0] == "committed"]:
            if manager.get_checkpoint(checkpoint_id) is None:
                yield f"lost: {checkpoint_id}"


def adoptions(directory: Path) -> Counter[str]:
    with closing(sqlite3.connect(registry_of(directory))) as database:
        found = Counter({"adopt": 0, "abandon": 0, "superseded": 0})
        found.update(what for (what,) in database.execute("select what from decisions"))
        found["superseded"] = database.execute("select count(*) from steps where superseded_by is not null").fetchone()[0]
    return found


def test_one_of_eight_goes_on_and_nothing_happens_twice(tmp_path: Path, rng: Random, count):
    """No two at work at a time, no step adopted twice, no effect twice, nothing acknowledged lost; every task is finished."""
    seen: Counter[str] = Counter()
    for number in range(count(10, 100)):
        directory = tmp_path / f"{number}"
        runners = round_of_resumers(directory, rng)
        assert [] == list(violations(directory, runners)), f"round {number}"
        seen.update(adoptions(directory))
        seen["killed"] += sum(each.killed for each in runners)
        seen["turns"] += sum(line.startswith("resumed") for each in runners for line in each.lines)
    print(f"{number + 1} rounds: {dict(seen)}")


@pytest.mark.planted
@pytest.mark.parametrize(
    ("fault", "aim", "sign"),
    [
        ("anyone-takes", 0, "interleaved"),
        ("once-forgets", 6, "effect: 1 happened 2 times"),
        ("runs-again", 17, "effect: 4 happened 2 times"),
    ],
)
def test_resumers_find(tmp_path: Path, rng: Random, fault: str, aim: int, sign: str):
    """A claim that keeps nobody out, a pending call that is made again, a step that must not run twice and does."""
    found = list(violations(tmp_path / "run", round_of_resumers(tmp_path / "run", rng, fault, aim)))
    assert any(line.startswith(sign) for line in found), found
