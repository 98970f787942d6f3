"""accept takes what differs as it is now, whatever was claimed of it: afterwards it holds, and another change differs again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import Checkpoint, CheckpointManager, Evidence, EvidencePack
from agentos.errors import EvidenceUnavailableError, InvalidInputError
from tests.support import content, execute
from tests.unit.checkpoints.steps import committed, wrote

SAID: dict[str, Any] = {"by": "ada", "reason": "I looked"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    execute(path, "create table orders (id integer primary key, status text, note)")
    execute(path, "insert into orders values (1, 'open', 'x'), (2, 'open', 'y')")
    return path


def claim(manager: CheckpointManager, shop: Path, kind: str, *, where: Any = None, **more: Any) -> Checkpoint:
    """A step that proves this of the orders, on a task that proved something else before."""
    wrote(manager, "a", "1")
    metadata = {"db_path": str(shop), **more.pop("metadata", {})}
    expected = {"table": "orders", "where": {"id": 1} if where is None else where, **more}
    return committed(manager, EvidencePack([Evidence(kind, f"{kind} of an order", expected, metadata)]), {"n": 2})


def taken(manager: CheckpointManager) -> tuple[str, dict[str, Any]]:
    """What accept claims instead, which holds."""
    accepted = manager.accept("t", **SAID)
    assert accepted.verified
    assert "resume" == manager.recover("t").verdict
    [item] = accepted.evidence_pack.evidence_list
    assert item.expected.pop("table") == "orders"
    return str(item.evidence_type), item.expected


def test_a_row_that_is_gone_is_accepted_as_absent(manager: CheckpointManager, shop: Path):
    """And its coming back is a difference then."""
    claim(manager, shop, "db_row", values={"status": "open"})
    execute(shop, "delete from orders where id = 1")
    assert ("db_row_absent", {"where": {"id": 1}}) == taken(manager)
    execute(shop, "insert into orders values (1, 'open', 'x')")
    assert ["ROW_PRESENT"] == [each.code for each in manager.recover("t").differences]


def test_a_row_that_came_back_is_accepted_with_what_it_holds(manager: CheckpointManager, shop: Path):
    """All of it: nobody said which columns matter."""
    claim(manager, shop, "db_row_absent", where={"id": 3})
    execute(shop, "insert into orders values (3, 'new', null)")
    assert ("db_row", {"where": {"id": 3}, "values": {"id": 3, "status": "new", "note": None}}) == taken(manager)
    execute(shop, "update orders set note = 'z' where id = 3")
    assert ["VALUES_DIFFER"] == [each.code for each in manager.recover("t").differences]


def test_a_count_is_accepted_as_the_number_there_is(manager: CheckpointManager, shop: Path):
    """That number, whatever range was claimed."""
    claim(manager, shop, "db_row_count", where={"status": "open"}, count={"ge": 2})
    execute(shop, "update orders set status = 'paid'")
    assert ("db_row_count", {"where": {"status": "open"}, "count": 0}) == taken(manager)
    execute(shop, "update orders set status = 'open' where id = 1")
    assert ["COUNT_DIFFERS"] == [each.code for each in manager.recover("t").differences]


def test_the_columns_that_were_claimed_are_taken_and_no_others(manager: CheckpointManager, shop: Path):
    """A long text whole; a row that is still the only one stays that."""
    claim(manager, shop, "db_row", values={"status": "open"}, unique=True)
    execute(shop, "update orders set status = ? where id = 1", "long" * 1000)
    assert ("db_row", {"where": {"id": 1}, "values": {"status": "long" * 1000}, "unique": True}) == taken(manager)
    execute(shop, "update orders set note = 'other' where id = 1")
    assert "resume" == manager.recover("t").verdict


def test_everything_that_differs_of_a_row_is_taken(manager: CheckpointManager, shop: Path):
    """Two claims about one row become one about both columns: neither is dropped for the other."""
    wrote(manager, "a", "1")
    with manager.task("t").step("tool_executed", {"n": 2}) as step:
        step.proves_row("orders", {"id": 1}, ["status"], shop)
        step.proves_row("orders", {"id": 1}, ["note"], shop)
    execute(shop, "update orders set status = 'paid', note = 'z' where id = 1")
    assert ("db_row", {"where": {"id": 1}, "values": {"status": "paid", "note": "z"}}) == taken(manager)


def test_what_rows_hold_and_how_many_there_are_is_taken_both(manager: CheckpointManager, shop: Path):
    """Claims of one step about one thing stand together."""
    wrote(manager, "a", "1")
    named = {"table": "orders", "where": {"status": "open"}}
    metadata = {"db_path": str(shop)}
    count = Evidence("db_row_count", "open orders", {**named, "count": 2}, metadata)
    row = Evidence("db_row", "an open order", {**named, "values": {"note": "x"}}, metadata)
    committed(manager, EvidencePack([count, row]), {"n": 2})
    execute(shop, "delete from orders where id = 1")
    accepted = manager.accept("t", **SAID)
    assert [("db_row", {**named, "values": {"note": "y"}}), ("db_row_count", {**named, "count": 1})] == [
        (item.evidence_type, item.expected) for item in accepted.evidence_pack.evidence_list
    ]
    assert "resume" == manager.recover("t").verdict


def test_a_row_that_is_no_longer_the_only_one_is_taken_as_one_of_several(manager: CheckpointManager, shop: Path):
    """That it is the only one cannot be claimed any more."""
    execute(shop, "delete from orders where id = 2")
    claim(manager, shop, "db_row", where={"status": "open"}, unique=True)
    execute(shop, "insert into orders values (2, 'open', 'y')")
    assert ("db_row", {"where": {"status": "open"}, "values": {"status": "open"}}) == taken(manager)


def test_what_no_claim_can_carry_is_left_out_and_said(manager: CheckpointManager, shop: Path):
    """The rest of the row is taken; the description names what is not."""
    claim(manager, shop, "db_row", values={"status": "open", "note": "x"})
    execute(shop, "update orders set note = x'00ff' where id = 1")
    accepted = manager.accept("t", **SAID)
    [item] = accepted.evidence_pack.evidence_list
    assert {"status": "open"} == item.expected["values"]
    assert item.description.endswith(", but for note, which no claim can carry")
    assert [item.description] == accepted.metadata["accepted"]["what"]
    assert "resume" == manager.recover("t").verdict


def test_rows_of_a_table_that_is_gone_are_released(manager: CheckpointManager, shop: Path, work: Path):
    """Nothing can be measured, and nothing is claimed; alone it is no ground to go on from."""
    claim(manager, shop, "db_row")
    execute(shop, "drop table orders")
    with pytest.raises(InvalidInputError, match="nothing is left that could be measured"):
        manager.accept("t", **SAID)
    (work / "a").write_text("edited")
    accepted = manager.accept("t", **SAID)
    assert [f'row:{shop}#orders?{{"id": 1}}'] == accepted.evidence_pack.releases
    assert "resume" == manager.recover("t").verdict


def test_a_database_that_cannot_be_read_is_not_accepted(manager: CheckpointManager, shop: Path):
    """What is not known is not taken for anything."""
    claim(manager, shop, "db_row_count", count=1)
    shop.write_text("no database" * 100)
    with pytest.raises(EvidenceUnavailableError, match="what cannot be seen cannot be accepted"):
        manager.accept("t", **SAID)
    assert 2 == len(manager.list_checkpoints("t"))


def test_a_sensitive_claim_stays_sensitive(manager: CheckpointManager, shop: Path, work: Path):
    """Neither what tells the row nor the path of a file is written into a description."""
    claim(manager, shop, "db_row", where={"note": "x"}, values={"status": "open"}, metadata={"sensitive": True})
    execute(shop, "update orders set status = 'hunter2' where id = 1")
    [item] = manager.accept("t", **SAID).evidence_pack.evidence_list
    assert ("accepted: db_row of an order", True) == (item.description, item.metadata["sensitive"])
    assert "hunter2" not in repr(item.result)
    pack = content("a", "1")
    pack.evidence_list[0].metadata["sensitive"] = True
    committed(manager, pack)
    (work / "a").unlink()
    [item] = manager.accept("t", **SAID).evidence_pack.evidence_list
    assert ("artifact_absent", "accepted: content of a", True) == (
        item.evidence_type,
        item.description,
        item.metadata["sensitive"],
    )


def test_what_can_be_measured_again_is_measured_by_the_same_eye(manager: CheckpointManager, work: Path):
    """A claim about the beginning of a file stays one: it may grow on."""
    (work / "log").write_text("one\n")
    wrote(manager, "a", "1")
    committed(manager, EvidencePack([Evidence.capture_prefix("log")]), {"n": 2})
    (work / "log").write_text("two\nthree\n")
    [item] = manager.accept("t", **SAID).evidence_pack.evidence_list
    assert ("file_prefix_sha256", 4) == (item.evidence_type, item.expected["bytes"])
    with (work / "log").open("a") as log:
        log.write("four\n")
    assert "resume" == manager.recover("t").verdict
    (work / "log").unlink()
    [item] = manager.accept("t", **SAID).evidence_pack.evidence_list
    assert "artifact_absent" == item.evidence_type


def test_what_must_hold_at_every_resume_still_must(manager: CheckpointManager, shop: Path):
    """As it was accepted: how long a claim stands is not what was taken."""
    claim(manager, shop, "db_row", values={"status": "open"}, metadata={"lifetime": "task"})
    execute(shop, "update orders set status = 'paid'")
    assert "blocked" == manager.recover("t").verdict
    taken(manager)
    execute(shop, "update orders set status = 'lost'")
    assert "blocked" == manager.recover("t").verdict
