"""One resumer: claims through the manager and the handle, whose writes count, and when a claim ends."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentos import _process
from agentos.core.checkpoints import CheckpointManager, Lease
from agentos.errors import InvalidInputError, LeaseLostError, NotSafeToResumeError, TaskHeldError
from tests.support import content, dump, run, start
from tests.unit.checkpoints.steps import crashed, wrote


class Clock:
    """Seconds since the machine started, as the test wants them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(_process, "boottime", found)
    return found


def in_a_fork(work: Callable[[], Any]) -> str:
    """What `work` comes to in a forked child: the name of what it raised, or `fine`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "fine"
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
            said = type(error).__name__
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        return file.read()


# Taking and giving back.


def test_a_claim_gives_a_lease(manager: CheckpointManager):
    """Of the task, with a holder and the task's first token; for good unless it was asked otherwise."""
    lease = manager.claim_task("t")
    assert isinstance(lease, Lease)
    assert ("t", 1, None, None) == (lease.task_id, lease.token, lease.expires, lease.ttl)


def test_a_second_claim_is_refused_and_says_who_and_since_when(manager: CheckpointManager, db: Path):
    """In the same process too: a holder is one handle."""
    manager.claim_task("t", holder="first")
    before = dump(db)
    with pytest.raises(TaskHeldError, match=rf"task t: held by process {os.getpid()} on \S+ \(first\) since \d{{4}}-") as error:
        manager.claim_task("t")
    assert {"task_id", "holder", "since"} <= error.value.diagnostics().keys()
    assert before == dump(db)


def test_the_same_name_in_the_same_process_renews(manager: CheckpointManager):
    """The token stays."""
    first = manager.claim_task("t", holder="me")
    assert first.token == manager.claim_task("t", holder="me").token


def test_the_same_name_in_another_process_is_another_holder(manager: CheckpointManager, db: Path):
    """Two workers that were given the same name are two."""
    manager.claim_task("t", holder="worker")
    code = """
import sys
from agentos.core.checkpoints import CheckpointManager
from agentos.errors import TaskHeldError
try:
    CheckpointManager(sys.argv[1]).claim_task("t", holder="worker")
except TaskHeldError:
    print("held")
"""
    assert "held\n" == run(code, db)


def test_a_token_only_grows(manager: CheckpointManager):
    """Released and taken again, it is another one; a task of its own starts at its own."""
    tokens = []
    for _ in range(3):
        lease = manager.claim_task("t")
        tokens.append(lease.token)
        manager.release_task(lease)
    assert ([1, 2, 3], 1) == (tokens, manager.claim_task("u").token)


def test_releasing_twice_is_told_and_changes_nothing(manager: CheckpointManager, db: Path):
    """Neither does a late release take the task from whoever has it now."""
    lease = manager.claim_task("t")
    assert [True, False] == [manager.release_task(lease), manager.release_task(lease)]
    manager.claim_task("t")
    before = dump(db)
    assert manager.release_task(lease) is False
    assert before == dump(db)


def test_a_dead_process_is_no_holder(manager: CheckpointManager, db: Path):
    """Free at once on the same machine, and the token goes on."""
    code = (
        "import os, sys\nfrom agentos.core.checkpoints import CheckpointManager\n"
        "print(CheckpointManager(sys.argv[1]).claim_task('t').token, flush=True)\nos._exit(0)"
    )
    assert "1\n" == run(code, db)
    assert 2 == manager.claim_task("t").token


def test_a_killed_process_is_no_holder_and_its_step_cannot_come_back(manager: CheckpointManager, db: Path):
    """What it had begun is interrupted, and whoever resumes has another token."""
    code = """
import sys
from agentos.core.checkpoints import CheckpointManager
task = CheckpointManager(sys.argv[1]).task("t")
task.resume({})
with task.step("tool_executed", {}):
    print("inside", flush=True)
    sys.stdin.read()
"""
    with start(code, db) as process:
        assert process.stdout is not None
        assert "inside\n" == process.stdout.readline()
        assert "held" == manager.recover("t").verdict
        process.kill()
        process.wait()
    found = manager.recover("t")
    assert ("fresh", ["retry"]) == (found.verdict, [each.verdict for each in found.interrupted])
    assert {"n": 0} == manager.resume("t", {"n": 0})


# Whose writes count.


def test_begin_on_a_held_task_without_its_lease_is_refused(manager: CheckpointManager, db: Path):
    """It says who holds it and since when, and nothing begins."""
    manager.claim_task("t", holder="boss")
    before = dump(db)
    with pytest.raises(TaskHeldError, match=r"\(boss\) since "):
        crashed(manager)
    assert before == dump(db)


STALE: dict[str, Callable[[CheckpointManager, str, Lease], Any]] = {
    "begin": lambda manager, _, lease: manager.begin_step("t", "tool_executed", {}, lease=lease),
    "commit": lambda manager, step, lease: manager.commit_step(step, content("a", "1"), lease=lease),
    "commit without lease": lambda manager, step, _: manager.commit_step(step, content("a", "1")),
    "resolve": lambda manager, step, lease: manager.resolve_step(step, "landed", by="me", reason="x", lease=lease),
    "abandon": lambda manager, step, lease: manager.abandon_step(step, lease=lease),
    "once": lambda manager, _, lease: manager.once("k", 1, pytest.fail, task_id="t", lease=lease),
    "finish": lambda manager, _, lease: manager.finish_task("t", lease=lease),
    "supersede": lambda manager, _, lease: manager.rollback_to_checkpoint("first", supersede_later=True, lease=lease),
}


@pytest.mark.parametrize("call", STALE)
@pytest.mark.parametrize("taken", [True, False])
def test_a_stale_holder_changes_nothing(manager: CheckpointManager, db: Path, work: Path, call: str, taken: bool):
    """Taken over, or given back: its late calls are refused with what happened, and nothing is stored."""
    step = manager.begin_step("t", "tool_executed", {})
    (work / "a").write_text("1")
    manager.commit_step(step, content("a", "1"), "first")
    stale = manager.claim_task("t")
    step = manager.begin_step("t", "tool_executed", {}, lease=stale)
    manager.release_task(stale)
    lease = manager.claim_task("t")
    if not taken:
        manager.release_task(lease)
    before = dump(db)
    with pytest.raises(LeaseLostError) as error:
        STALE[call](manager, step, stale)
    assert error.value.hint
    rows = {name: rows for name, rows in dump(db).items() if name not in {"verifications", "steps"} or call != "supersede"}
    assert {name: before[name] for name in rows} == rows
    assert len(before["steps"]) == len(dump(db)["steps"])


def test_a_step_begun_before_the_task_was_claimed_cannot_be_committed(manager: CheckpointManager, work: Path):
    """Begin stores the token, and commit requires it, lease or not."""
    step = crashed(manager)
    manager.release_task(manager.claim_task("t"))
    (work / "a").write_text("1")
    with pytest.raises(LeaseLostError, match="the step was begun under token 0, the task's is 1: nobody holds it now"):
        manager.commit_step(step, content("a", "1"))


def test_a_lease_of_another_task_is_refused(manager: CheckpointManager):
    """Their tokens may be equal; the tasks are not."""
    other = manager.claim_task("u")
    manager.claim_task("t")
    with pytest.raises(LeaseLostError, match="this lease is for another task"):
        crashed(manager, lease=other)


def test_a_made_up_lease_is_refused(manager: CheckpointManager):
    """The right token under another name."""
    lease = manager.claim_task("t")
    with pytest.raises(LeaseLostError):
        crashed(manager, lease=lease._replace(holder="somebody"))
    with pytest.raises(LeaseLostError):
        crashed(manager, lease=lease._replace(token=lease.token + 1))


@pytest.mark.parametrize("call", ["begin", "release", "once", "resume", "handle"])
def test_a_lease_is_no_good_in_a_forked_child(manager: CheckpointManager, call: str):
    """It is another holder, and the parent goes on undisturbed."""
    task = manager.task("t")
    task.resume({})
    lease = task.lease
    assert lease is not None
    calls: dict[str, Callable[[], Any]] = {
        "begin": lambda: crashed(manager, lease=lease),
        "release": lambda: manager.release_task(lease),
        "once": lambda: manager.once("k", 1, int, task_id="t", lease=lease),
        "resume": lambda: manager.resume("t", {}, lease=lease),
        "handle": lambda: task.step("tool_executed", {}).__enter__(),
    }
    assert "LeaseLostError" == in_a_fork(calls[call])
    with task.step("tool_executed", {}) as step:
        step.proves_absent("nothing")
    assert step.checkpoint is not None


def test_a_forked_child_that_leaves_the_handles_block_does_not_let_go_for_its_parent(manager: CheckpointManager):
    """The with statement's end runs in the child too."""
    with manager.task("t") as task:
        task.resume({})
        in_a_fork(lambda: task.__exit__(None, None, None))
        with pytest.raises(TaskHeldError):
            manager.claim_task("t")


# The handle.


def test_the_end_of_the_block_lets_go(manager: CheckpointManager):
    """Also when it ends by an exception."""
    with manager.task("t") as task:
        task.resume({})
        assert task.lease is not None
    assert task.lease is None
    with suppress(ZeroDivisionError), manager.task("t") as task:
        task.resume({})
        raise ZeroDivisionError
    manager.release_task(manager.claim_task("t"))


def test_finish_lets_go(manager: CheckpointManager):
    """A finished task is nobody's."""
    task = manager.task("t")
    task.resume({})
    task.finish()
    assert task.lease is None
    manager.claim_task("t")


def test_a_handle_that_never_resumed_claims_nothing(manager: CheckpointManager):
    """It works as anybody may while nobody holds the task."""
    with manager.task("t") as task:
        with task.step("tool_executed", {}) as step:
            step.proves_absent("nothing")
        assert task.lease is None
        assert manager.release_task(manager.claim_task("t"))


def test_a_handle_that_lost_its_task_is_told(manager: CheckpointManager, clock: Clock):
    """Its ttl passed and another took over: the step under way and every next one are refused."""
    task = manager.task("t", ttl=10)
    task.resume({})
    clock.now += 11
    other = manager.task("t")
    other.resume({})
    with pytest.raises(LeaseLostError), task.step("tool_executed", {}):
        pass
    with other.step("tool_executed", {}) as step:
        step.proves_absent("nothing")


# Time.


def test_a_ttl_that_passed_permits_a_takeover(manager: CheckpointManager, clock: Clock):
    """Not a moment earlier; the one that slept has lost the task then."""
    lease = manager.claim_task("t", ttl=10)
    assert (1010.0, 10.0) == (lease.expires, lease.ttl)
    clock.now = 1009.9
    with pytest.raises(TaskHeldError):
        manager.claim_task("t")
    clock.now = 1010.0
    assert 2 == manager.claim_task("t").token
    with pytest.raises(LeaseLostError, match="this lease has token 1, the task's is 2"):
        crashed(manager, lease=lease)


def test_expiry_alone_takes_nothing_away(manager: CheckpointManager, clock: Clock):
    """Nobody came: the late holder goes on."""
    lease = manager.claim_task("t", ttl=10)
    clock.now += 100
    step = crashed(manager, lease=lease)
    assert 1 == manager.commit_step(step, content("a", "1"), lease=lease).sequence_number


def test_a_write_without_lease_after_the_ttl_ends_the_claim(manager: CheckpointManager, clock: Clock):
    """Else the sleeper would go on beside it with the same token."""
    lease = manager.claim_task("t", ttl=10)
    clock.now += 10
    wrote(manager, "a", "1")
    with pytest.raises(LeaseLostError):
        crashed(manager, lease=lease)


def test_working_renews(manager: CheckpointManager, clock: Clock):
    """A holder that begins and commits keeps the task, however long it takes altogether."""
    lease = manager.claim_task("t", ttl=10)
    for _ in range(6):
        clock.now += 6
        step = crashed(manager, lease=lease)
        clock.now += 3
        manager.commit_step(step, content("a", "1"), lease=lease)
    with pytest.raises(TaskHeldError):
        manager.claim_task("t")


def test_claiming_again_under_the_same_name_renews(manager: CheckpointManager, clock: Clock):
    """A heartbeat for a holder that has nothing to write."""
    manager.claim_task("t", holder="me", ttl=10)
    clock.now += 9
    assert 1019.0 == manager.claim_task("t", holder="me", ttl=10).expires
    clock.now += 9
    with pytest.raises(TaskHeldError):
        manager.claim_task("t")


def test_without_a_ttl_a_living_holder_keeps_the_task(manager: CheckpointManager, clock: Clock):
    """A hundred years."""
    manager.claim_task("t")
    clock.now += 3e9
    with pytest.raises(TaskHeldError):
        manager.claim_task("t")


def test_a_waiter_gets_in_when_the_ttl_has_passed(manager: CheckpointManager, clock: Clock, monkeypatch):
    """resume(wait=) outlives a holder that does not stir."""
    manager.claim_task("t", ttl=10)
    monkeypatch.setattr("time.sleep", lambda _: setattr(clock, "now", clock.now + 4))
    assert {} == manager.resume("t", {}, wait=60)


def test_a_claim_of_the_boot_before_is_over(manager: CheckpointManager, monkeypatch):
    """Nothing lives through a restart of the machine."""
    lease = manager.claim_task("t")
    here = _process.this_process()
    rebooted = _process.Process(here.host, here.pid, here.start, "another-boot", here.namespace)
    monkeypatch.setattr(_process, "this_process", lambda: rebooted)
    assert 2 == manager.claim_task("t").token
    with pytest.raises(LeaseLostError):
        crashed(manager, lease=lease)


@pytest.mark.parametrize("jump", [-7200, 7200])
def test_a_wall_clock_that_is_off_neither_steals_nor_strands(manager: CheckpointManager, clock: Clock, jump: int, db: Path):
    """Expiry is counted since boot: two hours of wall time are nothing to it."""
    manager.claim_task("t", ttl=10)
    code = f"""
import sys, time
real = time.time
time.time = lambda: real() + {jump}
import agentos._process
agentos._process.boottime = lambda: {clock.now + 5}
from agentos.core.checkpoints import CheckpointManager
from agentos.errors import TaskHeldError
manager = CheckpointManager(sys.argv[1])
try:
    manager.claim_task("t")
except TaskHeldError:
    agentos._process.boottime = lambda: {clock.now + 10}
    print("then", manager.claim_task("t").token)
"""
    assert "then 2\n" == run(code, db)


# Refusals.


@pytest.mark.parametrize(
    ("call", "arguments", "named"),
    [
        ("claim_task", {"task_id": ""}, "task_id"),
        ("claim_task", {"task_id": "t", "holder": ""}, "holder"),
        ("claim_task", {"task_id": "t", "holder": 7}, "holder"),
        ("claim_task", {"task_id": "t", "ttl": 0}, "ttl"),
        ("claim_task", {"task_id": "t", "ttl": -1}, "ttl"),
        ("claim_task", {"task_id": "t", "ttl": float("nan")}, "ttl"),
        ("claim_task", {"task_id": "t", "ttl": float("inf")}, "ttl"),
        ("claim_task", {"task_id": "t", "ttl": True}, "ttl"),
        ("claim_task", {"task_id": "t", "ttl": "10"}, "ttl"),
        ("claim_task", {"task_id": "t", "ttl": 10**400}, "ttl"),
        ("release_task", {"lease": None}, "lease"),
        ("release_task", {"lease": ("t", "me", 1)}, "lease"),
        ("task", {"task_id": "t", "ttl": 0}, "ttl"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(manager: CheckpointManager, db: Path, call: str, arguments: dict, named: str):
    """Every argument of claim and release."""
    before = dump(db)
    with pytest.raises(InvalidInputError, match=named):
        getattr(manager, call)(**arguments)
    assert before == dump(db)


def test_a_name_with_an_at_sign_and_control_characters_is_kept_and_shown_escaped(manager: CheckpointManager):
    """Whatever holders are called, a claim of theirs is one, and its message drives no terminal."""
    manager.claim_task("t", holder="a@b/c\x1b[2J")
    with pytest.raises(TaskHeldError) as error:
        manager.claim_task("t")
    assert "a@b/c" in error.value.message
    assert error.value.message.isprintable()
    with pytest.raises(NotSafeToResumeError):
        manager.resume("t", {})
