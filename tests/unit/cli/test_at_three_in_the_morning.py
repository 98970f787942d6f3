"""What the README tells somebody whose agent died is what gets the task going: each row of its table is made, and followed."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from tests.support import environment
from tests.unit.cli.program import agentos
from tests.unit.test_docs import ROOT, blocks

TASK = "report-42"
ROW = re.compile(r"^\| (\d) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def rows() -> dict[int, str]:
    """Exit code to what is to be done, as the README has it."""
    section = (ROOT / "README.md").read_text().partition("## At three in the morning")[2].partition("\n## ")[0]
    return {int(code): todo for code, _, todo in ROW.findall(section)}


def commands(todo: str) -> list[list[str]]:
    """The commands of that, word by word, without the program's name; with a reason, which nobody can give beforehand."""
    found = [shlex.split(each.replace("…", "I looked")) for each in re.findall(r"`([^`]+)`", todo)]
    return [words[1:] for words in found if words[0] == "agentos"]


def worked(folder: Path, *, keep: bool = True) -> None:
    with CheckpointManager(folder / "store" / "registry.sqlite", folder) as manager, manager.task(TASK) as task:
        task.resume({})
        with task.step("tool_executed", {"done": 1}) as step:
            (folder / "out.txt").write_text("proven")
            step.proves_file("out.txt", keep=keep)


def differs(folder: Path) -> None:
    worked(folder)
    (folder / "out.txt").write_text("half")


def differs_for_good(folder: Path) -> None:
    worked(folder, keep=False)
    (folder / "out.txt").write_text("half")


def may_have_run(folder: Path) -> None:
    worked(folder)
    with CheckpointManager(folder / "store" / "registry.sqlite", folder) as manager:
        step = manager.begin_step(TASK, "tool_executed", {"done": 2}, rerunnable=False)
        manager.note_error(step, ConnectionError("the line went dead"))


def cannot_be_checked(folder: Path) -> None:
    worked(folder)
    (folder / "other.sqlite").write_text("what is here instead of the disk")
    claim = {"table": "t", "where": {"a": 1}, "values": {"b": 2}}
    with CheckpointManager(folder / "store" / "registry.sqlite", folder, auto_verify=False) as manager:
        pack = EvidencePack([Evidence(EvidenceType.DB_ROW, "a row that is elsewhere", claim, {"db_path": "other.sqlite"})])
        manager.commit_step(manager.begin_step(TASK, "tool_executed", {"done": 2}), pack)


MADE: dict[int, Callable[[Path], None]] = {
    0: worked,
    8: differs,
    1: differs_for_good,
    4: may_have_run,
    3: cannot_be_checked,
}


@pytest.mark.parametrize("code", MADE)
def test_what_the_readme_says_gets_a_task_going(tmp_path: Path, code: int):
    """From `recover`'s exit code to a task that may go on, by the first command of the row."""
    MADE[code](tmp_path)
    found = agentos("recover", TASK, cwd=tmp_path)
    assert code == found.returncode, found.stdout
    typed = commands(rows()[code])
    if not typed:
        # Somebody starts the agent, or the disk: no command of ours.
        assert code in (0, 3)
        return
    [step] = set(re.findall(r"step_[0-9A-Z]{26}", agentos("steps", cwd=tmp_path).stdout)) or [""]
    for words in typed[:1]:
        ended = agentos(*[step if word == "STEP" else word for word in words], cwd=tmp_path)
        assert 0 == ended.returncode, ended.stderr
    assert 0 == agentos("recover", TASK, cwd=tmp_path).returncode


def test_the_other_commands_of_the_table_do_as_they_say(tmp_path: Path):
    """What a repair overwrote comes back; a task that is begun anew may go on."""
    differs(tmp_path)
    repair, undo = commands(rows()[8])
    said = agentos(*repair, cwd=tmp_path)
    assert (0, "proven") == (said.returncode, (tmp_path / "out.txt").read_text())
    [restored, *_] = re.findall(r"restore_[0-9A-Z]{26}", said.stdout)
    ended = agentos(*[restored if word == "RESTORE" else word for word in undo], "--yes", cwd=tmp_path)
    assert (0, "half") == (ended.returncode, (tmp_path / "out.txt").read_text())
    _, restart = commands(rows()[1])
    assert 0 == agentos(*restart, "--yes", cwd=tmp_path).returncode
    assert 0 == agentos("recover", TASK, cwd=tmp_path).returncode


def test_somebody_who_has_the_task_is_named(tmp_path: Path):
    """Exit code 5 while he lives, and not after."""
    worked(tmp_path)
    line = [sys.executable, "-m", "agentos", "run", TASK, "--", "sh", "-c", "echo ready; read line"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=tmp_path, env=environment(), text=True, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None
        assert "ready\n" == holder.stdout.readline()
        held = agentos("recover", TASK, cwd=tmp_path)
        assert (5, True) == (held.returncode, f"process {holder.pid}" in held.stdout)
        holder.communicate("go on\n")
    assert 5 in rows()
    assert 0 == agentos("recover", TASK, cwd=tmp_path).returncode


def looks() -> Iterator[list[str]]:
    section = (ROOT / "README.md").read_text().partition("## At three in the morning")[2]
    [block, *_] = re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        yield shlex.split(line.removeprefix("$ "), comments=True)[1:]


def test_looking_changes_nothing(tmp_path: Path):
    """The commands that the README calls harmless leave the workspace as it is, and say something."""
    differs(tmp_path)
    assert blocks(ROOT / "README.md", "console")
    for words in looks():
        said = agentos(*words, cwd=tmp_path)
        assert (True, True) == (said.returncode in (0, 8), TASK in said.stdout), (words, said.stderr)
    assert "half" == (tmp_path / "out.txt").read_text()
