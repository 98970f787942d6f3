"""Retention: what may go goes and gives its space back; what a kept world stands on stays, and answers stay what they were."""

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, EvidencePack, Pruned, Verdict
from agentos.errors import CheckpointNotFoundError, EvidenceMismatchError, InvalidInputError, StoreBusyError, StoreCorruptError
from tests.support import content, dump, execute, exists, start
from tests.unit.checkpoints.steps import absent, committed, crashed, lasting, wrote

NOTHING = (0, 0, 0, 0, 0)


def counts(pruned: Pruned) -> tuple[int, ...]:
    return pruned.tasks, pruned.checkpoints, pruned.emptied, pruned.abandoned, pruned.verifications


def numbers(manager: CheckpointManager, task: str = "t") -> list[int]:
    return [each.sequence_number for each in manager.list_checkpoints(task, 1000, include_superseded=True)]


def rewrite(manager: CheckpointManager, times: int, task: str = "t") -> None:
    for turn in range(times):
        wrote(manager, "a", str(turn), {"turn": turn}, task=task)


# What goes and what stays.


def test_the_newest_verified_checkpoints_stay(manager: CheckpointManager):
    """So many as were asked for; older ones that nothing stands on are gone."""
    rewrite(manager, 10)
    pruned = manager.prune("t", keep_verified=3)
    assert ((1, 7, 0, 0, 0), False) == (counts(pruned), pruned.dry_run)
    assert [10, 9, 8] == numbers(manager)


def test_by_default_a_hundred_stay(manager: CheckpointManager):
    """A short task loses nothing."""
    rewrite(manager, 5)
    assert NOTHING == counts(manager.prune())
    assert [5, 4, 3, 2, 1] == numbers(manager)


def test_what_is_newer_than_the_kept_stays_verified_or_not(manager: CheckpointManager):
    """Failed checkpoints above the line are the newest news."""
    rewrite(manager, 3)
    committed(manager, exists("never"))
    manager.prune("t", keep_verified=1)
    assert [4, 3] == numbers(manager)


def test_failed_checkpoints_below_the_line_go(manager: CheckpointManager):
    """Nothing stands on them."""
    committed(manager, exists("never"))
    rewrite(manager, 2)
    manager.prune("t", keep_verified=1)
    assert [3] == numbers(manager)


def test_an_unfinished_step_is_never_removed(manager: CheckpointManager, work: Path):
    """Recovery settles it as before."""
    step = crashed(manager, {"first": True}, expects=content("b", "1"))
    rewrite(manager, 5)
    last = crashed(manager, {"n": 6}, expects=content("b", "1"))
    manager.prune(keep_verified=1)
    assert [step, last] == [each.step_id for each in manager.list_open_steps("t")]
    (work / "b").write_text("1")
    assert {"n": 6} == manager.resume("t", {})


def test_a_checkpoint_that_a_kept_world_stands_on_is_only_emptied(manager: CheckpointManager, work: Path):
    """Its snapshot is gone, its claim is in force: a damaged file is still found."""
    wrote(manager, "base", "1")
    rewrite(manager, 5)
    assert (1, 4, 1, 0, 0) == counts(manager.prune("t", keep_verified=1))
    assert {"turn": 4} == manager.recover("t").snapshot
    (work / "base").write_text("damaged")
    found = manager.recover("t")
    assert (Verdict.DIVERGED, ["file:base"]) == (found.verdict, [each.subject for each in found.differences])


def test_an_absence_that_a_kept_world_stands_on_stays_in_force(manager: CheckpointManager, work: Path):
    """The file that was deleted long ago comes back: found."""
    wrote(manager, "gone", "1")
    (work / "gone").unlink()
    committed(manager, absent("gone"))
    rewrite(manager, 3)
    manager.prune("t", keep_verified=1)
    (work / "gone").write_text("back")
    found = manager.recover("t")
    assert ("repair", ["file:gone"]) == (found.verdict, [each.subject for each in found.differences])


@pytest.mark.parametrize("how", ["release", "step"])
def test_a_claim_that_had_ended_does_not_come_back(manager: CheckpointManager, work: Path, how: str):
    """What ended it is removed, and so is what it ended: the file may still become anything."""
    (work / "x").write_text("1")
    (work / "y").write_text("1")
    committed(manager, EvidencePack([*content("x", "1").evidence_list, *content("y", "1").evidence_list]))
    if how == "release":
        committed(manager, EvidencePack(content("y", "1").evidence_list, releases=["file:x"]))
    else:
        committed(manager, EvidencePack([*lasting(content("x", "1"), "step").evidence_list, *exists("y").evidence_list]))
    rewrite(manager, 3)
    (work / "x").unlink()
    before = manager.recover("t").snapshot
    for keep in (3, 2, 1):
        manager.prune("t", keep_verified=keep)
        assert ("resume", before) == (manager.recover("t").verdict, manager.recover("t").snapshot)


def test_a_rewritten_claim_of_a_pack_that_is_still_needed_does_not_come_back(manager: CheckpointManager, work: Path):
    """One of the pack's two files was rewritten by a step that is removed: only the other one is left of it."""
    (work / "x").write_text("1")
    (work / "y").write_text("1")
    committed(manager, EvidencePack([*content("x", "1").evidence_list, *content("y", "1").evidence_list]))
    wrote(manager, "x", "2")
    wrote(manager, "x", "3")
    rewrite(manager, 2)
    manager.prune("t", keep_verified=1)
    assert "resume" == manager.recover("t").verdict
    (work / "x").write_text("1")
    assert ["file:x"] == [each.subject for each in manager.recover("t").differences]


def test_superseded_and_abandoned_steps_go(manager: CheckpointManager, work: Path):
    """What was rolled back past, and what was ended without a checkpoint."""
    first = wrote(manager, "b", "1")
    rewrite(manager, 3)
    manager.abandon_step(crashed(manager))
    manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
    assert (1, 3, 0, 1, 0) == counts(manager.prune("t"))
    assert [1] == numbers(manager)
    assert {"b": "1"} == manager.resume("t", {})


def test_old_verifications_go_and_the_last_stay(manager: CheckpointManager, db: Path):
    """Each checkpoint keeps its newest looks, and the one that is shown."""
    checkpoint = wrote(manager, "a", "1")
    for _ in range(30):
        manager.verify_checkpoint(checkpoint.checkpoint_id)
    pruned = manager.prune()
    assert pruned.verifications > 15
    assert 10 >= len(dump(db)["verifications"])
    shown = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert shown is not None
    assert shown.evidence_pack.is_verified()


def test_the_life_before_a_restart_goes(manager: CheckpointManager):
    """It left the timeline, and nothing stands on it."""
    rewrite(manager, 3)
    manager.restart("t", by="me", reason="again")
    wrote(manager, "b", "1")
    manager.prune("t")
    assert [4] == numbers(manager)
    assert {"b": "1"} == manager.resume("t", {})


def test_only_what_is_older_goes(manager: CheckpointManager, monkeypatch):
    """By the time of its commit."""
    rewrite(manager, 4)
    assert NOTHING == counts(manager.prune(keep_verified=1, older_than=timedelta(hours=1)))
    later = datetime.now(UTC) + timedelta(hours=2)

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return later.astimezone(tz)

    monkeypatch.setattr("agentos.core.checkpoints.recovering.datetime", Later)
    assert (1, 3, 0, 0, 0) == counts(manager.prune(keep_verified=1, older_than=timedelta(hours=1)))


def test_one_task_or_all(manager: CheckpointManager):
    """Without a name every task; each keeps its own newest."""
    for task in "tuv":
        rewrite(manager, 4, task)
    assert 1 == manager.prune("t", keep_verified=1).tasks
    assert [4, 4] == [len(numbers(manager, task)) for task in "uv"]
    assert 2 == manager.prune(keep_verified=2).tasks
    assert [1, 2, 2] == [len(numbers(manager, task)) for task in "tuv"]


def test_pruning_twice_removes_nothing_more(manager: CheckpointManager):
    """The second time there is nothing left to do."""
    wrote(manager, "base", "1")
    rewrite(manager, 5)
    manager.prune(keep_verified=2)
    assert NOTHING == counts(manager.prune(keep_verified=2))


# A dry run, and space.


def test_a_dry_run_says_the_same_and_changes_nothing(manager: CheckpointManager, db: Path):
    """Counts as they would be."""
    wrote(manager, "base", "1")
    rewrite(manager, 6)
    manager.abandon_step(crashed(manager))
    before = dump(db)
    asked = manager.prune(keep_verified=2, dry_run=True)
    assert (before, True, 0) == (dump(db), asked.dry_run, asked.bytes_freed)
    assert counts(asked) == counts(manager.prune(keep_verified=2))


def test_the_space_is_given_back(manager: CheckpointManager, db: Path):
    """The file shrinks, and by as much as is said."""
    for turn in range(40):
        wrote(manager, "a", str(turn), {"text": f"{turn}" * 40_000})

    def size() -> int:
        return sum(path.stat().st_size for path in db.parent.glob("registry.sqlite*") if not path.name.endswith("-shm"))

    before = size()
    pruned = manager.prune(keep_verified=1)
    assert before - pruned.bytes_freed == size()
    assert pruned.bytes_freed > before / 2
    assert "39" == manager.recover("t").snapshot["text"][:2]  # type: ignore[index]


# Answers afterwards.


def test_a_removed_checkpoint_is_gone_and_a_kept_one_is_whole(manager: CheckpointManager):
    """Unknown by its id; names and rollback of the kept are as before."""
    checkpoints = [wrote(manager, "a", str(turn), {"turn": turn}) for turn in range(4)]
    manager.prune(keep_verified=2)
    assert [None, None] == [manager.get_checkpoint(each.checkpoint_id) for each in checkpoints[:2]]
    with pytest.raises(CheckpointNotFoundError):
        manager.rollback_to_checkpoint(checkpoints[0].checkpoint_id)
    assert checkpoints[3] == manager.get_checkpoint(checkpoints[3].checkpoint_id)
    assert {"turn": 3} == manager.rollback_to_checkpoint(checkpoints[3].checkpoint_id)
    with pytest.raises(EvidenceMismatchError, match="recorded"):
        manager.rollback_to_checkpoint(checkpoints[2].checkpoint_id)


def test_walking_back_after_a_prune_ends_at_the_oldest_kept(manager: CheckpointManager, work: Path):
    """And is diverged then, never fresh."""
    rewrite(manager, 5)
    manager.prune(keep_verified=2)
    (work / "a").write_text("3")
    assert {"turn": 3} == manager.resume("t", {})
    (work / "a").write_text("2")
    assert "diverged" == manager.recover("t").verdict


def test_numbers_go_on_after_a_prune(manager: CheckpointManager, db: Path):
    """Never used again, in another process either, and rolling back over the gap works."""
    rewrite(manager, 5)
    manager.prune(keep_verified=1)
    with CheckpointManager(db) as other:
        kept = wrote(other, "b", "1")
        assert 6 == kept.sequence_number
        wrote(other, "b", "2")
        (other.base_path / "b").write_text("1")
        assert {"b": "1"} == other.resume("t", {})
        assert [6, 5] == [each.sequence_number for each in other.list_checkpoints("t")]


def test_a_lost_row_is_noticed_after_a_prune_too(manager: CheckpointManager, db: Path):
    """The gap that pruning left allows for nothing above it."""
    rewrite(manager, 6)
    manager.prune(keep_verified=4)
    assert 1 == execute(db, "delete from steps where place = 5")
    with pytest.raises(StoreCorruptError):
        manager.recover("t")


def test_what_was_claimed_under_two_bases_stays_apart(db: Path, tmp_path: Path, monkeypatch):
    """The same name elsewhere is not what ended the claim."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with CheckpointManager(db) as manager:
            rewrite(manager, 3)
            manager.prune(keep_verified=1)
    with CheckpointManager(db) as manager:
        assert "resume" == manager.recover("t").verdict
        (tmp_path / "one" / "a").write_text("damaged")
        assert "diverged" == manager.recover("t").verdict


def test_a_moved_workspace_is_the_same_after_a_prune(db: Path, tmp_path: Path):
    """Rewritten under another base by a manager that was told of the move: the old claim is over."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with CheckpointManager(db, old) as manager:
        rewrite(manager, 2)
    old.rename(new)
    with CheckpointManager(db, new) as manager:
        wrote(manager, "a", "moved", {"n": 1})
        wrote(manager, "b", "1", {"n": 2})
        manager.prune(keep_verified=1)
        assert {"n": 2} == manager.resume("t", {})


@pytest.mark.parametrize("how", ["release", "step"])
def test_what_a_moved_workspace_let_go_of_does_not_come_back(db: Path, tmp_path: Path, how: str):
    """It was claimed under the old base and ended under the new one, by a step that is pruned."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with CheckpointManager(db, old) as manager:
        wrote(manager, "x", "1")
    old.rename(new)
    with CheckpointManager(db, new) as manager:
        if how == "release":
            (new / "y").write_text("1")
            committed(manager, EvidencePack(content("y", "1").evidence_list, releases=["file:x"]))
        else:
            committed(manager, lasting(content("x", "1"), "step"))
        wrote(manager, "a", "1")
        wrote(manager, "a", "2", {"n": 2})
        (new / "x").unlink()
        assert {"n": 2} == manager.recover("t").snapshot
        manager.prune(keep_verified=1)
        assert {"n": 2} == manager.recover("t").snapshot


def test_pruning_under_writers_loses_nothing(manager: CheckpointManager, db: Path, work: Path):
    """Two processes write while it is pruned again and again; afterwards everything adds up."""
    code = """
import sys
from pathlib import Path
from agentos.core.checkpoints import CheckpointManager
from tests.unit.checkpoints.steps import wrote
with CheckpointManager(sys.argv[1]) as manager:
    for turn in range(40):
        wrote(manager, f"file-{sys.argv[2]}-{turn % 5}", str(turn), {"turn": turn}, task=sys.argv[2])
"""
    writers = [start(code, db, name) for name in "tu"]
    done = threading.Event()

    def watch() -> None:
        for writer in writers:
            writer.wait(60)
        done.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    while not done.is_set():
        with suppress(StoreBusyError):
            manager.prune(keep_verified=2)
    watcher.join()
    for writer in writers:
        said, errors = writer.communicate()
        assert (0, "") == (writer.returncode, said), errors
    manager.prune(keep_verified=2)
    for task in "tu":
        assert ([40, 39], {"turn": 39}) == (
            [each.sequence_number for each in manager.list_checkpoints(task)],
            manager.resume(task, {}),
        )


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"task_id": ""}, "task_id"),
        ({"task_id": 5}, "task_id"),
        ({"keep_verified": 0}, "keep_verified"),
        ({"keep_verified": -1}, "keep_verified"),
        ({"keep_verified": 1.0}, "keep_verified"),
        ({"keep_verified": True}, "keep_verified"),
        ({"older_than": 3600}, "older_than"),
        ({"older_than": timedelta(seconds=-1)}, "older_than"),
        ({"older_than": timedelta.max}, "older_than"),
        ({"dry_run": "no"}, "dry_run"),
        ({"dry_run": None}, "dry_run"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(manager: CheckpointManager, db: Path, arguments: dict, named: str):
    """Every argument of prune; a dry run that was misspelled is not a real one."""
    rewrite(manager, 3)
    before = dump(db)
    with pytest.raises(InvalidInputError, match=named):
        manager.prune(**{"keep_verified": 1, **arguments})
    assert before == dump(db)


def test_a_task_that_nobody_began_is_told(manager: CheckpointManager):
    """A misspelled name prunes nothing."""
    with pytest.raises(CheckpointNotFoundError, match="task nope: nothing was ever begun"):
        manager.prune("nope")


def test_a_verified_checkpoint_that_is_pruned_is_not_named_any_more(manager: CheckpointManager):
    """The newest look at every newer one failed, so the newest verified one is below the line: then there is none."""
    rewrite(manager, 2)
    newest = manager.list_checkpoints("t")[0]
    assert not manager.verify_checkpoint(manager.list_checkpoints("t")[1].checkpoint_id)
    (manager.base_path / "a").write_text("0")
    assert manager.verify_checkpoint(manager.list_checkpoints("t")[1].checkpoint_id)
    assert not manager.verify_checkpoint(newest.checkpoint_id)
    manager.prune("t", keep_verified=1)
    assert [2] == numbers(manager)
    assert manager.get_last_verified_checkpoint("t") is None
    assert manager.get_last_verified_checkpoint("t", "tool_executed") is None
