"""A process in another container cannot be seen: it counts as alive, and a person may say that it is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from agentos import _process
from agentos.core.checkpoints import CheckpointManager, Verdict
from agentos.errors import LeaseLostError, OncePendingError, TaskHeldError
from tests.unit.checkpoints.steps import crashed, wrote

SAID = {"by": "ada", "reason": "the container is gone"}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch):
    """From here on this process is in another pid namespace of the same machine than it was before."""

    def move() -> None:
        here = _process.this_process()
        monkeypatch.setattr(_process, "_this", replace(here, namespace=f"{here.namespace}1", pid=here.pid + 1))

    return move


def test_a_claim_from_another_container_is_held_until_a_person_frees_it(manager: CheckpointManager, elsewhere):
    """Who holds it is said to be out of sight, with the call that helps; the freed holder's late writes change nothing."""
    wrote(manager, "a", "1")
    lease = manager.claim_task("t")
    step = crashed(manager, lease=lease)
    elsewhere()
    found = manager.recover("t")
    assert Verdict.HELD == found.verdict
    assert "which cannot be seen from here" in found.explain()
    assert "manager.free_task('t', by=…, reason=…), if that process is gone" in found.options
    with pytest.raises(TaskHeldError, match="cannot be seen") as held:
        crashed(manager)
    assert "free_task" in held.value.hint
    assert manager.free_task("t", **SAID)
    assert not manager.free_task("t", **SAID)
    assert {"a": "1"} == manager.resume("t", {})
    with pytest.raises(LeaseLostError):
        manager.begin_step("t", "tool_executed", {}, lease=lease)
    assert "abandoned" == manager.get_step(step).state


def test_a_holder_that_is_seen_to_live_is_not_freed(manager: CheckpointManager):
    """A person's word does not outweigh what can be seen."""
    manager.claim_task("t")
    with pytest.raises(TaskHeldError):
        manager.free_task("t", **SAID)


def test_a_step_begun_in_another_container_is_not_run_beside_it(manager: CheckpointManager, elsewhere):
    """It may be under way: the task is held, and a person ends the step."""
    wrote(manager, "a", "1")
    step = crashed(manager)
    elsewhere()
    found = manager.recover("t")
    assert (Verdict.HELD, ["running"]) == (found.verdict, [each.verdict for each in found.interrupted])
    assert f"manager.abandon_step('{step}'), if that process is gone" in found.options
    assert manager.abandon_step(step)
    assert {"a": "1"} == manager.resume("t", {})


def test_a_call_begun_in_another_container_is_settled_by_a_person(db: Path, work: Path, elsewhere):
    """It is not made again on a guess, and resolve_once is believed."""
    with CheckpointManager(db) as manager:
        with pytest.raises(KeyboardInterrupt):
            manager.once("k", {}, _interrupted)
        # As if the process had died before it could write down that the call came back.
        stored = manager._registry.once("k")
        assert stored is not None
        manager._registry.end_once(replace(stored, runner=f"x@{_process.this_process().text}"), None)
        elsewhere()
        with pytest.raises(OncePendingError, match="is doing it") as pending:
            manager.once("k", {}, lambda: 1)
        assert "resolve_once" in pending.value.hint
        manager.resolve_once("k", "landed", "receipt")
        assert "receipt" == manager.once("k", {}, lambda: 1)


def _interrupted() -> None:
    raise KeyboardInterrupt
