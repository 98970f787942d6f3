"""A world with something for every type of evidence to look at, and claims about it: one that holds, one that does not."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentos.core.checkpoints.models import Evidence
from tests.unit.probes.databases import writing
from tests.unit.probes.engines import ID, Engine, container, listening
from tests.unit.probes.repositories import repository
from tests.unit.probes.servers import serving

# A claim that holds, and one of the same type that does not.
Claims = tuple[Evidence, Evidence]
_ROWS = "create table t(id integer primary key, v); insert into t values (1, 'old'), (2, 'old')"
# The rows of a second process's log are committed and in no database yet.
_USER = """
import sqlite3, sys
user = sqlite3.connect(sys.argv[1], isolation_level=None)
user.execute("pragma journal_mode=wal")
user.execute("pragma wal_autocheckpoint=0")
user.executescript(sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
"""


class World:
    """Where it lies, who is asked over wires, and what is claimed."""

    def __init__(self, base: Path, port: int, engine: Engine, asked: list[bytes]) -> None:
        self.base, self.engine, self.asked = base, engine, asked
        self.claims: dict[str, Claims] = {}
        self._claim_files()
        self._claim_rows()
        self._claim_services(port)

    def _add(self, kind: str, holds: dict[str, Any], changed: dict[str, Any], **metadata: Any) -> None:
        """`changed` makes of the claim that holds one that does not."""
        name = kind.partition(" ")[0]
        true, false = Evidence(name, "holds", holds, metadata), Evidence(name, "differs", {**holds, **changed}, dict(metadata))
        self.claims[kind] = true, false

    def _claim_files(self) -> None:
        digest, other = hashlib.sha256(b"one\ntwo\n").hexdigest(), "0" * 64
        self._add("artifact_exists", {"path": "log"}, {"path": "nothing"})
        self._add("artifact_absent", {"path": "nothing"}, {"path": "log"})
        self._add("file_sha256", {"path": "log", "sha256": digest}, {"sha256": other})
        self._add("file_prefix_sha256", {"path": "log", "bytes": 8, "sha256": digest}, {"sha256": other})
        self._add("file_contains", {"path": "log", "pattern": "^t", "regex": True}, {"pattern": "^x"}, flags=["multiline"])
        self._add("json_value", {"path": "data.json", "pointer": "/a", "value": 1}, {"value": 2})
        tree = Evidence.capture_tree("tree", base_path=self.base, gitignore=True)
        self._add("directory_tree", tree.expected, {"digest": other}, **tree.metadata)
        commit = Evidence.capture_git("repo", base_path=self.base)
        self._add("git_commit", commit.expected, {"commit": "0" * 40})
        self._add("git_clean", {"repo": "repo"}, {"repo": "tree"})
        self._add("command_exit", {"exit_code": 0}, {"exit_code": 1}, actual_exit_code=0)

    def _claim_rows(self) -> None:
        for name in ("rest", "used", "old"):
            one = {"table": "t", "where": {"id": 1}}
            self._add(f"db_row {name}", {**one, "values": {"v": "old"}}, {"values": {"v": "new"}}, db_path=name)
            self._add(f"db_row_absent {name}", {"table": "t", "where": {"id": 3}}, {"where": {"id": 2}}, db_path=name)
            self._add(f"db_row_count {name}", {"table": "t", "where": {}, "count": 2}, {"count": 3}, db_path=name)

    def _claim_services(self, port: int) -> None:
        here = {"allow_private": True, "timeout": 5}
        me = Evidence.capture_process()
        self._add("process_exists", me.expected, {"start_ticks": 1})
        self._add(
            "process_exists counted", {"name": {"contains": ""}, "count": {"ge": 1}}, {"count": 0}, deadline=1.0, timeout=9
        )
        self._add("network_reachable", {"host": "127.0.0.1", "port": port}, {"reachable": False}, **here)
        self._add("port_listening", {"port": port}, {"ip": "127.9.9.9"})
        self._add("api_response", {"url": f"http://127.0.0.1:{port}/x", "status": 200}, {"status": 404}, **here)
        self._add("container_running", {"id": ID}, {"health": "healthy"})


@contextmanager
def world(base: Path, engine_at: Path) -> Iterator[World]:
    """All of it, until this ends."""
    _files(base)
    asked: list[bytes] = []

    def answer(plug: socket.socket) -> None:
        with contextlib.suppress(OSError):
            asked.append(plug.recv(4096))
            plug.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    engine = Engine(container())
    with _used(base / "used"), serving(answer) as port, listening(engine_at, engine):
        yield World(base, port, engine, asked)


def _files(base: Path) -> None:
    (base / "log").write_text("one\ntwo\n")
    (base / "data.json").write_text(json.dumps({"a": 1}))
    (base / "tree/inner").mkdir(parents=True)
    (base / "tree/.gitignore").write_text("*.tmp\n")
    (base / "tree/inner/run.sh").write_text("#!/bin/sh\n")
    (base / "tree/inner/run.sh").chmod(0o755)
    (base / "tree/inner/x.tmp").write_text("left out")
    (base / "tree/link").symlink_to("inner/run.sh")
    repository(base / "repo", "a", "b/c")
    # What git remembers of it is out of date, and would be written anew by a git that may.
    os.utime(base / "repo/a", (1, 1))
    for name, mode in (("rest", "wal"), ("old", "delete")):
        with writing(base / name, mode) as writer:
            writer.executescript(_ROWS)


@contextmanager
def _used(path: Path) -> Iterator[None]:
    command = [sys.executable, "-c", _USER, str(path), _ROWS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        assert user.stdout.readline() == b"ready\n"
        yield
        user.stdin.close()
