"""Small servers on this machine: real sockets, each answered by a function in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[socket.socket], None]


@contextmanager
def serving(answer: Answer, *, family: int = socket.AF_INET, host: str | None = None) -> Iterator[int]:
    """A server whose every connection is handled by `answer`; its port."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host or ("127.0.0.1" if family == socket.AF_INET else "::1"), 0))
        server.listen(32)
        with accepting(server, answer):
            yield server.getsockname()[1]


@contextmanager
def accepting(server: socket.socket, answer: Answer) -> Iterator[None]:
    """Handle what comes to a listening socket, until this ends; then every connection is closed."""
    plugs: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def handle(plug: socket.socket) -> None:
        with contextlib.suppress(OSError), plug:
            answer(plug)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                plug, _ = server.accept()
                plugs.append(plug)
                threads.append(threading.Thread(target=handle, args=(plug,), daemon=True))
                threads[-1].start()

    accepter = threading.Thread(target=accept, daemon=True)
    accepter.start()
    try:
        yield
    finally:
        # Wakes those who wait on them; closing alone does not.
        for plug in [server, *plugs]:
            with contextlib.suppress(OSError):
                plug.shutdown(socket.SHUT_RDWR)
        accepter.join(5)
        for thread in threads:
            thread.join(5)


def keeps_silent(plug: socket.socket) -> None:
    """Never answers, and waits until the other side is gone."""
    while plug.recv(4096):
        pass


@contextmanager
def full(host: str = "127.0.0.1") -> Iterator[int]:
    """A port whose queue is full: whoever connects now gets no answer at all, as from behind a firewall."""
    with socket.socket() as server, contextlib.ExitStack() as waiting:
        server.bind((host, 0))
        server.listen(0)
        port = server.getsockname()[1]
        for _ in range(4):
            plug = waiting.enter_context(socket.socket())
            plug.setblocking(False)
            plug.connect_ex(("127.0.0.1", port))
        yield port


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        port: int = plug.getsockname()[1]
        return port
