"""The command: the demonstration runs end to end, each verb says what it found, and nothing ever ends in a traceback."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.store import ensure_migrations
from tests.support import ULID, content, environment, execute, exists, run

COMMAND = [sys.executable, "-m", "agentos"]


def agentos(*arguments: object, cwd: Path | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal; a traceback fails the test, whichever it is."""
    line = [*COMMAND, *map(str, arguments)]
    clean = {name: value for name, value in environment(**extra).items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    ended = subprocess.run(line, env=clean | extra, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in ended.stderr + ended.stdout, ended.stderr
    return ended


def on_a_terminal(*arguments: object, **extra: str) -> tuple[int, str]:
    """Run the command on a terminal of its own; its exit code and what the terminal got."""
    leader, follower = pty.openpty()
    settings = {name: value for name, value in environment(TERM="xterm").items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], env=settings | extra, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    said = b""
    try:
        while chunk := os.read(leader, 65536):
            said += chunk
    except OSError:
        # The last program that had the terminal open has ended.
        pass
    os.close(leader)
    return process.wait(60), said.decode()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def made(db: Path, tmp_path: Path) -> dict[str, str]:
    """A task with a checkpoint that holds, one that does not, a superseded one, and a step that never ended."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:

        def commit(pack: EvidencePack, name: str | None = None) -> str:
            return manager.commit_step(manager.begin_step("report-42", "tool_executed", {}), pack, name).checkpoint_id

        good = commit(content("out.txt", "one"))
        later = commit(exists("out.txt"))
        manager.rollback_to_checkpoint(good, supersede_later=True)
        bad = commit(exists("gone.txt"))
        step = manager.begin_step("report-42", "tool_executed", {})
        manager.note_error(step, ValueError("interrupted\x1b[31m"))
    return {"good": good, "bad": bad, "later": later, "step": step}


# The demonstration.


def test_the_demonstration_runs_end_to_end_in_plain_text():
    """Killed, tampered with, refused with the reason, resumed from what holds, finished: without a terminal in plain words."""
    ended = agentos("demo")
    assert (0, "") == (ended.returncode, ended.stderr)
    lines = ended.stdout.splitlines()
    assert 6 == sum(line.endswith("measured and committed") for line in lines)
    for times, words in (
        (2, r"^  KILLED +kill -9: process \d+ is gone in the middle of a step"),
        (1, r"^  ok +a step of .* never ended, adopted: "),
        (1, r"^  open +a step of .* never ended, runs again: "),
        (1, r"^  REFUSED +number 4: draft.md: expected sha256 [0-9a-f]{12}…, found [0-9a-f]{12}…"),
        (2, r"^  ok +number 3 holds, measured now: resuming after 'letter'"),
        (1, r"^  ok +finished: 6 items"),
        (1, r"^task report-42: resume: go on from checkpoint number 3 "),
        (1, r"^  not from number 4 "),
    ):
        assert times == sum(bool(re.match(words, line)) for line in lines), words
    assert "\x1b" not in ended.stdout


def test_the_demonstration_has_marks_on_a_terminal():
    """On a terminal the same story has colours and marks, also in the part that is read through a pipe."""
    code, said = on_a_terminal("demo")
    assert 0 == code
    for mark in ("\x1b[32m✓\x1b[0m number 1: plan.md", "\x1b[31m☠\x1b[0m kill -9", "\x1b[31m✗\x1b[0m number 4: draft.md"):
        assert mark in said
    assert "REFUSED" not in said


def test_a_terminal_that_wants_no_colour_gets_plain_text():
    """NO_COLOR and a dumb terminal are respected."""
    assert "\x1b[" not in on_a_terminal("timeline", "--help", NO_COLOR="1")[1]


def test_the_demonstration_leaves_nothing_behind(tmp_path: Path):
    """It works in a scratch folder and takes that away again."""
    ended = agentos("demo", TMPDIR=str(tmp_path), cwd=tmp_path)
    assert 0 == ended.returncode
    assert [] == list(tmp_path.iterdir())


# timeline


def test_timeline_shows_what_is_known_and_what_never_ended(made: dict[str, str], db: Path):
    """Newest first, with the mark of the last look; open steps on top, with what interrupted them, escaped."""
    ended = agentos("timeline", "report-42", "--db", db)
    assert (0, "") == (ended.returncode, ended.stderr)
    first, *lines = ended.stdout.splitlines()
    assert made["step"] in first
    assert "never ended, ended by ValueError: interrupted\\x1b[31m" in first
    assert [made["bad"], made["good"]] == [line.split()[-1] for line in lines]
    assert re.match(r"    3  FAILED +tool_executed  0/1 verified  20\d\d-", lines[0])
    assert re.match(r"    1  ok +tool_executed  1/1 verified  20\d\d-", lines[1])


def test_timeline_all_shows_superseded_checkpoints_too(made: dict[str, str], db: Path):
    """What was rolled back past is kept, and can be seen."""
    lines = agentos("timeline", "report-42", "--db", db, "--all").stdout.splitlines()
    assert 4 == len(lines)
    assert re.match(rf"    2  superseded .*{made['later']}", lines[2])


def test_timeline_limit(made: dict[str, str], db: Path):
    """No more lines than asked for, and a limit below one is refused."""
    lines = agentos("timeline", "report-42", "--db", db, "--limit", 1).stdout.splitlines()
    assert [made["bad"]] == [line.split()[-1] for line in lines if "never ended" not in line]
    assert 2 == agentos("timeline", "report-42", "--db", db, "--limit", 0).returncode


def test_timeline_json_is_one_document(made: dict[str, str], db: Path):
    """For a program: checkpoints as to_dict gives them, and the open steps."""
    told = json.loads(agentos("timeline", "report-42", "--db", db, "--json").stdout)
    assert [made["bad"], made["good"]] == [each["checkpoint_id"] for each in told["checkpoints"]]
    assert [made["step"]] == [each["step_id"] for each in told["open_steps"]]


def test_timeline_of_nobody(made: dict[str, str], db: Path):
    """A task that never was is a sentence and no error."""
    ended = agentos("timeline", "nobody", "--db", db)
    assert (0, "task nobody: nothing was ever begun here\n") == (ended.returncode, ended.stdout)


def test_names_with_control_characters_do_not_reach_the_terminal(db: Path, tmp_path: Path):
    """A checkpoint's own name may hold anything; what is printed drives no terminal."""
    (tmp_path / "out.txt").write_text("one")
    name = "x\x1b]0;owned\x07\x1b[2J"
    with CheckpointManager(db, tmp_path) as manager:
        claim = Evidence(EvidenceType.ARTIFACT_EXISTS, name, {"path": "out.txt"})
        manager.commit_step(manager.begin_step("t", "tool_executed", {}), EvidencePack([claim]), name)
    for ended in (
        agentos("timeline", "t", "--db", db),
        agentos("verify", name, "--db", db),
        agentos("timeline", name, "--db", db),
    ):
        assert "\x1b" not in ended.stdout + ended.stderr
        assert "\x07" not in ended.stdout + ended.stderr


# verify


def test_verify_what_holds(made: dict[str, str], db: Path, tmp_path: Path):
    """Exit code 0; each item with its assurance, and the sum."""
    ended = agentos("verify", made["good"], "--db", db, cwd=Path("/"))
    assert (0, "") == (ended.returncode, ended.stderr)
    head, item, total = ended.stdout.splitlines()
    assert f"checkpoint {made['good']} · task report-42 · number 1" == head
    assert re.fullmatch(r"  ok +file_sha256  content of out.txt  observed  \d+\.\d ms", item)
    assert "1 verified, 0 failed, 0 error · VERIFIED" == total


def test_verify_what_does_not_hold(made: dict[str, str], db: Path, tmp_path: Path):
    """Exit code 4; what was expected, what was found, and what to do."""
    (tmp_path / "out.txt").write_text("two")
    ended = agentos("verify", made["good"], "--db", db)
    assert 4 == ended.returncode
    assert "out.txt: expected sha256" in ended.stdout
    assert "      -> " in ended.stdout
    assert ended.stdout.endswith("0 verified, 1 failed, 0 error · NOT VERIFIED\n")


def test_verify_what_could_not_be_checked(made: dict[str, str], db: Path, tmp_path: Path):
    """Exit code 8: that is no sign of damage, and the last known answer stands."""
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    kept = moved / "registry.sqlite"
    tmp_path.rename(moved)
    ended = agentos("verify", made["good"], "--db", kept)
    assert 8 == ended.returncode
    assert "UNKNOWN" in ended.stdout
    with CheckpointManager(kept) as manager:
        stored = manager.get_checkpoint(made["good"])
    moved.rename(tmp_path)
    assert stored is not None
    assert stored.verified


def test_verify_a_partial_pack_that_might_hold_is_unknown_not_failed(db: Path, tmp_path: Path):
    """One item failed and one could not be seen, and one would be enough: nobody knows, and the exit code says so."""
    (tmp_path / "link").symlink_to("/")
    pack = exists("gone", "link", require_all=False, allow_partial=True, min_verified=1)
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    assert 8 == agentos("verify", checkpoint.checkpoint_id, "--db", db).returncode


def test_verify_an_empty_pack_does_not_hold(db: Path, tmp_path: Path):
    """Nothing claimed is nothing proven."""
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), EvidencePack())
    ended = agentos("verify", checkpoint.checkpoint_id, "--db", db)
    assert (4, True) == (ended.returncode, "NOT VERIFIED" in ended.stdout)


def test_verify_counts_what_is_only_declared_apart(db: Path, tmp_path: Path):
    """A claim that nothing recorded backs is verified as its contract says, and said to be declared only."""
    pack = EvidencePack([Evidence(EvidenceType.COMMAND_EXIT, "tests", {"exit_code": 0})])
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    ended = agentos("verify", checkpoint.checkpoint_id, "--db", db)
    assert (0, True) == (ended.returncode, "(1 declared only)" in ended.stdout)


def test_verify_an_unknown_checkpoint(made: dict[str, str], db: Path):
    """Exit code 3, and where to look."""
    ended = agentos("verify", "nope", "--db", db)
    assert (3, "") == (ended.returncode, ended.stdout)
    assert "agentos: checkpoint nope: unknown\n  -> list_checkpoints(task_id) shows what there is\n" == ended.stderr


def test_verify_json_is_one_document(made: dict[str, str], db: Path):
    """For a program: whether it holds, and everything that was found."""
    told = json.loads(agentos("verify", made["bad"], "--db", db, "--json").stdout)
    assert (False, made["bad"]) == (told["holds"], told["checkpoint"]["checkpoint_id"])
    assert "ARTIFACT_MISSING" == told["checkpoint"]["evidence_pack"]["evidence_list"][0]["result"]["code"]


# The registry.


@pytest.mark.parametrize("verb", [("timeline", "t"), ("verify", "x")])
@pytest.mark.parametrize("what", ["missing", "folder", "text", "foreign", "damaged"])
def test_a_registry_that_cannot_be_used_is_exit_code_6(tmp_path: Path, verb: tuple[str, ...], what: str):
    """Whatever is wrong with the file: one sentence, its path, exit code 6; and a question creates nothing."""
    path = tmp_path / "x.sqlite"
    if what == "folder":
        path.mkdir()
    elif what == "text":
        path.write_text("not a database" * 100)
    elif what == "foreign":
        execute(path, "create table mine (a)")
    elif what == "damaged":
        ensure_migrations(path)
        path.write_bytes(path.read_bytes()[:5000])
    ended = agentos(*verb, "--db", path)
    assert (6, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith("agentos: ")
    assert str(path) in ended.stderr
    assert (what != "missing") is path.exists()


def test_a_registry_from_the_future_is_exit_code_7(db: Path):
    """A newer schema is refused by name."""
    ensure_migrations(db)
    execute(db, "pragma user_version = 99")
    assert 7 == agentos("timeline", "t", "--db", db).returncode


def test_the_default_registry_is_looked_for_in_the_current_folder(tmp_path: Path):
    """Without --db: store/registry.sqlite, and a hint when it is not there."""
    ended = agentos("timeline", "t", cwd=tmp_path)
    assert 6 == ended.returncode
    assert str(tmp_path / "store" / "registry.sqlite") in ended.stderr
    assert "name the file with --db" in ended.stderr
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_is_gone_is_a_sentence(tmp_path: Path):
    """The current directory was removed: said, not raised."""
    code = """
import os, subprocess, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])
for arguments in (["timeline", "t"], ["migrate"], ["verify", "x"]):
    ended = subprocess.run([sys.executable, "-m", "agentos", *arguments], capture_output=True, text=True)
    print(ended.returncode, "Traceback" in ended.stderr, ended.stderr.count(chr(10)) > 0)
"""
    for line in run(code, tmp_path / "gone").splitlines():
        status, traceback, said = line.split()
        assert ("False", "True") == (traceback, said)
        assert "0" != status


# The command itself.


def test_version():
    """The installed version."""
    ended = agentos("--version")
    assert 0 == ended.returncode
    assert re.fullmatch(r"agentos \d+\.\d+\.\d+\S*\n", ended.stdout)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["demo", "--help"], ["migrate", "-h"], ["timeline", "--help"], ["verify", "--help"]]
)
def test_help(arguments: list[str]):
    """Every verb explains itself."""
    ended = agentos(*arguments)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith("Usage: agentos")
    if len(arguments) == 1:
        for verb in ("demo", "migrate", "timeline", "verify"):
            assert re.search(rf"^  {verb} +\S", ended.stdout, re.MULTILINE)


def test_no_arguments_shows_the_help():
    """Nobody is left without a hint."""
    ended = agentos()
    assert "Usage: agentos" in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["--nonsense"], ["timeline"], ["verify"], ["timeline", "t", "--limit", "x"]]
)
def test_what_is_no_command_is_a_usage_error(arguments: list[str]):
    """Exit code 2, what was wrong, and where help is."""
    ended = agentos(*arguments)
    assert (2, "") == (ended.returncode, ended.stdout)
    assert "Error: " in ended.stderr


def test_bad_input_is_exit_code_1(made: dict[str, str], db: Path):
    """What the manager refuses is a sentence here too."""
    ended = agentos("timeline", "x" * 600, "--db", db)
    assert 1 == ended.returncode
    assert "agentos: task_id has 600 characters" in ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_cannot_show_our_letters_gets_others(made: dict[str, str], db: Path, tmp_path: Path, encoding: str):
    """A sign that the encoding does not have is written in its escaped form: the report arrives, whatever the locale."""
    (tmp_path / "out.txt").write_text("two")
    line = [*COMMAND, "verify", made["good"], "--db", str(db)]
    ended = subprocess.run(line, env=environment(PYTHONIOENCODING=encoding), capture_output=True, check=False, timeout=60)
    assert 4 == ended.returncode
    assert b"Traceback" not in ended.stderr
    assert b"NOT VERIFIED" in ended.stdout


def test_the_demonstration_runs_where_only_ascii_can_be_shown():
    """Also its agent, which is a process of its own."""
    ended = subprocess.run(
        [*COMMAND, "demo"], env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=False, timeout=60
    )
    assert (0, b"") == (ended.returncode, ended.stderr)


def test_a_reader_that_goes_away_is_no_traceback(made: dict[str, str], db: Path):
    """`agentos … | head` ends quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [*COMMAND, "timeline", "report-42", "--db", str(db)],
            env=environment(),
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert b"" == ended.stderr
    assert ended.returncode != 0


def test_an_undecodable_argument_is_a_sentence(made: dict[str, str], db: Path):
    """Bytes that are no text reach the command as arguments now and then."""
    ended = subprocess.run(
        [*[part.encode() for part in COMMAND], b"timeline", b"\xff\xfe", b"--db", str(db).encode()],
        env=environment(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert 1 == ended.returncode
    assert b"Traceback" not in ended.stderr
    assert b"lone surrogate" in ended.stderr


def test_every_exit_code_of_a_verb_is_the_documented_one():
    """The table from errors to exit codes is part of the interface."""
    from agentos import errors
    from agentos.cli.main import exit_code

    expected: dict[type[Any], int] = {
        errors.InvalidInputError: 1,
        errors.CheckpointNotFoundError: 3,
        errors.StepNotFoundError: 3,
        errors.EvidenceMismatchError: 4,
        errors.StoreBusyError: 5,
        errors.StoreCorruptError: 6,
        errors.StoreUnavailableError: 6,
        errors.MigrationEditedError: 6,
        errors.SchemaTooNewError: 7,
        errors.EvidenceUnavailableError: 8,
    }
    assert expected == {kind: exit_code(kind("x")) for kind in expected}


def test_help_stays_quick_by_loading_no_registry():
    """`agentos --help` imports neither SQLite nor the probes."""
    code = """
import sys
from agentos.cli.main import main
try:
    main(["--help"])
except SystemExit as ending:
    print(ending.code, "sqlite3" in sys.modules, "agentos.probes" in sys.modules)
"""
    assert run(code).endswith("0 False False\n")


def test_the_ids_it_prints_can_be_used(made: dict[str, str], db: Path):
    """What timeline prints, verify takes."""
    line = agentos("timeline", "report-42", "--db", db).stdout.splitlines()[-1]
    assert re.search(ULID, line)
    assert 0 == agentos("verify", line.split()[-1], "--db", db).returncode
