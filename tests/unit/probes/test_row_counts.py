"""db_row_count and db_row_absent: what is counted, what no row can hide behind, and what verifies nothing."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentos.core.checkpoints.interrupted import fingerprint
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen, Surroundings, Unseen
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.probes import PROBES, readonly_sqlite, tables
from agentos.probes.cannot_see import CannotSee, Deadline
from agentos.probes.paths import place_of
from agentos.probes.readonly_sqlite import connected
from tests.unit.probes.databases import Look, everything, writing

SCHEMA = """
create table orders(id integer primary key, status text, code text, loose, total real);
insert into orders values (1, 'open', '7', '7', 1.5), (2, 'paid', '7.0', 7, -0.0), (3, 'paid', null, null, 2);
create view paid as select id, status from orders where status = 'paid';
create table "odd ""name" ("select" int);
insert into "odd ""name" values (1), (1);
create trigger once after insert on orders begin delete from orders where id = new.id; end;
"""


@pytest.fixture
def db(base: Path) -> Path:
    path = base / "db.sqlite"
    with closing(sqlite3.connect(path)) as writer:
        writer.executescript(SCHEMA)
    return path


def facts(look: Look, kind: str, where: dict[str, Any], table: str = "orders", path: str = "db.sqlite") -> dict[str, Any]:
    seen = look(kind, table=table, where=where, metadata={"db_path": path})
    assert isinstance(seen, Seen), seen
    return seen.facts


def count(look: Look, where: dict[str, Any], table: str = "orders") -> int:
    """The number of rows; whether one is absent, and whether one is present, must agree with it."""
    number: int = facts(look, "db_row_count", where, table)["count"]
    if where:
        assert facts(look, "db_row_absent", where, table)["present"] is (number > 0)
        assert (facts(look, "db_row", where, table)["candidates"] > 0) is (number > 0)
    return number


def test_rows_are_counted(look, db):
    """Those that `where` names, or all; in tables, views and under any name."""
    assert count(look, {}) == 3
    assert count(look, {"status": "paid"}) == 2
    assert count(look, {"status": "paid", "id": 3}) == 1
    assert count(look, {"id": 9}) == 0
    assert count(look, {}, "paid") == 2
    assert count(look, {"select": 1}, 'odd "name') == 2


def test_the_facts_name_the_database(look, db):
    """And nothing of the rows: a count is only a count."""
    blank = {"problem": "", "known": [], "missing": [], "database": "db.sqlite"}
    assert facts(look, "db_row_count", {"id": 1}) == {**blank, "count": 1}
    assert facts(look, "db_row_absent", {"id": 1}) == {**blank, "present": True}


@pytest.mark.parametrize(
    ("where", "number"),
    [
        ({"code": None}, 1),
        ({"code": 7}, 1),  # a column of text makes text of it, and '7.0' is another one
        ({"loose": 7}, 1),
        ({"loose": "7"}, 1),
        ({"id": True}, 1),
        ({"id": "1"}, 1),  # a column of integers makes one of it
        ({"id": "1x"}, 0),
        ({"total": 0.0}, 1),  # minus nothing is nothing
        ({"total": 2}, 1),
        ({"id": False}, 0),
        ({"id": 2**63 - 1}, 0),
        ({"status": ""}, 0),
    ],
)
def test_which_rows_are_named_is_for_the_database_to_say(look, db, where, number):
    """By the rules of the column, in all three types alike; NULL is found, and equals nothing else."""
    assert count(look, where) == number


@pytest.mark.parametrize("kind", ["db_row_count", "db_row_absent"])
@pytest.mark.parametrize("key", ["nonexistent", "1=0 AND id", "id --", "rowid", "ID", ""])
def test_an_unknown_column_is_no_text_that_matches_nothing(look, db, kind, key):
    """Quoted alone it would be a text that differs from every value, and every row would be absent."""
    found = facts(look, kind, {key: "x"})
    assert (found["problem"], found["missing"]) == ("NO_SUCH_COLUMN", [key])


@pytest.mark.parametrize("kind", ["db_row_count", "db_row_absent"])
@pytest.mark.parametrize("table", ["orders where 0 --", "(select 1 as id)", "Orders", "sqlite_master", "pragma_table_info"])
def test_an_unknown_table_is_no_table_without_rows(look, db, kind, table):
    """Only what the schema calls so can be asked."""
    assert facts(look, kind, {"id": 1}, table)["problem"] == "NO_SUCH_TABLE"


def code(base: Path, kind: str, path: str = "db.sqlite", **expected: Any) -> tuple[str, str]:
    item = Evidence(kind, "d", {"table": "orders", "where": {"id": 9}, **expected}, {"db_path": path})
    EvidenceVerifier(base, probes=PROBES).verify_evidence(item)
    assert item.result
    return item.result.outcome.value, item.result.code


def test_a_row_is_not_absent_because_nothing_is_there(look, base, db):
    """Neither a missing database nor a missing table, nor what cannot be read, proves that a row is gone."""
    assert code(base, "db_row_absent") == ("verified", "VERIFIED")
    assert code(base, "db_row_absent", table="order") == ("failed", "NO_SUCH_TABLE")
    assert code(base, "db_row_absent", where={"key": 9}) == ("failed", "NO_SUCH_COLUMN")
    assert code(base, "db_row_absent", "gone.sqlite") == ("failed", "DATABASE_MISSING")
    assert code(base, "db_row_count", "gone.sqlite", count=0) == ("failed", "DATABASE_MISSING")
    (base / "empty").touch()
    assert code(base, "db_row_absent", "empty") == ("failed", "NO_SUCH_TABLE")
    (base / "text").write_text("no database" * 100)
    assert code(base, "db_row_absent", "text") == ("error", "NOT_A_DATABASE")
    assert code(base / "unmounted", "db_row_absent") == ("error", "BASE_MISSING")
    assert sorted(entry.name for entry in base.iterdir()) == ["db.sqlite", "empty", "text"]


def test_rows_that_are_only_in_the_log_are_there(look, base):
    """Committed and not yet checkpointed, beside a living writer; what it did not commit is not there."""
    with writing(base / "db") as writer:
        writer.execute("create table orders(id)")
        writer.execute("insert into orders values (1), (2)")
        before = everything(base)
        assert code(base, "db_row_count", "db", where={}, count=2) == ("verified", "VERIFIED")
        assert code(base, "db_row_absent", "db", where={"id": 2}) == ("failed", "ROW_PRESENT")
        writer.execute("begin")
        writer.execute("insert into orders values (3)")
        assert code(base, "db_row_absent", "db", where={"id": 3}) == ("verified", "VERIFIED")
        writer.execute("rollback")
        assert everything(base).keys() == before.keys()


@pytest.mark.parametrize("kind", ["db_row_count", "db_row_absent"])
def test_a_look_without_end_ends_at_the_deadline(look, base, kind):
    """That nothing was found so far proves nothing."""
    with closing(sqlite3.connect(base / "db.sqlite")) as writer:
        writer.executescript(
            "create view endless(id) as with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
        )
    started = time.monotonic()
    seen = look(kind, table="endless", where={"id": 0}, metadata={"db_path": "db.sqlite"}, around={"timeout": 0.3})
    assert isinstance(seen, Unseen)
    assert seen.code == "TIMED_OUT"
    assert time.monotonic() - started < 3


def test_a_bare_count_looks_at_the_clock_too(base):
    """SQLite counts a whole table in one step, and between steps is when the deadline is looked at: it must not."""
    with writing(base / "db", "delete") as writer:
        writer.execute("create table t(id)")
        writer.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n limit 20000) insert into t select i from n"
        )
    with pytest.raises(CannotSee) as late:
        _count_too_late(base)
    assert late.value.unseen.code == "TIMED_OUT"


def _count_too_late(base: Path) -> None:
    deadline = Deadline(20)
    with place_of("db", Surroundings(str(base))) as place:
        assert place.status is not None
        with connected(place, place.status, deadline) as connection:
            deadline.at = 0
            table = tables.Table("t", {})
            table.connection = connection
            table.count()


@pytest.mark.parametrize("kind", ["db_row_count", "db_row_absent"])
def test_the_registry_is_read_where_no_database_is_named(look, db, kind):
    """As db_row does; a verifier on its own has none."""
    seen = look(kind, table="orders", where={"id": 1}, around={"own_database": str(db), "base_path": "/gone"})
    assert isinstance(seen, Seen)
    seen = look(kind, table="orders", where={"id": 1})
    assert isinstance(seen, Unseen)
    assert (seen.code, seen.message) == ("NO_DATABASE", f"{kind} names no database")


def test_nothing_of_a_sensitive_claim_is_shown(base, db):
    """Neither by a row that came back nor by a number that differs."""
    for kind, more in (("db_row_absent", {}), ("db_row_count", {"count": 0})):
        expected = {"table": "orders", "where": {"status": "paid"}, **more}
        item = Evidence(kind, "d", expected, {"db_path": "db.sqlite", "sensitive": True})
        kind_of(item).refuse_malformed(item)
        assert not EvidenceVerifier(base, probes=PROBES).verify_evidence(item)
        assert "paid" not in repr(item.result)


# Looks that no index serves.

KINDS = ["db_row", "db_row_absent", "db_row_count"]


def notes(base: Path, kind: str, where: dict[str, Any], table: str = "orders") -> list[str]:
    expected = {"table": table, "where": where, **({"count": 1} if kind == "db_row_count" else {})}
    item = Evidence(kind, "d", expected, {"db_path": "db.sqlite"})
    EvidenceVerifier(base, probes=PROBES).verify_evidence(item)
    assert item.result
    return item.result.notes


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_that_no_index_serves_says_so(base, db, kind):
    """Whether the claim holds or not; with an index, or by the key, there is nothing to say."""
    said = ["orders: read row by row, as no index serves this where; one on status, total would"]
    for status in ("paid", "gone"):
        assert said == notes(base, kind, {"status": status, "total": 2})
    assert [] == notes(base, kind, {"id": 1}) == notes(base, kind, {"id": 1, "status": "open"})
    with closing(sqlite3.connect(db)) as writer:
        writer.execute("create index by_status on orders(status)")
    assert [] == notes(base, kind, {"status": "paid", "total": 2}) == notes(base, kind, {"status": None})


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_index_would_not_mend_is_no_remark(base, db, kind):
    """A view and a virtual table go about it in their own way; a table with an odd name is a table."""
    with closing(sqlite3.connect(db)) as writer:
        writer.execute("create table 'x USING y' (a int, b int)")
        writer.execute("create index b on 'x USING y' (b, a)")
        try:
            writer.execute("create virtual table notes using fts5(body)")
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no FTS5")
    assert [] == notes(base, kind, {"status": "paid"}, "paid") == notes(base, kind, {"body": "x"}, "notes")
    assert ["x USING y: read row by row, as no index serves this where; one on a would"] == notes(
        base, kind, {"a": 1}, "x USING y"
    )


def test_a_count_of_everything_needs_no_index(base, db):
    """There is nothing to look for."""
    assert [] == notes(base, "db_row_count", {})


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_that_was_too_slow_for_want_of_an_index_says_so(look, base, kind, monkeypatch):
    """There is no result to remark upon, so the hint does; it names nothing, as the claim may be sensitive."""
    with writing(base / "db.sqlite", "delete") as writer:
        writer.execute("create table orders(id integer primary key)")
        writer.execute(
            "with recursive n(i) as (select 200000 union all select i + 1 from n limit 9999) insert into orders select * from n"
        )
        # Afterwards: what is inserted later would be computed at once.
        writer.execute("alter table orders add column slow generated always as (length(hex(zeroblob(id))))")
    monkeypatch.setattr(readonly_sqlite, "_STEPS_BETWEEN_LOOKS", 100)
    seen = look(kind, table="orders", where={"slow": 0}, metadata={"db_path": "db.sqlite"}, around={"timeout": 0.5})
    assert isinstance(seen, Unseen)
    assert seen.code == "TIMED_OUT"
    assert seen.hint.startswith("no index serves where")


def test_the_plan_is_asked_for_once(look, db, monkeypatch):
    """It is a small price, and paid once a look; not at all where nothing is looked for."""
    asked: list[str] = []
    real = tables.Table._ask

    def traced(table: tables.Table, what: str) -> sqlite3.Cursor:
        connection = table.connection

        def execute(query: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
            asked.append(query)
            return connection.execute(query, values)

        monkeypatch.setattr(table, "connection", SimpleNamespace(execute=execute))
        return real(table, what)

    monkeypatch.setattr(tables.Table, "_ask", traced)
    for where, plans in (({"status": "paid"}, 1), ({}, 0)):
        asked.clear()
        assert facts(look, "db_row_count", where)["problem"] == ""
        assert (plans, plans + 1) == (sum(query.startswith("explain") for query in asked), len(asked))


def test_an_index_made_meanwhile_is_no_effect_of_a_step(look, db):
    """How a row is found is no part of what was found: an interrupted step is not taken for done because of it."""
    seen = look("db_row", table="orders", where={"status": "open"}, metadata={"db_path": "db.sqlite"})
    assert seen.facts["scans"] is True
    before = fingerprint(seen)
    with closing(sqlite3.connect(db)) as writer:
        writer.execute("create index by_status on orders(status)")
    seen = look("db_row", table="orders", where={"status": "open"}, metadata={"db_path": "db.sqlite"})
    assert "scans" not in seen.facts
    assert before == fingerprint(seen)
