"""What the tests of the manager and the store share: packs, a dump of every table, programs in processes of their own."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import Evidence, EvidencePack, EvidenceType

REPOSITORY = Path(__file__).resolve().parents[1]
ULID = "[0-9A-HJKMNP-TV-Z]{26}"


def exists(*paths: str | Path, **policy: Any) -> EvidencePack:
    """A pack that claims these paths are there."""
    claims = [Evidence(EvidenceType.ARTIFACT_EXISTS, f"{path} is there", {"path": str(path)}) for path in paths]
    return EvidencePack(claims, **policy)


def content(path: str, text: str) -> EvidencePack:
    """A pack that claims a file has this content."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return EvidencePack([Evidence(EvidenceType.FILE_SHA256, f"content of {path}", {"path": path, "sha256": digest})])


def exited(expected: Any = 0, **metadata: Any) -> EvidencePack:
    """A pack that claims how a command ended."""
    return EvidencePack([Evidence(EvidenceType.COMMAND_EXIT, "the command", {"exit_code": expected}, metadata)])


def row(where: dict[str, Any], values: dict[str, Any], table: str = "tasks", **metadata: Any) -> EvidencePack:
    """A pack that claims a row of a database."""
    expected = {"table": table, "where": where, "values": values}
    return EvidencePack([Evidence(EvidenceType.DB_ROW, f"a row of {table}", expected, metadata)])


def dump(path: str | Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, by name. `settlement` is left out: a refusal may settle what it refuses over."""
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table' order by name")]
        return {name: connection.execute(f"select * from {name}").fetchall() for name in names if name != "settlement"}


def execute(path: str | Path, sql: str, *values: Any) -> int:
    """Change the database behind the manager's back; how many rows that touched."""
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        return connection.execute(sql, values).rowcount


def environment(**extra: str) -> dict[str, str]:
    """The environment of a program that may import agentos and these tests."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def start(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a program; its standard input and output are pipes of text."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**piped, "env": environment(), **options})


def run(code: str, *arguments: object, timeout: float = 60, **options: Any) -> str:
    """Run a program to its end; what it printed. One that fails fails the test, with its traceback."""
    with start(code, *arguments, **options) as process:
        try:
            said, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0, errors
    return said
