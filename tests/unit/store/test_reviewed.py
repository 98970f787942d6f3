"""A page costs what it shows: every query is a search of a key or an index, and a longer timeline takes not one step more."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.store.registry.sqlite.tables import SQL
from tests.support import execute, exists

MANY = 1 << 62
PAGES: dict[str, tuple[Any, ...]] = {
    "tasks_after": ("", 10),
    "unfinished_after": ("", 10),
    "task_between": ("a", "b"),
    "count_open_to": (1, "t"),
    "timeline_page": ("t", MANY, 10),
    "newest_at": ("t", 0, MANY, 10),
    "looks_below": ("step_x", 10, 10),
    "decisions_below": ("t", MANY, 10),
    "restores_below": ("t", "~", "~", 10),
    "steps_after": (0, 10),
    "snapshot_size": (1, 2),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def registry_of(folder: Path, count: int, others: int) -> CheckpointManager:
    """A task with so many checkpoints, an open step and one that was looked at again; and so many other tasks before it."""
    manager = CheckpointManager(folder / f"{count}.sqlite", folder, durability="relaxed")
    for number in range(others):
        manager.begin_step(f"other {number:04}", "tool_executed", {})
    made = [manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists(".")) for _ in range(count)]
    manager.verify_checkpoint(made[-1].checkpoint_id)
    manager.begin_step("t", "tool_executed", {})
    return manager


def steps_of(manager: CheckpointManager, work: Callable[[], object]) -> int:
    """How many steps SQLite takes for it: a count, and so the same on every machine."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    connection = manager._registry._database._open()  # type: ignore[attr-defined]
    connection.set_progress_handler(count, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 1)
    return taken


@pytest.mark.parametrize("name", PAGES)
def test_no_page_scans_and_none_sorts(name: str, folder: Path):
    """The plan of each query is a search, and what comes is in order already."""
    with registry_of(folder, 3, 3) as manager, sqlite3.connect(manager.db_path) as connection:
        plan = [row[3] for row in connection.execute(f"explain query plan {SQL[name]}", PAGES[name])]
    assert all(step.startswith("SEARCH") for step in plan), plan


@pytest.mark.parametrize(
    "query", ["select step_key from steps where state = 'begun'", "select * from tasks order by created_at"]
)
def test_a_query_that_scans_is_noticed(query: str, folder: Path):
    """The plan of one that reads everything, or puts it in order first, is no search."""
    with registry_of(folder, 1, 1) as manager, sqlite3.connect(manager.db_path) as connection:
        plan = [row[3] for row in connection.execute(f"explain query plan {query}")]
    assert not all(step.startswith("SEARCH") for step in plan), plan


def questions(manager: CheckpointManager) -> list[Callable[[], object]]:
    """What people ask most, from the top and from the middle."""
    page = manager.task_log("t", limit=5)
    deeper = manager.task_log("t", limit=5, before=page.next).next
    newest = next(event.id for event in page.events if event.kind == "checkpoint")
    return [
        lambda: manager.task_log("t", limit=5),
        lambda: manager.task_log("t", limit=5, before=deeper),
        lambda: manager.task_overview("t"),
        lambda: manager.list_tasks(limit=5, after="other 0007"),
        lambda: manager.list_tasks(limit=5, after="other 0007", unfinished=True),
        lambda: manager.verification_history(newest),
        lambda: manager.compare_checkpoints(newest),
    ]


def test_a_page_takes_as_many_steps_whatever_the_length_of_the_timeline(folder: Path):
    """Of a log from the top and from the middle, of a task at a glance, and of looks; and of tasks however many there are."""
    taken = []
    for count, others in ((40, 20), (400, 200)):
        with registry_of(folder, count, others) as manager:
            taken.append([steps_of(manager, work) for work in questions(manager)])
    assert taken[0] == taken[1]
    assert min(taken[0]) > 0


def test_a_walk_over_everything_is_told_from_a_page(folder: Path):
    """What is known to grow with the timeline does so by this count."""
    taken = []
    for count in (10, 100):
        with registry_of(folder, count, 0) as manager:
            taken.append(steps_of(manager, manager.statistics))
    assert taken[1] > 5 * taken[0]


def test_a_page_of_the_unfinished_reads_past_the_finished_and_no_further(folder: Path):
    """It ends when it is full."""
    with registry_of(folder, 1, 50) as manager:
        full = steps_of(manager, lambda: manager.list_tasks(limit=2, unfinished=True))
        manager.finish_task("other 0000")
        assert full < steps_of(manager, lambda: manager.list_tasks(limit=2, unfinished=True)) < 2 * full


def test_damage_that_a_page_meets_is_served_as_nothing_else(folder: Path):
    """A checkpoint whose number was changed is neither shown in another place, nor left out."""
    with registry_of(folder, 4, 0) as manager:
        execute(manager.db_path, "update steps set place = 9 where place = 3")
        checkpoints = [each for each in manager.task_log("t").events if each.kind == "checkpoint"]
    assert {4: "verified", 3: "damaged", 2: "verified", 1: "verified"} == {
        each.about["sequence_number"]: each.state for each in checkpoints
    }
