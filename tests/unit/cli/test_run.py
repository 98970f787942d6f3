"""`agentos run`: a command as a step, its exit code and its signals, what is skipped and what is refused."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos._marked import VARIABLE, processes_of
from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.support import environment
from tests.unit.cli.program import COMMAND, agentos


def run(db: Path, *arguments: object, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return agentos("run", "book", "--db", db, *arguments, cwd=cwd, **extra)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def line(db: Path, work: Path):
    """One line of a script: this command in the task's workspace."""
    return lambda *words, **extra: run(db, "--workspace", ".", "--", *words, cwd=work, **extra)


@contextmanager
def under_way(db: Path, cwd: Path, command: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The process of an `agentos run` whose command has said its first line."""
    argv = [*COMMAND, "run", "book", "--db", str(db), *options, "--", "sh", "-c", command]
    pipe = subprocess.PIPE
    # In a group of its own: one that nobody could let go on, as that of a test run may be, is not stopped by the system.
    streams: Any = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True}
    with subprocess.Popen(argv, cwd=cwd, env=environment(), process_group=0, **streams) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


# What is done, and what is skipped.


def test_a_command_is_run_once_and_its_folder_is_proven(db: Path, work: Path, line):
    """Run again it is skipped, and says so; what it said goes where the user reads it."""
    first = line("sh", "-c", "echo said; echo more >> out.txt")
    assert (0, "said\n", "") == (first.returncode, first.stdout, first.stderr)
    again = line("sh", "-c", "echo said; echo more >> out.txt")
    assert (0, "") == (again.returncode, again.stdout)
    assert "agentos: skipped, it is done: sh -c" in again.stderr
    assert "more\n" == (work / "out.txt").read_text()
    with CheckpointManager(db) as manager:
        newest, found = manager.list_checkpoints("book")
        assert (2, True, "manual_checkpoint") == (newest.sequence_number, newest.verified, found.checkpoint_type)
        [ended] = [item for item in newest.evidence_pack.evidence_list if item.evidence_type == "command_exit"]
    record = ended.metadata["record"]
    # Nobody listened: that is said, and not that it was silent.
    assert (0, None, None) == (record["exit_code"], record["stdout"], record["stderr"])
    assert ["sh", "-c", "echo said; echo more >> out.txt"] == record["argv"]
    assert Exit.SAFE == agentos("verify", newest.checkpoint_id, "--db", db).returncode


def test_a_command_that_failed_is_run_again(work: Path, line):
    """Its exit code is handed on, and what it left is put back before it runs again."""
    failing = "echo half >> out.txt; test -e ../mended || exit 23; echo whole >> out.txt"
    ended = line("sh", "-c", failing)
    assert 23 == ended.returncode
    assert "not done: sh -c" in ended.stderr
    assert "exit code 23; it will be run again" in ended.stderr
    (work.parent / "mended").touch()
    ended = line("sh", "-c", failing)
    assert 0 == ended.returncode
    assert "put back: " in ended.stderr
    assert "half\nwhole\n" == (work / "out.txt").read_text()


def test_what_somebody_changed_is_put_back_and_can_be_brought_back(db: Path, work: Path, line):
    """Unless --no-repair says that nothing is: then it is exit code 8, and nothing was run or touched."""
    line("sh", "-c", "echo proven > out.txt")
    (work / "out.txt").write_text("mine\n")
    refused = run(db, "--workspace", ".", "--no-repair", "--", "touch", "new", cwd=work)
    assert (Exit.REPAIRABLE, False, "mine\n") == (refused.returncode, (work / "new").exists(), (work / "out.txt").read_text())
    ended = line("sh", "-c", "cat out.txt")
    assert (0, "proven\n") == (ended.returncode, ended.stdout)
    restored = ended.stderr.partition("`agentos undo ")[2].partition("`")[0]
    with CheckpointManager(db) as manager:
        manager.undo_restore(restored)
    assert "mine\n" == (work / "out.txt").read_text()


def test_a_name_is_one_step_and_other_words_under_it_are_refused(db: Path, work: Path):
    """A loop that forgets to name its steps apart is told, before anything wrong is skipped."""

    def named(*words: str) -> subprocess.CompletedProcess[str]:
        return run(db, "--workspace", ".", *words, cwd=work)

    assert 0 == named("--step", "one", "--", "touch", "a").returncode
    refused = named("--step", "one", "--", "touch", "b")
    assert (Exit.USAGE, False) == (refused.returncode, (work / "b").exists())
    assert "step one is done, and its words were others; nothing was run" in refused.stderr
    assert "skipped" in named("--step", "one", "--any-words", "--", "touch", "b").stderr
    assert 0 == named("--step", "two", "--", "touch", "b").returncode
    assert (work / "b").exists()


def test_words_that_come_again_in_one_script_are_skipped_with_a_hint(db: Path, work: Path):
    """Two steps or one, only the script knows; started again, by another shell, it is one."""
    line = " ".join([*COMMAND, "run", "book", "--db", str(db), "--workspace", ".", "--"])
    script = f"{line} touch a; {line} touch b; {line} touch a"
    for hints, skips in ((1, 1), (0, 3)):
        ended = subprocess.run(["sh", "-c", script], cwd=work, env=environment(), capture_output=True, text=True, check=True)
        assert (hints, skips) == (ended.stderr.count("give it a --step NAME"), ended.stderr.count("skipped"))


def test_the_same_words_in_another_folder_are_another_step(db: Path, work: Path):
    """`cd a; make; cd ../b; make` are two steps, wherever the project lies."""
    for name in ("a", "b"):
        (work / name).mkdir()
    for name in ("a", "b"):
        assert "" == run(db, "--workspace", "..", "--", "touch", "made", cwd=work / name).stderr
    assert "skipped" in run(db, "--workspace", "..", "--", "touch", "made", cwd=work / "a").stderr
    assert ["a", "b"] == [path.parent.name for path in sorted(work.rglob("made"))]


def test_a_step_that_does_not_prove_the_workspace_is_refused(db: Path, work: Path, line):
    """What it did would be taken back by the next one, silently."""
    line("touch", "a")
    refused = run(db, "--", "touch", "b", cwd=work)
    assert (Exit.USAGE, False) == (refused.returncode, (work / "b").exists())
    assert f"--workspace {work}" in refused.stderr


@pytest.mark.parametrize("options", [[], ["--file", "made/x"], ["--tree", "made"]])
def test_a_task_without_a_workspace_proves_what_is_named(db: Path, work: Path, options: list[str]):
    """A file, a folder, or that the command ended well; each is enough for the next line to go on from."""
    words = ["sh", "-c", "mkdir made; echo content > made/x"]
    assert [0, 0] == [run(db, *options, "--", *words, cwd=work).returncode for _ in "ab"]
    assert 0 == run(db, *options, "--", "true", cwd=work).returncode
    with CheckpointManager(db) as manager:
        assert [2, 1] == [each.sequence_number for each in manager.list_checkpoints("book")]


def test_a_file_that_is_not_there_is_no_success(db: Path, work: Path):
    """The command ended well and did not leave what it was to leave: exit code 1, and it runs again."""
    for _ in range(2):
        ended = run(db, "--file", "made", "--", "sh", "-c", "echo ran", cwd=work)
        assert (Exit.DIFFERS, "ran\n") == (ended.returncode, ended.stdout)
    assert 0 == run(db, "--file", "made", "--", "touch", "made", cwd=work).returncode


def test_what_was_rolled_back_past_is_run_again(db: Path, work: Path, line):
    """Done is what the checkpoint stands on from which the task goes on; what came after it is not."""
    for name in ("a", "b"):
        assert 0 == line("sh", "-c", f"echo {name} >> log.txt").returncode
    with CheckpointManager(db) as manager:
        first = manager.list_checkpoints("book")[1].checkpoint_id
        # Its own pack does not hold now: the whole folder has b in it.
        (work / "log.txt").write_text("a\n")
    assert 0 == agentos("rollback", first, "--supersede-later", "--db", db).returncode
    assert "skipped" in line("sh", "-c", "echo a >> log.txt").stderr
    assert "skipped" not in line("sh", "-c", "echo b >> log.txt").stderr
    assert "a\nb\n" == (work / "log.txt").read_text()


def test_named_files_are_put_back_before_a_command_runs_again(db: Path, work: Path):
    """From the first line on: what is proven later, what was there before, and what is to be gone."""
    (work / "old").write_text("old\n")
    words = ["--", "sh", "-c", "cat old >> new; rm old; test -e ../go"]
    options = ["--file", "new", "--gone", "old"]
    for _ in range(2):
        assert 1 == run(db, *options, *words, cwd=work).returncode
    (work.parent / "go").touch()
    assert 0 == run(db, *options, *words, cwd=work).returncode
    assert ("old\n", False) == ((work / "new").read_text(), (work / "old").exists())
    (work / "old").write_text("again")
    assert "put back: " in run(db, "--file", "new", "--", "true", cwd=work).stderr
    assert not (work / "old").exists()
    kept = run(db, "--gone", "new", "--step", "take", "--", "true", cwd=work)
    assert (Exit.DIFFERS, True) == (kept.returncode, "new is still there" in kept.stderr)


def test_finish_ends_the_task(db: Path, work: Path, line):
    """Measured first; what is done is still skipped, and nothing else is begun."""
    line("sh", "-c", "echo 1 > a")
    (work / "a").write_text("2")
    assert Exit.REPAIRABLE == agentos("finish", "book", "--db", db).returncode
    line("sh", "-c", "echo 1 > a")
    told = json.loads(agentos("finish", "book", "--db", db, "--json").stdout)
    assert ("book", False) == (told["task"], told["already"])
    assert (0, "book: finished at checkpoint number 2\n") == (
        (again := agentos("finish", "boo", "--db", db)).returncode,
        again.stdout,
    )
    assert 0 == line("sh", "-c", "echo 1 > a").returncode
    assert Exit.CONFLICT == line("touch", "b").returncode
    (work / "a").write_text("2")
    assert [Exit.DIFFERS, Exit.DIFFERS] == [
        line("sh", "-c", "echo 1 > a").returncode,
        agentos("finish", "book", "--db", db).returncode,
    ]


# How it ends.


def test_a_program_that_is_not_there_ran_nothing(db: Path, work: Path):
    """127 and 126, as a shell says; and a step that must not run twice may be tried again."""
    (work / "plain").write_text("no program")
    for _ in range(2):
        for words, code in ((["no-such-program"], 127), (["./plain"], 126)):
            ended = run(db, "--workspace", ".", "--not-rerunnable", "--", *words, cwd=work)
            assert code == ended.returncode
            assert "nothing was run" in ended.stderr


@pytest.mark.parametrize("words", [[], [""], ["--step", " ", "--", "true"], ["--any-words", "--", "true"]])
def test_what_is_no_command_is_refused(db: Path, work: Path, words: list[str]):
    """Before a registry is made."""
    assert (Exit.USAGE, False) == (run(db, *words, cwd=work).returncode, db.exists())


def test_with_json_there_is_one_document(db: Path, work: Path):
    """What the command says goes to standard error then."""
    for code, ran in ((0, True), (0, False)):
        ended = run(db, "--json", "--step", "s", "--", "sh", "-c", "echo said", cwd=work)
        told = json.loads(ended.stdout)
        assert (code, ran, True, "book", "s") == (ended.returncode, told["ran"], told["done"], told["task"], told["step"])
        assert ran is ("said\n" in ended.stderr)
    ended = run(db, "--json", "--", "sh", "-c", "kill -9 $$", cwd=work)
    told = json.loads(ended.stdout)
    assert (137, True, False, None, 9) == (ended.returncode, told["ran"], told["done"], told["exit_code"], told["signal"])


def test_the_command_has_our_streams_and_is_told_where_it_is(db: Path, work: Path):
    """Standard input is the user's own; the environment names the task, the step and the registry."""
    script = 'read line; echo "$line $AGENTOS_TASK $AGENTOS_DB"; echo "$AGENTOS_STEP" >&2'
    with under_way(db, work, f"echo ready; {script}") as process:
        said, errors = process.communicate("hello\n")
    assert (f"hello book {db}\n", 0) == (said, process.returncode)
    assert errors.startswith("step_")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_is_passed_on_and_ends_it_as_a_shell_says(db: Path, work: Path, number: signal.Signals):
    """128 and its number; the step is not done."""
    with under_way(db, work, "echo ready; exec sleep 60") as process:
        process.send_signal(number)
        _, errors = process.communicate()
    assert 128 + number == process.returncode
    assert f"it was ended by signal {number.value}" in errors


def test_a_command_that_ends_well_after_a_signal_is_done(db: Path, work: Path):
    """How it ends is for it to say; it gets the signal once."""
    command = "n=0; trap 'n=$((n+1))' TERM; echo ready; while [ $n = 0 ]; do sleep 0.01; done; sleep 0.05; test $n = 1"
    with under_way(db, work, command, "--step", "s") as process:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert 0 == process.returncode
    assert "skipped" in run(db, "--step", "s", "--any-words", "--", "true", cwd=work).stderr


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for(what) -> None:
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.005)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stop_stops_both_and_a_continue_lets_both_go_on(db: Path, work: Path):
    """As job control has it, without a terminal too; a group of its own, whose parent could let it go on."""
    with under_way(db, work, "echo ready; read line") as process:
        [command] = [int(each) for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.send_signal(signal.SIGTSTP)
        wait_for(lambda: state_of(command) == "T" and state_of(process.pid) == "T")
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: state_of(command) != "T")
        process.communicate("go on\n")
    assert 0 == process.returncode


@pytest.mark.parametrize(("key", "code"), [(b"\x03", 130), (b"\x1c", 131)])
def test_on_a_terminal_the_keys_reach_the_command_once(db: Path, work: Path, key: bytes, code: int):
    """What the terminal sends goes to the whole group: it is not sent a second time."""
    number = code - 128
    script = f"import os, signal, time\nn = []\nsignal.signal({number}, lambda *_: n.append(1))\nprint('ready', os.isatty(0))\n"
    script += f"while not n: time.sleep(0.01)\ntime.sleep(0.1)\nprint('got', len(n))\nsignal.signal({number}, signal.SIG_DFL)\n"
    script += f"os.kill(os.getpid(), {number})\n"
    argv = [*COMMAND, "run", "book", "--db", str(db), "--", sys.executable, "-uc", script]
    pid, leader = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execve(argv[0], argv, environment(PYTHONFAULTHANDLER=""))
    said = b""
    while b"ready True" not in said:
        said += os.read(leader, 4096)
    os.write(leader, key)
    try:
        while chunk := os.read(leader, 4096):
            said += chunk
    except OSError:
        pass
    os.close(leader)
    assert code == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said
    assert b"got 1" in said


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_shell_stops_it_and_lets_it_go_on(db: Path, work: Path):
    """Control-Z and `fg` in a real shell with job control: as with any other program."""
    shell, leader = pty.fork()
    if shell == 0:
        os.chdir(work)
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment(PS1="$ ", TERM="dumb"))

    def typed(text: str, awaited: str) -> None:
        os.write(leader, text.encode())
        said = ""
        # The line that is typed is shown too: what is awaited is in none.
        while not re.search(awaited, said, re.DOTALL):
            said += os.read(leader, 4096).decode()

    words = " ".join([*COMMAND, "run", "book", "--db", str(db), "--step", "one", "--"])
    typed(f"{words} sh -c 'echo rea''dy; read line; echo got $line'\n", "ready")
    # What is typed while a shell changes the modes of its terminal may be lost: it has to be back at its prompt.
    typed("\x1a", r"Stopped.*\$ $")
    typed("fg\n", "sh -c")
    typed("it\n", r"got it.*\$ $")
    typed("echo code $?\n", "code 0")
    os.write(leader, b"exit\n")
    os.close(leader)
    os.waitpid(shell, 0)
    assert "skipped" in run(db, "--step", "one", "--any-words", "--", "true", cwd=work).stderr


# What must not happen twice, and who else is there.


def test_what_must_not_run_twice_is_left_to_a_person(db: Path, work: Path):
    """A command that failed may have done it: exit code 4, until somebody says what became of it."""
    options = ["--workspace", ".", "--not-rerunnable", "--step", "send"]
    assert 1 == run(db, *options, "--", "sh", "-c", "exit 1", cwd=work).returncode
    for _ in range(2):
        ended = run(db, *options, "--", "sh", "-c", "exit 1", cwd=work)
        assert (Exit.UNCERTAIN, "") == (ended.returncode, ended.stdout)
    with CheckpointManager(db) as manager:
        [step] = manager.list_open_steps("book")
        manager.resolve_step(step.step_id, "landed", by="ada", reason="the letter is there")
    # It is the state after the step that a person's word leads to.
    assert "skipped" in run(db, *options, "--", "sh", "-c", "exit 1", cwd=work).stderr


def test_a_step_whose_file_is_there_is_done(db: Path, work: Path):
    """Killed after it had its effect: adopted, and not run a second time."""
    options = ["--not-rerunnable", "--expects-file", "letter", "--step", "send"]
    assert 0 == run(db, "--step", "before", "--", "true", cwd=work).returncode
    with under_way(db, work, "echo sent >> letter; echo ready; exec sleep 60", *options) as process:
        process.kill()
        process.wait()
    ended = run(db, *options, "--any-words", "--", "sh", "-c", "echo sent >> letter", cwd=work)
    assert 0 == ended.returncode, ended.stderr
    assert "skipped" in ended.stderr
    assert "sent\n" == (work / "letter").read_text()
    assert 0 == run(db, "--step", "after", "--", "true", cwd=work).returncode


def test_a_task_that_is_held_is_a_conflict(db: Path, work: Path):
    """Also by the very step that the command is."""
    with under_way(db, work, "echo ready; read line") as process:
        held = run(db, "--", "true", cwd=work)
        assert (Exit.CONFLICT, "") == (held.returncode, held.stdout)
        assert f"process {process.pid}" in held.stderr
        assert Exit.CONFLICT == run(db, "--wait", "0.1", "--", "true", cwd=work).returncode
        process.communicate("go on\n")
    inner = " ".join([*COMMAND, "run", "book", "--db", str(db), "--", "true"])
    assert Exit.CONFLICT == run(db, "--", "sh", "-c", inner, cwd=work).returncode


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of a process is seen on Linux")
def test_what_a_killed_agentos_left_running_is_seen_and_ended(db: Path, work: Path):
    """The command dies with it; what that had started holds the task until the next run ends it, and only then is measured."""
    command = "( echo ready; while :; do echo x >> out.txt; sleep 0.005; done ); :"
    with under_way(db, work, command, "--workspace", ".", "--step", "one") as process:
        with CheckpointManager(db) as manager:
            [step] = manager.list_open_steps("book")
            [child] = [int(each) for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
            process.kill()
            process.wait()
            wait_for(lambda: child not in processes_of(step.step_id))
            left = processes_of(step.step_id)
            assert left
            found = manager.recover("book")
            assert "held" == found.verdict
            assert "its command, process" in found.explain()
            with pytest.raises(Exception, match="a living process is in the middle of it"):
                manager.resolve_step(step.step_id, "not_landed", by="ada", reason="it died")
        ended = run(db, "--workspace", ".", "--step", "one", "--", "sh", "-c", "cat out.txt; echo y > out.txt", cwd=work)
        assert "was left of a step that was interrupted: killed" in ended.stderr
        assert [] == processes_of(step.step_id)
    # The first one's file was taken away before: there is none to show.
    assert (0, "", "y\n") == (ended.returncode, ended.stdout, (work / "out.txt").read_text())


def test_whoever_was_started_for_the_step_does_not_end_himself(db: Path, work: Path):
    """An agentos beneath a command whose agentos died is told that the task is held: by its own command."""
    with under_way(db, work, "echo ready; exec sleep 60") as process:
        with CheckpointManager(db) as manager:
            [step] = manager.list_open_steps("book")
        process.kill()
    ended = run(db, "--", "true", cwd=work, **{VARIABLE: step.step_id})
    assert Exit.CONFLICT == ended.returncode
