"""What was kept is put back before a task goes on, what that overwrites is kept too, and everything says so."""

import hashlib
from pathlib import Path

import pytest

from agentos.core.checkpoints import Checkpoint, CheckpointManager, Evidence, EvidencePack, Verdict
from agentos.core.checkpoints.needs import Needs
from agentos.errors import (
    CheckpointNotFoundError,
    InvalidInputError,
    NotSafeToResumeError,
    RestoreRefusedError,
    TaskHeldError,
)
from tests.support import start
from tests.unit.checkpoints.steps import crashed


def wrote(manager: CheckpointManager, name: str, text: str) -> Checkpoint:
    """A step through the handle, which keeps what it proves."""
    with manager.task("t").step("tool_executed", {name: text}) as step:
        Path(name).write_text(text)
        step.proves_file(name)
    assert step.checkpoint is not None
    return step.checkpoint


def removed(manager: CheckpointManager, work: Path, name: str) -> None:
    with manager.task("t").step("tool_executed", {}) as step:
        (work / name).unlink()
        step.proves_absent(name)


def test_a_half_written_file_is_put_back_and_what_was_there_can_be_got_back(manager: CheckpointManager, work: Path):
    """The call that `explain` prints brings back every byte."""
    wrote(manager, "a", "the proven content")
    crashed(manager)
    (work / "a").write_text("half")
    task = manager.task("t")
    assert task.resume({}, repair=True)
    assert "the proven content" == (work / "a").read_text()
    assert task.recovery is not None
    [done] = task.recovery.restored
    assert done.verified
    said = task.recovery.explain()
    call = f"manager.undo_restore({done.restore_id!r})"
    assert call in said
    task.release()
    eval(call, {"manager": manager})
    assert "half" == (work / "a").read_text()


def test_everything_is_put_back_in_one_restore(manager: CheckpointManager, work: Path):
    """Missing, changed, a folder in the place of a file, and a file that came back."""
    for name in ("missing", "changed", "folder", "back"):
        wrote(manager, name, name)
    removed(manager, work, "back")
    (work / "missing").unlink()
    (work / "changed").write_text("!")
    (work / "folder").unlink()
    (work / "folder").mkdir()
    (work / "back").write_text("again")
    found = manager.recover("t")
    assert Verdict.REPAIR == found.verdict
    assert found.plan is not None
    assert {"missing": "create", "changed": "overwrite", "folder": "overwrite", "back": "delete"} == {
        each.path: each.action.value for each in found.plan.operations
    }
    manager.resume("t", {}, repair=True)
    assert ["changed", "folder", "missing"] == sorted(path.name for path in work.iterdir())
    assert all((work / name).read_text() == name for name in ("missing", "changed", "folder"))


def test_without_repair_nothing_is_touched(manager: CheckpointManager, work: Path):
    wrote(manager, "a", "1")
    (work / "a").write_text("2")
    with pytest.raises(NotSafeToResumeError, match="can be put back") as refusal:
        manager.resume("t", {})
    assert refusal.value.recovery.plan.paths("overwrite") == ["a"]
    assert "2" == (work / "a").read_text()
    assert [] == manager.restores("t")


def test_what_was_not_kept_walks_back_and_says_so(db: Path, work: Path):
    """A file beyond the limit can be proven and not put back: the older checkpoint is found, and why is told."""
    with CheckpointManager(db, keep_limit=4) as manager:
        wrote(manager, "a", "ok")
        wrote(manager, "b", "too large to be kept")
        (work / "b").write_text("!")
        task = manager.task("t")
        task.resume({}, repair=True)
        assert task.recovery is not None
        assert (Verdict.RESUME, 1) == (task.recovery.verdict, task.recovery.checkpoint.sequence_number)
        assert "!" == (work / "b").read_text()


def test_a_row_that_differs_is_named_as_not_restorable(manager: CheckpointManager, work: Path, tmp_path: Path):
    """Files would be, but not all of what differs is."""
    import sqlite3

    connection = sqlite3.connect(tmp_path / "other.db")
    with connection:
        connection.execute("create table jobs (id, state)")
        connection.execute("insert into jobs values (1, 'done')")
    with manager.task("t").step("tool_executed", {}) as step:
        (work / "a").write_text("1")
        step.proves_file("a")
        step.proves_row("jobs", {"id": 1}, db_path=tmp_path / "other.db")
    (work / "a").write_text("2")
    with connection:
        connection.execute("update jobs set state = 'lost'")
    connection.close()
    assert step.checkpoint is not None
    plan = manager.plan_restore(step.checkpoint.checkpoint_id)
    assert ["a"] == plan.paths("overwrite")
    [cannot] = plan.cannot
    assert cannot.subject.startswith("row:")
    assert "not put back" in cannot.why
    assert "diverged" == manager.recover("t").verdict


def test_leftovers_of_what_is_rolled_back_move_into_the_safety_copy(manager: CheckpointManager, work: Path):
    """What a superseded step left behind goes; what somebody changed since then stays, and is told of."""
    wrote(manager, "a", "1")
    with manager.task("t").step("tool_executed", {}) as step:
        for name in ("left", "edited"):
            (work / name).write_text(name)
            step.proves_file(name)
        (work / "b").write_text("b")
        step.proves_file("b", keep=False)
    (work / "b").unlink()
    (work / "edited").write_text("by a human")
    task = manager.task("t")
    task.resume({}, repair=True)
    assert task.recovery is not None
    assert ["a", "edited"] == sorted(path.name for path in work.iterdir())
    assert [["left"]] == [each.plan.paths("delete") for each in task.recovery.restored]
    assert "file:edited" in task.recovery.explain()
    task.release()
    manager.undo_restore(task.recovery.restored[0].restore_id)
    assert "left" == (work / "left").read_text()


def killed_in_a_restore(db: Path, call: str, before: str) -> None:
    """By its own hand, before this is called: a function of a class, by its module."""
    module, _, name = before.partition(":")
    owner, _, function = name.partition(".")
    code = (
        "import os, signal, sys\nfrom agentos.core.checkpoints import CheckpointManager\n"
        f"from {module} import {owner}\n"
        f"{owner}.{function} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"CheckpointManager(sys.argv[1]).{call}"
    )
    with start(code, db) as process:
        process.communicate()
    assert -9 == process.returncode


def test_an_undo_that_was_killed_is_ended_and_made_by_the_next(db: Path, work: Path):
    """What it had moved by then is put back before the next one looks at what is there."""
    with CheckpointManager(db) as manager:
        wrote(manager, "a", "1")
        (work / "a").write_text("2")
        manager.resume("t", {}, repair=True)
        [done] = manager.restores("t")
    killed_in_a_restore(db, f"undo_restore('{done.restore_id}')", before="agentos.vault.staging:Staging.give")
    assert not (work / "a").exists()
    with CheckpointManager(db) as manager:
        assert manager.undo_restore(done.restore_id).verified
        assert ("2", ["a"]) == ((work / "a").read_text(), [path.name for path in work.iterdir()])
        assert ["done", "undone", "done"] == [each.state for each in manager.restores("t")]


def test_a_restore_that_was_killed_is_settled_by_the_next_resume(db: Path, work: Path):
    """Killed after it took the first thing away: everything is taken back, told of, and done again."""
    with CheckpointManager(db) as manager:
        wrote(manager, "a", "1")
    (work / "a").write_text("2")
    killed_in_a_restore(db, "resume('t', {}, repair=True)", before="agentos.vault.staging:Staging.give")
    with CheckpointManager(db) as manager:
        [stored] = manager.restores("t")
        assert stored.ended_at is None
        task = manager.task("t")
        task.resume({}, repair=True)
        assert task.recovery is not None
        assert "was interrupted: everything is as it was before" in task.recovery.explain()
        assert "1" == (work / "a").read_text()
        assert ["a"] == sorted(path.name for path in work.iterdir())
        assert ["undone", "done"] == [each.state for each in manager.restores("t")]


def test_what_a_restore_overwrote_is_told_until_somebody_went_on(db: Path, work: Path):
    """Killed after everything was put back and before anybody read of it: the next resume says how to get it back."""
    with CheckpointManager(db) as manager:
        wrote(manager, "a", "1")
        (work / "a").write_text("by a human")
        with manager.task("t") as task:
            task.resume({}, repair=True)
    with CheckpointManager(db) as manager:
        [stored] = manager.restores("t")
        task = manager.task("t")
        task.resume({}, repair=True)
        assert task.recovery is not None
        call = f"manager.undo_restore({stored.restore_id!r})"
        assert call in task.recovery.explain()
        task.release()
        assert call in manager.recover("t").explain()
        crashed(manager)
        assert call in manager.recover("t").explain()
        eval(call, {"manager": manager})
        assert "by a human" == (work / "a").read_text()
        assert call not in manager.recover("t").explain()
        with manager.task("t") as task:
            task.resume({}, repair=True)
            assert manager.restores("t")[-1].restore_id in task.recovery.explain()
            with task.step("tool_executed", {}) as step:
                step.proves_file("a")
        assert "undo_restore" not in manager.recover("t").explain()


@pytest.mark.parametrize("something_else_is_there", [False, True])
def test_a_restore_that_was_killed_is_settled_where_the_workspace_is_now(
    db: Path, work: Path, tmp_path: Path, something_else_is_there: bool
):
    """It moved since; what is at its old place is not touched, and undoing works where it is too."""
    with CheckpointManager(db) as manager:
        wrote(manager, "a", "1")
    (work / "a").write_text("2")
    killed_in_a_restore(db, "resume('t', {}, repair=True)", before="agentos.vault.staging:Staging.give")
    work.rename(tmp_path / "moved")
    if something_else_is_there:
        work.mkdir()
    with CheckpointManager(db, base_path=tmp_path / "moved") as manager:
        manager.resume("t", {}, repair=True)
        assert {"a": "1"} == {path.name: path.read_text() for path in (tmp_path / "moved").iterdir()}
        if something_else_is_there:
            assert [] == list(work.iterdir())
        else:
            (tmp_path / "moved").rename(tmp_path / "again")
            with CheckpointManager(db, base_path=tmp_path / "again") as there:
                there.undo_restore(there.restores("t")[-1].restore_id)
            assert "2" == (tmp_path / "again" / "a").read_text()


# By hand.


def test_any_checkpoint_can_be_put_back_by_hand_and_undone(manager: CheckpointManager, work: Path):
    first = wrote(manager, "a", "1")
    wrote(manager, "a", "2")
    plan = manager.plan_restore(first.checkpoint_id)
    assert (["a"], 1, True) == (plan.paths("overwrite"), plan.bytes, plan.is_complete)
    assert "2" == (work / "a").read_text()
    done = manager.restore(plan)
    assert done.verified
    assert "1" == (work / "a").read_text()
    undone = manager.undo_restore(done.restore_id)
    assert (done.restore_id, "2") == (undone.plan.undoes, (work / "a").read_text())
    manager.undo_restore(undone.restore_id)
    assert "1" == (work / "a").read_text()


def test_a_plan_is_refused_once_the_world_moved(manager: CheckpointManager, work: Path):
    first = wrote(manager, "a", "1")
    (work / "a").write_text("2")
    plan = manager.plan_restore(first.checkpoint_id)
    (work / "a").write_text("3")
    with pytest.raises(RestoreRefusedError, match="a: "):
        manager.restore(plan)
    assert "3" == (work / "a").read_text()


def test_only_part_of_a_plan(manager: CheckpointManager, work: Path):
    wrote(manager, "a", "1")
    second = wrote(manager, "b", "1")
    for name in ("a", "b"):
        (work / name).write_text("2")
    done = manager.restore(manager.plan_restore(second.checkpoint_id).only("b"))
    assert not done.verified
    assert ("2", "1") == ((work / "a").read_text(), (work / "b").read_text())


def test_part_of_a_plan_brings_the_folders_that_it_needs(manager: CheckpointManager, work: Path):
    """A folder that was taken away, and one in whose place a file was put back; nothing else of the plan."""
    tree = work / "tree"
    tree.mkdir()
    (tree / "file").write_text("proven")
    with manager.task("t", workspace=tree) as task:
        task.resume({})
    (tree / "file").unlink()
    for name in ("file", "more"):
        (tree / name).mkdir()
        for each in "ab":
            (tree / name / each).write_text("by a human")
    with manager.task("t", workspace=tree) as task:
        task.resume({}, repair=True)
        assert task.recovery is not None
        [done] = task.recovery.restored
    assert ["file"] == [path.name for path in tree.iterdir()]
    manager.restore(manager.plan_undo(done.restore_id).only("more/a"))
    assert (["a"], "proven") == ([path.name for path in (tree / "more").iterdir()], (tree / "file").read_text())
    manager.restore(manager.plan_undo(done.restore_id).only("file/b"))
    assert ["b"] == [path.name for path in (tree / "file").iterdir()]


def test_nothing_is_restored_under_a_living_holder(manager: CheckpointManager, work: Path):
    first = wrote(manager, "a", "1")
    (work / "a").write_text("2")
    plan = manager.plan_restore(first.checkpoint_id)
    with manager.task("t") as task:
        with pytest.raises(NotSafeToResumeError):
            task.resume({})
        lease = manager.claim_task("t")
        with pytest.raises(TaskHeldError):
            manager.restore(plan)
        manager.restore(plan, lease=lease)
    assert "1" == (work / "a").read_text()


def test_what_another_task_claims_is_never_touched(manager: CheckpointManager, work: Path):
    """The newest word of a living task protects its file; a finished task protects nothing."""
    first = wrote(manager, "a", "1")
    with manager.task("other").step("tool_executed", {}) as step:
        (work / "a").write_text("theirs")
        step.proves_file("a")
    plan = manager.plan_restore(first.checkpoint_id)
    assert [("a", "task other claims it")] == [(each.subject, each.why) for each in plan.cannot]
    assert "diverged" == manager.recover("t").verdict
    manager.finish_task("other")
    assert "repair" == manager.recover("t").verdict


@pytest.mark.parametrize("name", ["alias/a", "work/link"])
def test_what_another_task_claims_is_never_touched_by_whatever_name(
    manager: CheckpointManager, work: Path, tmp_path: Path, name: str
):
    """A folder or a file that a link leads to is claimed through the link."""
    first = wrote(manager, "a", "1")
    (tmp_path / "alias").symlink_to("work")
    (work / "link").symlink_to("a")
    with manager.at(tmp_path / Path(name).parent).task("other").step("tool_executed", {}) as step:
        (work / "a").write_text("theirs")
        step.proves_file(Path(name).name)
    plan = manager.plan_restore(first.checkpoint_id)
    assert [("a", "task other claims it")] == [(each.subject, each.why) for each in plan.cannot]


def test_what_another_task_claims_is_never_touched_by_an_undo_either(manager: CheckpointManager, work: Path):
    """What a restore overwrote may have become somebody else's place since."""
    first = wrote(manager, "a", "1")
    (work / "a").write_text("a stranger's")
    done = manager.restore(manager.plan_restore(first.checkpoint_id))
    with manager.task("other").step("tool_executed", {}) as step:
        (work / "a").write_text("theirs")
        step.proves_file("a")
    plan = manager.plan_undo(done.restore_id)
    assert [("a", "task other claims it")] == [(each.subject, each.why) for each in plan.cannot]
    manager.undo_restore(done.restore_id)
    assert "theirs" == (work / "a").read_text()
    manager.finish_task("other")
    manager.undo_restore(done.restore_id)
    assert "a stranger's" == (work / "a").read_text()


def test_what_lies_outside_is_named(manager: CheckpointManager, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.write_text("1")
    pack = EvidencePack([Evidence.capture_file(outside)])
    pack.evidence_list[0].metadata["keep"] = True
    found = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    outside.write_text("2")
    [cannot] = manager.plan_restore(found.checkpoint_id).cannot
    assert "outside" in cannot.why
    assert "2" == outside.read_text()


def test_bad_input_is_named(manager: CheckpointManager):
    with pytest.raises(CheckpointNotFoundError, match="checkpoint nope: unknown"):
        manager.plan_restore("nope")
    with pytest.raises(InvalidInputError, match="restore takes what plan_restore"):
        manager.restore("nope")  # type: ignore[arg-type]
    with pytest.raises(RestoreRefusedError, match="there is none"):
        manager.undo_restore("nope")


# What takes the space.


def test_a_step_that_is_removed_while_somebody_collects_needs_nothing(manager: CheckpointManager, work: Path):
    """It was open when what is needed was asked for, and is asked about again when it is there no more."""
    wrote(manager, "a", "1")
    (work / "b").write_text("before")
    step_id = crashed(manager, touches=["b"])
    needs = Needs(manager._registry, manager._hands())
    digest = hashlib.sha256(b"before").hexdigest()
    assert digest in set(needs())
    manager.abandon_step(step_id)
    manager.prune("t", keep_verified=1)
    assert manager.get_step(step_id) is None
    assert digest not in set(needs())


def test_only_what_nothing_needs_is_collected(manager: CheckpointManager, work: Path):
    """Superseded checkpoints need nothing; the timeline, safety copies and open steps do."""
    first = wrote(manager, "a", "one")
    wrote(manager, "a", "two")
    (work / "b").write_text("touched")
    manager.begin_step("t", "tool_executed", {}, touches=["b"])
    manager.restore(manager.plan_restore(first.checkpoint_id))
    assert 0 == manager.collect(dry_run=True).contents
    manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
    # "two" was overwritten by the restore: it is a safety copy.
    assert 0 == manager.collect().contents
    wrote(manager, "c", "three")
    manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
    assert (1, True) == ((dry := manager.collect(dry_run=True)).contents, dry.dry_run)
    report = manager.vault_report()
    assert (report.bytes, report.unneeded) == (dry.kept_bytes + dry.bytes, dry.bytes)
    assert {"t"} == set(report.tasks)
    assert (1, 3) == ((done := manager.collect()).contents, done.kept)
    assert () == done.missing
    with pytest.raises(InvalidInputError, match="dry_run"):
        manager.collect(dry_run=1)  # type: ignore[arg-type]


def test_what_holds_elsewhere_keeps_nothing_from_being_put_back(manager: CheckpointManager, work: Path, tmp_path: Path):
    """A claim outside the workspace that holds is none of the repair's business; one that differs is."""
    outside = tmp_path / "outside"
    outside.write_text("there")
    with manager.task("t").step("tool_executed", {}) as step:
        (work / "a").write_text("1")
        step.proves_file("a")
        step.proves_file(outside)
    (work / "a").write_text("2")
    assert Verdict.REPAIR == manager.recover("t").verdict
    outside.write_text("changed")
    found = manager.recover("t")
    assert Verdict.DIVERGED == found.verdict
    assert any("outside" in note and "lies outside" in note for note in found.notes)


def test_what_need_not_hold_keeps_nothing_from_being_put_back(manager: CheckpointManager, work: Path):
    """Of a step of which one file is enough, the other one was not kept and is gone: that is still enough."""
    for name in ("one", "other"):
        (work / name).write_text(name)
    claims = [Evidence.capture_file(name, base_path=work) for name in ("one", "other")]
    pack = EvidencePack(claims, require_all=False, allow_partial=True, min_verified=1)
    manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    wrote(manager, "a", "1")
    (work / "other").unlink()
    (work / "a").write_text("2")
    assert Verdict.REPAIR == manager.recover("t").verdict
    manager.resume("t", {}, repair=True)
    assert ("1", False) == ((work / "a").read_text(), (work / "other").exists())


def test_a_workspace_that_cannot_be_seen_is_reported_though_something_else_differs(
    manager: CheckpointManager, work: Path, tmp_path: Path
):
    """Recover answers; it does not raise because the folder to put things back in is not there."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "b").write_text("1")
    with CheckpointManager(manager.db_path, other) as there, there.task("t").step("tool_executed", {}) as step:
        step.proves_file("b", keep=True)
    wrote(manager, "a", "1")
    (other / "b").write_text("2")
    work.rename(tmp_path / "unmounted")
    with CheckpointManager(manager.db_path) as again:
        found = again.recover("t")
    assert Verdict.REPAIR == found.verdict
    assert 1 == found.checkpoint.sequence_number
    assert any("cannot be opened" in note for note in found.notes)
