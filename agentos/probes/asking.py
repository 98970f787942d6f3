"""Ask one question over HTTP, of an address that was judged before.

What speaks HTTP connects through the socket given here, so no name is resolved twice, no proxy of the environment is asked, and
every wait ends with the deadline, also for an answer that comes a byte at a time. TLS is told the name, and so is the service.
Needs the extra `http`: this module is imported where it is used.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import httpcore2

from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.kinds.urls import Url
from agentos.probes.cannot_see import CannotSee, Deadline
from agentos.probes.wires import REFUSED, TIMED_OUT, answer_of, called_off, connect, cut, family_of, wait_at_most

Headers = list[tuple[str, str]]
# What an answer may break, apart from the connection: the rules of HTTP, and the name it said it was.
BROKEN = (httpcore2.RemoteProtocolError, httpcore2.LocalProtocolError)


class Refused(Exception):  # noqa: N818 - it is an answer
    """Every address refused the connection."""


@contextlib.contextmanager
def asked(
    method: str,
    url: Url,
    headers: Headers,
    addresses: list[str],
    *,
    deadline: Deadline,
    cancel: Cancel | None,
    verify_tls: bool,
) -> Iterator[httpcore2.Response]:
    """The answer, its body not yet read.

    Raises:
        Refused: nobody listens.
        CannotSee: no connection was possible in time.
        OSError: the connection broke, or time was over.
    """
    wires = _Wires(addresses, url.port, deadline)
    context = _context(verify_tls=verify_tls) if url.scheme == "https" else None
    name = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
    question = httpcore2.Request(method, name, headers=[("Host", url.authority), *headers])
    pool = httpcore2.ConnectionPool(ssl_context=context, max_connections=1, network_backend=wires)
    with called_off(cancel, wires.cut), contextlib.closing(wires), pool:
        answer = pool.handle_request(question)
        with contextlib.closing(answer):
            yield answer


def _context(*, verify_tls: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify_tls:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class _Wires(httpcore2.NetworkBackend):
    """The one connection of a question, to the first address that accepts."""

    def __init__(self, addresses: list[str], port: int, deadline: Deadline) -> None:
        self._addresses, self._port, self._deadline = addresses, port, deadline
        self._plug: socket.socket | None = None
        self._over = False

    def connect_tcp(self, host: str, *_: Any, **__: Any) -> httpcore2.NetworkStream:
        answers = dict[str, str]()
        for number, address in enumerate(self._addresses):
            until = Deadline(self._deadline.left() / (len(self._addresses) - number))
            plug = self._plug = socket.socket(family_of(address), socket.SOCK_STREAM)
            try:
                if self._over:
                    raise TimeoutError
                connect(plug, (address, self._port), until)
            except OSError as error:
                plug.close()
                answers[address] = answer_of(error)
            else:
                return _Stream(self, plug, self._deadline)
        raise _unanswered(host, answers)

    def took(self, plug: socket.socket) -> None:
        """The connection goes on in another socket, which speaks TLS."""
        self._plug = plug

    def cut(self) -> None:
        """Wake whoever waits, and connect no more."""
        self._over = True
        if self._plug is not None:
            cut(self._plug)

    def close(self) -> None:
        """Close what was opened."""
        if self._plug is not None:
            self._plug.close()


def _unanswered(host: str, answers: dict[str, str]) -> Exception:
    said = ", ".join(f"{address}: {answer}" for address, answer in answers.items())
    if TIMED_OUT in answers.values():
        return CannotSee("TIMED_OUT", f"{host}: nobody answered in time ({said})", _NETWORK, transient=True)
    if REFUSED in answers.values():
        return Refused(f"the connection was refused ({said})")
    return CannotSee("NO_ROUTE", f"{host}: {said}", _NETWORK, transient=True)


class _Stream(httpcore2.NetworkStream):
    """A connection as the speaker of HTTP uses it. Its own time limits are not used: the deadline is one for everything."""

    def __init__(self, wires: _Wires, plug: socket.socket, deadline: Deadline) -> None:
        self._wires, self._plug, self._deadline = wires, plug, deadline

    def read(self, max_bytes: int, *_: Any, **__: Any) -> bytes:
        wait_at_most(self._plug, self._deadline)
        return self._plug.recv(max_bytes)

    def write(self, buffer: bytes, *_: Any, **__: Any) -> None:
        wait_at_most(self._plug, self._deadline)
        self._plug.sendall(buffer)

    def close(self) -> None:
        self._plug.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, *_: Any, **__: Any
    ) -> httpcore2.NetworkStream:
        wait_at_most(self._plug, self._deadline)
        plug = ssl_context.wrap_socket(self._plug, server_hostname=server_hostname, do_handshake_on_connect=False)
        self._wires.took(plug)
        plug.do_handshake()
        return _Stream(self._wires, plug, self._deadline)


_NETWORK = "look whether the service runs, and whether a firewall is between"
