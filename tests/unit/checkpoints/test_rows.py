"""Claims about rows by their facts alone: what holds, what fails and says why, what is refused, and which end which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints import CheckpointManager, EvidencePack
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import EvidenceResult, Outcome
from agentos.errors import EvidenceDefinitionError
from tests.support import execute
from tests.unit.checkpoints.steps import committed

PROBLEMS = [
    ({"problem": "DATABASE_MISSING"}, "app.db: expected a database, found nothing"),
    ({"problem": "NO_SUCH_TABLE", "known": ["users"]}, "app.db has no table orders; tables: users"),
    (
        {"problem": "NO_SUCH_COLUMN", "missing": ["id"], "known": ["key"]},
        "orders has no column id; columns: key",
    ),
]


def claim(kind: str, **expected: Any) -> Evidence:
    return Evidence(kind, "what is claimed", {"table": "orders", "where": {"id": 7}, **expected}, {"db_path": "app.db"})


def judged(item: Evidence, **facts: Any) -> EvidenceResult:
    kind_of(item).refuse_malformed(item)
    return kind_of(item).result(item, Seen({"problem": "", "database": "app.db", "known": [], "missing": [], **facts}))


# db_row_absent


def test_nothing_there_is_what_is_claimed():
    """A table without such a row."""
    assert judged(claim("db_row_absent"), present=False).outcome is Outcome.VERIFIED


def test_a_row_that_came_back_is_a_difference():
    """Named by what tells it."""
    found = judged(claim("db_row_absent"), present=True)
    assert ("ROW_PRESENT", "orders: expected no row with id=7, found one") == (found.code, found.message)


@pytest.mark.parametrize("kind", ["db_row", "db_row_absent", "db_row_count"])
@pytest.mark.parametrize(("facts", "says"), PROBLEMS, ids=lambda each: each["problem"] if isinstance(each, dict) else "")
def test_what_is_not_there_to_be_asked_verifies_nothing(kind, facts, says):
    """No table has no rows either; but that a row is gone is not proved by a table that is."""
    found = judged(claim(kind, count=0) if kind == "db_row_count" else claim(kind), **facts)
    assert (Outcome.FAILED, facts["problem"], says) == (found.outcome, found.code, found.message)


# db_row_count


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_a_number_is_that_number(claimed, found):
    """Neither one more nor one less."""
    assert (claimed == found) is (judged(claim("db_row_count", count=claimed), count=found).outcome is Outcome.VERIFIED)


@pytest.mark.parametrize(
    ("count", "holds"),
    [({"ge": 2}, [2, 3, 4, 9]), ({"gt": 2, "le": 4}, [3, 4]), ({"not": 0}, [1, 2, 3, 4, 9]), ({"lt": 2}, [0, 1])],
)
def test_a_matcher_says_which_numbers_will_do(count, holds):
    """All of its operators must hold."""
    found = [n for n in (0, 1, 2, 3, 4, 9) if judged(claim("db_row_count", count=count), count=n).code == "VERIFIED"]
    assert holds == found


def test_another_number_says_which_was_expected_and_found():
    """With what tells the rows, if anything does."""
    found = judged(claim("db_row_count", count={"ge": 1, "lt": 5}), count=1200)
    assert "orders: expected at least 1 and less than 5 rows with id=7, found 1,200" == found.message
    found = judged(claim("db_row_count", where={}, count=3), count=2)
    assert ("COUNT_DIFFERS", "orders: expected 3 rows, found 2") == (found.code, found.message)


# Definitions.


@pytest.mark.parametrize("kind", ["db_row", "db_row_absent", "db_row_count"])
@pytest.mark.parametrize("name", ["dsn_ref", "schema"])
def test_a_database_that_is_not_looked_into_is_not_overlooked(kind, name):
    """Another one would be asked in its place: the manager's own, where no path is given."""
    item = claim(kind, **({"count": 0} if kind == "db_row_count" else {}))
    kind_of(item).refuse_malformed(item)
    item.metadata[name] = "orders"
    with pytest.raises(EvidenceDefinitionError, match="names what is not looked into here"):
        kind_of(item).refuse_malformed(item)


@pytest.mark.parametrize(
    ("kind", "expected", "says"),
    [
        ("db_row_absent", {"where": {}}, "is empty and would match any row"),
        ("db_row_absent", {"values": {"a": 1}}, "unknown key in expected: values"),
        ("db_row_absent", {"table": ""}, "must be a name"),
        ("db_row_absent", {"where": {"id": float("nan")}}, "nan is not allowed"),
        ("db_row_absent", {"where": {"id": 2**63}}, "does not fit a 64-bit column"),
        ("db_row_absent", {"where": {"id": b"x"}}, "bytes is not allowed"),
        ("db_row_count", {}, "Missing 'count' in expected"),
        ("db_row_count", {"count": 1, "where": None}, "must be a dict of column to value, found None"),
        ("db_row_count", {"count": 1, "where": {"id": float("nan")}}, "nan is not allowed"),
        ("db_row_count", {"count": 1, "where": {"id": -(2**63) - 1}}, "does not fit a 64-bit column"),
        ("db_row_count", {"count": -1}, "must be a number of things, found -1"),
        ("db_row_count", {"count": True}, "must be a number of things, found True"),
        ("db_row_count", {"count": 1.0}, "must be a number of things, found 1.0"),
        ("db_row_count", {"count": None}, "must be a number of things, found None"),
        ("db_row_count", {"count": {}}, "is empty and would match any number"),
        ("db_row_count", {"count": {"about": 3}}, "unknown operator about"),
        ("db_row_count", {"count": {"ge": 0}}, "matches any number, so it claims nothing"),
        ("db_row_count", {"count": {"ge": 0, "lt": 2**63}}, "matches any number, so it claims nothing"),
        ("db_row_count", {"count": {"not": 2**63}}, "matches any number, so it claims nothing"),
    ],
)
def test_what_could_never_be_checked_is_refused(kind, expected, says):
    """When it is claimed, by the key that is wrong."""
    item = claim(kind, **expected)
    with pytest.raises(EvidenceDefinitionError) as refused:
        kind_of(item).refuse_malformed(item)
    assert says in refused.value.message


def test_one_operator_that_claims_something_is_enough():
    """A lower end that says nothing does no harm beside an upper end."""
    assert judged(claim("db_row_count", count={"ge": 0, "le": 5}), count=6).code == "COUNT_DIFFERS"


# Subjects.


def test_the_same_rows_are_one_subject():
    """Whatever is claimed of them; other rows are another one."""
    subjects = {kind_of(item).subject(item, "/base") for item in map(claim, ("db_row", "db_row_absent", "db_row_count"))}
    assert {'row:app.db#orders?{"id": 7}'} == subjects
    everything = claim("db_row_count", where={})
    assert "row:app.db#orders?{}" == kind_of(everything).subject(everything, "/base")


def test_a_row_that_is_deleted_later_ends_the_claim_that_it_is_there(manager: CheckpointManager, tmp_path: Path):
    """And the other way round; a count of other rows stands beside them."""
    target = tmp_path / "app.db"
    execute(target, "create table orders (id integer, status text)")
    execute(target, "insert into orders values (7, 'open'), (8, 'open')")

    def claims(*given: tuple[str, dict[str, Any]]) -> EvidencePack:
        return EvidencePack(
            [Evidence(kind, kind, {"table": "orders", **expected}, {"db_path": str(target)}) for kind, expected in given]
        )

    committed(manager, claims(("db_row", {"where": {"id": 7}}), ("db_row_count", {"where": {"status": "open"}, "count": 2})))
    execute(target, "delete from orders where id = 7")
    absent = ("db_row_absent", {"where": {"id": 7}})
    committed(manager, claims(absent, ("db_row_count", {"where": {"status": "open"}, "count": 1})))
    assert "resume" == manager.recover("t").verdict
    execute(target, "insert into orders values (7, 'closed')")
    assert ["row:" + str(target) + '#orders?{"id": 7}'] == [each.subject for each in manager.recover("t").differences]
    committed(manager, claims(("db_row", {"where": {"id": 7}})))
    assert "resume" == manager.recover("t").verdict
    execute(target, "insert into orders values (9, 'open')")
    [difference] = manager.recover("t").differences
    assert "COUNT_DIFFERS" == difference.code
