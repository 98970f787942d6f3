"""A person's word from the command line: steps, resolve, accept, restart, reopen and free, each kept with who and why."""

import getpass
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.support import dump, run
from tests.unit.cli.program import agentos, on_a_terminal
from tests.unit.cli.worlds import TASK, left_behind

WHY = ("--reason", "I looked")


def decisions(db: Path) -> list[tuple[str, str, str]]:
    return [(by, what, reason) for _, _, _, by, what, _, reason, _ in dump(db)["decisions"]]


@pytest.fixture
def uncertain(tmp_path: Path) -> Iterator[Path]:
    with left_behind("uncertain", tmp_path) as db:
        yield db


def the_step(db: Path) -> str:
    [step] = json.loads(agentos("steps", "--db", db, "--json").stdout)["steps"]
    return str(step["step_id"])


# steps


def test_steps_says_what_a_person_must_know_of_each(uncertain: Path):
    """Which, of what task, since when, whether anybody is still at it, and what to type."""
    ended = agentos("steps", "--db", uncertain)
    step = the_step(uncertain)
    lines = ended.stdout.splitlines()
    assert (0, "") == (ended.returncode, ended.stderr)
    assert f"open       {step} · task {TASK} · tool_executed letter" == lines[0]
    begun = r"    begun \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \((.* ago|just now)\) by process \d+ on .*: not at it any more$"
    assert re.match(begun, lines[1])
    assert f"agentos resolve {step} landed --reason '…' --db {uncertain}" in lines[2]
    code, said = on_a_terminal("steps", TASK, "--db", uncertain)
    assert (0, True) == (code, f"\x1b[1m{step}\x1b[0m" in said)


def test_steps_of_every_task_are_listed_and_of_one_only_its_own(uncertain: Path, tmp_path: Path):
    """Those that another living process is at are said to be; a task without any has none."""
    with CheckpointManager(uncertain, tmp_path) as manager:
        manager.begin_step("another", "llm_response", {})
        failed = manager.begin_step("a-third", "tool_executed", {})
        manager.note_error(failed, ValueError("interrupted\x1b[31m"))
        told = json.loads(agentos("steps", "--db", uncertain, "--json").stdout)["steps"]
        one = json.loads(agentos("steps", "another", "--db", uncertain, "--json").stdout)["steps"]
        shown = agentos("steps", "--db", uncertain).stdout
    assert [("a-third", False), ("another", True), (TASK, False)] == [(each["task_id"], each["running"]) for each in told]
    assert ["another"] == [each["task_id"] for each in one]
    assert ("still at it" in shown, "\x1b" in shown, "its block ended with ValueError: interrupted" in shown) == (
        True,
        False,
        True,
    )
    assert Exit.USAGE == agentos("steps", "nobody", "--db", uncertain).returncode


def test_no_step_at_all(db: Path):
    """Said, not silent."""
    agentos("migrate", "--db", db)
    ended = agentos("steps", "--db", db)
    assert (0, "no step was interrupted\n") == (ended.returncode, ended.stdout)


# resolve


@pytest.mark.parametrize(("outcome", "numbers"), [("landed", [2, 1]), ("not-landed", [1])])
def test_a_step_is_settled_by_a_word_and_the_task_goes_on(uncertain: Path, outcome: str, numbers: list[int]):
    """By a shortened id; saying it twice is no error, the opposite is."""
    step = the_step(uncertain)
    assert Exit.UNCERTAIN == agentos("recover", TASK, "--db", uncertain).returncode
    for _ in range(2):
        ended = agentos("resolve", step[:28], outcome, *WHY, "--by", "ada", "--db", uncertain, "--json")
        told = json.loads(ended.stdout)
        assert (0, step, outcome == "landed") == (ended.returncode, told["step_id"], told["checkpoint"] is not None)
    other = {"landed": "not-landed", "not-landed": "landed"}[outcome]
    assert Exit.CONFLICT == agentos("resolve", step, other, *WHY, "--db", uncertain).returncode
    assert 0 == agentos("resume", TASK, "--db", uncertain).returncode
    with CheckpointManager(uncertain) as manager:
        assert numbers == [each.sequence_number for each in manager.list_checkpoints(TASK)]
    assert [("ada", f"{'landed: ' * (outcome == 'landed')}I looked")] == [(by, why) for by, _, why in decisions(uncertain)]


def test_what_a_landed_step_left_is_kept_by_the_command_that_is_told(db: Path, tmp_path: Path):
    """Nobody proved the letter, so the next repair would take it away: a person hears of it, and what keeps it."""
    work = tmp_path / "work"
    with CheckpointManager(db) as manager, manager.task(TASK, workspace=work) as task:
        task.resume({})
        step = manager.begin_step(TASK, "tool_executed", {"letters": 1}, rerunnable=False, lease=task.lease)
        (work / "letter").write_text("Dear reader")
        manager.note_error(step, ConnectionError("the line went dead"))
    ended = agentos("resolve", step, "landed", *WHY, "--db", db)
    assert (0, True) == (ended.returncode, "the state that the step began with" in ended.stdout), ended.stdout
    typed = re.search(rf"agentos (accept {TASK} --reason '…' --db \S+) keeps it", ended.stderr)
    assert typed is not None, ended.stderr
    assert f"agentos resume {TASK} --repair --db {db} takes it away" in ended.stderr
    assert 0 == agentos(*shlex.split(typed[1].replace("…", "it is the letter"))).returncode
    assert 0 == agentos("resume", TASK, "--repair", "--db", db).returncode
    assert "Dear reader" == (work / "letter").read_text()


def test_a_step_that_somebody_is_at_is_not_settled(uncertain: Path, tmp_path: Path):
    """Nobody's word ends what lives."""
    with CheckpointManager(uncertain, tmp_path) as manager:
        step = manager.begin_step("another", "tool_executed", {})
        ended = agentos("resolve", step, "not-landed", *WHY, "--db", uncertain)
    assert (Exit.CONFLICT, True) == (ended.returncode, "a living process is in the middle of it" in ended.stderr)


# accept


def test_what_differs_is_accepted_by_name_and_reason(tmp_path: Path):
    """A path as it is typed; what was taken is said, and the task goes on from it."""
    with left_behind("diverged", tmp_path) as db:
        ended = agentos("accept", TASK, "./out.txt", *WHY, "--db", db)
        assert (0, True) == (ended.returncode, ended.stdout.endswith("  - accepted: out.txt\n"))
        assert 0 == agentos("recover", TASK, "--db", db).returncode
        again = agentos("accept", TASK, *WHY, "--db", db)
    assert (Exit.USAGE, True) == (again.returncode, f"-> agentos recover {TASK} --db {db} says whether" in again.stderr)
    assert [(getpass.getuser(), "accept", "I looked")] == decisions(db)


def test_a_path_at_which_nothing_differs_is_not_accepted(tmp_path: Path):
    """Named, with what does differ; nothing was stored."""
    with left_behind("diverged", tmp_path) as db:
        before = {**dump(db), "tasks": []}
        ended = agentos("accept", TASK, "out.text", *WHY, "--db", db)
        assert before == {**dump(db), "tasks": []}
    assert (Exit.USAGE, True) == (ended.returncode, "out.text: nothing differs there" in ended.stderr)
    assert "file:out.txt" in ended.stderr


def test_the_state_of_an_older_checkpoint_can_be_gone_on_with(tmp_path: Path):
    """By a shortened id."""
    with left_behind("diverged", tmp_path) as db:
        with CheckpointManager(db, tmp_path / "work") as manager:
            [older] = [each.checkpoint_id for each in manager.list_checkpoints(TASK)]
        ended = agentos("accept", TASK, "--snapshot-of", older[:20], *WHY, "--db", db, "--json")
    assert (0, {"done": []}) == (ended.returncode, json.loads(ended.stdout)["checkpoint"]["snapshot_data"])


# restart, reopen, free


def test_a_restart_asks_first(tmp_path: Path):
    """A no changes nothing; a yes takes everything off the timeline, and keeps it."""
    with left_behind("diverged", tmp_path) as db:
        before = dump(db)
        assert Exit.USAGE == agentos("restart", TASK, *WHY, "--db", db).returncode
        code, said = on_a_terminal("restart", TASK, *WHY, "--db", db, typed="n\n")
        assert (Exit.INTERRUPTED, True, before) == (code, "All up to number 1 leave the timeline." in said, dump(db))
        code, said = on_a_terminal("restart", TASK, *WHY, "--db", db, typed="y\n")
        assert (0, True) == (code, "1 checkpoint left the timeline, and is kept" in said)
        found = agentos("recover", TASK, "--db", db)
    assert (0, True) == (found.returncode, found.stdout.startswith(f"task {TASK}: fresh: "))


def test_a_finished_task_is_opened_again(tmp_path: Path):
    """And says how when a step is refused."""
    with left_behind("finished", tmp_path) as db:
        assert f"agentos reopen {TASK} --reason '…' --db {db}" in agentos("recover", TASK, "--db", db).stdout
        ended = agentos("reopen", TASK, *WHY, "--db", db)
        assert (0, True) == (ended.returncode, "takes steps again" in ended.stdout)
        assert '"resume"' in agentos("recover", TASK, "--db", db, "--json").stdout


def test_nobody_is_freed_from_a_holder_that_lives(tmp_path: Path):
    """5 while it does; what nobody has is said."""
    with left_behind("held", tmp_path) as db:
        assert Exit.CONFLICT == agentos("free", TASK, *WHY, "--db", db).returncode
    ended = agentos("free", TASK, *WHY, "--db", db, "--json")
    assert (0, True) == (ended.returncode, json.loads(ended.stdout)["freed"])
    assert "nobody had it" in agentos("free", TASK, *WHY, "--db", db).stdout


# The word itself.


@pytest.mark.parametrize("why", ["", "  ", "…"])
def test_a_reason_is_a_persons_own(uncertain: Path, why: str):
    """What stands for one in what is offered to be typed is none."""
    before = dump(uncertain)
    ended = agentos("restart", TASK, "--reason", why, "--yes", "--db", uncertain)
    assert (Exit.USAGE, True, before) == (ended.returncode, "say why in your own words" in ended.stderr, dump(uncertain))


def test_a_user_without_a_name_is_its_number(uncertain: Path):
    """As in a container that runs as somebody whom nobody wrote down."""
    code = """
import getpass, sys
def nobody(): raise KeyError("no such user")
getpass.getuser = nobody
from agentos.cli.main import main
try:
    main(["restart", "report-42", "--reason", "x", "--yes", "--db", sys.argv[1]])
except SystemExit as ending:
    print(ending.code)
"""
    assert run(code, uncertain).endswith("0\n")
    assert re.fullmatch(r"uid \d+", decisions(uncertain)[0][0])
