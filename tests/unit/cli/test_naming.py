"""Shortened ids: unique beginnings are understood, others are refused with what was meant perhaps."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agentos._ids import STEP_PREFIX, new_ulid, step_key_of, step_keys_beginning
from agentos.cli.naming import checkpoint_named, restore_named, step_named, task_named
from agentos.core.checkpoints import CheckpointManager
from agentos.errors import AgentosError, CheckpointNotFoundError, InvalidInputError, StoreCorruptError
from tests.support import execute, exists


@pytest.fixture
def manager(tmp_path: Path):
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(tmp_path / "registry.sqlite", tmp_path) as made:
        yield made


def commit(manager: CheckpointManager, task: str = "report-42", name: str | None = None) -> str:
    return manager.commit_step(manager.begin_step(task, "tool_executed", {}), exists("out.txt"), name).checkpoint_id


def refusal(call: Callable[[CheckpointManager, str], str], manager: CheckpointManager, text: str) -> AgentosError:
    with pytest.raises(AgentosError) as caught:
        call(manager, text)
    return caught.value


def test_every_unique_beginning_names_a_checkpoint(manager: CheckpointManager):
    """From the first letter that tells it apart to the whole of it, in small letters too."""
    made = commit(manager)
    assert {made} == {checkpoint_named(manager, made[:length]) for length in range(1, 27)}
    assert made == checkpoint_named(manager, made[:12].lower())


def test_a_beginning_of_several_names_none_and_shows_them(manager: CheckpointManager):
    """Nothing is guessed."""
    ids = [commit(manager) for _ in range(3)]
    told = refusal(checkpoint_named, manager, ids[0][:4])
    assert isinstance(told, InvalidInputError)
    assert "so begin 3 ids" in told.message
    assert all(each in told.hint for each in ids)
    assert ids == [checkpoint_named(manager, each) for each in ids]


def test_a_name_that_begins_another_is_itself(manager: CheckpointManager):
    """Whole ids win over beginnings, for tasks and for checkpoints."""
    for name in ("a", "ab", "abc"):
        commit(manager, f"task-{name}", name)
    assert ["a", "ab", "abc"] == [checkpoint_named(manager, name) for name in ("a", "ab", "abc")]
    assert ["task-a", "task-abc"] == [task_named(manager, name) for name in ("task-a", "task-abc")]


@pytest.mark.parametrize(
    ("call", "typed", "meant"),
    [
        (task_named, "reprot-42", "report-42"),
        (task_named, "report-43", "report-42"),
        (checkpoint_named, "releese", "release"),
    ],
)
def test_a_wrong_id_suggests_near_ones(manager: CheckpointManager, call: Callable[..., str], typed: str, meant: str):
    """Letters swapped, or another end."""
    commit(manager, name="release")
    told = refusal(call, manager, typed)
    assert isinstance(told, CheckpointNotFoundError)
    assert f"did you mean {meant}" in told.hint


def test_a_wrong_end_of_a_made_id_suggests_the_one_that_begins_alike(manager: CheckpointManager):
    """The last letters were copied wrong."""
    made = commit(manager)
    wrong = made[:-2] + ("00" if made[-2:] != "00" else "11")
    assert f"did you mean {made}?" in refusal(checkpoint_named, manager, wrong).hint


def test_a_step_may_leave_out_its_prefix(manager: CheckpointManager):
    """As may a restore; one that is not there is said so."""
    step = manager.begin_step("report-42", "tool_executed", {})
    assert {step} == {step_named(manager, each) for each in (step, step[:-3], step.removeprefix("step_")[:15])}
    assert "restore nope: unknown" == refusal(restore_named, manager, "nope").message


def test_what_was_deleted_is_not_meant(manager: CheckpointManager):
    """Neither by its name nor by a made id."""
    for name in ("release", None):
        made = commit(manager, name=name)
        manager.delete_checkpoint(made)
        assert isinstance(refusal(checkpoint_named, manager, made), CheckpointNotFoundError)


def test_a_step_that_is_begun_is_no_checkpoint(manager: CheckpointManager):
    """Until it is committed its id names a step only."""
    step = manager.begin_step("report-42", "tool_executed", {})
    assert isinstance(refusal(checkpoint_named, manager, step.removeprefix("step_")), CheckpointNotFoundError)


@pytest.mark.parametrize("text", ["", "x" * 600, "a\0b", "\ud800"])
def test_what_can_be_no_id_is_refused_by_name(manager: CheckpointManager, text: str):
    """Before anything is looked up."""
    assert "checkpoint_id" in refusal(checkpoint_named, manager, text).message


def test_a_kind_that_is_none_is_refused(manager: CheckpointManager):
    """With the list."""
    with pytest.raises(InvalidInputError, match="one of task, checkpoint, step, restore"):
        manager.find_ids("row")


def test_damage_is_not_taken_for_absence(manager: CheckpointManager):
    """A checkpoint whose row vanished behind its name's back is no typing error."""
    commit(manager, name="release")
    manager.close()
    execute(manager.db_path, "delete from steps")
    with CheckpointManager(manager.db_path) as again:
        assert isinstance(refusal(checkpoint_named, again, "release"), StoreCorruptError)


def test_hostile_ids_reach_no_terminal(manager: CheckpointManager):
    """What is suggested is escaped."""
    commit(manager, "report-\x1b[31m")
    assert "\x1b" not in str(refusal(task_named, manager, "report-4"))


def test_the_range_of_a_beginning_holds_the_keys_of_all_that_begin_so():
    """And only keys of the same time, down to the millisecond."""
    for made in [new_ulid() for _ in range(50)] + ["0" * 26, "7" + "Z" * 25]:
        key = step_key_of(STEP_PREFIX + made)
        for length in range(27):
            keys = step_keys_beginning(made[:length])
            assert key is not None
            assert keys is not None
            assert keys[0] <= key <= keys[1], (made, length)
    assert None is step_keys_beginning("8") is step_keys_beginning("U") is step_keys_beginning("0" * 27)


def test_finding_an_id_scans_nothing(manager: CheckpointManager):
    """Each query of a beginning is a search of the key that its table is clustered by."""
    import sqlite3

    from agentos.store.registry.sqlite.tables import SQL

    with sqlite3.connect(manager.db_path) as connection:
        for name, given in (
            ("tasks_beginning", ("a", "b", 1)),
            ("restores_beginning", ("a", "b", 1)),
            ("names_beginning", ("a", "b", 1)),
            ("steps_beginning", (1, 2)),
            ("checkpoints_beginning", (1, 2)),
        ):
            plan = [row[3] for row in connection.execute(f"explain query plan {SQL[name]}", given)]
            assert all(step.startswith("SEARCH") for step in plan), (name, plan)
