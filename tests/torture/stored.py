"""A registry, a vault and a run store with something of everything in them; and all that anybody could read of them.

What is read is every row by a scan and again by its key, every index, the schema, and every content of the vault. Left out is
what nobody reads: when a migration was applied, and how often something was settled.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.errors import StoreError
from agentos.store import SQLiteStore
from agentos.vault.vault import Vault
from tests.support import content, exists

UNREADABLE = "unreadable"
_UNREAD = {"schema_version": "component, number, name, checksum", "settlement": "only_row"}
Read = dict[str, Any]


def make(folder: Path) -> Path:
    """The path of the registry; the tasks of it work beside."""
    path = folder / "store" / "registry.sqlite"
    (folder / "ws").mkdir(parents=True)
    with CheckpointManager(path, folder, keep=True) as manager:
        _work_in_a_workspace(manager, folder / "ws")
        _work_by_name(manager, folder)
        _prune_some(manager, folder)
        step = manager.begin_step("left", "tool_executed", {"left": 1}, touches=["a.txt"])
        manager.note_error(step, ValueError("gone"))
        manager.abandon_step(manager.begin_step("left", "tool_executed", {}), by="me", reason="no more")
        manager.once("paid", {"amount": 7}, lambda: "receipt", task_id="left")
        manager.once("free", {}, lambda: 1)
        # What nothing needs may go without a word, so there is none of it.
        assert manager.collect().contents
    with SQLiteStore(path) as store:
        for number in range(12):
            store.save(f"run-{number % 3}", f"node-{number}", bytes([number]) * 300 * number)
        store.delete("run-1", "node-4")
    return path


def _work_in_a_workspace(manager: CheckpointManager, folder: Path) -> None:
    task = manager.task("ws", workspace=folder)
    state = task.resume({"n": 0})
    for number in range(6):
        with task.step("tool_executed", state):
            (folder / "text.txt").write_text("".join(f"line {each} of the text\n" for each in range(200)) + f"{number}\n")
            (folder / f"f{number}").write_bytes(os.urandom(700))
            state["n"] = number
    (folder / "f1").write_text("a stranger")
    (folder / "f2").unlink()
    task.resume({}, repair=True)
    task.release()
    [done] = manager.restores("ws")
    manager.undo_restore(done.restore_id)


def _work_by_name(manager: CheckpointManager, folder: Path) -> None:
    for number in range(14):
        (folder / "a.txt").write_text(f"text {number}\n" * 30)
        pack = content("a.txt", f"text {number}\n" * 30)
        if number % 4 == 3:
            pack = EvidencePack([*pack.evidence_list, Evidence(EvidenceType.ARTIFACT_ABSENT, "gone", {"path": "gone"})])
        step = manager.begin_step("named", ("tool_executed", "llm_response")[number % 2], {"number": number, "text": "x" * 90})
        name = f"name-{number}" if number % 3 == 0 else None
        made = manager.commit_step(step, pack, name, snapshot={"after": number} if number % 5 == 1 else None)
        if number % 4 == 2:
            manager.verify_checkpoint(made.checkpoint_id)
        if number == 4:
            manager.delete_checkpoint(made.checkpoint_id)
    newest = manager.list_checkpoints("named")[0]
    manager.commit_step(manager.begin_step("named", "tool_executed", {}), exists("never"))
    manager.rollback_to_checkpoint(newest.checkpoint_id, supersede_later=True)
    for words in ("accepted", "accepted again"):
        (folder / "a.txt").write_text(words)
        manager.accept("named", by="me", reason="so it is")


def _prune_some(manager: CheckpointManager, folder: Path) -> None:
    for number in range(8):
        (folder / "p.txt").write_text(f"{number}")
        manager.commit_step(manager.begin_step("pruned", "tool_executed", {"n": number}), content("p.txt", f"{number}"))
    manager.prune("pruned", keep_verified=3)


def read(path: Path) -> Read:
    """All that can be read; what cannot is said to be so."""
    return {**_rows(path), **_contents(path.parent / "vault")}


def keys_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What each row of each table and index is looked up by, while everything is whole."""
    with closing(_opened(path)) as connection:
        known = _lookups(connection).items()
        return {look: connection.execute(f"select distinct {columns} {rest}").fetchall() for look, (columns, rest) in known}


def look_up(path: Path, keys: dict[str, list[tuple[Any, ...]]]) -> Read:
    """Every row again, by what it is looked up by."""
    found: Read = {}
    try:
        with closing(_opened(path)) as connection:
            for look, values in keys.items():
                columns, rest = _LOOKUPS[look]
                named = " and ".join(f"{name} = ?" for name in columns.split(", "))
                also = " and " if " where " in rest else " where "
                for value in values:
                    found[f"{look} {value}"] = _answer(connection, f"select {columns} {rest}{also}{named}", value)
    except sqlite3.Error:
        return {"lookups": UNREADABLE}
    return found


_LOOKUPS: dict[str, tuple[str, str]] = {}


def _lookups(connection: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    if not _LOOKUPS:
        for (table,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
            keys = sorted(connection.execute(f"pragma table_info({table})"), key=lambda row: row[5])
            columns = [row[1] for row in keys if row[5]]
            _LOOKUPS[table] = (", ".join(columns), f"from {table} not indexed")
        indexes = "select name, tbl_name, sql from sqlite_master where type = 'index'"
        for name, table, sql in connection.execute(indexes).fetchall():
            columns = [row[2] for row in connection.execute(f"pragma index_info({name})")]
            where = f" where {sql.partition(' where ')[2]}" if " where " in sql else ""
            _LOOKUPS[name] = (", ".join(columns), f"from {table} indexed by {name}{where}")
    return _LOOKUPS


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file://{path}?mode=ro&immutable=1", uri=True)


def _rows(path: Path) -> Read:
    found: Read = {}
    try:
        with closing(_opened(path)) as connection:
            found["schema"] = _answer(connection, "select * from sqlite_master order by name")
            found["number"] = _answer(connection, "pragma user_version")
            found["whose"] = _answer(connection, "pragma application_id")
            for look, (_, rest) in _LOOKUPS.items():
                found[f"all of {look}"] = _answer(connection, f"select {_UNREAD.get(look, '*')} {rest}")
    except sqlite3.Error:
        return {"rows": UNREADABLE}
    return found


def _answer(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:
    try:
        return connection.execute(sql, values).fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return UNREADABLE


def _contents(root: Path) -> Read:
    vault = Vault(str(root))
    found: Read = {}
    for digest in vault.digests():
        try:
            found[digest] = len(vault.read(digest))
        except StoreError:
            found[digest] = UNREADABLE
    return found
