"""Bring a SQLite file to the schema this code needs, at boot.

Numbered SQL files, each applied in one transaction under the database's write lock, so that any number of processes may boot
together and one of them applies. Refused: a database newer than this code, a migration edited after it was applied, a gap.
`schema_version` says what was applied to which component; `user_version` repeats the registry's number, so that a running
process can notice an upgrade for the price of a pragma.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentos._text import shown
from agentos.errors import MigrationEditedError, MigrationError, MigrationGapError, SchemaTooNewError, StoreCorruptError
from agentos.store import failures, waiting

REGISTRY = "registry"
APPLICATION_ID = 0x61676E74  # "agnt": tells our files from other people's databases

_FILE_NAME = re.compile(r"(?P<prefix>[a-z]+)_v(?P<number>\d+)_(?P<name>[a-z0-9_]+)\.sql")
# Files of the registry are called schema_v…, as its first one always was.
_PREFIXES = {REGISTRY: "schema"}

# What every file of ours has, whatever components it holds: what was applied to it, and one row that a synced write can touch
# to make everything written before it durable.
_COMMON = (
    """
    create table if not exists schema_version (
        component  text not null,
        number     integer not null,
        name       text not null,
        checksum   text not null,
        applied_at text not null,
        primary key (component, number)
    ) without rowid
    """,
    """
    create table if not exists settlement (
        only_row integer primary key check (only_row = 1),
        settled  integer not null
    )
    """,
    "insert or ignore into settlement values (1, 0)",
)
_DEFINES = re.compile(r"(?:\s|--[^\n]*\n)*(?:create|alter|drop)\b", re.IGNORECASE)
_OBJECTS = "select type, name, tbl_name, sql from sqlite_master"


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered SQL file of one component."""

    component: str
    number: int
    name: str
    sql: str
    checksum: str


def migrations_folder() -> Path:
    """Where the SQL files are: inside an installed package, or beside it in a checkout."""
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "store" / "migrations"


def load(component: str, folder: Path | None = None) -> list[Migration]:
    """The component's migrations in order.

    Raises:
        MigrationGapError: a number is missing or there twice.
        MigrationError: a file is not named like a migration, or there is none.
    """
    place = (folder or migrations_folder()) / "sqlite"
    prefix = _PREFIXES.get(component, component)
    found = sorted((_parsed(component, path) for path in place.glob(f"{prefix}_v*.sql")), key=lambda each: each.number)
    if not found:
        raise MigrationError(
            f"no migrations for {component} in {shown(str(place))}", hint="the installation is incomplete; install it again"
        )
    for earlier, later in pairwise(found):
        if later.number != earlier.number + 1:
            raise MigrationGapError(
                f"migrations of {component}: {later.number} follows {earlier.number}",
                hint="every number must be there exactly once",
            )
    return found


def _parsed(component: str, path: Path) -> Migration:
    match = _FILE_NAME.fullmatch(path.name)
    if match is None:
        raise MigrationError(f"{path.name}: not named like a migration", hint="schema_v<number>_<name>.sql")
    # A checkout on another system may have other line ends; that is no edit.
    raw = path.read_bytes().replace(b"\r\n", b"\n")
    return Migration(component, int(match["number"]), match["name"], raw.decode(), hashlib.sha256(raw).hexdigest())


def pending(connection: sqlite3.Connection, known: list[Migration]) -> list[Migration]:
    """What is still to be applied.

    Raises:
        SchemaTooNewError, MigrationEditedError, MigrationGapError: this code must not touch this database.
    """
    applied = _applied(connection, known[0].component)
    _refuse_newer(connection, known, applied)
    for migration in known:
        if migration.number in applied and applied[migration.number] != migration.checksum:
            raise MigrationEditedError(
                f"migration {migration.number} ({migration.name}) of {migration.component} was applied with other content",
                hint="a released migration is never edited: restore the file, or use the agentos that wrote this database",
            )
    todo = [migration for migration in known if migration.number not in applied]
    if applied and todo and todo[0].number < max(applied):
        raise MigrationGapError(
            f"migration {todo[0].number} of {todo[0].component} was never applied, but {max(applied)} was",
            hint="this database was changed by other means; restore a backup",
        )
    return todo


def _applied(connection: sqlite3.Connection, component: str) -> dict[int, str]:
    there = connection.execute("select 1 from sqlite_master where name = 'schema_version'").fetchone()
    if there is None:
        return {}
    rows = connection.execute("select number, checksum from schema_version where component = ?", (component,))
    return dict(rows.fetchall())


def _refuse_newer(connection: sqlite3.Connection, known: list[Migration], applied: dict[int, str]) -> None:
    newest = max(applied, default=0)
    if known[0].component == REGISTRY:
        newest = max(newest, connection.execute("pragma user_version").fetchone()[0])
    refuse_newer(known[0].component, newest, known[-1].number)


def refuse_newer(component: str, found: int, known: int) -> None:
    """Raise if the database is ahead of this code."""
    if found > known:
        raise SchemaTooNewError(
            f"{component}: the database is at schema {found}, this agentos knows {known}",
            hint="upgrade agentos here; an older one could damage what the newer one wrote",
            found=found,
            known=known,
        )


def migrate(connection: sqlite3.Connection, known: list[Migration], path: str, timeout: float) -> list[Migration]:
    """Apply what is pending, each migration in one transaction under the write lock; what was applied by this call.

    A database that is up to date is only read.

    Raises:
        MigrationError: one failed; nothing of it was applied, and what came before it was.
    """
    applied = []
    while pending(connection, known):
        waiting.begin_immediate(connection, path, timeout)
        try:
            applied += _apply_next(connection, known)
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
    _refuse_damaged(connection, known, path)
    return applied


def refuse_unreadable(connection: sqlite3.Connection, known: list[Migration], path: str) -> None:
    """Refuse to read what is newer or older than this code, or damaged. Changes nothing."""
    if todo := pending(connection, known):
        raise MigrationError(
            f"{shown(path)}: the database lacks schema {todo[0].number}, and is opened only to be read",
            hint="`agentos migrate` brings it to the schema that this version reads",
        )
    _refuse_damaged(connection, known, path)


def _refuse_damaged(connection: sqlite3.Connection, known: list[Migration], path: str) -> None:
    """A schema is text in the file, and a letter that changed there can turn a key into a mere column: rows would seem gone."""
    if differs(connection.execute, known):
        raise StoreCorruptError(
            f"{shown(path)}: the schema is damaged; it is not what the migrations of {known[0].component} made it",
            hint="nothing was served from it; restore a backup, or move the file away and start again",
        )


def differs(execute: Callable[[str], Iterable[Any]], known: list[Migration]) -> bool:
    """Whether the file's tables are not what these migrations make."""
    return not _expected(tuple(known)) <= set(execute(_OBJECTS))


@cache
def _expected(known: tuple[Migration, ...]) -> frozenset[tuple[str, str, str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as database:
        for statement in _COMMON:
            database.execute(statement)
        for migration in known:
            for statement in _defining(migration.sql):
                database.execute(statement)
        return frozenset(database.execute(_OBJECTS))


def _defining(sql: str) -> Iterator[str]:
    """The statements that make the schema what it is; those about rows would find none."""
    statement = ""
    for piece in sql.split(";"):
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            if _DEFINES.match(statement):
                yield statement
            statement = ""


def _apply_next(connection: sqlite3.Connection, known: list[Migration]) -> list[Migration]:
    # Asked again under the lock: another process may have been quicker.
    for statement in _COMMON:
        connection.execute(statement)
    for migration in pending(connection, known)[:1]:
        _run(connection, migration)
        now = datetime.now(UTC).isoformat()
        connection.execute(
            "insert into schema_version values (?, ?, ?, ?, ?)",
            (migration.component, migration.number, migration.name, migration.checksum, now),
        )
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        if migration.component == REGISTRY:
            connection.execute(f"pragma user_version = {migration.number}")
        return [migration]
    return []


def _run(connection: sqlite3.Connection, migration: Migration) -> None:
    from sqlite_utils import Database  # noqa: PLC0415 - 130 ms of import that only a process that migrates pays

    # Statements run one by one inside the open transaction: the standard library's executescript would commit the lock away.
    try:
        Database(connection).executescript(migration.sql)
    except sqlite3.Error as error:
        if failures.primary(error) not in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT):
            # The disk or a lock, not the migration.
            raise
        raise MigrationError(
            f"migration {migration.number} ({migration.name}) of {migration.component} failed: {shown(str(error), 200)}",
            hint="nothing of it was applied; this is a bug in agentos, or the database was changed by other means",
        ) from error
