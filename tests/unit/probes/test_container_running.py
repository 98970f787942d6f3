"""container_running: a stand-in engine at a real socket, which answers as engines do, and as none should."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.results import EvidenceResult
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceUnavailableError
from agentos.probes.container_running import ContainerRunning
from agentos.probes.engine import socket_of
from tests.unit.probes.engines import ID, IMAGE, PULLED, STATE, Engine, container, listening, reply
from tests.unit.probes.servers import keeps_silent


def judged(environ: dict[str, str], *, cancel: Cancel | None = None, timeout: float = 5, **claimed: Any) -> EvidenceResult:
    """One look. Keys of metadata are told by their name."""
    metadata: dict[str, Any] = {key: claimed.pop(key) for key in ("success_threshold", "interval", "runtime") if key in claimed}
    expected = claimed if "id" in claimed else {"name": "web", **claimed}
    item = Evidence("container_running", "the web server", expected, {"timeout": timeout, **metadata})
    kind_of(item).refuse_malformed(item)
    seen = ContainerRunning(environ).observe(item, Surroundings("/", timeout=timeout, cancel=cancel))
    return kind_of(item).result(item, seen)


def said(tmp_path: Path, *answers: dict[str, Any] | bytes | None, **claimed: Any) -> EvidenceResult:
    with listening(tmp_path / "s", Engine(*answers, images={"RepoDigests": [f"web@{PULLED}"]})) as environ:
        return judged(environ, **claimed)


def test_a_container_that_runs_holds(tmp_path):
    """By its name, its id, or the beginning of its id; it is asked for and nothing else."""
    engine = Engine(container())
    with listening(tmp_path / "s", engine) as environ:
        assert "VERIFIED" == judged(environ).code
        assert "VERIFIED" == judged(environ, id=ID).code
        assert "VERIFIED" == judged(environ, id=ID[:12]).code
    assert ["/containers/web/json", f"/containers/{ID}/json", f"/containers/{ID[:12]}/json"] == engine.asked


@pytest.mark.parametrize(
    ("state", "how"),
    [
        ({"Restarting": True, "Status": "restarting", "ExitCode": 1}, "restarting (7 restarts, last exit code 1)"),
        ({"Restarting": True, "ExitCode": 1}, "restarting (7 restarts, last exit code 1)"),
        ({"Paused": True, "Status": "paused"}, "paused (7 restarts)"),
        ({"Dead": True, "Running": False, "Status": "dead"}, "dead (7 restarts, last exit code 0)"),
        ({"Running": False, "Status": "exited", "ExitCode": 137}, "exited (7 restarts, last exit code 137)"),
        ({"Status": "removing"}, "removing (7 restarts, last exit code 0)"),
        ({"Running": False}, "running (7 restarts, last exit code 0)"),
    ],
)
def test_a_container_that_only_seems_to_run_fails(tmp_path, state, how):
    """An engine says that one runs while it restarts it again and again."""
    result = said(tmp_path, container(restarts=7, **state))
    assert ("NOT_RUNNING", f"web: expected a running container, found it {how}") == (result.code, result.message)


def test_a_container_that_is_not_there_fails(tmp_path):
    """Its engine knows none of that name."""
    result = said(tmp_path, None)
    assert ("CONTAINER_MISSING", "failed") == (result.code, result.outcome.value)


def test_another_container_that_the_engine_answers_with_is_not_the_one(tmp_path):
    """Engines take a name for the beginning of an id and an id for a name."""
    assert "CONTAINER_MISSING" == said(tmp_path, container(name="/other")).code
    assert "CONTAINER_MISSING" == said(tmp_path, container(name="/cdcdcdcdcdcd"), id="cdcdcdcdcdcd").code
    assert "VERIFIED" == said(tmp_path, container(name="web")).code


def test_the_image_is_compared_by_what_cannot_be_moved(tmp_path):
    """By its id, or by a digest it was pulled by; a tag would say nothing."""
    assert "VERIFIED" == said(tmp_path, container(), image_digest=IMAGE).code
    assert "VERIFIED" == said(tmp_path, container(), image_digest=PULLED).code
    result = said(tmp_path, container(), image_digest="sha256:" + "12" * 32)
    assert ("IMAGE_DIFFERS", "web: expected image sha256:121212121212…, found sha256:cdcdcdcdcdcd…") == (
        result.code,
        result.message,
    )


def test_a_run_that_was_started_anew_is_another_one(tmp_path):
    """What was in its memory is gone."""
    assert "VERIFIED" == said(tmp_path, container(), started_at=STATE["StartedAt"]).code
    assert "STARTED_ANEW" == said(tmp_path, container(StartedAt="2026-03-02T08:11:00Z"), started_at=STATE["StartedAt"]).code


@pytest.mark.parametrize(
    ("health", "wanted", "code"),
    [
        (None, None, "VERIFIED"),
        ({"Status": "none"}, None, "VERIFIED"),
        ({"Status": "healthy"}, None, "VERIFIED"),
        ({"Status": "starting"}, None, "UNHEALTHY"),
        ({"Status": "unhealthy", "Log": []}, None, "UNHEALTHY"),
        ({"Status": "unhealthy"}, "any", "VERIFIED"),
        ({"Status": "starting"}, "starting", "VERIFIED"),
        (None, "healthy", "UNHEALTHY"),
        (None, "none", "VERIFIED"),
    ],
)
def test_who_checks_its_own_health_must_find_it_good(tmp_path, health, wanted, code):
    """Unless the claim says otherwise; one that was to be checked and is not fails."""
    answer = container() if health is None else container(Health=health)
    assert code == said(tmp_path, answer, **({} if wanted is None else {"health": wanted})).code


def test_a_restart_loop_is_seen_by_two_samples(tmp_path):
    """Each of them finds it running; that it is another run tells. One sample at least notes the restarts."""
    first, second = container(restarts=3), container(restarts=4, StartedAt="2026-03-01T07:59:00Z")
    assert "RESTARTED" == said(tmp_path, first, second, success_threshold=2, interval=0).code
    assert "NOT_RUNNING" == said(tmp_path, first, container(Restarting=True), success_threshold=2, interval=0).code
    assert "CONTAINER_MISSING" == said(tmp_path, first, None, success_threshold=3, interval=0).code
    assert "VERIFIED" == said(tmp_path, first, success_threshold=3, interval=0).code
    result = said(tmp_path, first)
    assert ("VERIFIED", ["it was restarted 3 times by now"]) == (result.code, result.notes)


def test_samples_are_taken_apart(tmp_path):
    """A restart takes its time."""
    begun = time.monotonic()
    assert "VERIFIED" == said(tmp_path, container(), success_threshold=3, interval=0.1).code
    assert time.monotonic() - begun >= 0.2


def test_a_container_that_starts_is_waited_for(tmp_path, monkeypatch):
    """It holds when it is healthy, and is shown as flaky."""
    starting = container(Health={"Status": "starting"})
    with listening(tmp_path / "s", Engine(starting, starting, container(Health={"Status": "healthy"}))) as environ:
        monkeypatch.setenv("DOCKER_HOST", environ["DOCKER_HOST"])
        claim = Evidence("container_running", "the web server", {"name": "web"})
        assert EvidenceVerifier().verify_evidence(claim)
    assert (True, 3) == (claim.result.flaky, len(claim.result.attempts))


# Engines that cannot be asked.


def test_an_engine_that_is_not_there_says_nothing(tmp_path):
    """No socket, a socket that nobody serves, something that is no socket: none of it means that the container is gone."""
    assert ("ENGINE_MISSING", "error") == ((it := judged({"DOCKER_HOST": f"unix://{tmp_path}/none"})).code, it.outcome.value)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "dead"))
    assert "ENGINE_MISSING" == judged({"DOCKER_HOST": f"unix://{tmp_path}/dead"}).code
    (tmp_path / "file").write_text("")
    assert "ENGINE_MISSING" == judged({"DOCKER_HOST": f"unix://{tmp_path}/file"}).code
    assert "UNREADABLE" == judged({"DOCKER_HOST": f"unix://{tmp_path}/{'x' * 200}"}).code


def test_an_engine_that_may_not_be_asked_says_nothing(tmp_path):
    """Most users may not."""
    with listening(tmp_path / "s", Engine(container())) as environ:
        (tmp_path / "s").chmod(0)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            result = judged(environ)
        finally:
            if is_root:
                os.seteuid(0)
    assert ("UNREADABLE", "error") == (result.code, result.outcome.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        reply(b"<html>"),
        reply(b"{}"),
        reply(b"[]"),
        reply(b"null"),
        reply(b"<h1>Not Found</h1>", 404),
        reply(b"{}", 404),
        reply(b'{"State": {"Running": "yes"}}'),
        reply(json.dumps({**container(), "State": {**STATE, "Running": 1}}).encode()),
        reply(json.dumps({**container(), "Id": None}).encode()),
        reply(json.dumps({**container(), "State": {**STATE, "Health": "fine"}}).encode()),
        reply(json.dumps(container()).encode()[:-1] + b', "Id": "x"}'),
        reply(b"[" * 100_000),
    ],
)
def test_an_answer_of_no_engine_says_nothing(tmp_path, answer):
    """What is not understood is never taken for a container that is gone."""
    result = said(tmp_path, answer)
    assert "error" == result.outcome.value
    assert result.code in {"NOT_UNDERSTOOD", "ENGINE_MISSING"}


@pytest.mark.parametrize("status", [301, 400, 403, 409, 500])
def test_an_engine_that_refuses_says_nothing(tmp_path, status):
    """Only that there is no such container means that there is none."""
    assert ("ENGINE_REFUSES", "error") == ((it := said(tmp_path, reply(b"{}", status))).code, it.outcome.value)


def test_an_answer_without_end_is_not_read_to_the_end(tmp_path):
    """It is too large, or too slow, or both."""

    def sends(start: bytes, piece: bytes, pause: float) -> Callable[[socket.socket], None]:
        def send(plug: socket.socket) -> None:
            plug.recv(4096)
            plug.sendall(start)
            while True:
                plug.sendall(piece)
                time.sleep(pause)

        return send

    begun = time.monotonic()
    with listening(tmp_path / "s", sends(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536, 0)) as environ:
        assert "TOO_LARGE" == judged(environ).code
    for start, piece in ((b"HTTP/1.1 200 OK\r\n\r\n", b" "), (b"HTTP/1.1 200 OK\r\nX: ", b"y")):
        with listening(tmp_path / "s", sends(start, piece, 0.01)) as environ:
            assert "TIMED_OUT" == judged(environ, timeout=0.3).code
    with listening(tmp_path / "s", sends(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0)) as environ:
        assert "TIMED_OUT" == judged(environ, timeout=0.3).code
    with listening(tmp_path / "s", keeps_silent) as environ:
        assert "TIMED_OUT" == judged(environ, timeout=0.3).code
    assert time.monotonic() - begun < 8


def test_a_look_that_is_called_off_ends_at_once(tmp_path):
    """While it waits for an answer, and while it waits for the next sample."""
    for answer in (keeps_silent, Engine(container())):
        cancel = Cancel()
        with listening(tmp_path / "s", answer) as environ:
            timer = threading.Timer(0.2, cancel.set)
            timer.start()
            begun = time.monotonic()
            result = judged(environ, cancel=cancel, timeout=30, success_threshold=2, interval=20)
            assert time.monotonic() - begun < 5
            timer.join()
        assert "CALLED_OFF" == result.code


def test_the_environment_says_where_the_engine_listens():
    """And only a socket of this machine: an engine elsewhere is another machine's business."""
    assert "/var/run/docker.sock" == socket_of("docker", {})
    assert "/x/y" == socket_of("docker", {"DOCKER_HOST": "unix:///x/y"})
    assert "/x/y" == socket_of("podman", {"CONTAINER_HOST": "unix:///x/y", "DOCKER_HOST": "unix:///z"})
    own = socket_of("podman", {"XDG_RUNTIME_DIR": "/run/user/7"})
    assert own == ("/run/podman/podman.sock" if os.getuid() == 0 else "/run/user/7/podman/podman.sock")
    for other in ("tcp://10.0.0.1:2375", "ssh://root@host", "unix://relative", "/x/y", "npipe:////./pipe/docker_engine"):
        assert "ENGINE_ELSEWHERE" == judged({"DOCKER_HOST": other}).code


# Capture.


def test_a_container_is_captured_as_the_run_that_it_is(tmp_path, monkeypatch):
    """By its full id, its image and its start: a restart, and another one of its name, are told from it."""
    with listening(tmp_path / "s", Engine(container(), container(), container(StartedAt="later"))) as environ:
        monkeypatch.setenv("DOCKER_HOST", environ["DOCKER_HOST"])
        claim = Evidence.capture_container("web")
        assert {"id": ID, "image_digest": IMAGE, "started_at": STATE["StartedAt"]} == claim.expected
        claim.metadata["deadline"] = 0.1
        assert EvidenceVerifier().verify_evidence(claim)
        assert not EvidenceVerifier().verify_evidence(claim)
        assert "STARTED_ANEW" == claim.result.code


def test_a_container_that_does_not_run_is_not_captured(tmp_path, monkeypatch):
    """It raises and says why, instead of claiming less."""
    with listening(tmp_path / "s", Engine(container(Paused=True, Status="paused"))) as environ:
        monkeypatch.setenv("DOCKER_HOST", environ["DOCKER_HOST"])
        with pytest.raises(EvidenceUnavailableError, match=re.escape("web: expected a running container, found it paused")):
            Evidence.capture_container("web")
    with contextlib.suppress(KeyError):
        monkeypatch.delenv("DOCKER_HOST")
    with pytest.raises(EvidenceUnavailableError, match="no engine at"):
        Evidence.capture_container("web", runtime="podman")
