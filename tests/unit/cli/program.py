"""The command in a process of its own, with a terminal and without."""

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support import environment

COMMAND = [sys.executable, "-m", "agentos"]
# The same as a user who is not root, or as root to whom modes matter.
AS_ANYBODY = [
    sys.executable,
    "-c",
    (
        "import runpy\nfrom tests.faults.powers import without_powers\n"
        "with without_powers():\n    runpy.run_module('agentos', run_name='__main__', alter_sys=True)"
    ),
]


def agentos(
    *arguments: object, cwd: Path | None = None, program: Sequence[str] = tuple(COMMAND), **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal; a traceback fails the test, whichever it is."""
    line = [*program, *map(str, arguments)]
    clean = {name: value for name, value in environment(**extra).items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    nobody = subprocess.DEVNULL
    ended = subprocess.run(
        line, env=clean | extra, cwd=cwd, stdin=nobody, capture_output=True, text=True, check=False, timeout=60
    )
    assert "Traceback" not in ended.stderr + ended.stdout, ended.stderr
    return ended


def on_a_terminal(
    *arguments: object, typed: str = "", cwd: Path | None = None, program: Sequence[str] = tuple(COMMAND), **extra: str
) -> tuple[int, str]:
    """Run the command on a terminal of its own, on which this is typed; its exit code and what the terminal got."""
    leader, follower = pty.openpty()
    settings = {name: value for name, value in environment(TERM="xterm").items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [*program, *map(str, arguments)], env=settings | extra, cwd=cwd, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    os.write(leader, typed.encode())
    said = b""
    try:
        while chunk := os.read(leader, 65536):
            said += chunk
    except OSError:
        # The last program that had the terminal open has ended.
        pass
    os.close(leader)
    return process.wait(60), said.decode()
