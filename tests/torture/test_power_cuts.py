"""Power cuts: the disk after any prefix of what agents did, with whatever had not been synced lost, kept, torn or mixed.

Four recordings for each durability: the first step in a folder that is not there yet, steps that leave artifacts, two processes
whose log is checkpointed and started anew, and the boot of a later agentos that migrates. The states are shared out between
them, and between `strict` and `ext4` names. A state is opened by a manager and held to what was acknowledged: see audit.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from agentos.store import schema
from tests.faults.filesystem import Namespace
from tests.faults.record import Recorder, Recording
from tests.faults.replay import Cut, State, sample_cuts, states
from tests.torture import agent
from tests.torture.agent import Errand
from tests.torture.audit import missing

DURABILITIES = ("full", "commit", "relaxed")
LATER = "create table later (only_row integer primary key);\ncreate index later_steps on steps (host);\n"


@dataclass(frozen=True)
class Story:
    """What is recorded: an errand, and whether it is done by a later agentos on a registry that is there already."""

    errand: Errand
    upgrade: bool = False
    # Its part of the states, in percent: a long tape has more places to cut.
    share: int = 20


STORIES = {
    "creation": Story(Errand("", steps=2)),
    "artifacts": Story(Errand("", steps=8, artifacts=True)),
    "log": Story(Errand("", steps=20, processes=2, body_bytes=200_000), share=40),
    "migration": Story(Errand("", steps=2, artifacts=True), upgrade=True),
}


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The migrations of an agentos that knows one more than ours."""
    folder = tmp_path / "later"
    (folder / "sqlite").mkdir(parents=True)
    known = schema.load(schema.REGISTRY)
    for migration in known:
        (folder / "sqlite" / f"schema_v{migration.number}_{migration.name}.sql").write_text(migration.sql)
    (folder / "sqlite" / f"schema_v{known[-1].number + 1}_later.sql").write_text(LATER)
    return folder


@contextmanager
def knowing(migrations: str) -> Iterator[None]:
    folder = Path(migrations) if migrations else schema.migrations_folder()
    with patch.object(schema, "migrations_folder", lambda: folder):
        yield


@dataclass(frozen=True)
class Told:
    """A recording, and what had been acknowledged before it began."""

    recording: Recording
    errand: Errand
    before: tuple[str, ...] = ()


@pytest.fixture
def tell(recorder: Recorder, tmp_path: Path, later: Path, capfd, seed: int) -> Callable[..., Told]:
    """Record a story."""

    def record(name: str, **changes) -> Told:
        directory = tmp_path / "run"
        directory.mkdir()
        story = STORIES[name]
        errand = replace(story.errand, directory=str(directory), seed=seed, **changes)
        before: tuple[str, ...] = ()
        if story.upgrade:
            agent.do(replace(errand, task="earlier"))
            before = tuple(line for line in capfd.readouterr().out.splitlines() if line[0] != "#")
            errand = replace(errand, migrations=str(later))
        return Told(recorder.record(errand.argv, directory, timeout=120), errand, before)

    return record


def chosen_cuts(recording: Recording, count: int, rng: Random) -> list[Cut]:
    """Half of them right after an acknowledgement with all unsynced lost, which is the hardest test; half anywhere."""
    cuts: set[Cut] = set()
    parts: dict[Namespace, int] = {"strict": count - count // 3, "ext4": count // 3}
    for namespace, part in parts.items():
        telling = sample_cuts(recording, part // 2, rng, namespace)
        anywhere = [cut for cut in sample_cuts(recording, 10**9, rng, namespace) if cut not in telling]
        cuts |= {*telling, *rng.sample(anywhere, part - len(telling))}
    assert len(cuts) == count
    return sorted(cuts)


def violations(told: Told, cuts: list[Cut], *, after_cut: bool = True) -> Iterator[tuple[State, list[str]]]:
    with knowing(told.errand.migrations):
        for state in states(told.recording, cuts):
            yield state, missing(state.path, told.before + state.acked, after_cut=after_cut)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("durability", ["full", "commit"])
def test_power_cuts_take_nothing_that_was_promised(tell, rng: Random, count, durability: str, story: str):
    """`full` keeps every acknowledged begin, commit and artifact, `commit` every acknowledged commit; both stay usable."""
    told = tell(story, durability=durability)
    cuts = chosen_cuts(told.recording, count(300, 2000) * STORIES[story].share // 100, rng)
    found = [f"{lines[0]} | {state.description}" for state, lines in violations(told, cuts) if lines]
    assert [] == found
    print(f"{durability}, {story}: {len(cuts)} states of {len(told.recording.ops)} calls")


@pytest.mark.parametrize("story", STORIES)
def test_power_cuts_show_what_relaxed_may_lose(tell, rng: Random, count, story: str):
    """`relaxed` loses acknowledged steps, which the harness finds; what is left is whole, and can be gone on with."""
    # So many steps that the log is moved into the database: that takes 256 unsynced writes.
    longer = {"steps": 140, "body_bytes": 4000, "processes": 1} if story == "log" else {}
    told = tell(story, durability="relaxed", **longer)
    cuts = chosen_cuts(told.recording, count(300, 2000) * STORIES[story].share // 100, rng)
    found = [(state, line) for state, lines in violations(told, cuts, after_cut=False) for line in lines]
    assert any(line.startswith("lost: commit") for _, line in found)
    may_be = ("lost: ", "artifact: ")
    assert [] == [f"{line} | {state.description}" for state, line in found if not line.startswith(may_be)]
    lossy = {state.cut for state, line in found if line.startswith("lost: commit")}
    print(f"relaxed, {story}: {len(cuts)} states, commits lost in {len(lossy)}")


def test_one_that_does_not_sync_takes_nothing_from_one_that_does(tell, rng: Random, count):
    """A process in `full`, one in `commit` and one in `relaxed` on one registry: each promise holds for those who got it."""
    told = tell("log", durability="full commit relaxed", processes=3, steps=40, body_bytes=40_000)
    cuts = chosen_cuts(told.recording, count(60, 500), rng)
    found = [f"{lines[0]} | {state.description}" for state, lines in violations(told, cuts) if lines]
    assert [] == found


def test_the_recording_of_the_log_holds_checkpoints_and_fresh_starts(tell):
    """The long story is long enough: the log goes into the database several times and is written from its beginning again."""
    ops = tell("log").recording.ops
    assert sum(op.call == "fdatasync" and op.path.endswith(".sqlite") for op in ops) > 2
    assert sum(op.call == "pwrite" and op.path.endswith("-wal") and op.offset == 0 for op in ops) > 1
