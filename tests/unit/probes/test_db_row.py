"""db_row: names from the schema, values bound, rows compared by type; what cannot match and what cannot be seen differ."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.observing import Seen, Unseen
from tests.unit.probes.databases import Look

SCHEMA = """
create table orders(id integer primary key, status text, total real, note, name text collate nocase);
insert into orders values (1, 'open', 1.5, null, 'Ann'), (2, 'paid', 2.0, x'00ff', 'Bob'), (3, 'paid', 3, 7, 'Cy');
create view paid as select id, status from orders where status = 'paid';
create table "odd ""name" ("odd ""column" text, "select" int, "nonexistent?" int);
insert into "odd ""name" values ('x', 1, 2);
create table wide(id int, doubled int generated always as (id * 2));
insert into wide(id) values (21);
"""


@pytest.fixture
def db(base: Path) -> Path:
    path = base / "db.sqlite"
    with closing(sqlite3.connect(path)) as writer:
        writer.executescript(SCHEMA)
    return path


def row(look: Look, table: str = "orders", *, around: Any = None, path: str = "db.sqlite", **expected: Any) -> dict[str, Any]:
    seen = look("db_row", table=table, metadata={"db_path": path}, around=around, **expected)
    assert isinstance(seen, Seen), seen
    codec.encode(seen.facts)
    return seen.facts


def matching(look: Look, where: dict[str, Any], **values: Any) -> int:
    found: int = row(look, where=where, values=values)["matching"]
    return found


def test_a_row_that_is_there_is_found(look, db):
    """The facts name the database, count, and show the row's claimed columns."""
    facts = row(look, where={"id": 2}, values={"status": "paid"})
    assert facts == {
        "problem": "", "database": "db.sqlite", "known": [], "missing": [],
        "candidates": 1, "matching": 1, "row": {"status": "paid"},
    }  # fmt: skip


def test_a_row_with_other_values_is_shown(look, db):
    """A candidate that differs is a fact of its own: what was found helps more than that nothing matched."""
    facts = row(look, where={"id": 1}, values={"status": "paid", "total": 1.5})
    assert (facts["candidates"], facts["matching"], facts["row"]) == (1, 0, {"status": "open", "total": 1.5})


def test_no_row_is_a_fact(look, db):
    """Nothing matches where."""
    facts = row(look, where={"id": 99})
    assert (facts["candidates"], facts["matching"], facts["row"]) == (0, 0, {})


def test_any_row_that_matches_everything_is_enough(look, db):
    """The first candidate differs, the second is the one."""
    facts = row(look, where={"status": "paid"}, values={"id": 3})
    assert (facts["candidates"], facts["matching"], facts["row"]) == (2, 1, {"id": 3})


def test_a_second_match_is_counted_only_if_it_matters(look, db):
    """Without `unique` the look ends at the first match, with it at the second."""
    assert row(look, where={"status": "paid"})["matching"] == 1
    assert row(look, where={"status": "paid"}, unique=True)["matching"] == 2
    assert row(look, where={"status": "paid"}, values={"id": 3}, unique=True)["matching"] == 1


def test_values_may_be_left_out(look, db):
    """Then a row that matches where is enough."""
    assert row(look, where={"id": 1})["row"] == {"id": 1}


def test_null_is_a_value(look, db):
    """None means NULL on both sides; nothing else does."""
    assert matching(look, {"id": 1}, note=None) == 1
    assert matching(look, {"note": None}) == 1
    assert matching(look, {"id": 2}, note=None) == 0
    assert matching(look, {"id": 1}, note=0) == matching(look, {"id": 1}, note="") == 0


@pytest.mark.parametrize(("claimed", "holds"), [(7, 1), (7.0, 1), ("7", 0), (True, 0), (8, 0), (None, 0), (7.000001, 0)])
def test_values_are_compared_by_type(look, db, claimed, holds):
    """A number is not its text, true is not seven, and a float equals the integer it is."""
    assert matching(look, {"id": 3}, note=claimed) == holds


def test_true_and_false_are_one_and_zero(look, db):
    """SQLite has no booleans; 1.0 is not one of theirs either."""
    assert matching(look, {"id": 1}, id=True) == 1
    assert matching(look, {"id": 2}, id=True) == 0
    assert matching(look, {"id": True}, status="open") == 1
    assert matching(look, {"id": 2}, total=2) == 1


def test_large_integers_are_exact(look, base, db):
    """The ends of the 64-bit range come back as they are, and a neighbour is another number."""
    with closing(sqlite3.connect(db)) as writer:
        writer.execute("insert into orders(id, note) values (4, ?), (5, ?)", (2**63 - 1, -(2**63)))
        writer.commit()
    assert matching(look, {"note": 2**63 - 1}, note=2**63 - 1) == 1
    assert matching(look, {"id": 5}, note=-(2**63)) == 1
    assert matching(look, {"id": 4}, note=2**63 - 2) == matching(look, {"id": 4}, note=float(2**63)) == 0


def test_where_is_compared_as_the_database_does(look, db):
    """A column's own rules (here: without case) decide which row is meant; what it holds is compared exactly."""
    assert matching(look, {"name": "BOB"}) == 1
    assert matching(look, {"name": "BOB"}, name="BOB") == 0


@pytest.mark.parametrize("key", ["1=1 OR id", "id --", 'id" or "1"="1', "id; drop table orders", "rowid", "ID", "*", ""])
def test_a_hostile_column_is_only_a_column_that_is_not_there(look, db, key):
    """Names are looked up, never pasted: an injection finds no column of that name."""
    facts = row(look, where={key: 999})
    assert (facts["problem"], facts["missing"]) == ("NO_SUCH_COLUMN", [key])
    assert row(look, where={"id": 1}, values={key: 999})["missing"] == [key]


def test_an_unknown_column_does_not_become_a_text(look, db):
    """In SQLite an unknown quoted name is a string; `"nonexistent" = 'nonexistent'` would match every row."""
    facts = row(look, where={"nonexistent": "nonexistent"})
    assert facts["problem"] == "NO_SUCH_COLUMN"
    assert facts["known"] == ["id", "status", "total", "note", "name"]


@pytest.mark.parametrize(
    "table", ["orders, paid", "(select 1)", "Orders", 'orders" --', "pragma_table_info", "sqlite_master", "x"]
)
def test_a_hostile_table_is_only_a_table_that_is_not_there(look, db, table):
    """Tables and views of the schema, spelled as there; nothing else can be asked."""
    facts = row(look, table, where={"id": 1})
    assert (facts["problem"], facts["known"]) == ("NO_SUCH_TABLE", ['odd "name', "orders", "paid", "wide"])


def test_odd_names_that_do_exist_work(look, db):
    """Quotes and keywords in names are quoted, not refused."""
    assert row(look, 'odd "name', where={'odd "column': "x", "select": 1}, values={"nonexistent?": 2})["matching"] == 1


def test_views_and_computed_columns_are_rows_too(look, db):
    """Whatever the schema calls a column can be claimed."""
    assert row(look, "paid", where={"id": 2}, values={"status": "paid"})["matching"] == 1
    assert row(look, "wide", where={"id": 21}, values={"doubled": 42})["matching"] == 1


def test_full_text_tables_can_be_read(look, base, db):
    """A virtual table asks for more on the way, and gets no more than reading."""
    with closing(sqlite3.connect(db)) as writer:
        try:
            writer.executescript("create virtual table notes using fts5(body); insert into notes values ('hello');")
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no FTS5")
    assert row(look, "notes", where={"body": "hello"})["matching"] == 1


def test_what_json_cannot_carry_is_described(look, base, db):
    """Blobs, broken text, infinities and long texts are facts that can be stored; a blob equals no text."""
    with closing(sqlite3.connect(db)) as writer:
        writer.execute("update orders set note = cast(x'ff41' as text) where id = 1")
        writer.execute("insert into orders(id, note) values (4, 9e999), (5, ?)", ("long" * 1000,))
        writer.commit()
    found = {id_: row(look, where={"id": id_}, values={"note": "x"})["row"]["note"] for id_ in (1, 2, 4, 5)}
    assert found == {
        1: {"type": "text that is no UTF-8", "bytes": 2, "starts": "ff41"},
        2: {"type": "blob", "bytes": 2, "starts": "00ff"},
        4: {"type": "real", "value": "inf"},
        5: {"type": "text", "characters": 4000, "starts": "long" * 8},
    }
    assert row(look, where={"id": 5}, values={"note": "long" * 1000})["row"]["note"] == "long" * 1000


def test_a_missing_database_is_a_fact_and_is_not_created(look, base):
    """No database is a difference, and looking for it leaves nothing behind."""
    assert row(look, where={"id": 1})["problem"] == "DATABASE_MISSING"
    assert row(look, where={"id": 1}, path="no/folder/db")["problem"] == "DATABASE_MISSING"
    assert list(base.iterdir()) == []


def test_an_empty_file_is_a_database_without_tables(look, base):
    """That is what SQLite makes of it."""
    (base / "db.sqlite").touch()
    assert row(look, where={"id": 1})["problem"] == "NO_SUCH_TABLE"
    assert (base / "db.sqlite").stat().st_size == 0


def reason(look: Look, path: str = "db.sqlite", **around: Any) -> str:
    seen = look("db_row", table="orders", where={"id": 1}, metadata={"db_path": path}, around=around)
    assert isinstance(seen, Unseen), seen
    return seen.code


def test_what_is_no_database_is_not_a_missing_row(look, base):
    """Text, a folder and a device cannot be read as databases; nothing is known about the row."""
    (base / "text").write_text("this is not a database, whatever it is called" * 50)
    (base / "folder").mkdir()
    assert reason(look, "text") == reason(look, "folder") == reason(look, "/dev/zero") == "NOT_A_DATABASE"


def test_a_damaged_database_is_not_a_missing_row(look, base, db):
    """A page of noise in the middle is damage to report, not a row that is gone."""
    data = bytearray(db.read_bytes())
    data[0x60:0x1000] = b"\xa5" * (0x1000 - 0x60)
    db.write_bytes(data)
    assert reason(look) == "NOT_A_DATABASE"


def test_the_path_of_a_database_obeys_the_rules_of_paths(look, base, tmp_path, db):
    """Relative to the base and not out of it; absolute beneath the allowed roots."""
    (tmp_path / "out.sqlite").write_bytes(db.read_bytes())
    (base / "link").symlink_to(tmp_path / "out.sqlite")
    assert reason(look, "../out.sqlite") == reason(look, "link") == "PATH_ESCAPES"
    assert reason(look, str(tmp_path / "out.sqlite"), allowed_roots=(str(base),)) == "PATH_ESCAPES"
    assert reason(look, base_path=str(base / "gone")) == "BASE_MISSING"
    assert row(look, where={"id": 1}, path=str(base / "link"))["matching"] == 1


def test_odd_characters_in_the_path_reach_the_right_file(look, base, db):
    """A path is encoded into the address: `?`, `#`, `%` and spaces are part of the name, not of the options."""
    for name in ("a?mode=rwc", "b#c", "100%41", "sp ace", "ü\x7f", "&x=1"):
        (base / name).write_bytes(db.read_bytes())
        assert row(look, where={"id": 1}, path=name)["matching"] == 1
        with closing(sqlite3.connect(base / name)) as writer:
            writer.execute("delete from orders")
            writer.commit()
        assert row(look, where={"id": 1}, path=name)["matching"] == 0


def test_without_a_path_the_registry_is_read(look, base, db):
    """The manager's own database, wherever it is: neither base nor allowed roots apply to it."""
    around = {"own_database": str(db), "base_path": "/gone", "allowed_roots": ("/gone",)}
    seen = look("db_row", table="orders", where={"id": 1}, around=around)
    assert seen.facts["matching"] == 1


def test_a_verifier_on_its_own_has_no_registry(look):
    """Which database is meant is not guessed."""
    seen = look("db_row", table="orders", where={"id": 1})
    assert isinstance(seen, Unseen)
    assert seen.code == "NO_DATABASE"


def test_a_scan_without_an_index_ends_at_the_deadline(look, base):
    """There is no limit to the rows, only to the time."""
    with closing(sqlite3.connect(base / "db.sqlite")) as writer:
        writer.executescript(
            "create view endless(id) as with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
        )
    started = time.monotonic()
    seen = look("db_row", table="endless", where={"id": 0}, metadata={"db_path": "db.sqlite"}, around={"timeout": 0.3})
    assert isinstance(seen, Unseen)
    assert seen.code == "TIMED_OUT"
    assert time.monotonic() - started < 3


def test_many_rows_are_no_obstacle(look, base):
    """The last of many candidates is found."""
    with closing(sqlite3.connect(base / "db.sqlite")) as writer:
        writer.execute("create table t(grp int, n int)")
        writer.executemany("insert into t values (1, ?)", ((number,) for number in range(50_000)))
        writer.commit()
    facts = row(look, "t", where={"grp": 1}, values={"n": 49_999}, unique=True)
    assert (facts["candidates"], facts["matching"], facts["row"]) == (50_000, 1, {"n": 49_999})


def test_a_broken_view_is_a_reason(look, base, db):
    """A view over a table that is gone cannot be read; that is not a missing row."""
    with closing(sqlite3.connect(db)) as writer:
        writer.executescript("create table a(id); create view v as select id from a; drop table a;")
    seen = look("db_row", table="v", where={"id": 1}, metadata={"db_path": "db.sqlite"})
    assert isinstance(seen, Unseen)
    assert seen.code == "DATABASE_UNREADABLE"


def test_a_view_cannot_make_the_reader_run_what_it_should_not(look, base, db):
    """Functions with effects on the outside are not trusted from a schema that somebody else wrote."""
    with closing(sqlite3.connect(db)) as writer:
        writer.executescript("create view v(id) as select load_extension('/tmp/evil.so');")
    seen = look("db_row", table="v", where={"id": 1}, metadata={"db_path": "db.sqlite"})
    assert isinstance(seen, Unseen)
    assert "load_extension" in seen.message
