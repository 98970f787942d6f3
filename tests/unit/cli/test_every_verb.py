"""What holds of every verb, whatever it does: one JSON document, no registry made by a question, plain text without a terminal.

All verbs are run in one process that does what the command does, once for each, each in a folder of its own. That they do what
they are for, and do so as processes, is tested by the file of each.
"""

import json
import os
import pty
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentos.cli.main import VERBS, agentos_command
from agentos.cli.verb import Verb
from agentos.core.checkpoints import CheckpointManager
from tests.support import content, dump, environment
from tests.unit.cli.program import agentos, on_a_terminal

# Something that each verb can do. What is in braces is in the registry; each verb has a folder of its own.
SAMPLES = {
    "demo": "demo",
    "tasks": "tasks",
    "log": "log report",
    "show": "show {checkpoint}",
    "diff": "diff {checkpoint} --files",
    "stats": "stats",
    "verify": "verify {checkpoint}",
    "recover": "recover {report}",
    "resume": "resume {report}",
    "restore": "restore {lost} --yes",
    "undo": "undo {restore} --yes",
    "rollback": "rollback {checkpoint}",
    "run": "run book -- true",
    "finish": "finish {report}",
    "steps": "steps {broken}",
    "resolve": "resolve {step} landed --reason seen",
    "accept": "accept {moved} --reason archived",
    "restart": "restart {report} --reason again --yes",
    "reopen": "reopen {over} --reason more",
    "free": "free {report} --reason gone",
    "prune": "prune {report} --keep-verified 1 --yes",
    "vault": "vault",
    "doctor": "doctor",
    "migrate": "migrate",
    "backup": "backup copy.tar",
    "export": "export {report} report.tar",
    "import": "import elsewhere.tar",
    "completion": "completion bash",
}
# Those that begin something, or are about no registry.
MAKERS = {"demo", "run", "migrate", "completion"}
# It tells a story, and its agents are processes: both take seconds.
SLOW = {"demo"}

RUNNER = """
import contextlib, io, json, os, sys
from agentos.cli.main import main
for place, argv in json.load(open(sys.argv[1])):
    os.chdir(place)
    os.environ["AGENTOS_DB"] = os.path.join(place, "registry.sqlite")
    print(chr(30) + argv[0], flush=True)
    sys.stderr.write(chr(30) + argv[0] + chr(10))
    sys.stderr.flush()
    try:
        main(argv)
    except SystemExit as ending:
        print(chr(31) + str(ending.code), flush=True)
    sys.stderr.flush()
"""


# The folder of a registry, and the ids of what is in it.
Names = tuple[Path, dict[str, str]]


@dataclass
class Said:
    out: str
    err: str
    code: int


def shape_of(name: str) -> set[str]:
    command = agentos_command.get_command(None, name)  # type: ignore[arg-type]
    assert isinstance(command, Verb), f"{name} has no shape"
    return set(command.shape)


@pytest.fixture
def names(tmp_path_factory: pytest.TempPathFactory) -> Names:
    """A folder with a registry that has something of everything in it, and the ids of that."""
    place = tmp_path_factory.mktemp("template")
    (place / "out.txt").write_text("one")
    with CheckpointManager(place / "registry.sqlite", place) as manager:
        first = manager.commit_step(manager.begin_step("report", "tool_executed", {"n": 1}), content("out.txt", "one"))
        second = manager.commit_step(manager.begin_step("report", "tool_executed", {"n": 2}), content("out.txt", "one"))
        with manager.task("kept").step("tool_executed", {}) as step:
            (place / "kept.txt").write_text("one")
            step.proves_file("kept.txt")
        with manager.task("lost").step("tool_executed", {}) as lost:
            (place / "lost.txt").write_text("one")
            lost.proves_file("lost.txt")
        (place / "kept.txt").write_text("two")
        (place / "moved.txt").write_text("one")
        with manager.task("kept") as kept:
            kept.resume({}, repair=True)
            assert kept.recovery is not None
            restored = kept.recovery.restored[0].restore_id
        manager.commit_step(manager.begin_step("moved", "tool_executed", {}), content("moved.txt", "one"))
        manager.commit_step(manager.begin_step("over", "tool_executed", {}), content("out.txt", "one"))
        manager.finish_task("over")
        interrupted = manager.begin_step("broken", "tool_executed", {}, rerunnable=False)
        manager.note_error(interrupted, ValueError("it died"))
    with CheckpointManager(place / "other.sqlite", place) as other:
        other.commit_step(other.begin_step("from elsewhere", "tool_executed", {}), content("out.txt", "one"))
        other.export_task("from elsewhere", place / "elsewhere.tar")
    for name in ("moved.txt", "lost.txt"):
        (place / name).unlink()
    assert lost.checkpoint is not None
    ids = {
        "checkpoint": second.checkpoint_id,
        "earlier": first.checkpoint_id,
        "restore": restored,
        "step": interrupted,
        "lost": lost.checkpoint.checkpoint_id,
    }
    return place, ids | {task: task for task in ("report", "kept", "broken", "moved", "over")}


def prepared(tmp_path: Path, names: Names, *, empty: bool, leave: set[str]) -> list[tuple[str, list[str]]]:
    template, ids = names
    work = []
    for name, line in SAMPLES.items():
        if name in leave:
            continue
        place = tmp_path / name
        if empty:
            place.mkdir()
        else:
            shutil.copytree(template, place)
        work.append((str(place), [word.format(**ids) for word in line.split()]))
    return work


def parts_of(text: str) -> dict[str, str]:
    """What each verb said."""
    found = [part.partition("\n") for part in text.replace("\r\n", "\n").split(chr(30))[1:]]
    return {name: rest for name, _, rest in found}


def run_all(tmp_path: Path, work: list[tuple[str, list[str]]], **extra: str) -> dict[str, Said]:
    """Every verb, with nobody there to be asked."""
    (tmp_path / "work.json").write_text(json.dumps(work))
    clean = {name: value for name, value in environment(**extra).items() if name != "FORCE_COLOR"}
    ended = subprocess.run(
        [sys.executable, "-c", RUNNER, str(tmp_path / "work.json")],
        env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert 0 == ended.returncode, ended.stderr
    errors = parts_of(ended.stderr)
    said = {}
    for name, out in parts_of(ended.stdout).items():
        text, _, code = out.rpartition(chr(31))
        said[name] = Said(text, errors[name], int(code))
    return said


def test_every_verb_has_a_sample_here():
    """A verb that is added is held to all of this."""
    assert set(VERBS) == set(SAMPLES)


def test_with_json_each_says_one_document_with_the_keys_it_documents(tmp_path: Path, names: Names):
    """And nothing else on standard output, nor a question."""
    work = [(place, _with(argv, "--json")) for place, argv in prepared(tmp_path, names, empty=False, leave=set())]
    for name, said in run_all(tmp_path, work).items():
        assert shape_of(name) == set(json.loads(said.out)), (name, said)
        assert "Traceback" not in said.err
        assert 0 == said.code, (name, said)


def _with(argv: list[str], option: str) -> list[str]:
    return [argv[0], option, *argv[1:]]


def test_no_question_makes_a_registry(tmp_path: Path, names: Names):
    """Exit code 6 and a sentence; not a file, not a folder."""
    said = run_all(tmp_path, prepared(tmp_path, names, empty=True, leave=MAKERS))
    assert {name: 6 for name in SAMPLES if name not in MAKERS} == {name: each.code for name, each in said.items()}
    for name, each in said.items():
        assert "no registry here" in each.err, name
        assert [] == os.listdir(tmp_path / name), name


def test_what_destroys_asks_nobody_who_is_not_there(tmp_path: Path, names: Names):
    """Without a terminal and without --yes: exit code 2, which says so, and nothing was changed."""
    destroys = {name for name, line in SAMPLES.items() if " --yes" in line}
    work = prepared(tmp_path, names, empty=False, leave=set(SAMPLES) - destroys)
    before = {name: dump(tmp_path / name / "registry.sqlite") for name in destroys}
    said = run_all(tmp_path, [(place, [word for word in argv if word != "--yes"]) for place, argv in work])
    assert dict.fromkeys(destroys, 2) == {name: each.code for name, each in said.items()}
    assert destroys == {name for name, each in said.items() if "give --yes" in each.err}
    assert before == {name: dump(tmp_path / name / "registry.sqlite") for name in destroys}


def test_nothing_is_coloured_without_a_terminal(tmp_path: Path, names: Names):
    """Not the answer, and not what is said beside it."""
    said = run_all(tmp_path, prepared(tmp_path, names, empty=False, leave=SLOW), TERM="xterm")
    for name, each in said.items():
        assert "\x1b" not in each.out + each.err, name


def test_each_does_the_same_in_a_process_of_its_own_with_a_terminal_and_without(tmp_path: Path, names: Names):
    """As it is typed, and as a script has it: the same end, something said, no traceback. What it does is in its own file."""
    for folder in ("typed", "scripted"):
        (tmp_path / folder).mkdir()
    typed, scripted = (prepared(tmp_path / each, names, empty=False, leave=SLOW) for each in ("typed", "scripted"))
    for (place, argv), (other, same) in zip(typed, scripted, strict=True):
        code, said = on_a_terminal(*argv, cwd=Path(place), AGENTOS_DB=f"{place}/registry.sqlite")
        ended = agentos(*same, cwd=Path(other), AGENTOS_DB=f"{other}/registry.sqlite")
        assert (0, 0) == (code, ended.returncode), (argv, said, ended.stderr)
        # A command that is run has the terminal for itself, and `true` has nothing to say.
        assert (argv[0] != "run") == bool(said.strip()), argv
        assert "Traceback" not in said, argv


def test_on_a_terminal_no_color_is_honoured(tmp_path: Path, names: Names):
    """A person who wants none gets none."""
    work = prepared(tmp_path, names, empty=False, leave=SLOW)
    (tmp_path / "work.json").write_text(json.dumps(work))
    argv = [sys.executable, "-c", RUNNER, str(tmp_path / "work.json")]
    pid, leader = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, environment(NO_COLOR="1", TERM="xterm"))
    said = b""
    try:
        while chunk := os.read(leader, 65536):
            said += chunk
    except OSError:
        # The last program that had the terminal open has ended.
        pass
    os.close(leader)
    os.waitpid(pid, 0)
    assert {argv[0] for _, argv in work} == set(parts_of(said.decode()))
    for name, text in parts_of(said.decode()).items():
        assert "\x1b[3" not in text, name
        assert "\x1b[1m" not in text, name
        assert "\x1b[9" not in text, name


def test_with_json_what_is_mistyped_is_a_document_too(tmp_path: Path, names: Names):
    """A program reads why in the same place as every other error; nothing was done."""
    work = [
        (place, [*_with(argv, "--json"), "--nonsense"]) for place, argv in prepared(tmp_path, names, empty=False, leave={"run"})
    ]
    work.append((str(tmp_path), ["run", "--json"]))
    work.append((str(tmp_path / "restart"), ["restart", "report", "--reason", "again", "--json"]))
    for name, said in run_all(tmp_path, work).items():
        told = json.loads(said.out)
        assert (2, {"error", "exit_code"}, 2) == (said.code, set(told), told["exit_code"]), (name, said)
        assert told["error"]["message"] in said.err.replace("\n", " "), (name, said)
        assert f"agentos {name} --help" in told["error"]["hint"], name


def test_what_a_command_is_told_is_no_wish_for_a_document(tmp_path: Path):
    """After `--` it is the command's own."""
    (tmp_path / "work.json").write_text("")
    said = run_all(tmp_path, [(str(tmp_path), ["run", "--nonsense", "--", "--json"])])["run"]
    assert (2, "") == (said.code, said.out)


@pytest.mark.parametrize("what", ["option", "id"])
def test_what_is_not_there_is_a_sentence_for_every_verb(tmp_path: Path, names: Names, what: str):
    """Exit code 2, nothing on standard output, and no traceback."""
    template, ids = names
    if what == "option":
        work = [(place, _with(argv, "--nonsense")) for place, argv in prepared(tmp_path, names, empty=False, leave=set())]
    else:
        without = {name for name, line in SAMPLES.items() if "{" not in line}
        work = prepared(tmp_path, (template, dict.fromkeys(ids, "nowhere")), empty=False, leave=without)
    for name, each in run_all(tmp_path, work).items():
        assert "Traceback" not in each.err, name
        assert (2, "") == (each.code, each.out), (name, each)
