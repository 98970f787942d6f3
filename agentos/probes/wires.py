"""Connections that end: each wait is bounded by the deadline of the look, and all are cut when the look is called off."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable, Iterator

from agentos.core.checkpoints.cancelling import Cancel
from agentos.probes.cannot_see import Deadline

# A timeout of zero would mean "do not wait", which is another mode.
_MOMENT = 0.001
CONNECTED, REFUSED, TIMED_OUT = "connected", "refused", "timed out"
_REFUSALS = (errno.ECONNREFUSED, errno.ECONNRESET)


@contextlib.contextmanager
def called_off(cancel: Cancel | None, end: Callable[[], None]) -> Iterator[None]:
    """While this lasts, `end` is called if the look is called off."""
    if cancel is not None:
        cancel.calls(end)
    try:
        yield
    finally:
        if cancel is not None:
            cancel.forget(end)


def cut(plug: socket.socket) -> None:
    """Wake whoever waits on this connection, in whatever thread: nothing more comes, nothing more goes."""
    with contextlib.suppress(OSError):
        # A TLS socket's own way would change it under the feet of the thread that waits on it.
        socket.socket.shutdown(plug, socket.SHUT_RDWR)


def wait_at_most(plug: socket.socket, deadline: Deadline) -> None:
    """The next wait on this connection ends with the deadline.

    Raises:
        TimeoutError: it has passed. Who sends without a pause is never waited for, and would go on for ever.
    """
    if deadline.passed():
        raise TimeoutError
    plug.settimeout(max(deadline.left(), _MOMENT))


def connect(plug: socket.socket, where: tuple[str, int] | str, deadline: Deadline) -> None:
    """Connect it by the deadline.

    Raises:
        OSError: as the system says; also if nobody but this very socket answered.
    """
    wait_at_most(plug, deadline)
    plug.connect(where)
    if plug.family != socket.AF_UNIX and is_itself(plug):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")


def is_itself(plug: socket.socket) -> bool:
    """Whether nobody else is at the other end.

    A port of this machine that nobody listens on can be given to the very socket that asks for it.
    """
    try:
        return bool(plug.getsockname() == plug.getpeername())
    except OSError:
        # The other side is gone already: it was another one.
        return False


def family_of(address: str) -> socket.AddressFamily:
    """The family of an address that was resolved."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def answer_of(error: OSError) -> str:
    """What came of an attempt to connect, in words; the system's if it is neither of those that have a meaning here."""
    if isinstance(error, TimeoutError) and error.errno in (None, errno.ETIMEDOUT):
        return TIMED_OUT
    if error.errno in _REFUSALS:
        return REFUSED
    return error.strerror or type(error).__name__
