"""capture_row and proves_row: what is claimed is what the row held, and what cannot be told or carried is not claimed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceDefinitionError, EvidenceUnavailableError, InvalidInputError, NotVerifiedError
from agentos.probes import PROBES
from tests.support import execute
from tests.unit.probes.databases import writing

SCHEMA = """
create table orders(id integer primary key, status text, total real, note, done boolean);
insert into orders values (1, 'open', 1.5, null, 0), (2, 'paid', 2.0, x'00ff', 1), (3, 'paid', 9e999, 'x', 1);
create table wide(id int, doubled int generated always as (id * 2));
insert into wide(id) values (21);
"""


@pytest.fixture
def db(base: Path) -> Path:
    path = base / "shop.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.executescript(SCHEMA)
    return path


def capture(base: Path, where: dict[str, Any], table: str = "orders", **options: Any) -> Evidence:
    return Evidence.capture_row(table, where, **{"db_path": "shop.db", "base_path": base, **options})


def holds(base: Path, claim: Evidence) -> bool:
    return EvidenceVerifier(base, probes=PROBES).verify_evidence(claim)


def test_every_column_is_claimed_as_it_is(base, db):
    """The claim holds the moment it is made, and names nothing but what db_row knows."""
    claim = capture(base, {"id": 1}, description="the order")
    values = {"id": 1, "status": "open", "total": 1.5, "note": None, "done": 0}
    expected = {"table": "orders", "where": {"id": 1}, "values": values}
    assert claim == Evidence(EvidenceType.DB_ROW, "the order", expected, {"db_path": "shop.db"})
    assert holds(base, claim)
    execute(db, "update orders set note = 0 where id = 1")
    assert not holds(base, claim)


def test_only_the_columns_that_are_named_are_claimed(base, db):
    """What others do to the rest of the row is their matter; computed columns can be named too."""
    claim = capture(base, {"id": 2}, columns=("status",))
    assert claim.expected["values"] == {"status": "paid"}
    assert claim.description == "row of orders"
    execute(db, "update orders set note = 'other' where id = 2")
    assert holds(base, claim)
    assert capture(base, {"id": 21}, "wide").expected["values"] == {"id": 21, "doubled": 42}


def test_a_long_text_is_claimed_whole(base, db):
    """A part of it would be another claim."""
    execute(db, "update orders set note = ? where id = 1", "long" * 5000)
    claim = capture(base, {"id": 1})
    assert claim.expected["values"]["note"] == "long" * 5000
    assert holds(base, claim)


def test_what_is_only_in_the_log_is_captured(base):
    """Committed, and not yet in the database's own file."""
    with writing(base / "shop.db") as writer:
        writer.execute("create table orders(id, status)")
        writer.execute("insert into orders values (1, 'new')")
        assert capture(base, {"id": 1}).expected["values"] == {"id": 1, "status": "new"}


def test_what_a_virtual_table_hides_is_no_column_of_its_rows(base, db):
    """It has columns by which it is asked, and they hold nothing."""
    with closing(sqlite3.connect(db)) as writer:
        try:
            writer.executescript("create virtual table notes using fts5(body); insert into notes values ('hello');")
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no FTS5")
    assert capture(base, {"body": "hello"}, "notes").expected["values"] == {"body": "hello"}


@pytest.mark.parametrize(
    ("table", "where", "options", "code", "says"),
    [
        ("orders", {"id": 9}, {}, "NOTHING_THERE", "orders: expected a row with id=9, found none"),
        (
            "orders",
            {"status": "paid"},
            {},
            "ROW_AMBIGUOUS",
            "orders: expected exactly one row with status='paid', found several",
        ),
        ("orders", {"id": 2}, {}, "NOT_CLAIMABLE", "orders: no claim can carry what is in note"),
        ("orders", {"id": 3}, {"columns": ["id", "total"]}, "NOT_CLAIMABLE", "orders: no claim can carry what is in total"),
        ("orders", {"id": 1}, {"columns": ["stauts"]}, "NO_SUCH_COLUMN", "orders has no column stauts; columns: id, status"),
        ("order", {"id": 1}, {}, "NO_SUCH_TABLE", "shop.db has no table order; tables: orders, wide"),
        ("orders", {"id": 1}, {"db_path": "gone.db"}, "DATABASE_MISSING", "gone.db: expected a database, found nothing"),
        ("orders", {"id": 1}, {"db_path": None}, "NO_DATABASE", "db_row names no database"),
        ("orders", {"id": 1}, {"db_path": "../shop.db"}, "PATH_ESCAPES", "../shop.db: leads out of"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(base, db, table, where, options, code, says):
    """Nothing there, several, what JSON cannot carry, and what cannot be seen are told apart."""
    with pytest.raises(EvidenceUnavailableError) as refused:
        capture(base, where, table, **options)
    assert refused.value.message.startswith(says)
    assert refused.value.diagnostics()["code"] == code


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"where": {}}, EvidenceDefinitionError, "is empty and would match any row"),
        ({"where": None}, EvidenceDefinitionError, "must be a dict of column to value"),
        ({"where": {"id": 2**63}}, EvidenceDefinitionError, "does not fit a 64-bit column"),
        ({"table": ""}, EvidenceDefinitionError, "must be a name"),
        ({"columns": "status"}, InvalidInputError, "columns must be a list of names, found status"),
        ({"columns": []}, InvalidInputError, "columns must be a list of names"),
        ({"columns": ["id", 7]}, InvalidInputError, "columns must be a list of names"),
        ({"db_path": 7}, InvalidInputError, "a path is needed, found 7"),
    ],
)
def test_what_names_no_row_is_refused_before_anything_is_looked_at(manager, base, options, error, says):
    """At once, also in a block whose claims are measured at its end."""
    given = {"table": "orders", "where": {"id": 1}, "columns": None, "db_path": "shop.db", **options}
    step = manager.task("t").step("tool_executed", {})
    with pytest.raises(error, match=says):
        Evidence.capture_row(**given, base_path=base)
    with pytest.raises(error, match=says):
        step.proves_row(**given)


# proves_row


@pytest.fixture
def manager(base: Path, tmp_path: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(tmp_path / "registry.sqlite", base) as manager:
        yield manager


def test_a_row_is_measured_when_the_block_ends(manager, db):
    """What it held before does not matter, and neither does what becomes of the caller's own `where`."""
    where = {"id": 1}
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_row("orders", where, ["status", "total"], "shop.db", "the order")
        where["id"] = 2
        execute(db, "update orders set status = 'paid' where id = 1")
    [item] = step.checkpoint.evidence_pack.evidence_list
    assert ("the order", {"status": "paid", "total": 1.5}) == (item.description, item.expected["values"])
    assert manager.verify_checkpoint(step.checkpoint.checkpoint_id)
    execute(db, "update orders set status = 'open' where id = 1")
    assert not manager.verify_checkpoint(step.checkpoint.checkpoint_id)


def test_rows_of_one_block_stand_together(manager, db):
    """Also two claims about one row."""
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_row("orders", {"id": 1}, ["status"], db)
        step.proves_row("orders", {"id": 1}, ["total"], db)
        step.proves_row("orders", {"id": 2}, ["total"], db)
    assert 3 == len(step.checkpoint.evidence_pack.evidence_list)


@pytest.mark.parametrize(
    ("where", "says"),
    [({"id": 9}, "orders: expected a row with id=9, found none"), ({"status": "paid"}, "expected exactly one row with status")],
)
def test_a_row_that_was_never_written_is_not_verified(manager, db, where, says):
    """The claim that there is exactly one is committed, and fails; once there is, it says no more than that."""
    with pytest.raises(NotVerifiedError, match=says), manager.task("t").step("tool_executed", {}) as step:
        step.proves_row("orders", where, db_path="shop.db")
    [item] = step.checkpoint.evidence_pack.evidence_list
    assert {"table": "orders", "where": where, "unique": True} == item.expected
    assert not step.checkpoint.verified


def test_a_row_that_no_claim_can_carry_ends_no_step(manager, db):
    """Less than was asked for is not claimed instead: nothing is stored, and the step stays begun."""
    with pytest.raises(EvidenceUnavailableError, match="no claim can carry what is in note"):  # noqa: SIM117 - it is the block that raises
        with manager.task("t").step("tool_executed", {}) as step:
            step.proves_row("orders", {"id": 2}, db_path="shop.db")
    assert [] == manager.list_checkpoints("t")
    assert [step.step_id] == [each.step_id for each in manager.list_open_steps("t")]


def test_the_registry_is_the_database_where_none_is_named(manager):
    """As for every claim about rows."""
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_row("tasks", {"task_id": "t"}, ["status"])
    [item] = step.checkpoint.evidence_pack.evidence_list
    assert {"status": "active"} == item.expected["values"]
