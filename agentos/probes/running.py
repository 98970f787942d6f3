"""Run a command once, because whoever captures asks for it, and account for how it ended.

It gets no shell and no input, a group of its own, and a limit. All it says is counted and hashed, its end is kept, and however
much that is the command is never held up. Whatever it leaves running is ended with it. No probe comes here: what is verified is
never run.
"""

from __future__ import annotations

import hashlib
import os
import time
from datetime import UTC, datetime
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.running import Command, CommandRun, Happened, Said, run_of
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.core.checkpoints.wanted import Wanted
from agentos.errors import EvidenceUnavailableError
from agentos.probes.capture import capture
from agentos.probes.children import Ended, Sink, run_child


def run(command: Command) -> CommandRun:
    """Run it and wait for its end.

    Raises:
        EvidenceUnavailableError: it could not be started, or its end could not be seen; says why.
    """
    streams = {"stdout": _Stream(command.max_output), "stderr": _Stream(command.max_output)}

    def heard(name: str, piece: bytes) -> bool:
        streams[name].take(piece)
        return True

    started_at, begun = datetime.now(UTC), time.monotonic()
    ended = _ended(command, heard, begun + command.timeout)
    duration = time.monotonic() - begun
    verifier = EvidenceVerifier(command.base_path)
    happened = Happened(
        ended.exit_code,
        ended.signal,
        ended.timed_out,
        started_at.isoformat(),
        datetime.now(UTC).isoformat(),
        duration,
        os.uname().nodename,
        streams["stdout"].said(),
        streams["stderr"].said(),
        [_product(each, verifier) for each in command.products],
    )
    return run_of(command, happened)


def _ended(command: Command, heard: Sink, until: float) -> Ended:
    if not os.path.isdir(command.cwd):
        raise EvidenceUnavailableError(
            f"{shown(command.cwd)}: expected a folder to run a command in, found none", code="NO_CWD"
        )
    environment = {**os.environ, **command.env} if command.env else None
    try:
        return run_child(command.argv, heard, until=until, cwd=command.cwd, env=environment)
    except ChildProcessError:
        raise EvidenceUnavailableError(
            f"{shown(command.line, 120)}: it was run, and how it ended could not be seen: somebody else waited for it",
            hint="let this process not ignore SIGCHLD, and wait for no children but your own",
            code="END_UNSEEN",
        ) from None
    except OSError as error:
        raise _not_started(command, error) from None


def _not_started(command: Command, error: OSError) -> EvidenceUnavailableError:
    program = command.line if command.sensitive else shown(command.argv[0], 120)
    if isinstance(error, FileNotFoundError):
        hint = "install it, or give its path; a script is not found either if the interpreter it names is missing"
        return EvidenceUnavailableError(f"{program}: no such program; nothing was run", hint=hint, code="PROGRAM_NOT_FOUND")
    said = error.strerror or type(error).__name__
    return EvidenceUnavailableError(f"{program}: cannot be started: {said}; nothing was run", code="NOT_STARTED")


def _product(wanted: Wanted, verifier: EvidenceVerifier) -> dict[str, Any]:
    """What it left, or why that is not to be had. It was run, and is not run again: so this is no reason to raise."""
    path = wanted.evidence.expected["path"]
    try:
        found = capture(wanted, verifier).expected
    except EvidenceUnavailableError as reason:
        return {"path": path, "problem": reason.message}
    return {"path": path, "sha256": found["sha256"], "size": found["size"]}


class _Stream:
    """One stream: everything is counted and hashed, the end is kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._hash = hashlib.sha256()
        self._end = bytearray()

    def take(self, piece: bytes) -> None:
        self._size += len(piece)
        self._hash.update(piece)
        self._end += piece
        if len(self._end) > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        # Only now and then: what is cut off the front moves the rest.
        del self._end[: max(len(self._end) - self._most, 0)]

    def said(self) -> Said:
        self._cut()
        return Said(self._hash.hexdigest(), self._size, bytes(self._end))
