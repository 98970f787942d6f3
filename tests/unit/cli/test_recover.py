"""recover looks, resume acts, and how each ends is a contract: 0 only if a state is given now."""

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from agentos.cli.exits import VERDICTS as CODES
from agentos.cli.exits import Exit
from agentos.cli.main import agentos_command
from agentos.cli.recover import SHAPE
from agentos.core.checkpoints import CheckpointManager
from tests.support import dump, environment, execute
from tests.unit.cli.program import COMMAND, agentos, on_a_terminal
from tests.unit.cli.worlds import TASK, VERDICTS, left_behind, tree

NAME = "the task's\x1b[31m; rm -rf $HOME"


@dataclass
class Asked:
    """A task in one state, asked in every way: first by what changes nothing, last by what acts."""

    verdict: str
    db: Path
    dry: subprocess.CompletedProcess[str]
    looked: subprocess.CompletedProcess[str]
    terminal: tuple[int, str]
    read: subprocess.CompletedProcess[str]
    acted: subprocess.CompletedProcess[str]
    # The registry's rows and the task's files: at first, after the dry run, after the looks.
    rows: list[dict[str, list[tuple[Any, ...]]]]
    files: list[dict[str, bytes]]


@pytest.fixture(scope="module", params=VERDICTS)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    folder = tmp_path_factory.mktemp(request.param)
    rows: list[dict[str, list[tuple[Any, ...]]]] = []
    files: list[dict[str, bytes]] = []

    def note() -> None:
        rows.append(dump(db))
        files.append(tree(folder))

    with left_behind(request.param, folder, NAME) as db:
        where = ("--db", db)
        note()
        dry = agentos("resume", NAME, "--repair", "--dry-run", "--snapshot-out", folder / "state.json", *where)
        note()
        looked = agentos("recover", NAME, *where, "--json")
        terminal = on_a_terminal("recover", NAME, *where)
        read = agentos("recover", NAME, *where)
        note()
        acted = agentos("resume", NAME, *where, "--json")
    return Asked(request.param, db, dry, looked, terminal, read, acted, rows, files)


def test_every_verdict_ends_with_its_own_code_and_resume_ends_with_the_same(asked: Asked):
    """`agentos recover T && ./start-agent.sh` never starts on a lie: 0 exactly if the `resume` that follows gives a state."""
    ended = [asked.dry, asked.looked, asked.read, asked.acted]
    assert [CODES[asked.verdict]] * 5 == [*(each.returncode for each in ended), asked.terminal[0]]
    told, done = json.loads(asked.looked.stdout), json.loads(asked.acted.stdout)
    assert [asked.verdict] * 2 == [told["verdict"], done["verdict"]]
    assert (asked.verdict in ("resume", "finished")) is (done["snapshot"] is not None)
    assert set(SHAPE) == set(told) == set(done)


def test_the_answer_is_the_first_line(asked: Asked):
    """In plain words on standard output without a terminal, with a mark on one; whatever the task is called."""
    answer = f"task the task's\\x1b[31m; rm -rf $HOME: {asked.verdict}: "
    assert asked.read.stdout.startswith(answer)
    assert ("", False) == (asked.read.stderr, "\x1b" in asked.read.stdout)
    assert re.match(rf"\x1b\[3\dm[✓✗…?]\x1b\[0m \x1b\[1m{re.escape(answer)}", asked.terminal[1])


def test_what_can_be_done_is_commands_that_can_be_typed(asked: Asked):
    """No call of the library is offered, and every command parses, with this registry's path in it, quoted."""
    assert "manager." not in asked.read.stdout.partition("what can be done:")[2]
    told = json.loads(asked.looked.stdout)
    assert len(told["options"]) == len(told["commands"])
    commands = [each for line in told["commands"] for each in re.findall(r"agentos [a-z]+ .*?--db \S+", line)]
    assert commands
    for command in commands:
        _, verb, *words = typed(command)
        assert ["--db", str(asked.db)] == words[-2:]
        assert words[0] == NAME or words[0].startswith("step_")
        parsed(verb, words)


def typed(command: str) -> list[str]:
    """The words as a shell takes them."""
    program = ["bash", "-c", f"printf '%s\\0' {command}"]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


def parsed(verb: str, words: list[str]) -> None:
    """Parse it as the command would; what it cannot take is raised."""
    command = agentos_command.get_command(click.Context(agentos_command), verb)
    assert command is not None, verb
    # What stands for a value is no value.
    words = ["1" if word == "SECONDS" else "because" if word == "…" else word for word in words]
    command.make_context(verb, words)


def test_a_dry_run_and_a_look_change_nothing(asked: Asked):
    """`resume --dry-run` leaves registry and files as they are; a look leaves the files, and adds to the history at most."""
    assert [asked.files[0]] * 3 == asked.files
    assert asked.rows[0] == asked.rows[1]
    for name in set(asked.rows[0]) - {"steps", "verifications"}:
        assert asked.rows[0][name] == asked.rows[2][name], name


def test_a_task_that_nobody_knows_is_a_mistake_in_its_name(tmp_path: Path):
    """A typing error must not read as a task that may start from the beginning; one that is to begin is said to be new."""
    with left_behind("repair", tmp_path) as db:
        for verb in ("recover", "resume"):
            ended = agentos(verb, "reprot-42", "--db", db)
            assert (Exit.USAGE, "") == (ended.returncode, ended.stdout)
            assert "did you mean report-42?" in ended.stderr
            assert "--new" in ended.stderr
        ended = agentos("recover", "rep", "--db", db)
        assert (Exit.REPAIRABLE, "agentos: rep is short for report-42\n") == (ended.returncode, ended.stderr)
        for verb in ("recover", "resume"):
            ended = agentos(verb, "rep", "--new", "--db", db)
            assert (0, True) == (ended.returncode, ended.stdout.startswith("task rep: fresh: "))


def test_where_the_workspace_moved_is_said_with_base_and_kept_in_what_can_be_typed(tmp_path: Path):
    """What could not be checked can be, and what is offered carries the option on."""
    with left_behind("blocked", tmp_path) as db:
        moved = tmp_path / "un mounted"
        (tmp_path / "unmounted").rename(moved)
        assert 0 == agentos("recover", TASK, "--db", db, "--base", moved).returncode
        (moved / "out.txt").write_text("changed")
        ended = agentos("recover", TASK, "--db", db, "--base", moved)
    assert Exit.DIFFERS == ended.returncode
    assert f"agentos accept {TASK} --reason '…' --db {db} --base '{moved}'" in ended.stdout
    assert f"agentos restart {TASK} --reason '…' --db {db}\n" in ended.stdout


def test_recover_works_where_nothing_can_be_written(tmp_path: Path):
    """A registry and a folder that may only be read: the answer comes, nothing is written, and a note says so."""
    with left_behind("repair", tmp_path) as db:
        before = {path.name: path.read_bytes() for path in tmp_path.glob("registry*")}
        ended = as_if_read_only("recover", TASK, "--db", str(db))
        assert Exit.REPAIRABLE == ended.returncode
        assert "can be put back" in ended.stdout
        assert "will not be recorded" in ended.stderr
        assert 1 == ended.stderr.count("\n"), ended.stderr
        assert before == {path.name: path.read_bytes() for path in tmp_path.glob("registry*")}


@pytest.mark.parametrize("verdict", ["fresh", "resume", "finished"])
def test_where_nothing_can_be_written_nothing_is_safe(tmp_path: Path, verdict: str):
    """`resume` could not store what it decides, so a look does not end with 0 either; its answer is told."""
    with left_behind(verdict, tmp_path) as db:
        ended = as_if_read_only("recover", TASK, "--db", str(db))
        assert (Exit.UNAVAILABLE, True) == (ended.returncode, ended.stdout.startswith(f"task {TASK}: {verdict}: "))
        assert "would be refused" in ended.stderr


def as_if_read_only(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that may write to nothing; as root only the program itself can be told so."""
    code = """
import os, sys
from agentos.cli.main import main
real = os.access
os.access = lambda path, mode: False if mode == os.W_OK else real(path, mode)
main(sys.argv[1:])
"""
    return subprocess.run(
        [*COMMAND[:1], "-c", code, *arguments], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )


def test_a_finished_task_whose_world_changed_is_not_safe(tmp_path: Path):
    """Both ways: `resume` gives the final state, and the code says that its world does not hold."""
    with left_behind("finished", tmp_path) as db:
        (tmp_path / "work" / "out.txt").write_text("changed")
        codes = [agentos(verb, TASK, "--db", db).returncode for verb in ("recover", "resume")]
    assert [Exit.DIFFERS] * 2 == codes


# Acting.


def test_repair_puts_back_and_says_how_to_take_that_back(tmp_path: Path):
    """`resume --repair`, then what it says to type: the stranger's bytes are there again."""
    with left_behind("repair", tmp_path) as db:
        ended = agentos("resume", TASK, "--repair", "--db", db)
        assert (0, "one") == (ended.returncode, (tmp_path / "work" / "out.txt").read_text())
        [undo] = re.findall(r"; (agentos undo .*) brings it back", ended.stdout)
        words = shlex.split(undo)[1:]
        assert 0 == agentos(*words, "--yes").returncode
        assert "changed" == (tmp_path / "work" / "out.txt").read_text()
        assert Exit.REPAIRABLE == agentos("recover", TASK, "--db", db).returncode


def test_the_claim_is_let_go_of(tmp_path: Path):
    """`resume` holds the task only for as long as it takes, and a dead holder holds nothing."""
    with left_behind("resume", tmp_path) as db:
        assert [0, 0] == [agentos("resume", TASK, "--db", db).returncode for _ in range(2)]
        with CheckpointManager(db) as manager:
            manager.claim_task(TASK)
            held = agentos("resume", TASK, "--wait", "0", "--db", db)
    assert Exit.CONFLICT == held.returncode
    assert f"agentos resume {TASK} --wait SECONDS --db {db}" in held.stdout


def test_waiting_ends_when_the_holder_does(tmp_path: Path):
    """`--wait` goes on as soon as the task is free."""
    with left_behind("held", tmp_path) as db:
        line = [*COMMAND, "resume", TASK, "--wait", "50", "--db", str(db)]
        waiting = subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, text=True)
    said, _ = waiting.communicate(timeout=60)
    assert (0, True) == (waiting.returncode, said.startswith(f"task {TASK}: resume: "))


def test_the_state_is_written_where_it_was_asked_for(tmp_path: Path):
    """Into a file, for this user alone and whole; on standard output with -, everything else beside it."""
    with left_behind("resume", tmp_path) as db:
        out = tmp_path / "state.json"
        out.write_text("older, and longer than what comes")
        ended = agentos("resume", TASK, "--snapshot-out", out, "--db", db)
        assert (0, {"done": []}) == (ended.returncode, json.loads(out.read_text()))
        assert f"agentos: wrote {out}\n" == ended.stderr
        assert ["state.json"] == [path.name for path in tmp_path.glob("*state*")]
        printed = agentos("resume", TASK, "--snapshot-out", "-", "--db", db)
        assert {"done": []} == json.loads(printed.stdout)
        assert "resume: go on from" in printed.stderr
        assert Exit.USAGE == agentos("resume", TASK, "--snapshot-out", "-", "--json", "--db", db).returncode


def test_no_state_is_written_where_none_was_given(tmp_path: Path):
    """A refusal leaves the file that is there; a task that never committed anything has the state null."""
    with left_behind("diverged", tmp_path) as db:
        out = tmp_path / "state.json"
        assert Exit.DIFFERS == agentos("resume", TASK, "--snapshot-out", out, "--db", db).returncode
        assert not out.exists()
        assert "" == agentos("resume", TASK, "--snapshot-out", "-", "--db", db).stdout
        assert 0 == agentos("resume", "another", "--new", "--snapshot-out", out, "--db", db).returncode
        assert "null" == out.read_text()


def test_a_state_that_cannot_be_written_is_no_success(tmp_path: Path):
    """A full device, a folder that is not there, the workspace itself: said, and never 0."""
    with left_behind("resume", tmp_path) as db:
        full = agentos("resume", TASK, "--snapshot-out", "/dev/full", "--db", db)
        assert (Exit.UNAVAILABLE, True) == (full.returncode, "No space left" in full.stderr)
        gone = agentos("resume", TASK, "--snapshot-out", tmp_path / "gone" / "x", "--db", db)
        assert Exit.UNAVAILABLE == gone.returncode
        with CheckpointManager(db) as manager, manager.task("kept", workspace=tmp_path / "kept") as task:
            task.resume({"n": 0})
            with task.step("tool_executed", {"n": 1}):
                (tmp_path / "kept" / "a").write_text("a")
        inside = agentos("resume", "kept", "--snapshot-out", tmp_path / "kept" / "state.json", "--db", db)
        assert (Exit.USAGE, True) == (inside.returncode, "lies in the workspace" in inside.stderr)
        assert 0 == agentos("resume", "kept", "--db", db).returncode


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path):
    """`--snapshot-out >(…)` and /dev/stdout are no files to put others in place of."""
    with left_behind("resume", tmp_path) as db:
        ended = agentos("resume", TASK, "--snapshot-out", "/dev/stdout", "--db", db)
    assert (0, '{"done": []}') == (ended.returncode, ended.stdout[:12])
    assert os.path.islink("/dev/stdout")


def test_a_claim_that_was_taken_by_hand_is_not_waited_for_without_end(tmp_path: Path):
    """What is no number of seconds is a usage error."""
    with left_behind("resume", tmp_path) as db:
        for bad in ("-1", "nan", "inf", "soon"):
            assert Exit.USAGE == agentos("resume", TASK, "--wait", bad, "--db", db).returncode, bad


def test_a_damaged_registry_is_no_verdict(tmp_path: Path):
    """Exit code 6: nothing is said of the task."""
    with left_behind("resume", tmp_path) as db:
        execute(db, "update steps set digest = x'00'")
        codes = [agentos(verb, TASK, "--db", db).returncode for verb in ("recover", "resume")]
    assert [Exit.UNAVAILABLE] * 2 == codes
