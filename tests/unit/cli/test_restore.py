"""restore, undo and rollback: the plan first, nothing without a yes, and everything can be taken back."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.support import dump, environment, exists
from tests.unit.cli.program import COMMAND, agentos, on_a_terminal


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def kept(db: Path, work: Path) -> list[str]:
    """The checkpoints of a task that works in a folder, all of which was kept; it was meddled with since."""
    with CheckpointManager(db) as manager, manager.task("report-42", workspace=work) as task:
        state = task.resume({"n": 0})
        for number in range(3):
            with task.step("tool_executed", state):
                (work / "a.txt").write_text(f"version {number}")
                (work / "docs").mkdir(exist_ok=True)
                (work / "docs" / f"{number}.md").write_text("text")
                state["n"] = number
        ids = [each.checkpoint_id for each in reversed(manager.list_checkpoints("report-42"))]
    (work / "a.txt").write_text("meddled")
    (work / "docs" / "2.md").unlink()
    (work / "extra").write_text("not mine")
    return ids


def files(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


WHOLE = {"a.txt": "version 2", "docs/0.md": "text", "docs/1.md": "text", "docs/2.md": "text"}


def test_the_plan_comes_first_and_without_a_yes_nothing_is_done(db: Path, work: Path, kept: list[str]):
    """Nobody is there to be asked, or somebody says no: the plan was shown, and everything is as it was."""
    before, rows = files(work), dump(db)
    ended = agentos("restore", kept[-1], "--db", db)
    assert (Exit.USAGE, True) == (ended.returncode, "give --yes" in ended.stderr)
    assert f"restore to checkpoint {kept[-1]} in {work}: create 1, overwrite 1, delete 1;" in ended.stdout
    code, said = on_a_terminal("restore", kept[-1], "--db", db, typed="n\n")
    assert (Exit.INTERRUPTED, True) == (code, "  delete extra: a file of 8 bytes -> nothing" in said)
    assert before == files(work)
    assert {**rows, "tasks": []} == {**dump(db), "tasks": []}


def test_a_yes_does_it_and_undo_takes_it_back(db: Path, work: Path, kept: list[str]):
    """On a terminal with a word, elsewhere with --yes; what it says to type brings back every byte that it overwrote."""
    before = files(work)
    code, said = on_a_terminal("restore", kept[-1][:20], "--db", db, typed="y\n")
    assert (0, WHOLE) == (code, files(work))
    [restore] = re.findall(r"agentos undo (restore_\w+) --db", said)
    planned = agentos("undo", restore, "--db", db, "--dry-run")
    assert (Exit.REPAIRABLE, WHOLE) == (planned.returncode, files(work))
    undone = agentos("undo", restore[:-3], "--db", db, "--yes", "--json")
    told = json.loads(undone.stdout)
    assert (0, before) == (undone.returncode, files(work))
    assert [restore, 3, True] == [told["plan"]["undoes"], len(told["plan"]["operations"]), told["restored"]["verified"]]
    again = agentos("undo", told["restored"]["restore_id"], "--db", db, "--yes")
    assert (0, WHOLE) == (again.returncode, files(work))


def test_what_recover_says_of_an_earlier_restore_can_be_typed(db: Path, work: Path, kept: list[str]):
    """Whoever restored may have died before anybody read how to take that back: it is told later, and as a command."""
    before = files(work)
    assert 0 == agentos("restore", kept[-1], "--db", db, "--yes").returncode
    note = next(line for line in agentos("recover", "report-42", "--db", db).stdout.splitlines() if "note: " in line)
    typed = re.search(r"agentos (undo restore_\w+ --db \S+) brings back what a restore of .* overwrote: a.txt, extra", note)
    assert typed is not None, note
    assert (0, before) == (agentos(*shlex.split(typed[1]), "--yes").returncode, files(work))


@pytest.mark.parametrize("only", ["", "a.tx", "docs/9.md"])
def test_a_path_that_names_nothing_is_nothing_that_was_done(db: Path, work: Path, kept: list[str], only: str):
    """A typing mistake, or a variable that is not set: exit code 2, not 0, and not all of it."""
    out = work.parent / "copy"
    copied = agentos("restore", kept[-1], "--only", only, "--out", out, "--db", db)
    assert (Exit.USAGE, False) == (copied.returncode, out.exists()), copied.stderr
    assert 0 == agentos("restore", kept[-1], "--db", db, "--yes").returncode
    [restore] = re.findall(r"restore_\w+", agentos("log", "report-42", "--db", db).stdout)
    undone = agentos("undo", restore, "--only", only, "--yes", "--db", db)
    assert (Exit.USAGE, WHOLE) == (undone.returncode, files(work)), undone.stderr


def test_a_part_that_is_done_may_be_done_again(db: Path, work: Path, kept: list[str]):
    """Also by its path from the root; there is nothing to do then, and all of it is done."""
    assert 0 == agentos("restore", kept[-1], "--db", db, "--yes").returncode
    [restore] = re.findall(r"restore_\w+", agentos("log", "report-42", "--db", db).stdout)
    for only in ("a.txt", work / "a.txt"):
        assert 0 == agentos("undo", restore, "--only", only, "--yes", "--db", db).returncode
        assert "meddled" == (work / "a.txt").read_text()
    out = work.parent / "copy"
    assert 0 == agentos("restore", kept[-1], "--only", work / "docs", "--out", out, "--db", db).returncode
    assert {"docs/0.md", "docs/1.md", "docs/2.md"} == set(files(out))


def test_only_some_paths(db: Path, work: Path, kept: list[str]):
    """A file, a folder, a path from the root: only those; the rest still differs, and the code says so."""
    ended = agentos("restore", kept[-1], "--db", db, "--yes", "--only", "./docs/", "--only", work / "a.txt", "--json")
    told = json.loads(ended.stdout)
    assert (Exit.DIFFERS, WHOLE | {"extra": "not mine"}) == (ended.returncode, files(work))
    assert ["failed", "a.txt", "docs/2.md"] == [told["outcome"], *(each["path"] for each in told["plan"]["operations"])]
    assert "create 1, overwrite 1" in ended.stderr
    back = agentos("undo", told["restored"]["restore_id"], "--only", "a.txt", "--db", db, "--yes")
    assert (0, "meddled") == (back.returncode, (work / "a.txt").read_text())


def test_a_dry_run_says_what_it_is_worth_and_changes_nothing(db: Path, work: Path, kept: list[str]):
    """8 while it can be put back, 0 once nothing differs."""
    rows, before = dump(db), files(work)
    ended = agentos("restore", kept[-1], "--db", db, "--dry-run")
    assert (Exit.REPAIRABLE, rows, before) == (ended.returncode, dump(db), files(work))
    assert 0 == agentos("restore", kept[-1], "--db", db, "--yes").returncode
    done = agentos("restore", kept[-1], "--db", db, "--dry-run", "--json")
    assert (0, "verified", None) == (done.returncode, *(json.loads(done.stdout)[key] for key in ("outcome", "restored")))


def test_what_was_not_kept_cannot_be_put_back_and_is_no_success(db: Path, tmp_path: Path):
    """Said path by path; nothing pretends that it was done."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:
        made = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt")).checkpoint_id
    (tmp_path / "out.txt").unlink()
    ended = agentos("restore", made, "--db", db, "--yes")
    assert Exit.DIFFERS == ended.returncode
    assert "cannot: file:out.txt: only that it is there was claimed" in ended.stdout


def test_a_task_in_other_hands_is_not_restored(db: Path, work: Path, kept: list[str]):
    """5, and a copy somewhere else is made all the same."""
    before = files(work)
    with CheckpointManager(db) as manager:
        manager.claim_task("report-42")
        assert Exit.CONFLICT == agentos("restore", kept[-1], "--db", db, "--yes").returncode
        assert 0 == agentos("restore", kept[-1], "--db", db, "--out", work.parent / "copy").returncode
    assert before == files(work)


# A copy somewhere else.


def test_a_copy_somewhere_else_is_whole_and_touches_nothing(db: Path, work: Path, kept: list[str], tmp_path: Path):
    """Into a folder that is not there, or is empty; also while the workspace is not."""
    before, rows = files(work), dump(db)
    ended = agentos("restore", kept[-1], "--out", tmp_path / "copy", "--db", db)
    assert (0, WHOLE, before, rows) == (ended.returncode, files(tmp_path / "copy"), files(work), dump(db))
    assert f"copied 4 files, 21 bytes, to {tmp_path / 'copy'}\n" == ended.stdout
    shutil.rmtree(work)
    (tmp_path / "empty").mkdir(mode=0o750)
    older = agentos("restore", kept[1], "--out", "empty", "--db", db, "--only", "docs", "--json", cwd=tmp_path)
    assert (0, {"docs/0.md": "text"}) == (older.returncode, files(tmp_path / "empty"))
    assert 0o750 == (tmp_path / "empty").stat().st_mode & 0o777
    assert (str(tmp_path / "empty"), 1) == tuple(json.loads(older.stdout)["copied"][key] for key in ("folder", "files"))


def test_a_copy_is_never_put_over_something(db: Path, work: Path, kept: list[str], tmp_path: Path):
    """A folder with something in it, a file, a link, the workspace, a folder in nothing: refused, and nothing is there."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    before = sorted(tmp_path.rglob("*"))
    for place in ("full", "full/mine", "link", "work/copy", "work", "gone/copy"):
        ended = agentos("restore", kept[-1], "--out", tmp_path / place, "--db", db)
        assert (Exit.USAGE, "") == (ended.returncode, ended.stdout), place
    assert before == sorted(tmp_path.rglob("*"))


def test_a_copy_of_what_is_damaged_says_what_is_missing(db: Path, work: Path, kept: list[str], tmp_path: Path):
    """The rest is there; the code is that of a difference."""
    [large] = [
        each for each in (tmp_path / "vault" / "objects").rglob("*") if each.is_file() and b"version 2" in each.read_bytes()
    ]
    large.write_bytes(large.read_bytes().replace(b"version 2", b"version 9"))
    ended = agentos("restore", kept[-1], "--out", tmp_path / "copy", "--db", db)
    assert (Exit.DIFFERS, True) == (ended.returncode, "not there: a.txt: its content is damaged" in ended.stdout)
    assert {path: text for path, text in WHOLE.items() if path != "a.txt"} == files(tmp_path / "copy")


# Killed.

_KILLED = """
import os, signal, sys
import agentos.vault.moving as moving
# After so many moves the process is gone.
left, real = int(sys.argv[1]), moving.move
def move(*names):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    real(*names)
moving.move = move
from agentos.cli.main import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    "arguments", [("restore", "CHECKPOINT", "--yes"), ("resume", "report-42", "--repair")], ids=["restore", "resume"]
)
def test_killed_at_any_move_the_same_command_brings_it_to_an_end(
    db: Path, work: Path, kept: list[str], tmp_path: Path, arguments: tuple[str, ...]
):
    """Whatever was half done is settled first: run again, and every file is as the checkpoint has it."""
    line = [kept[-1] if word == "CHECKPOINT" else word for word in arguments]
    meddled = tmp_path / "meddled"
    shutil.copytree(work, meddled)
    kills, code = 0, 1
    for moves in range(12):
        shutil.rmtree(work)
        shutil.copytree(meddled, work)
        killed = [*COMMAND[:1], "-c", _KILLED, str(moves), *line, "--db", str(db)]
        code = subprocess.run(killed, env=environment(), capture_output=True, check=False, timeout=60).returncode
        if code != -signal.SIGKILL:
            break
        kills += 1
        again = agentos(*line, "--db", db)
        assert (0, WHOLE) == (again.returncode, files(work)), (moves, again.stdout, again.stderr)
    assert kills > 2
    assert (0, WHOLE) == (code, files(work))


@pytest.fixture
def heard() -> Iterator[None]:
    """What is started in here hears Control-C, also where these tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_control_c_ends_with_130(db: Path, kept: list[str]):
    """While it waits for a holder: nothing was decided."""
    with CheckpointManager(db) as manager:
        manager.claim_task("report-42")
        line = [*COMMAND, "resume", "report-42", "--repair", "--wait", "1000", "--db", str(db)]
        with subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
            try:
                until_it_waits(waiting.pid)
                waiting.send_signal(signal.SIGINT)
                _, errors = waiting.communicate(timeout=60)
            finally:
                waiting.kill()
    assert (Exit.INTERRUPTED, "") == (waiting.returncode, errors)


def until_it_waits(pid: int) -> None:
    """Until it has the registry open and sleeps: before, there is nothing to interrupt."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            names = {os.readlink(f"/proc/{pid}/fd/{each}") for each in os.listdir(f"/proc/{pid}/fd")}
            state = Path(f"/proc/{pid}/wchan").read_text()
        except OSError:
            continue
        if any(name.endswith("registry.sqlite") for name in names) and "nanosleep" in state:
            return
    raise AssertionError("it never waited")


# Rollback.


def test_rollback_prints_what_was_measured(made: dict[str, str], db: Path, tmp_path: Path):
    """The snapshot alone on standard output; of what does not hold there is none."""
    ended = agentos("rollback", made["good"], "--db", db)
    assert (0, {}) == (ended.returncode, json.loads(ended.stdout))
    assert "holds, measured just now" in ended.stderr
    (tmp_path / "out.txt").write_text("two")
    refused = agentos("rollback", made["good"], "--db", db)
    assert (Exit.DIFFERS, "") == (refused.returncode, refused.stdout)
    code, said = on_a_terminal("rollback", made["good"], "--db", db)
    assert (Exit.DIFFERS, True) == (code, "does not hold" in said)


def test_rollback_can_end_the_timeline_there(made: dict[str, str], db: Path, tmp_path: Path):
    """Said before it is done, with --dry-run; done only when it is asked for."""
    rows = dump(db)
    tried = agentos("rollback", made["good"], "--supersede-later", "--dry-run", "--db", db, "--json")
    assert (0, [2, 3], rows) == (tried.returncode, json.loads(tried.stdout)["superseded"], dump(db))
    assert "numbers 2 to 3 would leave the timeline" in tried.stderr
    out = tmp_path / "state.json"
    done = agentos("rollback", made["good"], "--supersede-later", "--db", db, "--snapshot-out", out)
    assert (0, "", "{}") == (done.returncode, done.stdout, out.read_text())
    with CheckpointManager(db) as manager:
        assert [made["good"]] == [each.checkpoint_id for each in manager.list_checkpoints("report-42")]


def test_a_later_step_is_named_as_a_command(db: Path, tmp_path: Path):
    """Where the task went on: how to roll back to there instead, as it is typed."""
    with CheckpointManager(db, tmp_path) as manager, manager.task("t") as task:
        for text in ("one", "two"):
            with task.step("tool_executed", {}) as step:
                (tmp_path / "out.txt").write_text(text)
                step.proves_file("out.txt")
        newer, older = [each.checkpoint_id for each in manager.list_checkpoints("t")]
    ended = agentos("rollback", older, "--db", db)
    assert f"-> the task went on from here: agentos rollback {newer} --db {db}, or to a later one" in ended.stderr


def test_a_superseded_checkpoint_does_not_end_a_timeline(made: dict[str, str], db: Path):
    """It is not on it itself."""
    assert Exit.CONFLICT == agentos("rollback", made["later"], "--supersede-later", "--db", db).returncode
