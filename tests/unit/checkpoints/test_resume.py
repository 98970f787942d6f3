"""resume() acts on what recover() found: a state that was measured just now, or a refusal that says why."""

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentos.core.checkpoints import CheckpointManager, Task, Verdict
from agentos.errors import (
    InvalidInputError,
    LeaseLostError,
    NotSafeToResumeError,
    SnapshotError,
    StepAlreadyCommittedError,
    TaskFinishedError,
    TaskHeldError,
)
from tests.support import content, dump, exists, run, start
from tests.unit.checkpoints.steps import committed, crashed, hide, lasting, show, wrote


class Plan(BaseModel):
    """A pydantic state."""

    done: list[str] = []
    n: int = 0


@dataclass
class Notes:
    """A dataclass state."""

    done: list[str] = field(default_factory=list)
    n: int = 0


@dataclass
class Needy:
    """A state that cannot be made without being told something."""

    n: int


def refused(manager: CheckpointManager, task: str = "t", **options: Any) -> str:
    with pytest.raises(NotSafeToResumeError) as error:
        manager.resume(task, {}, **options)
    assert error.value.recovery.verdict == error.value.diagnostics()["verdict"]
    return str(error.value.recovery.verdict.value)


# Each row of the table.


def test_fresh_gives_the_default_and_ends_what_began(manager: CheckpointManager):
    """Nothing was committed: the default, and the steps that began are listed, ended, and can no longer be committed."""
    step = crashed(manager)
    handle = manager.task("t")
    assert {"n": 0} == handle.resume({"n": 0})
    assert handle.recovery is not None
    assert (Verdict.FRESH, [step]) == (handle.recovery.verdict, [each.step_id for each in handle.recovery.interrupted])
    stored = manager.get_step(step)
    assert stored is not None
    assert "abandoned" == stored.state
    with pytest.raises((StepAlreadyCommittedError, LeaseLostError)):
        manager.commit_step(step, content("a", "1"))


def test_resume_gives_the_snapshot_of_the_newest_that_holds(manager: CheckpointManager):
    """The state after the step, as it was committed."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1", {"deep": {"n": [1, 2]}})
    assert {"deep": {"n": [1, 2]}} == manager.resume("t", {})


def test_newer_ones_are_superseded_before_resume_returns(manager: CheckpointManager, db: Path, work: Path):
    """Another process sees the timeline end where the task goes on; what was rolled back past is kept."""
    wrote(manager, "a", "1")
    older = wrote(manager, "b", "1")
    newer = wrote(manager, "a", "2")
    (work / "a").write_text("1")
    assert {"b": "1"} == manager.resume("t", {})
    with CheckpointManager(db) as other:
        assert [2, 1] == [each.sequence_number for each in other.list_checkpoints("t")]
        kept = other.get_checkpoint(newer.checkpoint_id)
        assert kept is not None
        assert older.checkpoint_id == kept.superseded_by


def test_what_was_rolled_back_past_never_comes_back(manager: CheckpointManager, work: Path):
    """Once the task went on from an older checkpoint, the files of the dead branch being right again change nothing."""
    wrote(manager, "a", "1")
    wrote(manager, "a", "2", {"dead": True})
    (work / "a").write_text("1")
    manager.resume("t", {})
    (work / "a").write_text("2")
    assert "diverged" == refused(manager)


def test_superseding_survives_the_death_of_the_process_right_after(db: Path, work: Path):
    """What resume decided is on the disk when it returns."""
    with CheckpointManager(db) as manager:
        wrote(manager, "a", "1")
        wrote(manager, "a", "2")
        (work / "a").write_text("1")
    code = (
        "import os, sys\nfrom agentos.core.checkpoints import CheckpointManager\n"
        "assert {'a': '1'} == CheckpointManager(sys.argv[1]).task('t').resume({})\nos._exit(0)"
    )
    run(code, db)
    with CheckpointManager(db) as manager:
        assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]
        assert {"a": "1"} == manager.resume("t", {})


def test_repair_is_refused_with_its_plan_even_if_an_older_one_holds(manager: CheckpointManager, work: Path):
    """Where everything that differs can be put back, walking back would throw good work away."""
    wrote(manager, "a", "1")
    with manager.task("t").step("tool_executed", {"b": "1"}) as step:
        (work / "b").write_text("1")
        step.proves_file("b")
    (work / "b").unlink()
    found = manager.recover("t")
    assert (Verdict.REPAIR, None, [True]) == (found.verdict, found.snapshot, [each.restorable for each in found.differences])
    assert found.plan is not None
    assert ["b"] == found.plan.paths("create")
    assert "manager.resume('t', default, repair=True)" == found.options[0]
    assert "it can be put back" in found.explain()
    assert "repair" == refused(manager)
    assert not (work / "b").exists()


def test_nothing_is_called_repairable_that_nobody_can_put_back(manager: CheckpointManager, work: Path):
    """Without a vault there is no repair: the same loss is diverged, also with repair=True."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    assert "diverged" == refused(manager, repair=True)


def test_diverged_is_refused_and_changes_nothing(manager: CheckpointManager, work: Path):
    """No checkpoint is superseded by a refusal, and no step is ended."""
    wrote(manager, "a", "1")
    step = crashed(manager)
    (work / "a").unlink()
    assert "diverged" == refused(manager)
    assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]
    assert [step] == [each.step_id for each in manager.list_open_steps("t")]


def test_a_refusal_says_what_it_found_and_what_can_be_done(manager: CheckpointManager, work: Path):
    """The message is the first line of the explanation, the hint the calls that are left, and the recovery is attached."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    with pytest.raises(NotSafeToResumeError) as error:
        manager.resume("t", {})
    assert error.value.message == error.value.recovery.explain().splitlines()[0]
    assert "manager.accept('t', by=…, reason=…); manager.restart('t', by=…, reason=…)" in error.value.hint
    assert error.value.diagnostics()["recovery"] == error.value.recovery.to_dict()


def test_uncertain_is_refused_until_somebody_settles_it(manager: CheckpointManager):
    """A step that must not run twice is neither repeated nor skipped on a guess."""
    wrote(manager, "a", "1")
    step = crashed(manager, rerunnable=False)
    assert "uncertain" == refused(manager)
    assert "uncertain" == refused(manager, wait=30)
    manager.resolve_step(step, "not_landed", by="me", reason="I looked")
    assert {"a": "1"} == manager.resume("t", {})


def test_blocked_is_refused_at_once_without_wait(manager: CheckpointManager, work: Path):
    """What could not be checked is refused, and a try later finds it."""
    (work / "sub").mkdir()
    wrote(manager, "sub/a", "1")
    hide(work / "sub")
    assert "blocked" == refused(manager)
    show(work / "sub")
    assert {"sub/a": "1"} == manager.resume("t", {})


def test_blocked_waits_until_it_can_be_checked(manager: CheckpointManager, work: Path, monkeypatch):
    """With wait, it looks again until what was out of sight is back."""
    (work / "sub").mkdir()
    wrote(manager, "sub/a", "1")
    hide(work / "sub")
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            show(work / "sub")

    monkeypatch.setattr(time, "sleep", nap)
    assert {"sub/a": "1"} == manager.resume("t", {}, wait=60)
    assert 3 == len(naps)
    assert sorted(naps) == naps


def test_waiting_ends(manager: CheckpointManager, work: Path):
    """After the given seconds the refusal is the one that was found last."""
    (work / "sub").mkdir()
    wrote(manager, "sub/a", "1")
    hide(work / "sub")
    started = time.monotonic()
    assert "blocked" == refused(manager, wait=0.2)
    assert 0.2 <= time.monotonic() - started < 20


def test_held_is_refused_and_says_by_whom(manager: CheckpointManager):
    """A second handle does not get in, in the same process either."""
    first = manager.task("t")
    first.resume({})
    with pytest.raises(NotSafeToResumeError, match=r"held: process \d+ on \S+ \(\w+\), since .* has it") as error:
        manager.task("t").resume({})
    assert Verdict.HELD == error.value.recovery.verdict


def test_held_waits_for_the_holder_to_let_go(manager: CheckpointManager, work: Path):
    """The waiter gets in as soon as the holder is through, and sees what it committed."""
    first = manager.task("t")
    first.resume({"n": 0})
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(manager.task("t").resume({"n": 0}, wait=60)))
    waiter.start()
    with first.step("tool_executed", {"n": 1}) as step:
        (work / "a").write_text("1")
        step.proves_file("a")
    assert [] == found
    first.release()
    waiter.join(60)
    assert [{"n": 1}] == found


def test_a_dead_holder_is_no_holder(db: Path, work: Path):
    """A process that ended without letting go leaves a task that can be resumed at once."""
    run(
        "import os, sys\nfrom agentos.core.checkpoints import CheckpointManager\n"
        "task = CheckpointManager(sys.argv[1]).task('t')\ntask.resume({})\nos._exit(0)",
        db,
    )
    with CheckpointManager(db) as manager:
        assert {"n": 0} == manager.resume("t", {"n": 0})


def test_a_step_that_another_living_process_runs_is_held(db: Path, work: Path):
    """Nobody claimed the task, but a process is in the middle of a step of it."""
    code = (
        "import sys\nfrom agentos.core.checkpoints import CheckpointManager\n"
        "print(CheckpointManager(sys.argv[1]).begin_step('t', 'tool_executed', {}), flush=True)\nsys.stdin.read()"
    )
    with start(code, db) as process, CheckpointManager(db) as manager:
        assert process.stdout is not None
        step = process.stdout.readline().strip()
        try:
            found = manager.recover("t")
            assert (Verdict.HELD, [(step, "running")]) == (
                found.verdict,
                [(each.step_id, each.verdict) for each in found.interrupted],
            )
            assert f"process {process.pid} on" in found.explain()
            assert "held" == refused(manager)
        finally:
            process.kill()
        process.wait()
        assert {} == manager.resume("t", {})


def test_finished_gives_the_final_state(manager: CheckpointManager, work: Path):
    """Whatever became of its files; the report says what differs."""
    task = manager.task("t")
    task.resume({})
    with task.step("tool_executed", {"n": 9}) as step:
        (work / "a").write_text("1")
        step.proves_file("a")
    task.finish()
    (work / "a").unlink()
    assert {"n": 9} == task.resume({})
    assert task.recovery is not None
    assert (Verdict.FINISHED, 1, None) == (task.recovery.verdict, len(task.recovery.differences), task.lease)
    with pytest.raises(TaskFinishedError), task.step("tool_executed", {}):
        pass


def test_a_finished_task_without_checkpoints_gives_the_default(manager: CheckpointManager):
    """There is no other state."""
    task = manager.task("t")
    task.resume({})
    task.finish()
    assert {"n": 0} == task.resume({"n": 0})


# The state.


def test_the_state_is_nobody_elses(manager: CheckpointManager):
    """Changing what resume returned changes neither the report nor the next answer."""
    wrote(manager, "a", "1", {"list": []})
    task = manager.task("t")
    state = task.resume({})
    state["list"].append(1)
    assert task.recovery is not None
    assert {"list": []} == task.recovery.snapshot
    assert {"list": []} == task.resume({})


@pytest.mark.parametrize("default", [Plan(n=5), Plan, Notes(n=5), Notes])
def test_a_typed_default_gives_the_state_back_as_its_type(manager: CheckpointManager, default: Any):
    """An instance or its class: the stored state comes back as that type."""
    kind = default if isinstance(default, type) else type(default)
    wrote(manager, "a", "1", kind(done=["one"], n=1))
    assert kind(done=["one"], n=1) == manager.resume("t", default)


@pytest.mark.parametrize("default", [Plan(n=5), Notes(n=5)])
def test_a_typed_default_is_given_where_nothing_was_committed(manager: CheckpointManager, default: Any):
    """The instance itself, or one made of its class."""
    assert default == manager.resume("t", default)
    assert type(default)() == manager.resume("u", type(default))


def test_a_class_that_needs_arguments_is_refused_with_a_hint(manager: CheckpointManager):
    """It cannot be made out of nothing; an instance can be given."""
    with pytest.raises(InvalidInputError, match="default: Needy cannot be made without arguments") as error:
        manager.resume("t", Needy)
    assert "give an instance instead" == error.value.hint
    assert Needy(3) == manager.resume("t", Needy(3))


def test_a_stored_state_that_does_not_fit_the_type_is_refused(manager: CheckpointManager):
    """Old code wrote something else: the error names the place, and the task is not left held."""
    wrote(manager, "a", "1", {"n": "many"})
    task = manager.task("t")
    with pytest.raises(SnapshotError, match=r"snapshot\['n'\]: does not fit Plan"):
        task.resume(Plan)
    assert {"n": "many"} == manager.task("t").resume({})


# Under the claim.


def test_resume_through_the_manager_leaves_the_task_free(manager: CheckpointManager, db: Path):
    """Without a handle the claim lasts as long as the call."""
    wrote(manager, "a", "1")
    manager.resume("t", {})
    with CheckpointManager(db) as other:
        assert other.release_task(other.claim_task("t"))


def test_a_resume_under_a_lease_keeps_it(manager: CheckpointManager):
    """The caller's claim is used, stays, and lets its writes in."""
    wrote(manager, "a", "1")
    lease = manager.claim_task("t")
    assert {"a": "1"} == manager.resume("t", {}, lease=lease)
    step = manager.begin_step("t", "tool_executed", {}, lease=lease)
    assert manager.commit_step(step, content("a", "1"), lease=lease).verified
    assert manager.release_task(lease)


def test_a_resume_under_a_lost_lease_is_refused(manager: CheckpointManager):
    """Given back, or taken over: it does not come back to life."""
    wrote(manager, "a", "1")
    lease = manager.claim_task("t")
    manager.release_task(lease)
    with pytest.raises(LeaseLostError):
        manager.resume("t", {}, lease=lease)
    other = manager.claim_task("t")
    with pytest.raises((LeaseLostError, NotSafeToResumeError)):
        manager.resume("t", {}, lease=lease)
    assert manager.release_task(other)


def test_resume_again_on_the_same_handle_renews(manager: CheckpointManager):
    """The same holder, the same token."""
    task = manager.task("t", ttl=60)
    task.resume({})
    first = task.lease
    task.resume({})
    assert first is not None
    assert task.lease is not None
    assert (first.holder, first.token) == (task.lease.holder, task.lease.token)


def test_a_forked_childs_handle_is_another_holder(manager: CheckpointManager):
    """It inherited the object, not the claim: it can neither resume nor begin while the parent holds the task."""
    task = manager.task("t")
    task.resume({})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                task.resume({})
            except (NotSafeToResumeError, LeaseLostError):
                code = 0
        finally:
            os._exit(code)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with task.step("tool_executed", {}) as step:
        step.proves_absent("nothing")


def test_a_handle_whose_resume_was_refused_holds_nothing(manager: CheckpointManager, work: Path):
    """A refusal leaves the task for others, and the handle says what it found."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    task = manager.task("t")
    with pytest.raises(NotSafeToResumeError):
        task.resume({})
    assert task.recovery is not None
    assert (None, Verdict.DIVERGED) == (task.lease, task.recovery.verdict)
    manager.release_task(manager.claim_task("t"))


def test_a_handle_that_works_on_after_resume_is_under_its_claim(manager: CheckpointManager):
    """Others cannot begin a step in between, and are told who is there."""
    task = manager.task("t")
    task.resume({})
    with pytest.raises(TaskHeldError, match=r"held by process \d+ on .* since "):
        manager.begin_step("t", "tool_executed", {})
    with task.step("tool_executed", {}) as step:
        step.proves_absent("nothing")
    assert step.checkpoint is not None
    assert step.checkpoint.verified


def test_a_task_claim_that_differs_is_waited_for(manager: CheckpointManager, work: Path, monkeypatch):
    """Blocked by what must hold at every resume: once it is mended, the wait is over."""
    (work / "licence").write_text("yes")
    committed(manager, lasting(exists("licence"), "task"))
    (work / "licence").unlink()
    monkeypatch.setattr(time, "sleep", lambda _: (work / "licence").write_text("yes"))
    assert {} == manager.resume("t", {}, wait=60)


def test_a_crash_during_recovery_is_just_another_crash(db: Path, work: Path):
    """Dead after the timeline was ended and before the steps were, the next resume comes to the same answer."""
    code = """
import os, sys
from agentos.core.checkpoints import CheckpointManager
from tests.unit.checkpoints.steps import crashed, wrote
manager = CheckpointManager(sys.argv[1])
wrote(manager, "a", "1")
wrote(manager, "a", "2")
crashed(manager)
(manager.base_path / "a").write_text("1")
type(manager._registry).abandon = lambda *_: os._exit(0)
manager.resume("t", {})
os._exit(1)
"""
    run(code, db)
    with CheckpointManager(db) as manager:
        assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]
        assert 1 == len(manager.list_open_steps("t"))
        assert {"a": "1"} == manager.resume("t", {})
        assert [] == manager.list_open_steps("t")


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"task_id": ""}, "task_id"),
        ({"task_id": 7}, "task_id"),
        ({"default": None}, "default"),
        ({"default": [1]}, "default"),
        ({"default": "text"}, "default"),
        ({"default": {"x": {1, 2}}}, "default"),
        ({"default": {1: 2}}, "default"),
        ({"default": int}, "default"),
        ({"repair": 1}, "repair"),
        ({"wait": -1}, "wait"),
        ({"wait": float("inf")}, "wait"),
        ({"wait": "long"}, "wait"),
        ({"wait": True}, "wait"),
        ({"lease": "mine"}, "lease"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(manager: CheckpointManager, db: Path, arguments: dict, named: str):
    """Every argument of resume, refused before anything is looked at."""
    wrote(manager, "a", "1")
    before = dump(db)
    with pytest.raises(InvalidInputError, match=named):
        manager.resume(**{"task_id": "t", "default": {}, **arguments})
    assert before == dump(db)


def test_the_handle_refuses_the_same_input(manager: CheckpointManager, db: Path):
    """And holds nothing afterwards."""
    task: Task = manager.task("t")
    before = dump(db)
    refused_ones: list[dict[str, Any]] = [{"default": 7}, {"default": {}, "wait": -1}, {"default": {}, "repair": None}]
    for arguments in refused_ones:
        with pytest.raises(InvalidInputError):
            task.resume(**arguments)
    assert before == dump(db)
    assert task.lease is None
