"""Liars about services: hosts, ports, what is answered, containers."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from typing import Any

from agentos.core.checkpoints import Evidence
from tests.torture.liars.liar import Liar
from tests.unit.probes.engines import ID, IMAGE, PULLED, Engine, container, listening, reply
from tests.unit.probes.servers import serving

# What fails is asked again: a look at a lie takes this long.
_SOON = 0.1
_HERE, _BESIDE = "127.0.0.1", "127.0.0.2"
_OTHER_IMAGE, _OTHER_PULLED = "sha256:" + "12" * 32, "sha256:" + "34" * 32


class _Port(Liar):
    """A port that this liar holds and nobody listens on; what looks like it comes and goes."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.held = socket.socket()
        self.held.bind((_HERE, 0))
        self.port: int = self.held.getsockname()[1]
        self.decoy: socket.socket | None = None
        self.elsewhere()

    def elsewhere(self) -> None:
        """Somebody has that port at another address, for another protocol, or for the other family only."""
        decoys = [(socket.AF_INET, socket.SOCK_STREAM, _BESIDE), (socket.AF_INET, socket.SOCK_DGRAM, _HERE)]
        decoys += [(socket.AF_INET6, socket.SOCK_STREAM, "::1"), (socket.AF_INET6, socket.SOCK_STREAM, "::")]
        family, kind, address = self.rng.choice(decoys)
        try:
            self.decoy = socket.socket(family, kind)
            if family == socket.AF_INET6:
                self.decoy.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.decoy.bind((address, self.port))
            if kind == socket.SOCK_STREAM:
                self.decoy.listen()
        except OSError as error:
            # Somebody else has it there, or this machine knows no IPv6: then that lie is not told.
            if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise

    def change(self) -> None:
        self.gone()
        self.elsewhere()

    def gone(self) -> None:
        if self.decoy is not None:
            self.decoy.close()
            self.decoy = None

    def tell_the_truth(self) -> None:
        self.held.listen()

    def close(self) -> None:
        self.gone()
        self.held.close()


class NeverReached(_Port):
    """The port is served at every address but the one that is claimed; there it is only taken."""

    def claim(self) -> Evidence:
        wanted = {"host": _HERE, "port": self.port}
        return Evidence("network_reachable", "service", wanted, {"allow_private": True, "deadline": _SOON})


class NeverListenedOn(_Port):
    """The same to whoever asks the system for its sockets."""

    def claim(self) -> Evidence:
        return Evidence("port_listening", "service", {"port": self.port, "ip": _HERE}, {"deadline": _SOON})


class NeverUnheard(Liar):
    """Another one listens before the one who listens ends."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.port = 0
        self.ears = [self.ear()]
        self.port = self.ears[0].getsockname()[1]

    def ear(self) -> socket.socket:
        ear = socket.socket()
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        ear.bind((_HERE, self.port))
        ear.listen(128)
        return ear

    def claim(self) -> Evidence:
        # Whoever is met in the very moment of closing is refused indeed; not so three times.
        metadata = {"allow_private": True, "deadline": 3 * _SOON, "success_threshold": 3}
        return Evidence("network_reachable", "service", {"host": _HERE, "port": self.port, "reachable": False}, metadata)

    def change(self) -> None:
        self.ears.append(self.ear())
        time.sleep(self.rng.random() * 0.002)
        self.ears.pop(0).close()

    def tell_the_truth(self) -> None:
        self.close()

    def close(self) -> None:
        while self.ears:
            self.ears.pop().close()


class AnswersApart(Liar):
    """Status, header, values and length of an answer: each is right at times, and they never are together."""

    right = (200, "application/json", {"state": "done", "rows": 3})

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.now = b""
        self.change()
        self.over = contextlib.ExitStack()
        self.port = self.over.enter_context(serving(self.answers))

    def answers(self, plug: socket.socket) -> None:
        question = b""
        while b"\r\n\r\n" not in question and (piece := plug.recv(4096)):
            question += piece
        plug.sendall(self.now)

    def claim(self) -> Evidence:
        expected = {
            "url": f"http://{_HERE}:{self.port}/jobs/1",
            "status": 200,
            "headers": {"Content-Type": "application/json"},
            "json": {"/state": "done", "/rows": 3},
        }
        return Evidence("api_response", "job", expected, {"allow_private": True, "deadline": _SOON})

    def change(self) -> None:
        status, kind, body = self.right
        lies = [
            _answer(503, kind, body),
            _answer(status, "text/html", body),
            _answer(status, kind, {"state": "done", "rows": 2}),
            _answer(status, kind, {"state": "failed", "rows": 3}),
            _answer(status, kind, {"job": body}),
            # Broken off, though what there is of it can be read.
            _answer(status, kind, body, missing=1),
            _answer(302, kind, body, "Location: /jobs/1\r\n"),
        ]
        self.now = self.rng.choice(lies)

    def tell_the_truth(self) -> None:
        self.now = _answer(*self.right)

    def close(self) -> None:
        self.over.close()


def _answer(status: int, kind: str, body: dict[str, Any], more: str = "", missing: int = 0) -> bytes:
    text = json.dumps(body)
    length = len(text) + missing
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n{text}".encode()


class _Engine(Liar):
    """An engine at a socket of its own."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.now: dict[str, Any] = {}
        self.change()
        self.over = contextlib.ExitStack()
        where = self.over.enter_context(listening(self.folder / "e", _Says(self)))
        before = os.environ.get("DOCKER_HOST")
        self.over.callback(_set, "DOCKER_HOST", before)
        os.environ.update(where)

    def inspected(self) -> dict[str, Any]:
        """What the engine says of the container, now."""
        return self.now

    def close(self) -> None:
        self.over.close()


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


class _Says(Engine):
    """What the liar says, and of each image the digest that it was pulled by."""

    def __init__(self, liar: _Engine) -> None:
        super().__init__(None)
        self._liar = liar

    def _answer(self, target: str) -> bytes:
        if target.startswith("/images/"):
            pulled = PULLED if IMAGE in target else _OTHER_PULLED
            return reply(json.dumps({"RepoDigests": [f"web@{pulled}"]}).encode())
        return reply(json.dumps(self._liar.inspected()).encode())


class ImagesApart(_Engine):
    """It runs and is another image, or is the right image and restarts or is paused; never does the right image run."""

    def claim(self) -> Evidence:
        return Evidence("container_running", "web", {"name": "web", "image_digest": PULLED}, {"deadline": _SOON})

    def change(self) -> None:
        lies = [
            {**container(), "Image": _OTHER_IMAGE},
            container(Restarting=True, Status="restarting"),
            container(Paused=True, Status="paused"),
            # Running, by the one word that an engine also says of what it restarts again and again.
            container(Restarting=True, restarts=4),
            container(name="/web2"),
        ]
        self.now = self.rng.choice(lies)

    def tell_the_truth(self) -> None:
        self.now = container()


class NeverTheSameRun(_Engine):
    """It runs whenever somebody asks, and every time it was started just now."""

    starting = True

    def claim(self) -> Evidence:
        metadata = {"deadline": _SOON, "success_threshold": 2, "interval": 0.005}
        return Evidence("container_running", "web", {"id": ID}, metadata)

    def inspected(self) -> dict[str, Any]:
        if self.starting:
            self.change()
        return super().inspected()

    def change(self) -> None:
        self.now = container(StartedAt=f"2026-03-01T07:58:00.{time.monotonic_ns()}Z")

    def tell_the_truth(self) -> None:
        self.starting = False
