"""Recovery over a model world: what `recover` and `resume` answer is what an oracle says that shares no code with them.

The generator lives through random histories with a real registry and real files, and ends each with a disaster; see worlds/.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints.task import Task
from tests.torture.worlds.model import Begun, Claim, History, Mark, Pack
from tests.torture.worlds.oracle import Oracle
from tests.torture.worlds.scenario import Played, coverage, mend, play
from tests.torture.worlds.seeing import digest

VERDICTS = {"fresh", "resume", "repair", "diverged", "uncertain", "blocked", "finished"}
WAYS = {"adopt a step", "retry a step", "uncertain a step"}
can_recover = pytest.mark.skipif(not hasattr(Task, "resume"), reason="nothing recovers yet")


def scenarios(tmp_path: Path, seed: int, number: int) -> Iterator[Played]:
    """So many of them, each in a directory of its own."""
    for index in range(number):
        directory = tmp_path / str(index)
        directory.mkdir()
        yield play(directory, seed, index)


def complaints(played: list[Played]) -> str:
    return "\n\n".join(complaint for each in played for complaint in each.complaints)


@can_recover
def test_recovery_answers_as_the_oracle_does(tmp_path: Path, seed: int, count):
    """No state is returned whose world does not hold, no committed work is called fresh, nothing that can go on is refused."""
    played = [*scenarios(tmp_path, seed, count(60, 500))]
    assert "" == complaints(played)
    assert VERDICTS | WAYS <= {*coverage(played)}


@can_recover
def test_a_look_at_a_broken_world_does_not_count_against_it_once_it_is_mended(tmp_path: Path, seed: int, count):
    """Recovery that found no way on finds it again when the files are put back: later looks take no candidate away."""
    found: list[str] = []
    for index in range(count(20, 200)):
        directory = tmp_path / str(index)
        directory.mkdir()
        found += mend(directory, seed, index)
    assert "" == "\n\n".join(found)


# A fault is a claim that is not there when the world is folded: whether this one is kept, of a task whose newest is that.
FAULTS: dict[str, tuple[Callable[[Any, int], bool], str]] = {
    "only the newest pack": (lambda entry, newest: entry.sequence == newest, "whose world does not hold"),
    "one file forgotten": (lambda entry, newest: entry.subject != "file:a.txt", "whose world does not hold"),
    "releases forgotten": (lambda entry, newest: entry.lifetime != "release", "expected resume"),
}


@pytest.mark.planted
@can_recover
@pytest.mark.parametrize("fault", FAULTS)
def test_the_oracle_finds_a_gate_that_forgets(tmp_path: Path, seed: int, monkeypatch, fault: str):
    """The same scenarios, with a part of every world missing: before long one is answered wrong, and that is seen."""
    from agentos.core.checkpoints.world import Worlds

    keeps, sign = FAULTS[fault]
    fold = Worlds.__init__

    def forgetful(self: Worlds, entries: Iterable[Any], **options: Any) -> None:
        entries = [*entries]
        newest = max((entry.sequence for entry in entries), default=0)
        fold(self, [entry for entry in entries if keeps(entry, newest)], **options)

    monkeypatch.setattr(Worlds, "__init__", forgetful)
    assert any(sign in complaints([played]) for played in scenarios(tmp_path, seed, 1000))


def mark(sequence: int, *claims: Claim, base: str = "/", **more) -> Mark:
    values = {"rerunnable": True, "proven": True, "judged": True, **more}
    pack = values.pop("pack", Pack(claims))
    return Mark(sequence, f"s{sequence}", f"c{sequence}", pack, base, {"number": sequence}, **values)


def says(path: Path, text: str, lifetime: str = "lasting") -> Claim:
    return Claim("sha256", str(path), digest(text.encode()), lifetime)


class TestTheOracle:
    """The oracle itself, on cases that can be checked by reading them."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        (tmp_path / "a").write_text("one", encoding="ascii")
        return tmp_path / "a"

    def test_an_older_claim_about_another_file_is_part_of_the_world(self, file: Path):
        """The newest checkpoint's own file is right, an older one's is not: the newest does not hold."""
        history = History([mark(1, says(file, "zero")), mark(2, Claim("absent", f"{file}.none"))])
        assert "diverged" == Oracle(history).answer().verdict

    def test_a_later_claim_ends_an_earlier_one(self, file: Path):
        """Only the newest word on a subject counts; what does not hold is walked back from."""
        history = History([mark(1, says(file, "zero")), mark(2, says(file, "one")), mark(3, says(file, "two"))])
        assert ("resume", 2) == (Oracle(history).answer().verdict, Oracle(history).answer().sequence)

    def test_a_release_ends_a_claim_and_an_empty_world_does_not_hold(self, file: Path):
        """What was released need not hold, and nothing at all is not enough."""
        first, freed = mark(1, says(file, "one")), Pack((), (str(file),))
        assert 1 == Oracle(History([first, mark(2, pack=freed)])).answer().sequence
        kept = Pack((Claim("exists", str(file.parent)),), (str(file),))
        assert 2 == Oracle(History([mark(1, says(file, "zero")), mark(2, pack=kept)])).answer().sequence

    def test_what_is_left_of_a_partial_pack_is_judged_by_its_policy(self, file: Path):
        """Two of three were enough; of the two that are left two must hold, and one does."""
        claims = (says(file, "one"), Claim("exists", f"{file}.none"), Claim("absent", f"{file}.later"))
        partial = Pack(claims, partial=True, minimum=2)
        assert "resume" == Oracle(History([mark(1, pack=partial)])).answer().verdict
        later = mark(2, Claim("absent", f"{file}.later"))
        both = History([mark(1, pack=partial), later])
        assert ["differs", "holds"] == [Oracle(both).holds(each) for each in reversed(both.marks)]

    def test_what_cannot_be_seen_blocks_and_what_differs_walks_back(self, file: Path):
        """A base that is not there is no lost work."""
        unseen = mark(2, Claim("exists", "b"), base=f"{file}.none")
        assert "blocked" == Oracle(History([mark(1, says(file, "one")), unseen])).answer().verdict
        both = mark(2, pack=Pack((Claim("exists", "b"), says(file, "two"))), base=f"{file}.none")
        assert 1 == Oracle(History([mark(1, says(file, "one")), both])).answer().sequence

    def test_walking_back_stops_at_what_must_not_run_twice(self, file: Path):
        """A step that was declared not rerunnable is not walked back past."""
        history = History([mark(1, says(file, "one")), mark(2, says(file, "two"), rerunnable=False)])
        assert "uncertain" == Oracle(history).answer().verdict

    def test_a_claim_of_the_task_blocks(self, file: Path):
        """It must hold at every resume, and no older checkpoint makes up for it."""
        history = History([mark(1, says(file, "one")), mark(2, says(file, "two", "task"))])
        assert "blocked" == Oracle(history).answer().verdict

    @pytest.mark.parametrize(
        ("expected", "before", "rerunnable", "verdict", "settled"),
        [
            ("one", "zero", True, "resume", "adopt"),
            ("one", "zero", False, "resume", "adopt"),
            ("one", "one", True, "resume", "retry"),
            ("one", "one", False, "uncertain", "uncertain"),
            ("two", "one", False, "resume", "retry"),
            ("two", "zero", False, "uncertain", "uncertain"),
            ("two", "zero", True, "resume", "retry"),
        ],
    )
    def test_an_interrupted_step_is_settled(self, file: Path, expected, before, rerunnable, verdict, settled):
        """Landed, untouched, or neither: by what was expected and what was there when it began."""
        stands = mark(1, Claim("exists", str(file.parent)))
        step = Begun("s", 1, "/", {}, rerunnable, Pack((says(file, expected),)), (digest(before.encode()),))
        answer = Oracle(History([stands], [step])).answer()
        assert (verdict, {"s": settled}) == (answer.verdict, answer.settled)
