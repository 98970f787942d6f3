"""The human's word: accept, restart, reopen, resolve_step and abandon_step, each kept with who said it and why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, EvidenceType, Verdict
from agentos.errors import (
    CheckpointNotFoundError,
    EvidenceUnavailableError,
    InvalidInputError,
    LeaseLostError,
    NotInterruptedError,
    NotSafeToResumeError,
    StepAlreadyCommittedError,
    StepNotFoundError,
    TaskFinishedError,
    TaskHeldError,
)
from tests.support import content, dump, execute, row, start
from tests.unit.checkpoints.steps import committed, crashed, hide, lasting, wrote

SAID: dict[str, Any] = {"by": "ada", "reason": "I looked"}


def decisions(db: Path) -> list[tuple[Any, ...]]:
    """Who decided what and why, oldest first."""
    return [(by, what, reason) for _, _, _, by, what, _, reason, _ in dump(db)["decisions"]]


# accept


def test_accept_takes_the_world_as_it_is(manager: CheckpointManager, db: Path, work: Path):
    """A manual_checkpoint with the head's snapshot and newly measured evidence for what differs, and the task goes on."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1", {"n": 2})
    (work / "a").write_text("edited")
    taken = manager.accept("t", **SAID)
    assert ("manual_checkpoint", {"n": 2}, True, 3) == (
        taken.checkpoint_type,
        taken.snapshot_data,
        taken.verified,
        taken.sequence_number,
    )
    [item] = taken.evidence_pack.evidence_list
    assert (EvidenceType.FILE_SHA256, content("a", "edited").evidence_list[0].expected["sha256"], 6) == (
        item.evidence_type,
        item.expected["sha256"],
        item.expected["size"],
    )
    assert {"by": "ada", "reason": "I looked", "what": ["accepted: a"]} == taken.metadata["accepted"]
    assert [("ada", "accept", "I looked")] == decisions(db)
    assert {"n": 2} == manager.resume("t", {})


def test_a_missing_file_is_accepted_as_absent(manager: CheckpointManager, work: Path):
    """And its coming back is a difference then."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    [item] = manager.accept("t", **SAID).evidence_pack.evidence_list
    assert EvidenceType.ARTIFACT_ABSENT == item.evidence_type
    assert "resume" == manager.recover("t").verdict
    (work / "a").write_text("other")
    assert "repair" == manager.recover("t").verdict


def test_a_folder_in_the_place_of_a_file_is_accepted_as_one(manager: CheckpointManager, work: Path):
    """Whatever is there is what is claimed."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    (work / "a").mkdir()
    [item] = manager.accept("t", **SAID).evidence_pack.evidence_list
    assert (EvidenceType.ARTIFACT_EXISTS, "directory") == (item.evidence_type, item.expected["type"])
    assert "resume" == manager.recover("t").verdict


def test_a_changed_row_is_accepted_with_the_values_it_has(manager: CheckpointManager, tmp_path: Path):
    """Only the columns that were claimed."""
    target = tmp_path / "target.sqlite"
    execute(target, "create table tasks (id integer, state text, other text)")
    execute(target, "insert into tasks values (1, 'done', 'x')")
    committed(manager, row({"id": 1}, {"state": "done"}, db_path=str(target)))
    execute(target, "update tasks set state = 'lost'")
    [item] = manager.accept("t", **SAID).evidence_pack.evidence_list
    assert {"state": "lost"} == item.expected["values"]
    assert "resume" == manager.recover("t").verdict


def test_only_the_subjects_named_are_accepted(manager: CheckpointManager, work: Path):
    """By subject or by path; what is not named differs as before."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    for name in "ab":
        (work / name).write_text("edited")
    manager.accept("t", **SAID, subjects=["a"])
    assert ["file:b"] == [each.subject for each in manager.recover("t").differences]
    manager.accept("t", **SAID, subjects=["file:b"])
    assert "resume" == manager.recover("t").verdict


def test_a_named_checkpoints_snapshot_can_be_gone_on_with(manager: CheckpointManager, work: Path):
    """The world is the head's, the state is the one that was asked for."""
    first = wrote(manager, "a", "1", {"n": 1})
    wrote(manager, "b", "1", {"n": 2})
    (work / "b").unlink()
    assert {"n": 1} == manager.accept("t", **SAID, checkpoint_id=first.checkpoint_id).snapshot_data
    assert {"n": 1} == manager.resume("t", {})


def test_a_file_of_another_base_is_accepted_where_it_is(db: Path, tmp_path: Path, monkeypatch):
    """Run from another folder, accept claims the file that differs, not its namesake here."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with CheckpointManager(db) as manager:
        wrote(manager, "a", "1")
    (tmp_path / "one" / "a").write_text("edited")
    monkeypatch.chdir(tmp_path / "two")
    with CheckpointManager(db) as manager:
        assert manager.accept("t", **SAID).verified
        assert {"a": "1"} == manager.resume("t", {})
    (tmp_path / "one" / "a").write_text("edited again")
    with CheckpointManager(db) as manager:
        assert "diverged" == manager.recover("t").verdict


def test_accepting_across_what_must_not_run_twice_is_a_persons_right(manager: CheckpointManager, work: Path):
    """Nothing is repeated: the task goes on after the step, with the world as it is."""
    wrote(manager, "a", "1", rerunnable=False)
    wrote(manager, "b", "1", rerunnable=False)
    (work / "b").unlink()
    assert "uncertain" == manager.recover("t").verdict
    manager.accept("t", **SAID)
    assert {"b": "1"} == manager.resume("t", {})


def test_accepting_what_must_hold_at_every_resume_ends_it(manager: CheckpointManager, work: Path):
    """A later claim about the subject ends a task claim too."""
    wrote(manager, "b", "1")
    (work / "licence").write_text("yes")
    committed(manager, lasting(content("licence", "yes"), "task"))
    (work / "licence").write_text("no")
    assert "blocked" == manager.recover("t").verdict
    manager.accept("t", **SAID)
    assert "resume" == manager.recover("t").verdict


def test_what_cannot_be_seen_cannot_be_accepted(manager: CheckpointManager, db: Path, work: Path):
    """Nothing is changed, and the error says what was out of sight."""
    (work / "sub").mkdir()
    wrote(manager, "sub/a", "1")
    hide(work / "sub")
    before = dump(db)
    with pytest.raises(EvidenceUnavailableError, match=r"sub/a: .*what cannot be seen cannot be accepted"):
        manager.accept("t", **SAID)
    assert _lasting_parts(before) == _lasting_parts(dump(db))


def test_where_nothing_differs_there_is_nothing_to_accept(manager: CheckpointManager, db: Path):
    """Refused, and the hint does not promise that the task can be resumed."""
    wrote(manager, "a", "1")
    crashed(manager, rerunnable=False)
    before = dump(db)
    with pytest.raises(InvalidInputError, match="nothing differs") as error:
        manager.accept("t", **SAID)
    assert "manager.recover('t') says" in error.value.hint
    assert _lasting_parts(before) == _lasting_parts(dump(db))


def test_a_subject_that_does_not_differ_is_refused_with_those_that_do(manager: CheckpointManager, work: Path):
    """A typing mistake accepts nothing."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    with pytest.raises(InvalidInputError, match="typo: nothing differs there") as error:
        manager.accept("t", **SAID, subjects=["typo"])
    assert "file:a" in error.value.hint
    assert 1 == len(manager.list_checkpoints("t"))


def test_a_checkpoint_of_another_task_is_no_ground(manager: CheckpointManager, work: Path):
    """Its state belongs elsewhere."""
    other = wrote(manager, "b", "1", task="u")
    wrote(manager, "a", "1")
    (work / "a").unlink()
    with pytest.raises(CheckpointNotFoundError):
        manager.accept("t", **SAID, checkpoint_id=other.checkpoint_id)


def test_accept_without_any_checkpoint_is_refused_with_a_way_out(manager: CheckpointManager):
    """There is no state to go on with; restart is."""
    crashed(manager)
    with pytest.raises(CheckpointNotFoundError) as error:
        manager.accept("t", **SAID)
    assert "restart" in error.value.hint


# restart and reopen


def test_restart_supersedes_all_and_keeps_all(manager: CheckpointManager, db: Path, work: Path):
    """The task is fresh, its history can still be read, open steps are ended, and numbers go on."""
    first = wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    step = crashed(manager, rerunnable=False)
    assert 2 == manager.restart("t", **SAID)
    assert (Verdict.FRESH, [], []) == (
        manager.recover("t").verdict,
        manager.list_checkpoints("t"),
        manager.list_open_steps("t"),
    )
    assert "it was started over after checkpoint number 2; everything before is kept" in manager.recover("t").explain()
    assert [2, 1] == [each.sequence_number for each in manager.list_checkpoints("t", include_superseded=True)]
    kept = manager.get_checkpoint(first.checkpoint_id)
    assert kept is not None
    assert ({"a": "1"}, "restart") == (kept.snapshot_data, kept.superseded_by)
    stored = manager.get_step(step)
    assert stored is not None
    assert "abandoned" == stored.state
    assert {"n": 0} == manager.resume("t", {"n": 0})
    assert 3 == wrote(manager, "c", "1").sequence_number
    assert [("ada", "restart", "I looked")] == decisions(db)[:1]


def test_after_a_restart_old_claims_are_over(manager: CheckpointManager, work: Path):
    """The files of the life before are nobody's."""
    wrote(manager, "a", "1")
    manager.restart("t", **SAID)
    wrote(manager, "b", "1")
    (work / "a").unlink()
    assert {"b": "1"} == manager.resume("t", {})


def test_restart_is_the_way_out_of_diverged_and_uncertain(manager: CheckpointManager, work: Path):
    """Whatever stood in the way."""
    wrote(manager, "a", "1")
    crashed(manager, rerunnable=False)
    (work / "a").unlink()
    manager.restart("t", **SAID)
    assert {} == manager.resume("t", {})


def test_restarting_a_finished_task_opens_it(manager: CheckpointManager):
    """Started over means that it takes steps again."""
    wrote(manager, "a", "1")
    manager.finish_task("t")
    manager.restart("t", **SAID)
    assert {} == manager.resume("t", {})
    crashed(manager)


def test_reopen_lets_a_finished_task_take_steps_again(manager: CheckpointManager, db: Path):
    """From where it ended."""
    wrote(manager, "a", "1")
    manager.finish_task("t")
    with pytest.raises(TaskFinishedError):
        crashed(manager)
    manager.reopen("t", **SAID)
    assert {"a": "1"} == manager.resume("t", {})
    assert 2 == wrote(manager, "b", "1").sequence_number
    assert [("ada", "reopen", "I looked")] == decisions(db)


# resolve_step and abandon_step


def test_a_step_said_to_have_landed_is_a_checkpoint(manager: CheckpointManager, db: Path):
    """Adopted, with the snapshot of its begin; saying it again is no error."""
    wrote(manager, "a", "1")
    step = crashed(manager, {"paid": True}, rerunnable=False)
    landed = manager.resolve_step(step, "landed", **SAID)
    assert landed is not None
    assert (True, {"paid": True}, 2) == (landed.adopted, landed.snapshot_data, landed.sequence_number)
    assert landed == manager.resolve_step(step, "landed", **SAID)
    assert {"paid": True} == manager.resume("t", {})
    assert [("ada", "adopt", "landed: I looked")] == decisions(db)


def test_a_first_step_that_landed_without_evidence_is_not_started_over(manager: CheckpointManager):
    """A person said that it happened: the task is not fresh, whatever can be measured."""
    step = crashed(manager, {"paid": True}, rerunnable=False)
    manager.resolve_step(step, "landed", **SAID)
    assert manager.recover("t").verdict is not Verdict.FRESH


def test_a_step_said_not_to_have_landed_is_abandoned(manager: CheckpointManager, db: Path):
    """It may run again; saying it again is no error."""
    wrote(manager, "a", "1")
    step = crashed(manager, rerunnable=False)
    assert manager.resolve_step(step, "not_landed", **SAID) is None
    assert manager.resolve_step(step, "not_landed", **SAID) is None
    assert {"a": "1"} == manager.resume("t", {})
    assert [("ada", "not_landed", "I looked")] == decisions(db)


@pytest.mark.parametrize(("first", "second"), [("landed", "not_landed"), ("not_landed", "landed")])
def test_the_opposite_cannot_be_said_afterwards(manager: CheckpointManager, db: Path, first: str, second: str):
    """What was settled stays settled."""
    step = crashed(manager)
    manager.resolve_step(step, first, **SAID)
    before = dump(db)
    with pytest.raises(NotInterruptedError, match=f"so it cannot be called {second}"):
        manager.resolve_step(step, second, **SAID)
    assert before == dump(db)


def test_a_step_that_landed_on_an_older_checkpoint_is_ended_and_no_checkpoint(manager: CheckpointManager):
    """Nothing stands on it, and it does not run again."""
    step = crashed(manager, rerunnable=False)
    wrote(manager, "a", "1")
    assert manager.resolve_step(step, "landed", **SAID) is None
    assert {"a": "1"} == manager.resume("t", {})


def test_a_committed_step_is_not_for_a_person_to_settle(manager: CheckpointManager):
    """It ended by itself."""
    step = wrote(manager, "a", "1").step_id
    for outcome in ("landed", "not_landed"):
        with pytest.raises(NotInterruptedError, match="committed already"):
            manager.resolve_step(step, outcome, **SAID)
    with pytest.raises(StepAlreadyCommittedError):
        manager.abandon_step(step)


def test_a_step_that_is_under_way_elsewhere_is_not_for_a_person_to_settle(db: Path, work: Path):
    """Its process lives: whether it lands is not decided yet."""
    code = (
        "import sys\nfrom agentos.core.checkpoints import CheckpointManager\n"
        "print(CheckpointManager(sys.argv[1]).begin_step('t', 'tool_executed', {}), flush=True)\nsys.stdin.read()"
    )
    with start(code, db) as process, CheckpointManager(db) as manager:
        assert process.stdout is not None
        step = process.stdout.readline().strip()
        with pytest.raises(NotInterruptedError, match="a living process is in the middle of it"):
            manager.resolve_step(step, "landed", **SAID)
        process.kill()
        process.wait()
        assert manager.resolve_step(step, "landed", **SAID) is not None


def test_abandoning_a_step_ends_it(manager: CheckpointManager, db: Path):
    """True once, False after that; who and why are kept."""
    step = crashed(manager, rerunnable=False)
    assert manager.abandon_step(step, by="ada", reason="typo") is True
    assert manager.abandon_step(step, by="ada", reason="typo") is False
    assert [("ada", "abandon", "typo")] == decisions(db)
    assert {"n": 0} == manager.resume("t", {"n": 0})
    with pytest.raises((StepAlreadyCommittedError, LeaseLostError)):
        manager.commit_step(step, content("a", "1"))


# Whoever else has the task.

WORDS: dict[str, Callable[[CheckpointManager, str], Any]] = {
    "accept": lambda manager, _: manager.accept("t", **SAID),
    "restart": lambda manager, _: manager.restart("t", **SAID),
    "reopen": lambda manager, _: manager.reopen("t", **SAID),
    "resolve_step": lambda manager, step: manager.resolve_step(step, "not_landed", **SAID),
    "abandon_step": lambda manager, step: manager.abandon_step(step),
}


@pytest.mark.parametrize("word", WORDS)
def test_a_held_task_is_decided_about_by_nobody_else(manager: CheckpointManager, db: Path, work: Path, word: str):
    """The holder would go on with what it believed."""
    wrote(manager, "a", "1")
    step = crashed(manager)
    (work / "a").unlink()
    manager.claim_task("t")
    before = dump(db)
    with pytest.raises(TaskHeldError):
        WORDS[word](manager, step)
    assert before == dump(db)


@pytest.mark.parametrize("word", ["resolve_step", "abandon_step"])
def test_the_holder_decides_with_its_lease_and_a_stale_one_does_not(manager: CheckpointManager, db: Path, word: str):
    """lease= on what settles a step."""
    step = crashed(manager)
    stale = manager.claim_task("t")
    manager.release_task(stale)
    lease = manager.claim_task("t")
    settle: dict[str, Callable[[Any], Any]] = {
        "resolve_step": lambda lease: manager.resolve_step(step, "not_landed", **SAID, lease=lease),
        "abandon_step": lambda lease: manager.abandon_step(step, lease=lease),
    }
    before = dump(db)
    with pytest.raises(LeaseLostError):
        settle[word](stale)
    assert before == dump(db)
    settle[word](lease)
    assert [] == manager.list_open_steps("t")


@pytest.mark.parametrize("word", ["accept", "restart", "reopen"])
def test_a_word_about_a_task_that_nobody_began_is_refused(manager: CheckpointManager, db: Path, word: str):
    """It would be about a misspelled name."""
    before = dump(db)
    with pytest.raises(CheckpointNotFoundError, match="nothing was ever begun"):
        WORDS[word](manager, "")
    assert before == dump(db)


def test_an_unknown_step_is_said_to_be_one(manager: CheckpointManager):
    """For both ways to settle one."""
    with pytest.raises(StepNotFoundError):
        manager.resolve_step("step_none", "landed", **SAID)
    with pytest.raises(StepNotFoundError):
        manager.abandon_step("step_none")


@pytest.mark.parametrize(
    ("call", "arguments", "named"),
    [
        ("accept", {"by": ""}, "by"),
        ("accept", {"reason": "  "}, "reason"),
        ("accept", {"by": None}, "by"),
        ("accept", {"task_id": ""}, "task_id"),
        ("accept", {"subjects": "a"}, "subjects"),
        ("accept", {"subjects": [1]}, "subjects"),
        ("accept", {"subjects": 7}, "subjects"),
        ("accept", {"checkpoint_id": ""}, "checkpoint_id"),
        ("restart", {"by": ""}, "by"),
        ("restart", {"reason": ""}, "reason"),
        ("restart", {"task_id": None}, "task_id"),
        ("reopen", {"by": 1}, "by"),
        ("reopen", {"reason": "\ud800"}, "reason"),
        ("resolve_step", {"outcome": "maybe"}, "outcome"),
        ("resolve_step", {"outcome": None}, "outcome"),
        ("resolve_step", {"by": ""}, "by"),
        ("resolve_step", {"reason": ""}, "reason"),
        ("resolve_step", {"step_id": ""}, "step_id"),
        ("resolve_step", {"lease": 1}, "lease"),
        ("abandon_step", {"step_id": None}, "step_id"),
        ("abandon_step", {"by": 1}, "by"),
        ("abandon_step", {"reason": None}, "reason"),
        ("abandon_step", {"lease": 1}, "lease"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(
    manager: CheckpointManager, db: Path, work: Path, call: str, arguments: dict, named: str
):
    """Every argument of every word."""
    wrote(manager, "a", "1")
    step = crashed(manager)
    (work / "a").unlink()
    given: dict[str, Any] = dict(SAID)
    if call in ("resolve_step", "abandon_step"):
        given["step_id"] = step
    else:
        given["task_id"] = "t"
    if call == "resolve_step":
        given["outcome"] = "landed"
    before = dump(db)
    with pytest.raises(InvalidInputError, match=named):
        getattr(manager, call)(**{**given, **arguments})
    assert before == dump(db)


def _lasting_parts(tables: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """A refused word may have held the task for a moment, which raises its token; nothing else may differ."""
    return {name: rows for name, rows in tables.items() if name != "tasks"}


def test_a_refusal_to_resume_after_a_word_is_still_a_refusal(manager: CheckpointManager, work: Path):
    """Reopening heals nothing."""
    wrote(manager, "a", "1")
    manager.finish_task("t")
    (work / "a").unlink()
    manager.reopen("t", **SAID)
    with pytest.raises(NotSafeToResumeError):
        manager.resume("t", {})


def test_accepted_loss_of_several_things_is_one_checkpoint(manager: CheckpointManager, work: Path):
    """Two files gone and one edited: three claims, one step."""
    for name in "abc":
        wrote(manager, name, "1")
    (work / "a").unlink()
    (work / "b").unlink()
    (work / "c").write_text("2")
    taken = manager.accept("t", **SAID)
    assert ["a", "b", "c"] == [each.expected["path"] for each in taken.evidence_pack.evidence_list]
