"""kill -9 of a shell script whose lines are `agentos run`: at random moments, between its commands and inside them.

Killed are the whole group, agentos alone, or one process of the command, and whatever that started is left behind. The script
is started again at once, until it ends well; what it leaves must be what the same commands leave without agentos and kills.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from agentos._marked import VARIABLE
from tests.support import environment

# Each edits what an earlier one left, and would spoil it if it did so twice; `begins` tells the killer, `pause` lets it in.
# What is in parentheses, and not the last, runs in a process of its own, which outlives the shell that started it.
COMMANDS = {
    "append": '( for i in 1 2 3 4 5 6; do echo "line $i" >> log.txt; pause; done ); :',
    "edit": "sed -i 's/$/!/' log.txt; pause; ( pause; sed -i 's/line/row/' log.txt; pause; echo edited >> notes.txt ); :",
    "move": "mv log.txt old.txt; pause; head -n 3 old.txt > log.txt; pause; mkdir -p archive; mv notes.txt archive/",
    "remove": "wc -l < old.txt >> counts.txt; pause; ( rm old.txt; pause; echo removed >> counts.txt ); :",
    "generate": 'for i in 1 2 3 4 5 6 7; do cat log.txt >> "gen $i"; pause; done; cat counts.txt >> all; rm -f "gen 3"',
}
PREAMBLE = 'pause() { sleep $PAUSE; }; begins() { echo $1 >> "$TRACE"; }; '
GROUP, AGENTOS, COMMAND = "the group", "agentos alone", "the command alone"
# Seconds: with the long one, what a killed agentos leaves behind still writes when the next one has started.
SHORT, LONG = 0.005, 0.4
# Of one start of the script; a guard against a test that hangs, never what decides.
LONGEST = 120.0
MOST_STARTS = 12


def line_of(name: str, command: str) -> str:
    """A command of the script, quoted for the shell."""
    quoted = f"{PREAMBLE}begins {name}; set -e; {command}".replace("'", "'\\''")
    return f"sh -c '{quoted}'"


def script(prefix: str) -> str:
    return "\n".join(["set -e", "cd work", *(f"{prefix} {line_of(*each)}" for each in COMMANDS.items()), ""])


def prepared(folder: Path) -> Path:
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "notes.txt").write_text("a note\n")
    return folder


def started(folder: Path, text: str, pause: float = SHORT) -> subprocess.Popen[bytes]:
    told = environment(PAUSE=str(pause), TRACE=str(folder / "trace"), AGENTOS_DB=str(folder / "store" / "registry.sqlite"))
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(["sh", "-c", text], cwd=folder, env=told, stdout=said, stderr=said, start_new_session=True)


def contents(folder: Path) -> dict[str, bytes]:
    work = folder / "work"
    return {str(path.relative_to(work)): path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()}


def begun(folder: Path) -> int:
    trace = folder / "trace"
    return len(trace.read_text().splitlines()) if trace.exists() else 0


def marked() -> list[int]:
    """The processes of commands that agentos runs, on the whole machine."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"{VARIABLE}=".encode() in Path("/proc", name, "environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def in_group(group: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getpgid(int(name)) == group:
                found.append(int(name))
        except OSError:
            continue
    return found


def kill(shell: subprocess.Popen[bytes], whom: str, rng: Random) -> str:
    """Who was killed: the whole group, if whoever was meant is not there."""
    commands = set(marked())
    ours = set(in_group(shell.pid)) - {shell.pid}
    victims = sorted(ours & commands if whom == COMMAND else ours - commands)
    if whom == GROUP or not victims:
        os.killpg(shell.pid, signal.SIGKILL)
        return GROUP
    # Of a command that is several processes, one: the others go on.
    os.kill(rng.choice(victims), signal.SIGKILL)
    return whom


def wait_for_moment(shell: subprocess.Popen[bytes], folder: Path, rng: Random, duration: float | None) -> str:
    """Let the script come as far as it is to: to a moment of that time, or into one of its next commands."""
    before, until = begun(folder), time.monotonic() + LONGEST
    if duration is not None and rng.random() < 0.35:
        inside, delay = 0, rng.uniform(0, duration)
    else:
        inside, delay = rng.randint(1, 2), rng.uniform(0, 0.04)
    while begun(folder) < before + inside and shell.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(delay)
    return "inside" if inside else "anywhere"


def died_at_last(shell: subprocess.Popen[bytes]) -> int:
    try:
        return shell.wait(LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        raise


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of a process is seen on Linux")
def test_a_script_that_is_killed_and_started_again_ends_as_if_it_never_was(tmp_path: Path, rng: Random, count):
    """Whoever is killed, wherever, however often: the folder ends with the bytes of a run that nothing happened to."""
    plain = prepared(tmp_path / "plain")
    assert 0 == died_at_last(started(plain, script("")))
    expected = contents(plain)
    assert len(COMMANDS) == begun(plain)
    text = script(f"{sys.executable} -m agentos run book --workspace . --")
    whole = prepared(tmp_path / "whole")
    since = time.monotonic()
    assert 0 == died_at_last(started(whole, text)), (whole / "said").read_text()
    duration = time.monotonic() - since
    assert expected == contents(whole)
    kills = Counter[str]()
    for number in range(count(3, 60)):
        folder = prepared(tmp_path / f"round-{number}")
        # In each run there is a round in which what was left behind is sure to write on.
        planned, pause = rng.randint(1, 4), SHORT if number % 5 else LONG
        for start in range(MOST_STARTS):
            shell = started(folder, text, pause)
            if start < planned:
                whom = AGENTOS if pause == LONG else rng.choice([GROUP, AGENTOS, COMMAND])
                moment = wait_for_moment(shell, folder, rng, None if pause == LONG else duration)
                if shell.poll() is None:
                    kills[f"{kill(shell, whom, rng)}, {moment}"] += 1
            if died_at_last(shell) == 0:
                break
        else:
            pytest.fail(f"round {number}: never ended well: {(folder / 'said').read_text()}")
        assert expected == contents(folder), f"round {number}: {(folder / 'said').read_text()}"
    print(f"{number + 1} rounds, {kills.total()} kills: {dict(kills)}")
    assert kills.total() >= number
