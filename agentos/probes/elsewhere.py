"""Hash a file in a child process, because this process must not open and close it.

The child is started fresh and never forked. It gets the directory as an inherited descriptor and the name as hexadecimal, so no
shell, encoding or working directory comes between; it is killed when the deadline passes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from agentos._descriptors import READ
from agentos._fork import importing
from agentos._text import shown
from agentos.probes import hashing
from agentos.probes.cannot_see import CannotSee, Deadline, timed_out
from agentos.probes.paths import Place

if TYPE_CHECKING:
    import subprocess


def measure_elsewhere(place: Place, deadline: Deadline) -> dict[str, Any]:
    """What `hashing.measure` says about the file, seen by another process.

    Raises:
        CannotSee: no child could be started here, or it did not answer in time.
    """
    with importing:
        import subprocess  # noqa: PLC0415 - few files are open in the process that verifies them

    directory = -1 if place.directory is None else place.directory
    try:
        child = subprocess.Popen(
            _command(place, directory, deadline),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=() if directory < 0 else (directory,),
        )
    except OSError as error:
        raise _no_child(place, error.strerror or "it could not be started") from error
    try:
        said, _ = child.communicate(timeout=deadline.left())
    except subprocess.TimeoutExpired:
        raise timed_out(place.path) from None
    finally:
        _end(child)
    return _answer(place, said)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    if child.stdout:
        child.stdout.close()
    # A child that hangs in the kernel dies when the kernel lets go; nobody waits for that here.
    with contextlib.suppress(Exception):
        child.wait(timeout=1)


def _command(place: Place, directory: int, deadline: Deadline) -> list[str]:
    # In a frozen program sys.executable is that program, and starting it again would run the agent a second time.
    if not sys.executable or getattr(sys, "frozen", False):
        raise _no_child(place, "there is no Python interpreter to start")
    name = place.full if directory < 0 else place.name
    flags = READ if directory < 0 else READ | os.O_NOFOLLOW
    arguments = [str(directory), os.fsencode(name).hex(), str(flags), str(deadline.left())]
    return [sys.executable, "-I", "-S", hashing.__file__, *arguments]


def _answer(place: Place, said: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(said)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _no_child(place, "it gave no answer")
    return answer


def _no_child(place: Place, why: str) -> CannotSee:
    return CannotSee(
        "NO_CHILD_PROCESS",
        f"{shown(place.path)}: this process has the file open, so a child process must read it, and {why}",
        "reading it here would drop the locks this process holds on it; verify from another process",
    )
