"""Run a child process that cannot outlive its use: in a group of its own, to a deadline, killed as a group however this ends.

Its standard input is empty, its output is read as it comes and handed on in pieces, and it inherits no descriptor that it was
not given. There is no shell. What a child is run for is decided by whoever asks; a probe runs only programs of its own
choosing, never one that evidence names.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentos._fork import importing
from agentos.core.checkpoints.cancelling import Cancel

if TYPE_CHECKING:
    import subprocess

_PIECE = 1 << 16
# How often is looked whether it ended, where the system does not say so.
_NAP = 0.05
_END = "end"
# What a child leaves in its pipes is there at once; whoever holds them open after it is not waited for.
_LAST_WORDS = 0.2
# An interrupted start is over by then.
_START = 5.0
# What lies in both pipes is read however late this process comes to it, and it is no more than this.
_MOST_LEFT = 1 << 21

# Takes the name of the stream, `stdout` or `stderr`, and what came; False: that is enough, end it.
Sink = Callable[[str, bytes], bool]


@dataclass(frozen=True, slots=True)
class Ended:
    """How the child ended. `exit_code` is None if it was killed, by `signal` or because time or patience was over."""

    exit_code: int | None
    signal: int | None = None
    timed_out: bool = False
    cut_off: bool = False


def run_child(
    argv: Sequence[str | bytes],
    sink: Sink,
    *,
    until: float,
    cancel: Cancel | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Ended:
    """Start it, hand on what it says, and wait until it ends or the monotonic clock passes `until`.

    Raises:
        OSError: it could not be started.
    """
    with importing:
        import subprocess  # noqa: PLC0415 - few looks need a child

    starting = _Starting(
        lambda: subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=None if env is None else dict(env),
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    )

    def kill() -> None:
        # Its number stays its own, and its group's, until it is waited for: nobody else is ever killed here.
        if starting.child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(starting.child.pid, signal.SIGKILL)

    try:
        child = starting.take()
        if cancel is not None:
            cancel.calls(kill)
        with _Output(child, sink) as output:
            return _followed(child, output, until)
    finally:
        if cancel is not None:
            cancel.forget(kill)
        starting.settle()
        kill()
        if starting.child is not None:
            _forget(starting.child)


def _forget(child: subprocess.Popen[bytes]) -> None:
    import subprocess  # noqa: PLC0415 - as above

    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
    # One that hangs in the kernel dies when the kernel lets go; nobody waits for that here.
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=1)


class _Starting:
    """The start of a child, which no interrupt tears.

    A signal that comes meanwhile would raise after the child was made and before anybody has its number: then it could not be
    ended any more. Handlers run in the main thread alone, so a child of the main thread is made in another one.
    """

    def __init__(self, make: Callable[[], subprocess.Popen[bytes]]) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self._make = make
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._done = threading.Event()

    def take(self) -> subprocess.Popen[bytes]:
        """The child.

        Raises:
            OSError: it could not be started.
        """
        if threading.current_thread() is threading.main_thread():
            self._thread = threading.Thread(target=self._run, name="agentos-start", daemon=True)
            self._thread.start()
            self._done.wait()
        else:
            self._run()
        if self.child is None:
            assert self._error is not None
            raise self._error
        return self.child

    def settle(self) -> None:
        """Wait until it is known whether there is a child; where the thread never began, there is none."""
        if self._thread is not None:
            self._done.wait(_START)
            self._thread = None

    def _run(self) -> None:
        try:
            self.child = self._make()
        except BaseException as error:  # noqa: BLE001 - it is raised where the child was asked for
            self._error = error
        finally:
            self._done.set()


def _followed(child: subprocess.Popen[bytes], output: _Output, until: float) -> Ended:
    while True:
        left = until - time.monotonic()
        if left <= 0:
            return Ended(None, timed_out=True)
        if not output.read(left):
            return Ended(None, cut_off=True)
        ended = _look(child)
        if ended is not None:
            return ended if output.read_the_rest(until) else Ended(None, cut_off=True)


def _look(child: subprocess.Popen[bytes]) -> Ended | None:
    """How it ended, if it did; it is left to be waited for."""
    found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    if found.si_code == os.CLD_EXITED:
        return Ended(found.si_status)
    return Ended(None, signal=found.si_status)


class _Output:
    """What a child says, and a sign that it ended."""

    def __init__(self, child: subprocess.Popen[bytes], sink: Sink) -> None:
        self._sink = sink
        self._selector = selectors.DefaultSelector()
        self._open = 0
        self._streams = {"stdout": child.stdout, "stderr": child.stderr}
        for name, stream in self._streams.items():
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream.fileno(), selectors.EVENT_READ, name)
            self._open += 1
        self._end = _descriptor_of(child.pid)
        if self._end is not None:
            self._selector.register(self._end, selectors.EVENT_READ, _END)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._selector.close()
        if self._end is not None:
            os.close(self._end)

    def read(self, seconds: float) -> bool:
        """Wait for something, and hand it on; whether the sink wants more."""
        ready = self._selector.select(min(seconds, _NAP) if self._end is None else seconds)
        return all(self._taken(key) for key, _ in ready if key.data != _END)

    def read_the_rest(self, until: float) -> bool:
        """Hand on what it left behind. Whoever else holds its pipes open is not waited for."""
        until, late = min(until, time.monotonic() + _LAST_WORDS), 0
        if self._end is not None:
            self._selector.unregister(self._end)
        while self._open and late < _MOST_LEFT:
            left = max(until - time.monotonic(), 0.0)
            ready = self._selector.select(left)
            if not all(self._taken(key) for key, _ in ready):
                return False
            if not left:
                if not ready:
                    break
                late += _PIECE
        return True

    def _taken(self, key: selectors.SelectorKey) -> bool:
        try:
            piece = os.read(key.fd, _PIECE)
        except BlockingIOError:
            return True
        except OSError:
            piece = b""
        if piece:
            return self._sink(key.data, piece)
        self._selector.unregister(key.fd)
        self._open -= 1
        return True


def _descriptor_of(pid: int) -> int | None:
    """What becomes readable when the process ends; None where there is no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
