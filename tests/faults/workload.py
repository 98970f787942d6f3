"""A small checkpoint store on plain sqlite3, honest or with one planted fault, to prove the harness on.

A step writes an artifact (temporary file, sync, rename, sync of the directory), then its row with a digest and the next
number of its task in one transaction, and only then acknowledges. `FAULTS` names the ways to get that wrong.
`missing` is the check every harness applies: what of the acknowledged is not there, whole and readable, any more.
It is no part of agentos and promises nothing to it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.channel import ack, mark

FAULTS = {
    "none": "nothing is wrong",
    "ack-early": "acknowledges before the commit",
    "normal-sync": "synchronous=NORMAL where FULL is promised",
    "no-directory-sync": "a file is renamed and its directory not synced",
    "no-file-sync": "a file is renamed and its data not synced",
    "sequence-outside": "the next number is read before the write lock is held",
    "ack-on-error": "an error of the commit is swallowed and the step acknowledged",
    "retry-sync": "a failed sync of a file is tried again, and believed",
}

SCHEMA = (
    "create table if not exists tasks (task text primary key, last integer not null)",
    "create table if not exists steps (task text, number integer, body blob, digest text)",
)


class DamagedError(Exception):
    """The store says that what it holds is not what was stored."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One run of the writer."""

    directory: Path
    task: str
    steps: int
    body_bytes: int
    fault: str
    seed: int


def argv(
    directory: Path, *, task: str = "t", steps: int = 12, fault: str = "none", body: int = 600, seed: int = 0
) -> list[str]:
    """The command line that runs this writer in a process of its own; writers of one task need different seeds."""
    options = ["--task", task, "--steps", str(steps), "--fault", fault, "--body-bytes", str(body), "--seed", str(seed)]
    return [sys.executable, "-m", "tests.faults.workload", str(directory), *options]


def main() -> None:
    """Write the steps that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--task", default="t")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--body-bytes", type=int, default=600)
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--seed", type=int, default=0)
    write_steps(Settings(**vars(parser.parse_args())))


def write_steps(settings: Settings) -> None:
    """Commit the steps of one task, acknowledging each."""
    rng = Random(f"{settings.seed}:{settings.task}")
    with closing(connect(settings.directory / "store.db", settings.fault)) as db:
        mark("start")
        for _ in range(settings.steps):
            _step(db, settings, rng.randbytes(settings.body_bytes))
        mark("end")


def connect(path: Path, fault: str = "none") -> sqlite3.Connection:
    """Open the store and create what is missing; every statement is a transaction of its own unless one is begun."""
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    _switch_to_log(db)
    # The tables are always durable, so that what a planted fault loses is a row, and seen as one in every state.
    db.execute("pragma synchronous = full")
    for statement in SCHEMA:
        db.execute(statement)
    if fault == "normal-sync":
        db.execute("pragma synchronous = normal")
    return db


def _switch_to_log(db: sqlite3.Connection) -> None:
    mode = None
    for _ in range(100):
        try:
            mode = db.execute("pragma journal_mode = wal").fetchone()
            break
        except sqlite3.OperationalError as problem:
            # One in 2,000 processes that start together is refused as locked, whatever its timeout.
            if problem.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(0.01)
    # An I/O error is not raised: SQLite stays with a rollback journal, where FULL does not survive a power cut.
    if mode != ("wal",):
        raise sqlite3.OperationalError("the store could not be switched to a write-ahead log")


def _step(db: sqlite3.Connection, settings: Settings, body: bytes) -> None:
    digest = hashlib.sha256(body).hexdigest()
    early = settings.fault == "ack-early"
    if early:
        ack(f"{settings.task} ? {digest}")
    _keep_artifact(settings.directory / f"{digest}.artifact", body, settings.fault)
    number = 0
    try:
        number = _commit(db, settings, body, digest)
    except sqlite3.OperationalError:
        if settings.fault != "ack-on-error":
            raise
    if not early:
        ack(f"{settings.task} {number or '?'} {digest}")


def _commit(db: sqlite3.Connection, settings: Settings, body: bytes, digest: str) -> int:
    outside = _next_number(db, settings.task) if settings.fault == "sequence-outside" else None
    with _transaction(db):
        number = outside or _next_number(db, settings.task)
        db.execute("insert or replace into tasks values (?, ?)", (settings.task, number))
        db.execute(
            "insert into steps values (?, ?, ?, ?)",
            (settings.task, number, body, row_digest(settings.task, number, body)),
        )
    return number


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    finally:
        # A commit that failed on I/O may leave the transaction open; after one that succeeded there is none.
        if db.in_transaction:
            db.execute("rollback")


def _next_number(db: sqlite3.Connection, task: str) -> int:
    row = db.execute("select last from tasks where task = ?", (task,)).fetchone()
    return (row[0] if row else 0) + 1


def row_digest(task: str, number: int, body: bytes) -> str:
    """What ties a body to its place."""
    return hashlib.sha256(f"{task}:{number}:".encode() + body).hexdigest()


def _keep_artifact(path: Path, body: bytes, fault: str) -> None:
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, body)
        if fault != "no-file-sync":
            _sync(descriptor, retry=fault == "retry-sync")
    finally:
        os.close(descriptor)
    temporary.replace(path)
    if fault != "no-directory-sync":
        _sync_directory(path.parent)


def _sync(descriptor: int, *, retry: bool) -> None:
    try:
        os.fsync(descriptor)
    except OSError:
        if not retry:
            raise
        os.fsync(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_steps(path: Path, *, check_digest: bool = True) -> dict[tuple[str, int], bytes]:
    """All steps by task and number. Raises DamagedError, or SQLite's own error, before it returns what is wrong."""
    with closing(sqlite3.connect(path, timeout=30)) as db:
        rows = db.execute("select task, number, body, digest from steps").fetchall()
        tasks = dict(db.execute("select task, last from tasks").fetchall())
    steps = {(task, number): body for task, number, body, _ in rows}
    if not check_digest:
        return steps
    for task, number, body, digest in rows:
        if not isinstance(body, bytes) or row_digest(task, number, body) != digest:
            raise DamagedError(f"{task} {number}: the body is not what was stored")
    if len(steps) != len(rows) or any(sum(t == task for t, _ in steps) != last for task, last in tasks.items()):
        raise DamagedError("steps are missing, or there twice")
    if {task for task, _ in steps} - tasks.keys():
        raise DamagedError("steps belong to no task")
    return steps


def missing(directory: Path, acked: Iterable[str]) -> list[str]:
    """A sentence for each acknowledged step whose row or artifact is gone, torn or unreadable."""
    acked = list(acked)
    try:
        kept = read_steps(directory / "store.db") if acked or (directory / "store.db").exists() else {}
    except (sqlite3.Error, DamagedError) as problem:
        # Before the first acknowledgement the tables may not be there yet.
        return [f"the store cannot be read: {problem}"] if acked or "no such table" not in str(problem) else []
    digests = {hashlib.sha256(body).hexdigest() for body in kept.values()}
    lost = [f"row lost: {line}" for line in acked if line.split()[2] not in digests]
    return lost + [f"artifact lost: {line}" for line in acked if not _has_artifact(directory, line.split()[2])]


def _has_artifact(directory: Path, digest: str) -> bool:
    path = directory / f"{digest}.artifact"
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def duplicates(directory: Path) -> list[str]:
    """A sentence for each number that a task has more than once."""
    with closing(sqlite3.connect(directory / "store.db")) as db:
        rows = db.execute("select task, number, count(*) from steps group by 1, 2 having count(*) > 1").fetchall()
    return [f"{task} {number}: {count} times" for task, number, count in rows]


if __name__ == "__main__":
    main()
