"""once(): at most once, whatever crashes, and the same answer for everybody who asks again."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, EvidencePack, compute_request_hash
from agentos.errors import (
    InvalidInputError,
    LeaseLostError,
    NotInterruptedError,
    NotPerformed,
    OnceConflictError,
    OncePendingError,
    SnapshotError,
    StoreCorruptError,
    TaskHeldError,
)
from tests.support import content, dump, environment, execute, run, start
from tests.unit.checkpoints.steps import hide, show, wrote


class Effect:
    """Something that counts how often it happened."""

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.times = 0
        self._result = result
        self._error = error

    def __call__(self) -> Any:
        self.times += 1
        if self._error is not None:
            raise self._error
        return self._result


def never() -> Any:
    raise AssertionError("called again")


def dies(db: Path, before: str = "pass", options: str = "") -> None:
    """A process that dies inside the call, after it did `before`."""
    code = f"""
import os, sys
from pathlib import Path
from agentos.core.checkpoints import CheckpointManager
from tests.support import content, exists
def fn():
    {before}
    os._exit(0)
CheckpointManager(sys.argv[1]).once("key", {{"n": 1}}, fn, {options})
os._exit(1)
"""
    run(code, db)


# Done before.


def test_the_first_call_runs_and_every_later_one_is_answered_from_the_store(manager: CheckpointManager):
    """The same result, and the function is not called again."""
    effect = Effect({"id": [1, None, "x"]})
    assert [{"id": [1, None, "x"]}] * 3 == [manager.once("key", {"n": 1}, effect) for _ in range(3)]
    assert 1 == effect.times


def test_another_process_gets_the_same_answer(manager: CheckpointManager, db: Path):
    """Stored before the first call returned."""
    manager.once("key", {"n": 1, "m": 2}, Effect("paid"))
    code = (
        "import sys\nfrom agentos.core.checkpoints import CheckpointManager\n"
        "print(CheckpointManager(sys.argv[1]).once('key', {'m': 2, 'n': 1}, sys.exit))"
    )
    assert "paid\n" == run(code, db)


def test_nothing_is_a_result_too(manager: CheckpointManager):
    """A function that returns None is not called again."""
    effect = Effect(None)
    assert [None, None] == [manager.once("key", 1, effect) for _ in range(2)]
    assert 1 == effect.times


def test_the_answer_is_nobody_elses(manager: CheckpointManager):
    """Changing what was returned changes nothing that is stored, in the first call either."""
    mine: list[int] = []
    manager.once("key", 1, lambda: mine).append(1)
    assert ([], []) == (mine, manager.once("key", 1, never))


def test_another_request_under_the_same_key_is_refused(manager: CheckpointManager, db: Path):
    """Nothing is done and nothing is changed."""
    manager.once("key", {"amount": 1}, Effect())
    before = dump(db)
    with pytest.raises(OnceConflictError, match="used for another request before") as error:
        manager.once("key", {"amount": 2}, never)
    assert "key of its own" in error.value.hint
    assert before == dump(db)


def test_the_note_is_durable_before_the_function_runs(manager: CheckpointManager, db: Path):
    """Another connection sees it from inside the call."""
    seen: list[Any] = []

    def look() -> None:
        with closing(sqlite3.connect(db)) as other:
            seen.extend(other.execute("select key, state, result from idempotency_keys").fetchall())

    manager.once("key", 1, look)
    assert [("key", "pending", None)] == seen


# Pending.


def test_a_crash_inside_leaves_it_pending_and_it_is_never_done_again(manager: CheckpointManager, db: Path):
    """Without an expectation nobody can tell: every later call is refused with what to do."""
    dies(db)
    with pytest.raises(OncePendingError):
        manager.once("key", {"n": 1}, never)
    with pytest.raises(OncePendingError, match=r"begun at .* and never ended: it must not run twice") as error:
        manager.once("key", {"n": 1}, never)
    assert "resolve_once('key', 'landed' or 'not_landed')" in error.value.hint


def test_a_crash_after_the_effect_is_settled_by_looking(manager: CheckpointManager, db: Path, work: Path):
    """What was expected is there and was not before: it is done, and stays done."""
    dies(db, "Path('sent').write_text('yes')", "expects=content('sent', 'yes')")
    assert manager.once("key", {"n": 1}, never, expects=content("sent", "yes")) is None
    (work / "sent").unlink()
    assert manager.once("key", {"n": 1}, never) is None


def test_a_crash_before_the_effect_is_settled_by_looking(manager: CheckpointManager, db: Path, work: Path):
    """Everything is as it was: it is made now, once."""
    dies(db, options="expects=content('sent', 'yes')")
    effect = Effect("now")
    assert ["now", "now"] == [manager.once("key", {"n": 1}, effect) for _ in range(2)]
    assert 1 == effect.times


@pytest.mark.parametrize("what", ["half done", "was there before"])
def test_what_looking_cannot_settle_stays_pending(manager: CheckpointManager, db: Path, work: Path, what: str):
    """Part of the effect, or one that was there before the call: a person must say."""
    if what == "half done":
        dies(db, "Path('a').write_text('')", "expects=exists('a', 'b')")
    else:
        (work / "a").write_text("")
        dies(db, options="expects=exists('a')")
    with pytest.raises(OncePendingError):
        manager.once("key", {"n": 1}, never)


def test_what_cannot_be_seen_stays_pending_until_it_can(manager: CheckpointManager, db: Path, work: Path):
    """An unreadable folder proves nothing."""
    (work / "sub").mkdir()
    dies(db, "Path('sub/sent').write_text('yes')", "expects=content('sub/sent', 'yes')")
    hide(work / "sub")
    with pytest.raises(OncePendingError, match="could not be looked at"):
        manager.once("key", {"n": 1}, never)
    show(work / "sub")
    assert manager.once("key", {"n": 1}, never) is None


def test_a_function_that_raises_leaves_it_pending(manager: CheckpointManager):
    """It may have happened all the same; the error is the caller's own."""
    with pytest.raises(ConnectionResetError):
        manager.once("key", 1, Effect(error=ConnectionResetError()))
    with pytest.raises(OncePendingError):
        manager.once("key", 1, never)


def test_a_function_that_says_it_did_nothing_may_be_called_again(manager: CheckpointManager, db: Path):
    """NotPerformed leaves no trace."""
    before = dump(db)["idempotency_keys"]
    with pytest.raises(NotPerformed):
        manager.once("key", 1, Effect(error=NotPerformed("the account is locked")))
    assert before == dump(db)["idempotency_keys"]
    assert "done" == manager.once("key", 1, Effect("done"))


def test_a_result_that_json_cannot_carry_leaves_it_pending(manager: CheckpointManager):
    """It was done: the error says so and how to settle it."""
    with pytest.raises(SnapshotError, match="it was done, and what came of it cannot be stored") as error:
        manager.once("key", 1, Effect({1, 2}))
    assert "resolve_once('key', 'landed', result=…)" in error.value.hint
    with pytest.raises(OncePendingError):
        manager.once("key", 1, never)
    manager.resolve_once("key", "landed", [1, 2])
    assert [1, 2] == manager.once("key", 1, never)


def test_a_call_inside_itself_is_refused(manager: CheckpointManager):
    """It is under way; waiting for it would never end."""
    with pytest.raises(OncePendingError, match="is doing it since"):
        manager.once("key", 1, lambda: manager.once("key", 1, never))


# Many at once.


def test_threads_that_ask_together_run_it_once(manager: CheckpointManager):
    """One does it; the others are told that it is under way, or what came of it."""
    effect, gate, answers = Effect("done"), threading.Barrier(8), []

    def ask() -> None:
        gate.wait()
        try:
            answers.append(manager.once("key", 1, effect))
        except OncePendingError as error:
            answers.append(error.diagnostics()["running"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (1, 8) == (effect.times, len(answers))
    assert set(answers) <= {"done", True}


@pytest.mark.parametrize("moment", ["begin_once", "end_once"])
def test_a_thread_that_asks_between_the_note_and_the_call_does_not_settle_it(
    manager: CheckpointManager, monkeypatch, moment: str
):
    """Just noted, or just done and not stored yet: for its own process's threads too it is under way."""
    registry, told = type(manager._registry), []
    original = getattr(registry, moment)

    def ask() -> None:
        try:
            manager.once("key", 1, never, expects=content("never", "there"))
        except OncePendingError as error:
            told.append(error.diagnostics()["running"])

    def meanwhile(self: Any, *of: Any) -> Any:
        monkeypatch.setattr(registry, moment, original)
        if moment == "end_once":
            ask()
        answer = original(self, *of)
        if moment == "begin_once":
            ask()
        return answer

    monkeypatch.setattr(registry, moment, meanwhile)
    assert "done" == manager.once("key", 1, Effect("done"), expects=content("never", "there"))
    assert [True] == told


def test_processes_that_ask_together_run_it_once(db: Path, work: Path):
    """The same over processes: one line in the file."""
    CheckpointManager(db).close()
    code = """
import sys
from agentos.core.checkpoints import CheckpointManager
from agentos.errors import OncePendingError
def fn():
    with open("effects", "a") as file:
        file.write("x")
    return "done"
manager = CheckpointManager(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    print(manager.once("key", 1, fn))
except OncePendingError as error:
    print(error.diagnostics()["running"])
"""
    processes = [start(code, db) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert ("x", True) == ((work / "effects").read_text(), said <= {"done", "True"})


def test_a_call_under_way_in_another_process_is_waited_for_by_the_caller(db: Path, work: Path):
    """It lives: nothing is settled, by looking or by a person's word, and once it is dead both are possible."""
    code = """
import sys
from agentos.core.checkpoints import CheckpointManager
def fn():
    print("inside", flush=True)
    sys.stdin.read()
CheckpointManager(sys.argv[1]).once("key", 1, fn)
"""
    with start(code, db) as process, CheckpointManager(db) as manager:
        assert process.stdout is not None
        assert "inside\n" == process.stdout.readline()
        with pytest.raises(OncePendingError, match=f"process {process.pid} on .* is doing it since") as error:
            manager.once("key", 1, never)
        assert error.value.diagnostics()["running"] is True
        with pytest.raises(NotInterruptedError, match="under way in process"):
            manager.resolve_once("key", "not_landed")
        process.kill()
        process.wait()
        manager.resolve_once("key", "not_landed")
        assert 2 == manager.once("key", 1, Effect(2))


# A person's word.


def test_landed_gives_the_result_from_then_on(manager: CheckpointManager, db: Path):
    """Saying it twice is no error, and the first word stays."""
    dies(db)
    manager.resolve_once("key", "landed", {"id": 7})
    manager.resolve_once("key", "landed", {"id": 8})
    assert {"id": 7} == manager.once("key", {"n": 1}, never)


def test_not_landed_lets_it_be_made(manager: CheckpointManager, db: Path):
    """Once."""
    dies(db)
    manager.resolve_once("key", "not_landed")
    effect = Effect("now")
    assert ["now", "now"] == [manager.once("key", {"n": 1}, effect) for _ in range(2)]
    assert 1 == effect.times


def test_what_was_done_cannot_be_called_undone(manager: CheckpointManager, db: Path):
    """The result is there."""
    manager.once("key", 1, Effect())
    before = dump(db)
    with pytest.raises(NotInterruptedError, match="done, so it cannot be called not_landed"):
        manager.resolve_once("key", "not_landed")
    assert before == dump(db)


def test_a_key_that_nobody_used_cannot_be_settled(manager: CheckpointManager):
    """A misspelled key is told."""
    with pytest.raises(NotInterruptedError, match="nothing was begun under it"):
        manager.resolve_once("nope", "landed")


def test_a_forgotten_key_can_be_used_again(manager: CheckpointManager):
    """True if it was there."""
    manager.once("key", 1, Effect())
    assert [True, False] == [manager.forget_once("key") for _ in range(2)]
    assert 2 == manager.once("key", {"other": True}, Effect(2))


# Tasks and leases.


def test_keys_of_a_held_task_are_for_its_holder(manager: CheckpointManager, db: Path):
    """Without the lease it is refused; with a stale one too; nothing is done."""
    stale = manager.claim_task("t")
    manager.release_task(stale)
    lease = manager.claim_task("t")
    before = dump(db)
    with pytest.raises(TaskHeldError):
        manager.once("key", 1, never, task_id="t")
    with pytest.raises(LeaseLostError):
        manager.once("key", 1, never, task_id="t", lease=stale)
    assert before == dump(db)
    assert 3 == manager.once("key", 1, Effect(3), task_id="t", lease=lease)


def test_a_lease_of_another_task_does_not_let_a_key_in(manager: CheckpointManager):
    """Tokens of different tasks may be equal."""
    other = manager.claim_task("u")
    manager.claim_task("t")
    with pytest.raises(LeaseLostError, match="for another task"):
        manager.once("key", 1, never, task_id="t", lease=other)


def test_keys_outlive_restart_resume_and_prune_of_their_task(manager: CheckpointManager):
    """They live as long as their task does: an effect does not come undone because the task starts over."""
    manager.once("key", 1, Effect("done"), task_id="t")
    wrote(manager, "a", "1")
    manager.restart("t", by="me", reason="again")
    manager.resume("t", {})
    manager.prune("t", keep_verified=1)
    assert "done" == manager.once("key", 1, never, task_id="t")


# Requests.


def test_a_hash_is_the_same_in_every_process_and_for_every_order():
    """Whatever PYTHONHASHSEED says."""
    code = (
        "from agentos.core.checkpoints import compute_request_hash\n"
        "print(compute_request_hash({'b': [1, {'y': None, 'x': 'ü'}], 'a': 1.5}))"
    )
    command = [sys.executable, "-c", code]
    said = {
        subprocess.run(command, env=environment(PYTHONHASHSEED=str(seed)), capture_output=True, text=True, check=True).stdout
        for seed in (0, 1, 2)
    }
    assert {compute_request_hash({"a": 1.5, "b": [1, {"x": "ü", "y": None}]}) + "\n"} == said


def test_a_hash_never_changes():
    """Keys that are stored must still be answered by the next version."""
    assert "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862" == compute_request_hash({"a": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [({"a": 1}, {"a": 2}), ([1, 2], [2, 1]), (1, "1"), (None, {}), ({"a": None}, {}), (True, 1), (1, 1.5), ("a", ["a"])],
)
def test_different_requests_have_different_hashes(one: Any, other: Any):
    """Also where Python would call them equal."""
    assert compute_request_hash(one) != compute_request_hash(other)


@pytest.mark.parametrize("request_", [{1, 2}, {"x": object()}, {1: 2}, float("nan"), b"bytes", "\ud800"])
def test_a_request_that_json_cannot_carry_is_refused(manager: CheckpointManager, db: Path, request_: Any):
    """With the path of what is wrong, before anything is done."""
    before = dump(db)
    with pytest.raises(SnapshotError, match="request"):
        manager.once("key", request_, never)
    assert before == dump(db)


@pytest.mark.parametrize(
    ("call", "arguments", "named"),
    [
        ("once", {"key": ""}, "key"),
        ("once", {"key": None}, "key"),
        ("once", {"fn": 7}, "fn"),
        ("once", {"task_id": ""}, "task_id"),
        ("once", {"expects": "file"}, "expects"),
        ("once", {"expects": EvidencePack()}, "expects"),
        ("once", {"lease": "mine"}, "lease"),
        ("resolve_once", {"key": ""}, "key"),
        ("resolve_once", {"outcome": "perhaps"}, "outcome"),
        ("resolve_once", {"outcome": ["landed"]}, "outcome"),
        ("resolve_once", {"result": {1}}, "result"),
        ("forget_once", {"key": 3}, "key"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(
    manager: CheckpointManager, db: Path, call: str, arguments: dict[str, Any], named: str
):
    """Every argument of every call."""
    given: dict[str, dict[str, Any]] = {
        "once": {"key": "k", "request": 1, "fn": never},
        "resolve_once": {"key": "key", "outcome": "landed"},
        "forget_once": {},
    }
    with pytest.raises(OSError):  # noqa: PT011
        manager.once("key", 1, Effect(error=OSError()))
    before = dump(db)
    with pytest.raises(InvalidInputError, match=named):
        getattr(manager, call)(**{**given[call], **arguments})
    assert before == dump(db)


@pytest.mark.parametrize(
    "damage",
    [
        "update idempotency_keys set state = 'pending'",
        "update idempotency_keys set result = null",
        "update idempotency_keys set request_hash = lower(hex(randomblob(32)))",
        "update idempotency_keys set runner = 'x'",
    ],
)
def test_a_damaged_note_is_reported_and_never_acted_on(manager: CheckpointManager, db: Path, damage: str):
    """Neither done again nor answered."""
    manager.once("key", 1, Effect("done"))
    assert 1 == execute(db, damage)
    with pytest.raises(StoreCorruptError):
        manager.once("key", 1, never)


def test_a_fork_inside_the_function_does_not_make_it_twice(manager: CheckpointManager):
    """The child that returns from the call is another process, and its end of it is not stored."""

    def split() -> str:
        child = os.fork()
        if child == 0:
            return "child"
        os.waitpid(child, 0)
        return "parent"

    parent = os.getpid()
    try:
        answer = manager.once("key", 1, split)
    finally:
        if os.getpid() != parent:
            os._exit(0)
    assert ["parent", "parent"] == [answer, manager.once("key", 1, never)]
