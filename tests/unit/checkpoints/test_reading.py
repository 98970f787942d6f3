"""What people read of a registry: pages that lose nothing and repeat nothing, looks over time, and sums that add up."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.events import Event, place_of
from agentos.core.checkpoints.results import EvidenceResult, Outcome
from agentos.core.checkpoints.tallies import Tally
from agentos.errors import CheckpointNotFoundError, InvalidInputError, StoreCorruptError
from tests.support import execute, exists, start
from tests.unit.checkpoints.steps import committed, crashed, wrote


def whole_log(manager: CheckpointManager, task: str, limit: int) -> list[Event]:
    """Every page, one after the other."""
    events: list[Event] = []
    place = None
    while True:
        page = manager.task_log(task, before=place, limit=limit)
        assert len(page.events) <= limit
        events += page.events
        if page.next is None:
            return events
        place = page.next


@pytest.fixture
def busy(manager: CheckpointManager, work: Path) -> CheckpointManager:
    """A task to which everything happened that can."""
    (work / "a").write_text("one")
    first = wrote(manager, "a", "one")
    for number in range(3):
        wrote(manager, "b", f"{number}")
        manager.verify_checkpoint(first.checkpoint_id)
    manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
    gone = crashed(manager)
    manager.abandon_step(gone, by="ann", reason="not needed")
    (work / "a").write_text("two")
    manager.verify_checkpoint(first.checkpoint_id)
    manager.accept("t", by="bob", reason="it is better so")
    removed = wrote(manager, "c", "three")
    wrote(manager, "c", "four")
    manager.delete_checkpoint(removed.checkpoint_id)
    crashed(manager)
    return manager


# Tasks.


def test_pages_of_tasks_lose_none_and_repeat_none(manager: CheckpointManager, work: Path):
    """Whatever the size of a page, all pages together are every task, once, in order."""
    names = sorted(f"task {number}{'x' * number}" for number in range(7))
    for name in names:
        crashed(manager, task=name)
    for limit in (1, 2, 3, 7, 8):
        found: list[str] = []
        after = None
        while True:
            page = manager.list_tasks(after=after, limit=limit)
            found += [task.task_id for task in page.tasks]
            after = page.next
            if after is None:
                break
        assert names == found


def test_finished_tasks_can_be_left_out(manager: CheckpointManager):
    """The page is full all the same."""
    for name in ("a", "b", "c", "d"):
        crashed(manager, task=name)
    manager.finish_task("a")
    manager.finish_task("c")
    page = manager.list_tasks(limit=1, unfinished=True)
    assert (["b"], "b") == ([task.task_id for task in page.tasks], page.next)
    page = manager.list_tasks(limit=1, unfinished=True, after="b")
    assert (["d"], None) == ([task.task_id for task in page.tasks], page.next)


def test_a_task_at_a_glance(busy: CheckpointManager):
    """The newest checkpoint, the newest verified one, and what never ended."""
    task = busy.task_overview("t")
    assert ("active", 7, 1, 0, None) == (task.status, task.newest, task.interrupted, task.running, task.held_by)
    last = busy.get_last_verified_checkpoint("t")
    assert last is not None
    assert task.last_verified is not None
    assert (last.checkpoint_id, 7) == (task.last_verified.checkpoint_id, task.last_verified.sequence_number)
    assert [task] == [*busy.list_tasks().tasks]
    with pytest.raises(CheckpointNotFoundError, match="nobody"):
        busy.task_overview("nobody")


def test_a_step_that_a_living_process_is_in_the_middle_of_is_not_interrupted(manager: CheckpointManager):
    """Neither one that was begun without a claim, nor one of the task's living holder; once they are gone, both are."""
    code = """
import sys
from agentos.core.checkpoints import CheckpointManager
manager = CheckpointManager(sys.argv[1])
manager.begin_step("bare", "tool_executed", {})
lease = manager.claim_task("held", holder="ann")
manager.begin_step("held", "tool_executed", {}, lease=lease)
print("begun", flush=True)
sys.stdin.read()
"""
    with start(code, manager.db_path) as process:
        assert process.stdout is not None
        assert "begun\n" == process.stdout.readline()
        bare, held = manager.list_tasks().tasks
        process.kill()
        process.wait()
    assert (0, 1, None) == (bare.interrupted, bare.running, bare.held_by)
    assert (0, 1, f"process {process.pid} on {os.uname().nodename} (ann)") == (held.interrupted, held.running, held.held_by)
    assert [(1, 0, None)] * 2 == [(each.interrupted, each.running, each.held_by) for each in manager.list_tasks().tasks]


def test_a_damaged_task_is_on_the_page_and_hides_no_other(manager: CheckpointManager, db: Path):
    """It says so; what is intact is shown."""
    for name in ("a", "b", "c"):
        crashed(manager, task=name)
    execute(db, "update tasks set sequence = 5 where task_id = 'b'")
    found = {task.task_id: (task.status, task.interrupted) for task in manager.list_tasks().tasks}
    assert {"a": ("active", 1), "b": ("damaged", 0), "c": ("active", 1)} == found
    assert "the registry is damaged" in manager.task_overview("b").damage


def test_a_task_whose_row_vanished_is_on_the_page(manager: CheckpointManager, db: Path):
    """Its steps are there; so it is not as if it had never been, wherever on a page it was."""
    for name in ("a", "b", "c"):
        crashed(manager, task=name)
    for gone in ("b", "a", "c"):
        execute(db, f"delete from tasks where task_id = '{gone}'")
        tasks = [*manager.list_tasks(limit=2).tasks, *manager.list_tasks(after="b").tasks]
        assert ["a", "b", "c"] == [task.task_id for task in tasks]
        assert "damaged" == next(task.status for task in tasks if task.task_id == gone)


def test_a_verified_checkpoint_that_is_not_what_was_written_is_not_shown_as_verified(manager: CheckpointManager, db: Path):
    """The task's row names it; its own row must agree."""
    wrote(manager, "a", "one")
    execute(db, "update steps set verified = 0")
    assert "damaged" == manager.list_tasks().tasks[0].status


# What happened to a task.


def test_pages_of_a_log_lose_nothing_and_repeat_nothing(busy: CheckpointManager):
    """Whatever the size of a page, all pages together are the same events in the same order."""
    events = whole_log(busy, "t", 1000)
    assert events == sorted(events, key=lambda each: each.at, reverse=True)  # type: ignore[arg-type, return-value]
    for limit in (1, 2, 3, 5, len(events)):
        assert events == whole_log(busy, "t", limit)


def test_a_log_tells_everything_that_happened(busy: CheckpointManager):
    """Checkpoints with what became of them, steps that never ended or were abandoned, and decisions."""
    events = whole_log(busy, "t", 100)
    states = [(each.state, each.about["sequence_number"]) for each in events if each.kind == "checkpoint"]
    assert [
        ("verified", 7), ("deleted", 6), ("verified", 5), ("superseded", 4), ("superseded", 3), ("superseded", 2), ("failed", 1)
    ] == states  # fmt: skip
    assert ["interrupted", "abandoned"] == [each.state for each in events if each.kind == "step"]
    decided = [(each.state, each.about["by"]) for each in events if each.kind == "decision"]
    assert [("accept", "bob"), ("abandon", "ann")] == decided


def test_a_checkpoint_in_a_log_has_its_newest_looks(busy: CheckpointManager):
    """Three of them, newest first, and how many there are."""
    first = whole_log(busy, "t", 100)[-1]
    looks = [(look["number"], look["outcome"]) for look in first.about["newest_verifications"]]
    assert 6 == first.about["verifications"]
    assert [(6, "failed"), (5, "verified"), (4, "verified")] == looks


def test_a_restore_is_in_the_log(manager: CheckpointManager, work: Path):
    """With the checkpoint that it was to, and the one that takes it back after it."""
    with CheckpointManager(manager.db_path, work, keep=True) as keeping:
        found = wrote(keeping, "a", "one")
        (work / "a").write_text("two")
        done = keeping.restore(keeping.plan_restore(found.checkpoint_id))
        undone = keeping.undo_restore(done.restore_id)
        events = whole_log(keeping, "t", 1)
    assert ["restore", "restore", "checkpoint"] == [each.kind for each in events]
    assert [undone.restore_id, done.restore_id] == [each.id for each in events[:2]]
    assert (done.restore_id, None) == (events[0].about["undoes"], events[1].about["undoes"])


def test_a_log_shows_what_is_intact_beside_what_is_not(busy: CheckpointManager, db: Path):
    """A row that was changed and one that vanished are named in their places."""
    execute(db, "update steps set superseded_by = 'nobody' where place = 3")
    execute(db, "delete from steps where place = 2")
    states = {each.about["sequence_number"]: each.state for each in whole_log(busy, "t", 3) if each.kind == "checkpoint"}
    assert {7: "verified", 6: "deleted", 5: "verified", 4: "superseded", 3: "damaged", 2: "damaged", 1: "failed"} == states


def test_what_was_pruned_is_no_damage(manager: CheckpointManager, work: Path):
    """Numbers that are missing because they were pruned are not told."""
    for number in range(6):
        wrote(manager, "a", f"{number}")
    manager.prune("t", keep_verified=2)
    numbers = [each.about["sequence_number"] for each in whole_log(manager, "t", 2)]
    assert ([6, 5], {"verified"}) == (numbers, {each.state for each in whole_log(manager, "t", 10)})


def test_a_decision_that_vanished_is_noticed(busy: CheckpointManager, db: Path):
    """The numbers have no gap."""
    execute(db, "delete from decisions where number = 1")
    with pytest.raises(StoreCorruptError, match="what was decided"):
        busy.task_log("t")


def test_an_open_step_that_the_index_hides_is_noticed(manager: CheckpointManager, db: Path):
    """The task's row knows how many there were when it was last written."""
    crashed(manager)
    wrote(manager, "a", "one")
    assert 1 == manager.task_overview("t").interrupted
    execute(db, "update steps set place = 0 where state = 'begun'")
    assert "damaged" == manager.task_overview("t").status
    with pytest.raises(StoreCorruptError, match="open steps"):
        manager.task_log("t")


@pytest.mark.parametrize("text", ["", "x", "1/2", "1/2/3/4", "1/2/-3", "0/1/1", f"{1 << 80}/1/1", "1/2/3/4/5/6", "٣/1/1"])
def test_what_is_no_place_in_a_log_is_refused(text: str):
    """Rather than a page of something else."""
    with pytest.raises(InvalidInputError, match="no place in a log"):
        place_of(text)


def test_an_unknown_task_has_no_log(manager: CheckpointManager):
    """Nor a page that looks as if nothing had happened."""
    with pytest.raises(CheckpointNotFoundError, match="nobody"):
        manager.task_log("nobody")


# Looks over time.


def test_the_history_of_a_checkpoint_is_every_look_at_it(manager: CheckpointManager, work: Path):
    """With the outcome of each item then, the commit's among them, page by page."""
    found = wrote(manager, "a", "one")
    (work / "a").write_text("two")
    manager.verify_checkpoint(found.checkpoint_id)
    (work / "a").write_text("one")
    manager.verify_checkpoint(found.checkpoint_id)
    history = manager.verification_history(found.checkpoint_id)
    assert [(3, "verified"), (2, "failed"), (1, "verified")] == [(look.number, look.outcome) for look in history]
    assert [None, True] == [history[2].by, history[1].by is not None]
    assert "expected sha256" in (history[1].results[0].message if history[1].results[0] else "")
    assert history[1:2] == manager.verification_history(found.checkpoint_id, before=3, limit=1)
    with pytest.raises(CheckpointNotFoundError):
        manager.verification_history("nobody")


def test_a_checkpoint_that_nobody_looked_at_has_no_history(db: Path, work: Path):
    """And the first look at it is number one, and has its time and its outcome."""
    with CheckpointManager(db, work, auto_verify=False) as manager:
        found = committed(manager, exists("gone"))
        assert [] == manager.verification_history(found.checkpoint_id)
        manager.verify_checkpoint(found.checkpoint_id)
        assert [(1, "failed")] == [(look.number, look.outcome) for look in manager.verification_history(found.checkpoint_id)]


def test_a_look_that_vanished_is_noticed_and_a_pruned_one_is_not(manager: CheckpointManager, work: Path, db: Path):
    """The newest ten are never pruned."""
    found = wrote(manager, "a", "one")
    for _ in range(14):
        manager.verify_checkpoint(found.checkpoint_id)
    wrote(manager, "b", "two")
    manager.prune("t", older_than=timedelta(0))
    kept = [look.number for look in manager.verification_history(found.checkpoint_id)]
    assert [*range(15, 5, -1), 1] == kept
    execute(db, "delete from verifications where number = 9")
    with pytest.raises(StoreCorruptError, match="its verifications"):
        manager.verification_history(found.checkpoint_id)


# What changed.


def test_what_was_rolled_back_past_is_compared_by_its_own_claims(manager: CheckpointManager, work: Path):
    """It stands in no later world, and said what it said all the same; that more is not known is told."""
    first = wrote(manager, "a", "one")
    later = wrote(manager, "b", "two")
    manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
    found = manager.compare_checkpoints(later.checkpoint_id, files=True)
    assert [("b", "claimed")] == [(each.path, each.change) for each in found.files or ()]
    assert "number 2 is not on the timeline" in found.notes[0]
    assert found.before is not None
    assert first.checkpoint_id == found.before.checkpoint_id


def test_what_a_tree_held_is_not_known_where_its_manifest_is_nowhere(manager: CheckpointManager, work: Path):
    """That is a note, and no file that was removed."""
    for text in ("one", "two"):
        (work / "folder").mkdir(exist_ok=True)
        (work / "folder" / "a").write_text(text)
        claim = Evidence.capture_tree("folder", base_path=work)
        del claim.metadata["manifest"]
        committed(manager, EvidencePack([claim]))
    found = manager.compare_checkpoints(manager.list_checkpoints("t")[0].checkpoint_id, files=True)
    assert ((), 2) == (found.files, sum("was not kept" in note for note in found.notes))


# Sums.


def test_statistics_add_up(busy: CheckpointManager, work: Path):
    """What is counted is what was looked at: by type, by subject, and by whole checkpoint."""
    secret = Evidence(EvidenceType.ARTIFACT_EXISTS, "a secret", {"path": "hidden-name"}, {"sensitive": True})
    committed(busy, EvidencePack([secret]), task="other")
    found = busy.statistics()
    looks = sum(len(busy.verification_history(each.checkpoint_id)) for task in ("t", "other")
                for each in busy.list_checkpoints(task, include_superseded=True))  # fmt: skip
    # One more, of the checkpoint that was deleted since.
    assert looks + 1 == sum(found.looks.values())
    assert (2, {"abandoned": 1, "begun": 1, "committed": 8}, 3) == (found.tasks, found.steps, found.superseded)
    for tallies in (found.types, found.subjects):
        assert all(each.looks == each.verified + each.failed + each.error for each in tallies)
    assert sum(each.looks for each in found.types) == sum(each.looks for each in found.subjects)
    by_subject = {(each.evidence_type, each.subject): (each.verified, each.failed) for each in found.subjects}
    assert ((6, 1), (3, 0)) == (by_subject["file_sha256", "file:a"], by_subject["file_sha256", "file:b"])
    assert (0, 1) == by_subject["artifact_exists", "(sensitive)"]
    assert "hidden-name" not in str(found.to_dict())
    assert [1, 1, 0] == [each.failed for each in found.subjects[:3]]
    assert found.sizes.registry > found.sizes.snapshots >= found.sizes.largest_snapshot > 0


def test_statistics_tell_how_far_they_are(busy: CheckpointManager):
    """What was read so far, up to all of it."""
    told: list[tuple[str, int, int]] = []
    found = busy.statistics(progress=lambda *each: told.append(each))
    assert ("steps", sum(found.steps.values()), 0) == told[-1]


def test_statistics_count_what_is_flaky():
    """A claim that verified only after an earlier try had failed is verified, and counted as flaky."""
    tally = Tally("network_reachable")
    tally.add(EvidenceResult(Outcome.VERIFIED, "OK", flaky=True, duration_ms=30.0), "2026-01-02")
    tally.add(EvidenceResult(Outcome.ERROR, "TIMED_OUT", duration_ms=10.0), "2026-01-01")
    told = tally.to_dict()
    assert (2, 1, 0, 1, 1, 20.0, 30.0) == tuple(
        told[name] for name in ("looks", "verified", "failed", "error", "flaky", "mean_ms", "slowest_ms")
    )
    assert "2026-01-01" == told["last_trouble_at"]


def test_reading_changes_nothing(busy: CheckpointManager, db: Path):
    """A manager that only looks answers all of it, and the file stays as it was."""
    busy.close()
    before = db.read_bytes()
    with CheckpointManager(db, readonly=True) as looking:
        events = whole_log(looking, "t", 4)
        newest = events[1].id if events[0].kind == "step" else events[0].id
        looking.list_tasks()
        looking.statistics()
        looking.verification_history(newest)
        looking.compare_checkpoints(newest, files=True)
    assert (before, ["registry.sqlite"]) == (db.read_bytes(), [each.name for each in db.parent.glob("registry*")])
