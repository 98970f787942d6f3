"""A stand-in for a container engine, at a real socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.unit.probes.servers import accepting

ID, IMAGE, PULLED = "ab" * 32, "sha256:" + "cd" * 32, "sha256:" + "ef" * 32
STATE = {
    "Status": "running",
    "Running": True,
    "Paused": False,
    "Restarting": False,
    "OOMKilled": False,
    "Dead": False,
    "Pid": 4121,
    "ExitCode": 0,
    "Error": "",
    "StartedAt": "2026-03-01T07:58:00.5Z",
}


def container(*, restarts: int = 0, name: str = "/web", **state: Any) -> dict[str, Any]:
    return {"Id": ID, "Name": name, "Image": IMAGE, "RestartCount": restarts, "State": {**STATE, **state}, "Config": {}}


def reply(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


class Engine:
    """Answers the n-th question about a container with the n-th of these, the last one for ever."""

    def __init__(self, *answers: dict[str, Any] | bytes | None, images: dict[str, Any] | None = None) -> None:
        self.asked: list[str] = []
        self._answers, self._images, self._lock = list(answers), images or {}, threading.Lock()

    def __call__(self, plug: socket.socket) -> None:
        question = b""
        while b"\r\n\r\n" not in question and (piece := plug.recv(4096)):
            question += piece
        target = question.split(b" ")[1].decode()
        with self._lock:
            self.asked.append(target)
            plug.sendall(self._answer(target))

    def _answer(self, target: str) -> bytes:
        if target.startswith("/images/"):
            return reply(json.dumps(self._images).encode())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            return reply(b'{"message": "No such container"}', 404)
        return answer if isinstance(answer, bytes) else reply(json.dumps(answer).encode())


@contextmanager
def listening(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[dict[str, str]]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(16)
        with accepting(server, answer):
            yield {"DOCKER_HOST": f"unix://{path}"}
    path.unlink()
