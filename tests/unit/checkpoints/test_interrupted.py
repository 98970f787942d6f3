"""A step that began and never ended: adopted, run again, or left to a person, by what it expected and what is there."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, EvidencePack, Verdict
from agentos.errors import EvidenceDefinitionError, InvalidInputError, StepAlreadyCommittedError, StoreCorruptError
from tests.support import content, dump, execute, exists, run
from tests.unit.checkpoints.steps import absent, crashed, hide, show, wrote


def fate(manager: CheckpointManager, task: str = "t") -> list[str]:
    return [step.verdict for step in manager.recover(task).interrupted]


def decisions(db: Path) -> list[tuple[Any, ...]]:
    """Who decided what and why, oldest first."""
    return [(by, what, reason) for _, _, _, by, what, _, reason, _ in dump(db)["decisions"]]


@pytest.mark.parametrize("rerunnable", [True, False])
def test_an_effect_that_is_there_and_was_not_is_adopted(manager: CheckpointManager, work: Path, rerunnable: bool):
    """All that was expected holds, and it is not what was there at the begin: the step is done."""
    wrote(manager, "a", "1")
    crashed(manager, {"n": 2}, expects=content("b", "2"), rerunnable=rerunnable)
    (work / "b").write_text("2")
    assert ["adopt"] == fate(manager)
    assert {"n": 2} == manager.resume("t", {})
    assert [2, 1] == [each.sequence_number for each in manager.list_checkpoints("t")]


def test_an_adopted_step_is_a_checkpoint_with_what_was_seen_now(manager: CheckpointManager, db: Path, work: Path):
    """`adopted`, the snapshot of its begin, the expected evidence with the look that settled it, under its own step's id."""
    step = crashed(manager, {"n": 1}, work_item_id="item", metadata={"m": 1}, expects=content("a", "1"))
    (work / "a").write_text("1")
    task = manager.task("t")
    task.resume({})
    assert task.recovery is not None
    checkpoint = task.recovery.checkpoint
    assert checkpoint is not None
    assert manager.list_checkpoints("t") == [checkpoint]
    assert (True, True, {"n": 1}, step, "item", {"m": 1}) == (
        checkpoint.adopted,
        checkpoint.verified,
        checkpoint.snapshot_data,
        checkpoint.step_id,
        checkpoint.work_item_id,
        checkpoint.metadata,
    )
    [item] = checkpoint.evidence_pack.evidence_list
    assert item.result is not None
    assert (True, 1) == (item.verified, item.result.found["size"])
    assert [("resume", "adopt", "its effect was found in place")] == decisions(db)


def test_recover_shows_an_adoption_and_leaves_the_step_begun(manager: CheckpointManager, work: Path):
    """Looking does not adopt; acting does."""
    step = crashed(manager, {"n": 1}, expects=content("a", "1"))
    (work / "a").write_text("1")
    assert {"n": 1} == manager.recover("t").snapshot
    assert [step] == [each.step_id for each in manager.list_open_steps("t")]


def test_a_normal_commit_is_not_adopted(manager: CheckpointManager):
    """The flag tells the two apart."""
    assert wrote(manager, "a", "1").adopted is False


def test_an_adopted_step_cannot_be_committed_afterwards(manager: CheckpointManager, work: Path):
    """A late worker is told, and there is one checkpoint."""
    step = crashed(manager, expects=content("a", "1"))
    (work / "a").write_text("1")
    manager.resume("t", {})
    with pytest.raises(StepAlreadyCommittedError):
        manager.commit_step(step, content("a", "1"))
    assert 1 == len(manager.list_checkpoints("t"))


def test_finding_a_step_already_adopted_is_success(db: Path, work: Path):
    """Recovery died right after it adopted: the next one goes on from there, and the step is there once."""
    code = """
import os, sys
from agentos.core.checkpoints import CheckpointManager
from tests.support import content
from tests.unit.checkpoints.steps import crashed
manager = CheckpointManager(sys.argv[1])
crashed(manager, {"n": 1}, expects=content("a", "1"))
(manager.base_path / "a").write_text("1")
registry = type(manager._registry)
commit = registry.commit
registry.commit = lambda self, ending: (commit(self, ending), os._exit(0))
manager.resume("t", {})
os._exit(1)
"""
    run(code, db)
    with CheckpointManager(db) as manager:
        assert {"n": 1} == manager.resume("t", {})
        assert [True] == [each.adopted for each in manager.list_checkpoints("t")]


def test_what_was_there_before_the_step_began_proves_nothing(manager: CheckpointManager, work: Path):
    """Everything expected holds and held at the begin: whether the step ran cannot be told, so it runs again."""
    wrote(manager, "a", "1")
    crashed(manager, expects=content("a", "1"))
    assert ["retry"] == fate(manager)
    assert {"a": "1"} == manager.resume("t", {})


def test_a_half_done_step_runs_again_if_it_may(manager: CheckpointManager, work: Path):
    """One of two effects is there."""
    crashed(manager, expects=exists("b", "c"))
    (work / "b").write_text("")
    assert ["retry"] == fate(manager)


def test_a_retried_step_is_abandoned_before_resume_returns(manager: CheckpointManager, db: Path):
    """It will be begun anew; why is written down."""
    step = crashed(manager)
    manager.resume("t", {})
    stored = manager.get_step(step)
    assert stored is not None
    assert "abandoned" == stored.state
    [(by, what, reason)] = decisions(db)
    assert ("agentos", "abandon", True) == (by, what, reason.startswith("resume: "))


def test_a_retry_still_needs_the_world_of_its_checkpoint(manager: CheckpointManager, work: Path):
    """The interrupted step wrote half of a file that an older step proved: that checkpoint is not stood on."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    crashed(manager, expects=content("b", "22"))
    (work / "b").write_text("2")
    found = manager.recover("t")
    assert (Verdict.RESUME, {"a": "1"}) == (found.verdict, found.snapshot)
    assert "in flight" in found.rejected[0].reasons[0]


def test_untouched_is_run_again_even_if_it_must_not_run_twice(manager: CheckpointManager):
    """Everything is as it was at the begin and not as expected: it never happened."""
    wrote(manager, "a", "1")
    crashed(manager, expects=content("sent", "yes"), rerunnable=False)
    assert ["retry"] == fate(manager)
    assert {"a": "1"} == manager.resume("t", {})


@pytest.mark.parametrize("what", ["nothing expected", "half done", "was there before", "cannot be seen", "was not seen then"])
def test_what_must_not_run_twice_is_uncertain_unless_looking_settles_it(manager: CheckpointManager, work: Path, what: str):
    """No expectation, part of the effect, an effect that was there before, or no sight of it: a person must say."""
    wrote(manager, "a", "1")
    (work / "sub").mkdir()
    (work / "sub" / "d").write_text("old")
    if what == "was not seen then":
        hide(work / "sub")
    expects = {
        "nothing expected": None,
        "half done": exists("b", "c"),
        "was there before": content("a", "1"),
        "cannot be seen": content("sub/d", "new"),
        "was not seen then": content("sub/d", "new"),
    }
    crashed(manager, expects=expects[what], rerunnable=False)
    if what == "half done":
        (work / "b").write_text("")
    if what == "cannot be seen":
        hide(work / "sub")
    if what == "was not seen then":
        show(work / "sub")
    found = manager.recover("t")
    assert (Verdict.UNCERTAIN, None, ["uncertain"]) == (found.verdict, found.snapshot, fate(manager))
    assert any(option.startswith("manager.resolve_step('step_") for option in found.options)


def test_an_absence_that_was_brought_about_is_adopted(manager: CheckpointManager, work: Path):
    """The step was to delete a file, and it is gone."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    crashed(manager, {"n": 3}, expects=absent("a"))
    (work / "a").unlink()
    assert {"n": 3} == manager.resume("t", {})


def test_a_touched_file_with_the_same_content_is_no_change(manager: CheckpointManager, work: Path):
    """The time of modification is not what a step leaves behind."""
    (work / "a").write_text("1")
    crashed(manager, expects=content("a", "1"))
    (work / "a").write_text("1")
    assert ["retry"] == fate(manager)


def test_part_of_what_was_expected_is_enough_where_the_pack_says_so(manager: CheckpointManager, work: Path):
    """The policy of the expectation decides, as it will when the checkpoint is judged."""
    crashed(manager, {"n": 1}, expects=exists("a", "b", require_all=False, allow_partial=True, min_verified=1))
    (work / "b").write_text("")
    assert ["adopt"] == fate(manager)
    assert {"n": 1} == manager.resume("t", {})


def test_a_step_is_adopted_only_onto_the_checkpoint_it_was_begun_on(manager: CheckpointManager, work: Path):
    """The task went on since: its effect is there, but its snapshot is of another state."""
    wrote(manager, "a", "1")
    crashed(manager, {"old": True}, expects=content("b", "1"))
    (work / "b").write_text("1")
    wrote(manager, "c", "1", {"n": 2})
    assert (["retry"], {"n": 2}) == (fate(manager), manager.resume("t", {}))


def test_a_step_begun_on_another_checkpoint_that_must_not_run_twice_is_uncertain(manager: CheckpointManager, work: Path):
    """It happened, it cannot be adopted, and it must not be repeated."""
    wrote(manager, "a", "1")
    crashed(manager, expects=content("b", "1"), rerunnable=False)
    (work / "b").write_text("1")
    wrote(manager, "c", "1")
    assert (Verdict.UNCERTAIN, ["uncertain"]) == (manager.recover("t").verdict, fate(manager))


def test_a_step_begun_on_the_checkpoint_walked_back_to_is_adopted_there(manager: CheckpointManager, work: Path):
    """The newer checkpoint is refuted, and the step that was begun on the older one had its effect."""
    wrote(manager, "a", "1")
    crashed(manager, {"adopted": True}, expects=content("b", "1"))
    wrote(manager, "c", "1")
    (work / "b").write_text("1")
    (work / "c").unlink()
    assert {"adopted": True} == manager.resume("t", {})
    assert [(3, True), (1, False)] == [(each.sequence_number, each.adopted) for each in manager.list_checkpoints("t")]


def test_an_effect_in_a_damaged_world_is_not_adopted(manager: CheckpointManager, work: Path):
    """What the step left behind is there, what it stood on is not."""
    wrote(manager, "a", "1")
    crashed(manager, expects=content("b", "1"))
    (work / "b").write_text("1")
    (work / "a").unlink()
    found = manager.recover("t")
    assert (Verdict.DIVERGED, ["retry"], None) == (found.verdict, fate(manager), found.snapshot)


def test_an_effect_that_mends_its_own_world_is_adopted(manager: CheckpointManager, work: Path):
    """The step rewrote the file: its own claim ends the older one about it."""
    wrote(manager, "a", "1")
    crashed(manager, {"n": 2}, expects=content("a", "2"))
    (work / "a").write_text("2")
    assert {"n": 2} == manager.resume("t", {})


def test_two_interrupted_steps_are_settled_one_by_one(manager: CheckpointManager, work: Path):
    """One is adopted; the other was begun on what is now an older checkpoint, and runs again."""
    for name in "ab":
        crashed(manager, {"step": name}, expects=content(name, "1"))
        (work / name).write_text("1")
    assert ["adopt", "retry"] == fate(manager)
    assert {"step": "a"} == manager.resume("t", {})
    assert (1, []) == (len(manager.list_checkpoints("t")), manager.list_open_steps("t"))


@pytest.mark.parametrize("how", ["committed", "interrupted"])
def test_walking_back_never_crosses_what_must_not_run_twice(manager: CheckpointManager, work: Path, how: str):
    """An older checkpoint holds, but going on from it would repeat a payment."""
    wrote(manager, "a", "1")
    if how == "committed":
        wrote(manager, "b", "1", rerunnable=False)
    else:
        wrote(manager, "b", "1")
        crashed(manager, expects=content("sent", "yes"), rerunnable=False)
    (work / "b").unlink()
    found = manager.recover("t")
    assert (Verdict.UNCERTAIN, None) == (found.verdict, found.snapshot)
    assert ("walking back past checkpoint number 2 would repeat what must not run twice",) == found.notes


def test_going_on_from_a_step_that_must_not_run_twice_is_fine(manager: CheckpointManager, work: Path):
    """It is done; only going back past it is not allowed."""
    wrote(manager, "a", "1", rerunnable=False)
    wrote(manager, "b", "1")
    (work / "b").unlink()
    assert {"a": "1"} == manager.resume("t", {})


def test_an_error_in_the_block_is_shown_with_the_step(manager: CheckpointManager):
    """What interrupted it is part of the story, and of the JSON."""
    task = manager.task("t")
    with pytest.raises(ZeroDivisionError), task.step("tool_executed", {}):
        raise ZeroDivisionError("by nobody")
    [step] = manager.recover("t").interrupted
    assert ("retry", "ZeroDivisionError: by nobody") == (step.verdict, step.error)
    assert "its block ended with ZeroDivisionError: by nobody" in manager.recover("t").explain()
    assert step.begun_at.isoformat() in json.dumps(manager.recover("t").to_dict())


def test_the_handle_passes_expectations_on(manager: CheckpointManager, work: Path):
    """task.step(expects=, rerunnable=) begins the same step."""
    task = manager.task("t")
    with suppress(OSError), task.step("tool_executed", {"n": 1}, expects=content("a", "1"), rerunnable=False):
        (work / "a").write_text("1")
        raise OSError
    assert {"n": 1} == task.resume({})


@pytest.mark.parametrize(
    ("begin", "error", "named"),
    [
        ({"expects": EvidencePack()}, InvalidInputError, "expects is empty"),
        ({"expects": "a file"}, InvalidInputError, "expects"),
        ({"expects": content("a", "1"), "rerunnable": 0}, InvalidInputError, "rerunnable"),
        ({"rerunnable": None}, InvalidInputError, "rerunnable"),
        ({"lease": 3}, InvalidInputError, "lease"),
    ],
)
def test_bad_input_is_named_and_nothing_begins(manager: CheckpointManager, db: Path, begin: dict, error: type, named: str):
    """Every argument that recovery added to begin_step."""
    before = dump(db)
    with pytest.raises(error, match=named):
        manager.begin_step("t", "tool_executed", {}, **begin)
    assert before == dump(db)


def test_an_expectation_that_could_never_be_checked_is_refused_at_begin(manager: CheckpointManager, db: Path):
    """Not after the crash."""
    before, pack = dump(db), content("a", "1")
    pack.evidence_list[0].expected["sha256"] = "short"
    with pytest.raises(EvidenceDefinitionError):
        crashed(manager, expects=pack)
    assert before == dump(db)


def test_a_damaged_baseline_is_reported_and_nothing_is_settled(manager: CheckpointManager, db: Path):
    """It is sealed with its step."""
    crashed(manager, expects=content("a", "1"))
    assert 1 == execute(db, "update steps set baseline = replace(baseline, 'items', 'itemz')")
    with pytest.raises(StoreCorruptError):
        manager.recover("t")
