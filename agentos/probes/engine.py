"""Ask a container engine of this machine, over its socket.

The socket gives its owner the whole machine, so evidence never chooses it: the environment of whoever looks does, and only
where it names a socket of this machine. Nothing is asked but what there is; an answer is read strictly, up to a limit.
"""

from __future__ import annotations

import errno
import http.client
import os
import socket
from collections.abc import Mapping
from typing import Any

from agentos import _strict_json
from agentos._text import shown
from agentos.core.checkpoints.cancelling import Cancel
from agentos.probes.cannot_see import CannotSee, Deadline, unreadable
from agentos.probes.wires import called_off, connect, cut, wait_at_most

MOST_BODY = 4 << 20
_DEPTH = 64
_NOT_FOUND, _BROKEN = 404, 500
_START = "start it, or say in the environment where it listens"


def socket_of(runtime: str, environ: Mapping[str, str]) -> str:
    """Where the engine listens.

    Raises:
        CannotSee: the environment names an engine of another machine.
    """
    variable = "DOCKER_HOST" if runtime == "docker" else "CONTAINER_HOST"
    given = environ.get(variable, "")
    if given:
        path = given.removeprefix("unix://")
        if path == given or not path.startswith("/"):
            said = f"{variable} names no socket of this machine: {shown(given, 120)}"
            raise CannotSee("ENGINE_ELSEWHERE", said, "look from the machine whose containers they are")
        return path
    if runtime == "docker":
        return "/var/run/docker.sock"
    if os.getuid() == 0:
        return "/run/podman/podman.sock"
    own = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return f"{own}/podman/podman.sock"


def engine_says(path: str, question: str, deadline: Deadline, cancel: Cancel | None) -> dict[str, Any] | None:
    """The engine's answer, an object; None if it says that there is no such thing.

    Raises:
        CannotSee: it could not be asked, or its answer is not understood.
    """
    try:
        with _Plug(deadline) as plug, called_off(cancel, lambda: cut(plug)):
            connect(plug, path, deadline)
            status, body = _exchange(plug, question)
    except (OSError, http.client.HTTPException) as error:
        raise _reason(path, error, cancel) from error
    return _read(path, status, body)


class _Plug(socket.socket):
    """A socket whose every wait ends with the deadline, also for an answer that comes a byte at a time."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._deadline = deadline

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        wait_at_most(self, self._deadline)
        return super().recv_into(*arguments, **options)


def _exchange(plug: socket.socket, question: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = plug
    connection.request("GET", question, headers={"Accept": "application/json", "Connection": "close"})
    with connection.getresponse() as answer:
        return answer.status, answer.read(MOST_BODY + 1)


def _read(path: str, status: int, body: bytes) -> dict[str, Any] | None:
    if status not in (_NOT_FOUND, http.client.OK):
        said = f"the engine at {shown(path, 120)} answers {status}"
        raise CannotSee("ENGINE_REFUSES", said, "look at its log", transient=status >= _BROKEN)
    if len(body) > MOST_BODY:
        raise CannotSee("TOO_LARGE", f"the engine at {shown(path, 120)} answers with more than {MOST_BODY:,} bytes")
    try:
        answer = _strict_json.parse(body, _DEPTH)
    except ValueError as problem:
        raise not_understood(path, str(problem)) from problem
    # Whatever listens there may know nothing of containers and say 404 to everything: an engine says what is missing.
    if type(answer) is not dict or (status == _NOT_FOUND and "message" not in answer):
        raise not_understood(path, "it is none of an engine")
    return None if status == _NOT_FOUND else answer


def not_understood(path: str, why: str) -> CannotSee:
    """The answer is none of an engine."""
    said = f"the answer of the engine at {shown(path, 120)} is not understood: {why}"
    return CannotSee("NOT_UNDERSTOOD", said, "look what listens there")


def _reason(path: str, error: Exception, cancel: Cancel | None) -> CannotSee:
    where = shown(path, 120)
    if cancel is not None and cancel.is_set:
        return CannotSee("CALLED_OFF", "the look was called off while it was under way")
    if isinstance(error, TimeoutError):
        return CannotSee("TIMED_OUT", f"the engine at {where} did not answer in time", "look at its log", transient=True)
    if isinstance(error, http.client.HTTPException):
        return not_understood(path, shown(str(error) or type(error).__name__, 80))
    assert isinstance(error, OSError)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return CannotSee("ENGINE_MISSING", f"no engine at {where}", _START)
    if error.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE):
        return CannotSee("ENGINE_MISSING", f"the engine at {where} does not answer", _START, transient=True)
    return unreadable(path, error)
