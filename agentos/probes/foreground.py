"""Run a command in the place of this process: its terminal, its streams, its process group; and every signal is passed on.

The command is run because whoever captures asks for it, once. Nothing of what it says is seen here. On Linux it is killed if
this process dies first, whatever kills it; what it started itself is not, and is known by its environment: see `_marked.py`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from agentos.core.checkpoints.running import Command, CommandRun, Happened, run_of

_SET_DEATH_SIGNAL = 1
# What a user, a terminal or a supervisor sends to a program.
_PASSED = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
}
# What the terminal sends, it sends to the command too: to everybody in the group.
_STOPS = signal.SIGTSTP


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: with an exit code, or by a signal."""

    exit_code: int | None
    signal: int | None
    started_at: datetime
    ended_at: datetime
    duration: float


def run_in_front(argv: Sequence[str], env: Mapping[str, str], stdout: int | IO[Any] | None = None) -> Ended:
    """Run it here and now, and wait for its end.

    Args:
        env: what is added to this process's environment.
        stdout: where its standard output goes instead of this process's own.

    Raises:
        OSError: it could not be started; nothing was run.
    """
    assert threading.current_thread() is threading.main_thread(), "its death is told by the thread that started it"
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Inherited; how a child ended would not be told.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watched = {signal.SIGCHLD, *(each for each in _PASSED if signal.getsignal(each) is not signal.SIG_IGN)}
    # From before it is there until after it has ended: no signal tears its start, or is lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        started_at, begun = datetime.now(UTC), time.monotonic()
        child = subprocess.Popen(
            list(argv),
            stdout=stdout,
            env={**os.environ, **env},
            # A shell's other descriptors are the command's as well.
            close_fds=False,
            preexec_fn=_child_of(os.getpid(), before),  # noqa: PLW1509 - no other thread of this process holds a lock
        )
        code = _followed(child, watched)
        return Ended(
            code if code >= 0 else None,
            -code if code < 0 else None,
            started_at,
            datetime.now(UTC),
            time.monotonic() - begun,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def account_of(command: Command, ended: Ended) -> CommandRun:
    """What became of it, with the evidence."""
    times = ended.started_at.isoformat(), ended.ended_at.isoformat(), ended.duration
    how = Happened(ended.exit_code, ended.signal, False, *times, os.uname().nodename, None, None, [])  # noqa: FBT003
    return run_of(command, how)


def _child_of(parent: int, mask: set[signal.Signals | int]) -> Callable[[], None]:
    # Loaded before the fork: in the child nothing is looked up any more.
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def prepare() -> None:
        if prctl is not None:
            prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare


def _followed(child: subprocess.Popen[bytes], watched: set[signal.Signals]) -> int:
    """Pass on what comes until it has ended; its code as Python tells it."""
    while True:
        number, by_terminal = _next_of(watched)
        if number != signal.SIGCHLD:
            # To the group, from the terminal: the command has it already, and twice may mean something else than once.
            if not by_terminal:
                child.send_signal(number)
            if number == _STOPS:
                _stop()
        code = child.poll()
        if code is not None:
            return code


def _next_of(watched: set[signal.Signals]) -> tuple[int, bool]:
    """The next signal, and whether the terminal sent it."""
    if hasattr(signal, "sigwaitinfo"):
        told = signal.sigwaitinfo(watched)
        return told.si_signo, told.si_code > 0
    # Where it is not told, as on macOS, what a terminal sends is taken to be from it.
    number = signal.sigwait(watched)
    return number, number in {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP} and os.isatty(0)


def _stop() -> None:
    """Stop as the command did, so that the shell sees it; until somebody lets both go on."""
    # By the signal itself: where nobody could let it go on, the system does not stop it.
    os.kill(os.getpid(), _STOPS)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {_STOPS})
    signal.pthread_sigmask(signal.SIG_BLOCK, {_STOPS})
