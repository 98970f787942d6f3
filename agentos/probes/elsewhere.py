"""Read a file in a child process, because this process must not open and close it.

The child is started fresh and never forked. It gets the directory as an inherited descriptor and the name as hexadecimal, so no
shell, encoding or working directory comes between; it is killed when the deadline passes.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from agentos._descriptors import READ
from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.cancelling import Cancel
from agentos.probes import hashing
from agentos.probes.cannot_see import CannotSee, Deadline, timed_out
from agentos.probes.paths import Place

_MOST_SAID = 1 << 16


def measure_elsewhere(place: Place, deadline: Deadline, cancel: Cancel | None = None) -> dict[str, Any]:
    """What `hashing.measure` says about the file, seen by another process.

    Raises:
        CannotSee: no child could be started here, or it did not answer in time.
    """
    answer, _ = _asked(place, deadline, cancel, lambda _: None)
    return answer


def measure_prefix_elsewhere(place: Place, deadline: Deadline, cancel: Cancel | None, most: int | None) -> dict[str, Any]:
    """What `hashing.measure_prefix` says about the file, seen by another process.

    Raises:
        CannotSee: as above.
    """
    answer, _ = _asked(place, deadline, cancel, lambda _: None, "prefix", *([] if most is None else [str(most)]))
    return answer


def read_elsewhere(
    place: Place, deadline: Deadline, cancel: Cancel | None, take: hashing.Take, most: int, *, last: bool = False
) -> dict[str, Any]:
    """What `hashing.read_still` says, with the content read by another process.

    Raises:
        CannotSee: as above.
    """
    answer, came = _asked(place, deadline, cancel, take, str(most), *(["last"] if last else []))
    if "problem" not in answer and came != (min(answer["size"], most) if last else answer["size"]):
        raise _no_child(place, "its answer came in part")
    return answer


def _asked(
    place: Place, deadline: Deadline, cancel: Cancel | None, take: hashing.Take, *more: str
) -> tuple[dict[str, Any], int]:
    """What the child says, and how many bytes of content it handed on."""
    with importing:
        from agentos.probes.children import run_child  # noqa: PLC0415 - few files are open in the process that verifies them

    said, came = bytearray(), 0

    def sink(stream: str, piece: bytes) -> bool:
        nonlocal came
        if stream == "stderr":
            said.extend(piece)
        else:
            came += len(piece)
            take(memoryview(piece))
        return len(said) <= _MOST_SAID

    directory = -1 if place.directory is None else place.directory
    try:
        ended = run_child(
            [*_command(place, directory, deadline), *more],
            sink,
            until=deadline.at,
            cancel=cancel,
            pass_fds=() if directory < 0 else (directory,),
        )
    except OSError as error:
        raise _no_child(place, error.strerror or "it could not be started") from error
    if ended.timed_out:
        raise timed_out(place.path)
    return _answer(place, bytes(said)), came


def _command(place: Place, directory: int, deadline: Deadline) -> list[str]:
    name = place.full if directory < 0 else place.name
    flags = READ if directory < 0 else READ | os.O_NOFOLLOW
    arguments = [str(directory), os.fsencode(name).hex(), str(flags), str(deadline.left())]
    program = python_program(hashing.__file__)
    if program is None:
        raise _no_child(place, "there is no Python interpreter to start")
    return [*program, *arguments]


def python_program(file: str) -> list[str] | None:
    """How a program of ours is started that needs the standard library only; None if there is no interpreter for it."""
    # In a frozen program sys.executable is that program, and starting it again would run the agent a second time.
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    return [sys.executable, "-I", "-S", file]


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
