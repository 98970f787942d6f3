"""recover() looks and reports: every verdict, every field of its report, and nothing changed but the history of looks."""

import dataclasses
import json
import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, Recovery, Verdict
from agentos.errors import InvalidInputError, StoreCorruptError
from tests.support import content, dump, execute, exists, exited, row
from tests.unit.checkpoints.steps import absent, committed, crashed, hide, lasting, show, wrote


def verdict(manager: CheckpointManager, task: str = "t", **options: Any) -> str:
    return manager.recover(task, **options).verdict.value


def number(recovery: Recovery) -> int | None:
    return None if recovery.checkpoint is None else recovery.checkpoint.sequence_number


def watched(manager: CheckpointManager, monkeypatch) -> list[Evidence]:
    """Everything that is looked at from now on."""
    looks: list[Evidence] = []
    observe = manager.verifier.observe

    def seen(evidence: Evidence, *around: Any, **options: Any) -> Any:
        looks.append(evidence)
        return observe(evidence, *around, **options)

    monkeypatch.setattr(manager.verifier, "observe", seen)
    return looks


# Every verdict.


def test_a_task_that_nobody_heard_of_is_fresh(manager: CheckpointManager, db: Path):
    """Nothing is returned, nothing is listed, and asking does not make the task."""
    before = dump(db)
    found = manager.recover("t")
    assert (Verdict.FRESH, None, None, ()) == (found.verdict, found.checkpoint, found.snapshot, found.differences)
    assert before == dump(db)


def test_begun_steps_alone_are_fresh_and_listed(manager: CheckpointManager):
    """Nothing was committed: the steps that began will run again, and are shown."""
    step = crashed(manager)
    found = manager.recover("t")
    assert (Verdict.FRESH, [(step, "retry")]) == (found.verdict, [(each.step_id, each.verdict) for each in found.interrupted])


def test_a_begun_step_that_had_its_effect_is_not_fresh(manager: CheckpointManager, work: Path):
    """A begun step says otherwise: its effect is there, and starting from the default would repeat it."""
    crashed(manager, {"n": 1}, expects=content("a", "1"))
    (work / "a").write_text("1")
    found = manager.recover("t")
    assert (Verdict.RESUME, {"n": 1}, "adopt") == (found.verdict, found.snapshot, found.interrupted[0].verdict)


def test_a_world_that_holds_is_resumed(manager: CheckpointManager):
    """The newest checkpoint's snapshot, with nothing that differs."""
    wrote(manager, "a", "1")
    newest = wrote(manager, "b", "2", {"n": 2})
    found = manager.recover("t")
    assert found.checkpoint is not None
    assert (Verdict.RESUME, newest.checkpoint_id, {"n": 2}) == (found.verdict, found.checkpoint.checkpoint_id, found.snapshot)
    assert ((), (), (), ()) == (found.differences, found.rejected, found.leftovers, found.interrupted)


def test_what_an_older_step_wrote_must_still_be_there(manager: CheckpointManager, work: Path):
    """The newest step's own file is not enough: a damaged file of an older step stops every later one."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "2")
    (work / "a").write_text("half")
    found = manager.recover("t")
    assert (Verdict.DIVERGED, ["file:a"]) == (found.verdict, [each.subject for each in found.differences])


def test_a_file_put_back_is_walked_back_to(manager: CheckpointManager, work: Path):
    """Where the newest does not hold, the newest that does is the answer, and the newer one is named with its reason."""
    wrote(manager, "a", "1")
    older = wrote(manager, "b", "1")
    newer = wrote(manager, "a", "2")
    (work / "a").write_text("1")
    found = manager.recover("t")
    assert (Verdict.RESUME, older.sequence_number, {"b": "1"}) == (found.verdict, number(found), found.snapshot)
    [rejected] = found.rejected
    assert (newer.checkpoint_id, 3, 1) == (rejected.checkpoint_id, rejected.sequence, len(rejected.reasons))
    assert "recorded by the earlier checkpoint number 1" in rejected.reasons[0]


def test_no_candidate_left_is_diverged_and_never_fresh(manager: CheckpointManager, work: Path):
    """Everything was damaged: there is no snapshot to be had, and what can be done is said."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    found = manager.recover("t")
    assert (Verdict.DIVERGED, None, None) == (found.verdict, found.checkpoint, found.snapshot)
    assert any(option.startswith("manager.accept(") for option in found.options)
    assert any(option.startswith("manager.restart(") for option in found.options)


def test_all_deleted_by_hand_is_diverged_and_not_fresh(manager: CheckpointManager):
    """Work was committed; that nobody can resume from it does not undo it."""
    manager.delete_checkpoint(wrote(manager, "a", "1").checkpoint_id)
    assert "diverged" == verdict(manager)


def test_only_failed_checkpoints_are_diverged_and_not_fresh(manager: CheckpointManager):
    """A checkpoint that never verified is committed work all the same."""
    committed(manager, exists("gone"))
    found = manager.recover("t")
    assert Verdict.DIVERGED == found.verdict
    assert ("it was never verified: what it claimed did not hold when it was looked at",) == found.rejected[0].reasons


def test_what_cannot_be_seen_is_blocked_and_never_walked_past(manager: CheckpointManager, work: Path):
    """An unreadable folder is no damage: the walk stops at the checkpoint that might hold."""
    wrote(manager, "a", "1")
    (work / "sub").mkdir()
    wrote(manager, "sub/b", "1")
    hide(work / "sub")
    found = manager.recover("t")
    assert (Verdict.BLOCKED, None, 2) == (found.verdict, found.snapshot, number(found))
    assert [("file:sub/b", "error", None)] == [(each.subject, each.outcome, each.recorded_by) for each in found.differences]
    show(work / "sub")
    assert "resume" == verdict(manager)


def test_a_difference_beside_something_unseen_walks_on(manager: CheckpointManager, work: Path):
    """What differs for good decides: nothing that could become visible would save that checkpoint."""
    wrote(manager, "a", "1")
    (work / "sub").mkdir()
    wrote(manager, "sub/b", "1")
    wrote(manager, "a", "2")
    (work / "a").write_text("1")
    hide(work / "sub")
    found = manager.recover("t")
    assert (Verdict.BLOCKED, 2, [3]) == (found.verdict, number(found), [each.sequence for each in found.rejected])


def test_a_task_claim_that_differs_is_blocked_and_never_walked_past(manager: CheckpointManager, work: Path):
    """What must hold at every resume is to be mended, whichever checkpoint one would stand on."""
    (work / "licence").write_text("yes")
    committed(manager, lasting(content("licence", "yes"), "task"))
    wrote(manager, "a", "1")
    (work / "licence").write_text("no")
    found = manager.recover("t")
    assert (Verdict.BLOCKED, 2) == (found.verdict, number(found))
    assert [("file:licence", "failed")] == [(each.subject, each.outcome) for each in found.differences]


def test_a_task_claim_that_its_pack_can_do_without_stops_nothing(manager: CheckpointManager, work: Path):
    """One of two was enough, whatever else differs: it is walked past that, and nobody has to mend what need not hold."""
    [licence] = lasting(content("licence", "yes"), "task").evidence_list
    either = EvidencePack(
        [licence, *content("note", "yes").evidence_list],
        require_all=False,
        allow_partial=True,
        min_verified=1,
    )
    (work / "licence").write_text("yes")
    (work / "note").write_text("yes")
    committed(manager, either)
    (work / "b").write_text("2")
    committed(manager, exists("b"))
    (work / "licence").write_text("no")
    # Seen at less cost than the note, which need not be looked at then.
    (work / "b").unlink()
    assert (Verdict.RESUME, 1) == ((found := manager.recover("t")).verdict, number(found))
    (work / "note").write_text("no")
    assert Verdict.BLOCKED is manager.recover("t").verdict


def test_a_finished_task_says_so_and_reports_on_its_world(manager: CheckpointManager, work: Path):
    """Its state is there whatever became of its files, and what differs is listed."""
    wrote(manager, "a", "1", {"n": 1})
    manager.finish_task("t")
    assert (Verdict.FINISHED, {"n": 1}, ()) == (
        manager.recover("t").verdict,
        manager.recover("t").snapshot,
        manager.recover("t").differences,
    )
    (work / "a").unlink()
    found = manager.recover("t")
    assert (Verdict.FINISHED, {"n": 1}, ["file:a"]) == (
        found.verdict,
        found.snapshot,
        [each.subject for each in found.differences],
    )


def test_a_claimed_task_is_held_and_not_looked_at(manager: CheckpointManager, work: Path):
    """Its holder may be in the middle of changing things: what is there now means nothing."""
    wrote(manager, "a", "1")
    manager.claim_task("t", holder="worker-7")
    (work / "a").write_text("half")
    found = manager.recover("t")
    assert (Verdict.HELD, None, (), ()) == (found.verdict, found.snapshot, found.differences, found.rejected)
    assert found.holder is not None
    assert re.fullmatch(r"process \d+ on \S+ \(worker-7\), since [0-9-]+ [0-9:]+ UTC,", found.holder)


# The world of a checkpoint.


def test_a_later_claim_ends_an_earlier_one(manager: CheckpointManager, work: Path):
    """The file was rewritten by a later step: only what that one claimed must hold."""
    wrote(manager, "a", "1")
    wrote(manager, "a", "2")
    assert (Verdict.RESUME, 2) == (manager.recover("t").verdict, number(manager.recover("t")))
    assert "2" == (work / "a").read_text()


def test_a_deleted_file_that_was_proven_absent_holds(manager: CheckpointManager, work: Path):
    """Absence is claimed like anything else: the file is gone for good, and what comes back can be taken away again."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    (work / "a").unlink()
    committed(manager, absent("a"))
    assert (Verdict.RESUME, 3) == (manager.recover("t").verdict, number(manager.recover("t")))
    (work / "a").write_text("back")
    assert "repair" == verdict(manager)


def test_a_released_file_may_become_anything(manager: CheckpointManager, work: Path):
    """Nobody vouches for it any more: changed, gone or back, the task goes on."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    pack = content("b", "1")
    pack.releases.append("file:a")
    committed(manager, pack)
    for change in (lambda: (work / "a").write_text("other"), (work / "a").unlink):
        change()
        assert (Verdict.RESUME, 3) == (manager.recover("t").verdict, number(manager.recover("t")))


def test_a_release_holds_from_its_own_step_on_and_not_before(manager: CheckpointManager, work: Path):
    """Walked back past the step that released it, the file is claimed again."""
    wrote(manager, "a", "1")
    pack = content("c", "1")
    (work / "c").write_text("1")
    pack.releases.append("file:a")
    committed(manager, pack)
    (work / "a").unlink()
    (work / "c").unlink()
    assert "diverged" == verdict(manager)


def test_a_claim_for_its_own_step_is_shown_and_does_not_gate(manager: CheckpointManager, work: Path):
    """What a step claimed only for its own length may be gone at resume."""
    wrote(manager, "a", "1")
    (work / "lock").write_text("")
    committed(manager, EvidencePack([*lasting(exists("lock"), "step").evidence_list, *content("a", "1").evidence_list]))
    (work / "lock").unlink()
    assert (Verdict.RESUME, 2) == (manager.recover("t").verdict, number(manager.recover("t")))


def test_a_recorded_exit_code_alone_is_nothing_to_stand_on(manager: CheckpointManager):
    """An empty world does not hold: at least one thing must be measured now."""
    committed(manager, exited(0, actual_exit_code=0))
    found = manager.recover("t")
    assert Verdict.DIVERGED == found.verdict
    assert ("nothing that it stands on can be measured now: no claim of it lasts",) == found.rejected[0].reasons


def test_an_exit_code_that_nobody_recorded_proves_nothing(manager: CheckpointManager):
    """Whatever its lifetime, what was never recorded is not measured, and nothing can be proven by it alone."""
    committed(manager, lasting(exited(0), "lasting"))
    found = manager.recover("t")
    assert Verdict.DIVERGED == found.verdict
    assert ("nothing that it stands on was measured: all of it is only declared",) == found.rejected[0].reasons


def test_a_step_without_lasting_claims_stands_on_earlier_ones(manager: CheckpointManager):
    """A step that only ran a command is resumed from, as long as what earlier steps left still holds."""
    wrote(manager, "a", "1")
    committed(manager, exited(0, actual_exit_code=0), {"n": 2})
    assert (Verdict.RESUME, {"n": 2}) == (manager.recover("t").verdict, manager.recover("t").snapshot)


def test_what_a_deleted_checkpoint_claimed_stays_in_force(manager: CheckpointManager, work: Path):
    """Later checkpoints stand on it: deleting it takes its snapshot away, not what it left in the world."""
    first = wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    manager.delete_checkpoint(first.checkpoint_id)
    assert (Verdict.RESUME, 2) == (manager.recover("t").verdict, number(manager.recover("t")))
    (work / "a").write_text("damaged")
    assert "diverged" == verdict(manager)


def test_an_unverified_checkpoint_adds_nothing_to_later_worlds(manager: CheckpointManager):
    """It claimed what did not hold; later steps do not stand on that."""
    committed(manager, exists("never"))
    wrote(manager, "a", "1")
    assert (Verdict.RESUME, 2) == (manager.recover("t").verdict, number(manager.recover("t")))


def test_a_later_failed_look_removes_no_candidate(manager: CheckpointManager, work: Path):
    """Verified once is proven for good: damaged, seen to be damaged, and put back, it is resumed from."""
    checkpoint = wrote(manager, "a", "1")
    (work / "a").write_text("bad")
    assert not manager.verify_checkpoint(checkpoint.checkpoint_id)
    (work / "a").write_text("1")
    assert "resume" == verdict(manager)


def test_a_checkpoint_that_was_never_judged_is_a_candidate(db: Path, work: Path):
    """With auto_verify off nobody looked at commit; recovery looks now, and it holds or it does not."""
    with CheckpointManager(db, auto_verify=False) as manager:
        wrote(manager, "a", "1", {"n": 1})
        assert (Verdict.RESUME, {"n": 1}) == (manager.recover("t").verdict, manager.recover("t").snapshot)
        (work / "a").unlink()
        assert "diverged" == verdict(manager)


def test_part_of_a_pack_is_enough_where_its_policy_says_so(manager: CheckpointManager, work: Path):
    """One of two was asked for; one of two is there."""
    (work / "a").write_text("")
    (work / "b").write_text("")
    committed(manager, exists("a", "b", require_all=False, allow_partial=True, min_verified=1))
    (work / "a").unlink()
    assert "resume" == verdict(manager)
    (work / "b").unlink()
    assert "diverged" == verdict(manager)


def test_what_is_left_of_a_pack_must_hold_by_its_own_policy(manager: CheckpointManager, work: Path):
    """Two of three were asked for; when a later step took two of them over, the one that is left must hold."""
    for name in "abc":
        (work / name).write_text("")
    committed(manager, exists("a", "b", "c", require_all=False, allow_partial=True, min_verified=2))
    (work / "a").write_text("1")
    (work / "b").write_text("1")
    committed(manager, EvidencePack([*content("a", "1").evidence_list, *content("b", "1").evidence_list]))
    assert (Verdict.RESUME, 2) == (manager.recover("t").verdict, number(manager.recover("t")))
    (work / "c").unlink()
    assert (Verdict.RESUME, 1) == (manager.recover("t").verdict, number(manager.recover("t")))


def test_relative_names_of_two_bases_are_two_things(db: Path, tmp_path: Path, monkeypatch):
    """The same name under two folders: both must hold, neither ends the other."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with CheckpointManager(db) as manager:
            wrote(manager, "a", name)
    with CheckpointManager(db) as manager:
        assert (Verdict.RESUME, 2) == (manager.recover("t").verdict, number(manager.recover("t")))
        (tmp_path / "one" / "a").write_text("damaged")
        assert "diverged" == verdict(manager)


def test_a_moved_workspace_is_looked_for_where_it_is_now(db: Path, tmp_path: Path):
    """A manager that was told where the workspace is looks there for what every step claimed."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with CheckpointManager(db, old) as manager:
        wrote(manager, "a", "1")
    old.rename(new)
    with CheckpointManager(db, new) as manager:
        wrote(manager, "a", "2")
        assert (Verdict.RESUME, 2) == (manager.recover("t").verdict, number(manager.recover("t")))


def test_a_wrong_directory_is_blocked_and_not_diverged(db: Path, work: Path, tmp_path: Path):
    """A workspace that is not there cannot be seen; nothing in it was found to differ."""
    with CheckpointManager(db) as manager:
        wrote(manager, "a", "1")
    with CheckpointManager(db, tmp_path / "not-mounted") as manager:
        assert "blocked" == verdict(manager)


# What the report says.


def test_a_difference_says_what_was_expected_and_found(manager: CheckpointManager, work: Path):
    """Both sides as data, a sentence, a code, and who claimed it."""
    checkpoint = wrote(manager, "a", "1")
    (work / "a").unlink()
    [difference] = manager.recover("t").differences
    assert ("file:a", "failed", checkpoint.checkpoint_id, 1) == (
        difference.subject,
        difference.outcome,
        difference.checkpoint_id,
        difference.sequence,
    )
    assert (content("a", "1").evidence_list[0].expected, False) == (difference.expected, difference.found["exists"])
    assert (None, False) == (difference.recorded_by, difference.restorable)
    assert difference.message.startswith("a: expected a file, found nothing")


def test_a_difference_names_the_later_step_that_recorded_it(manager: CheckpointManager, work: Path):
    """What is there now is what a newer checkpoint wrote, and that one cannot be stood on."""
    wrote(manager, "a", "1")
    later = wrote(manager, "a", "2")
    manager.rollback_to_checkpoint(later.checkpoint_id)
    manager.restart("t", by="me", reason="again")
    wrote(manager, "a", "3")
    (work / "a").write_text("2")
    [difference] = manager.recover("t").differences
    assert f"the earlier checkpoint number 2 ({later.checkpoint_id}, no longer on the timeline)" == difference.recorded_by


def test_a_difference_recorded_later_says_later(manager: CheckpointManager, work: Path):
    """An old claim differs because a step that failed wrote there since."""
    wrote(manager, "a", "1")
    pack = content("a", "2")
    pack.evidence_list.extend(exists("never").evidence_list)
    (work / "a").write_text("2")
    failed = committed(manager, pack)
    [difference] = manager.recover("t").differences
    assert f"the later checkpoint number 2 ({failed.checkpoint_id})" == difference.recorded_by


def test_a_difference_in_flight_names_the_interrupted_step(manager: CheckpointManager, work: Path):
    """Nobody committed what is there, but a step that began said that it would write it."""
    wrote(manager, "a", "1")
    step = crashed(manager, expects=content("a", "2"))
    (work / "a").write_text("ha")
    [difference] = manager.recover("t").differences
    assert f"in flight: step {step} was interrupted while it changed this" == difference.recorded_by
    assert f"(in flight: step {step} was interrupted while it changed this)" in manager.recover("t").explain()


def test_what_rolled_back_steps_left_behind_is_listed(manager: CheckpointManager, work: Path):
    """Files that are there and that nobody will claim any more; those that are claimed or gone are not listed."""
    wrote(manager, "a", "1")
    wrote(manager, "extra", "1")
    wrote(manager, "gone", "1")
    wrote(manager, "a", "2")
    (work / "gone").unlink()
    (work / "a").write_text("1")
    found = manager.recover("t")
    assert (Verdict.RESUME, 2) == (found.verdict, number(found))
    assert [] == list(found.leftovers)
    (work / "gone").write_text("other")
    assert [("file:gone", 3)] == [(each.subject, each.sequence) for each in manager.recover("t").leftovers]


def test_the_report_names_the_registry_and_whether_it_was_just_created(tmp_path: Path, work: Path):
    """A wrong path looks like a fresh start: the report says which file was asked, and that it is brand new."""
    path = tmp_path / "missing" / "folder" / "registry.sqlite"
    with CheckpointManager(path) as manager:
        found = manager.recover("t")
        assert (True, str(path)) == (found.created, found.registry)
        assert f"  registry: {path}, which was just created\n" in found.explain()
    with CheckpointManager(path) as manager:
        assert manager.recover("t").created is False
        assert f"  registry: {path}\n" in manager.recover("t").explain()


def test_a_report_is_frozen(manager: CheckpointManager):
    """What was measured is not to be edited."""
    found = manager.recover("t")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.verdict = Verdict.RESUME  # type: ignore[misc]


def test_a_report_is_json(manager: CheckpointManager, work: Path):
    """Every verdict's report goes through JSON and comes back the same."""
    wrote(manager, "a", "1")
    wrote(manager, "a", "2")
    crashed(manager, expects=content("b", "1"), rerunnable=False)
    wrote(manager, "f", "1", task="finished")
    manager.finish_task("finished")
    manager.claim_task("held")
    reports = [manager.recover(task).to_dict() for task in ("t", "finished", "held", "fresh")]
    (work / "a").write_text("x")
    reports.append(manager.recover("t").to_dict())
    assert reports == json.loads(json.dumps(reports))
    assert {field.name for field in dataclasses.fields(Recovery)} == set(reports[0])


def test_asking_changes_nothing_but_the_history_of_looks(manager: CheckpointManager, db: Path, work: Path):
    """The verification is recorded; flags, timeline, claims and steps are what they were."""
    checkpoint = wrote(manager, "a", "1")
    crashed(manager)
    (work / "a").write_text("x")
    before = dump(db)
    manager.recover("t")
    after = dump(db)
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"verifications", "steps", "sqlite_sequence"}
    assert len(before["verifications"]) + 1 == len(after["verifications"])
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert stored is not None
    assert stored.verified


def test_the_same_question_gets_the_same_answer(manager: CheckpointManager, work: Path):
    """Given the same store and world."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    wrote(manager, "a", "2")
    crashed(manager, expects=content("c", "1"))
    (work / "a").write_text("1")
    assert manager.recover("t").to_dict() == manager.recover("t").to_dict()


def test_only_checkpoints_of_the_type_asked_for_are_answers(manager: CheckpointManager):
    """Others are walked past with that reason, and their claims count all the same."""
    wrote(manager, "a", "1")
    step = manager.begin_step("t", "approval_point", {"n": 2})
    manager.commit_step(step, content("a", "1"))
    wrote(manager, "b", "1")
    found = manager.recover("t", checkpoint_type="approval_point")
    assert (Verdict.RESUME, {"n": 2}) == (found.verdict, found.snapshot)
    assert [("it is not of type approval_point",)] == [each.reasons for each in found.rejected]
    assert "diverged" == verdict(manager, checkpoint_type="llm_response")


def test_what_was_not_looked_at_by_the_deadline_could_not_be_checked(manager: CheckpointManager):
    """Out of time is blocked, never diverged."""
    wrote(manager, "a", "1")
    found = manager.recover("t", deadline=0)
    assert (Verdict.BLOCKED, ["TIMED_OUT"]) == (found.verdict, [each.code for each in found.differences])
    assert "resume" == verdict(manager, deadline=60)


def test_a_thing_is_looked_at_once_however_many_candidates_name_it(manager: CheckpointManager, work: Path, monkeypatch):
    """Ten checkpoints of one file cost one look at it."""
    for turn in range(10):
        wrote(manager, "a", str(turn))
    (work / "a").write_text("x")
    looks = watched(manager, monkeypatch)
    assert "diverged" == verdict(manager)
    assert ["a"] == [evidence.expected["path"] for evidence in looks]


def test_a_glance_comes_before_a_hash(manager: CheckpointManager, work: Path, monkeypatch):
    """Where a cheap look refutes an older checkpoint, its expensive claims are not looked at."""
    (work / "big").write_text("1")
    (work / "flag").write_text("")
    committed(manager, EvidencePack([*content("big", "1").evidence_list, *exists("flag").evidence_list]))
    manager.delete_checkpoint(committed(manager, exists("flag")).checkpoint_id)
    (work / "flag").unlink()
    looks = watched(manager, monkeypatch)
    assert "diverged" == verdict(manager)
    assert "artifact_exists" == looks[0].evidence_type


def test_a_row_of_a_database_is_walked_like_a_file(manager: CheckpointManager, tmp_path: Path):
    """Rows are subjects too: a changed value is a difference with both sides."""
    target = tmp_path / "target.sqlite"
    execute(target, "create table tasks (id integer, state text)")
    execute(target, "insert into tasks values (1, 'done')")
    committed(manager, row({"id": 1}, {"state": "done"}, db_path=str(target)))
    assert "resume" == verdict(manager)
    execute(target, "update tasks set state = 'lost'")
    [difference] = manager.recover("t").differences
    assert ("failed", "lost") == (difference.outcome, difference.found["row"]["state"])


# Words.


def words(manager: CheckpointManager, task: str = "t") -> str:
    """The explanation without what differs from run to run."""
    found = manager.recover(task)
    text = found.explain().replace(found.registry, "REGISTRY")
    text = re.sub(r"step_[0-9A-Z]{26}", "STEP", text)
    text = re.sub(r"\b[0-9A-Z]{26}\b", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", "TIME", text)
    return re.sub(r"process \d+ on \S+", "process N on HOST", text)


def test_fresh_in_words(manager: CheckpointManager):
    """A beginning."""
    crashed(manager)
    assert words(manager).splitlines() == [
        "task t: fresh: nothing was committed, so it starts from the beginning",
        "  registry: REGISTRY, which was just created",
        "  interrupted: tool_executed step STEP of TIME",
        "    it will run again (nothing says how far it came, and doing it twice is harmless)",
        "  what can be done:",
        "    - manager.resume('t', default)",
    ]


def test_resume_in_words(manager: CheckpointManager, work: Path):
    """A walk back, with why and what is left behind."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    pack = content("a", "2")
    (work / "a").write_text("2")
    (work / "new").write_text("")
    committed(manager, EvidencePack([*pack.evidence_list, *exists("new").evidence_list]))
    (work / "a").unlink()
    (work / "a").write_text("1")
    assert words(manager).splitlines() == [
        (
            "task t: resume: go on from checkpoint number 2 (ID, tool_executed), everything it stands on was measured just now"
            "; 1 newer cannot be stood on"
        ),
        "  registry: REGISTRY, which was just created",
        "  differs:",
        (
            "    - a: expected sha256 d4735e3a265e…, found 6b86b273ff34… (1 bytes, modified TIME) "
            "(recorded by the earlier checkpoint number 1 (ID))"
        ),
        "  not from number 3 (ID):",
        (
            "    - a: expected sha256 d4735e3a265e…, found 6b86b273ff34… (1 bytes, modified TIME); "
            "recorded by the earlier checkpoint number 1 (ID)"
        ),
        "  left behind:",
        "    - file:new (of number 3)",
        "  what can be done:",
        "    - manager.resume('t', default)",
    ]


def test_diverged_in_words(manager: CheckpointManager, work: Path):
    """Nothing holds, and nobody recorded what is there."""
    wrote(manager, "a", "1")
    (work / "a").unlink()
    assert words(manager).splitlines() == [
        "task t: diverged: no checkpoint holds any more, and what differs cannot be put back; a person must decide",
        "  registry: REGISTRY, which was just created",
        "  differs:",
        "    - a: expected a file, found nothing. (recorded by nobody)",
        "  not from number 1 (ID):",
        "    - a: expected a file, found nothing.",
        "  what can be done:",
        "    - put back what differs and call manager.recover('t') again",
        "    - manager.accept('t', by=…, reason=…)",
        "    - manager.restart('t', by=…, reason=…)",
    ]


def test_uncertain_in_words(manager: CheckpointManager):
    """A step that must not run twice may have; how to settle it is spelled out with its id."""
    wrote(manager, "a", "1")
    crashed(manager, rerunnable=False)
    assert words(manager).splitlines() == [
        "task t: uncertain: a step that must not run twice may have run; a person must decide",
        "  registry: REGISTRY, which was just created",
        "  interrupted: tool_executed step STEP of TIME",
        (
            "    it may have run, and must not run twice: a person must say whether it landed "
            "(it must not run twice, and nothing says whether it had its effect)"
        ),
        "  what can be done:",
        "    - manager.resolve_step('STEP', 'landed' or 'not_landed', by=…, reason=…)",
        "    - manager.restart('t', by=…, reason=…)",
    ]


def test_blocked_in_words(manager: CheckpointManager, work: Path):
    """Could not be checked, and that this is no damage."""
    (work / "sub").mkdir()
    wrote(manager, "sub/a", "1")
    hide(work / "sub")
    assert words(manager).splitlines() == [
        (
            "task t: blocked: 1 of the things that checkpoint number 1 (ID, tool_executed) stands on could not be checked; "
            "that is no sign of damage"
        ),
        "  registry: REGISTRY, which was just created",
        "  could not be checked:",
        "    - sub/a: cannot be looked at: Too many levels of symbolic links",
        "  what can be done:",
        "    - mend what stands in the way and call manager.recover('t') again",
        "    - manager.resume('t', default, wait=seconds)",
    ]


def test_held_in_words(manager: CheckpointManager):
    """Who has it, and since when."""
    manager.claim_task("t", holder="worker")
    assert words(manager).splitlines() == [
        "task t: held: process N on HOST (worker), since TIME, has it",
        "  registry: REGISTRY, which was just created",
        "  what can be done:",
        "    - manager.resume('t', default, wait=seconds)",
        "    - stop the process that holds it",
    ]


def test_finished_in_words(manager: CheckpointManager):
    """Where it ended."""
    wrote(manager, "a", "1")
    manager.finish_task("t")
    assert words(manager).splitlines() == [
        "task t: finished: the task was finished at checkpoint number 1 (ID, tool_executed); its world still holds",
        "  registry: REGISTRY, which was just created",
        "  what can be done:",
        "    - manager.reopen('t', by=…, reason=…)",
    ]


def test_words_never_drive_a_terminal(manager: CheckpointManager, work: Path):
    """A task and a file with control characters in their names are shown escaped."""
    wrote(manager, "a\x1b[2J", "1", task="t\x1b]0;x\x07")
    (work / "a\x1b[2J").unlink()
    assert manager.recover("t\x1b]0;x\x07").explain().replace("\n", "").isprintable()


def test_sensitive_values_are_masked_in_every_part_of_the_report(manager: CheckpointManager, work: Path):
    """Neither side of a sensitive difference is shown."""
    (work / "a").write_text("1")
    pack = content("a", "1")
    pack.evidence_list[0].metadata["sensitive"] = True
    committed(manager, pack)
    (work / "a").write_text("2")
    found = manager.recover("t")
    assert pack.evidence_list[0].expected["sha256"][:12] not in found.explain()
    assert pack.evidence_list[0].expected["sha256"] not in json.dumps(found.to_dict()["differences"])


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"task_id": ""}, "task_id"),
        ({"task_id": None}, "task_id"),
        ({"task_id": "t", "checkpoint_type": "nonsense"}, "checkpoint_type"),
        ({"task_id": "t", "deadline": -1}, "deadline"),
        ({"task_id": "t", "deadline": float("nan")}, "deadline"),
        ({"task_id": "t", "deadline": "soon"}, "deadline"),
        ({"task_id": "t", "deadline": True}, "deadline"),
        ({"task_id": "t", "deadline": timedelta(1)}, "deadline"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(manager: CheckpointManager, db: Path, arguments: dict, named: str):
    """Every argument of recover."""
    wrote(manager, "a", "1")
    before = dump(db)
    with pytest.raises(InvalidInputError, match=named):
        manager.recover(**arguments)
    assert before == dump(db)


@pytest.mark.parametrize(
    "damage",
    [
        "delete from claims where sequence = 1",
        "update claims set subject = 'file:elsewhere' where sequence = 1",
        "update claims set standing = 0 where sequence = 1",
        "update claims set lifetime = 'step' where sequence = 1",
        "update claims set base = '/elsewhere' where sequence = 1",
        "insert into claims select task_id, 'file:made-up', sequence, 7, lifetime, base, standing, rules from claims limit 1",
    ],
)
def test_a_damaged_index_of_claims_is_reported_and_never_folded(manager: CheckpointManager, db: Path, work: Path, damage: str):
    """A claim that was lost would be one that nobody checks: the file it was about is damaged, and nothing is resumed."""
    wrote(manager, "a", "1")
    wrote(manager, "b", "1")
    (work / "a").write_text("damaged")
    assert execute(db, damage) > 0
    for ask in (lambda: manager.recover("t"), lambda: manager.resume("t", {}), manager.prune):
        with pytest.raises(StoreCorruptError):
            ask()


def test_the_deadline_ends_a_long_walk(manager: CheckpointManager, work: Path, monkeypatch):
    """Once it is over no further checkpoint is judged: blocked, and where it stopped."""
    for turn in range(5):
        wrote(manager, f"{turn}", "1")
        (work / f"{turn}").write_text("x")
    monkeypatch.setattr("agentos.core.checkpoints.looking.Looking.is_over", property(lambda self: True))
    found = manager.recover("t", deadline=60)
    assert (Verdict.BLOCKED, [5]) == (found.verdict, [each.sequence for each in found.rejected])
    assert "the deadline was over before checkpoint number 4 was looked at" in found.explain()


def test_a_row_that_a_rejected_step_left_is_listed(manager: CheckpointManager, work: Path):
    """What is left behind is not only files."""
    with closing(sqlite3.connect(work / "app.db")) as database:
        database.execute("create table jobs (id, state)")
        database.execute("insert into jobs values (1, 'done')")
        database.commit()
    wrote(manager, "a", "1")
    (work / "b").write_text("1")
    pack = content("b", "1")
    pack.add_evidence(row({"id": 1}, {"state": "done"}, "jobs", db_path="app.db").evidence_list[0])
    committed(manager, pack)
    (work / "b").unlink()
    found = manager.recover("t")
    assert (1, 1) == (found.checkpoint.sequence_number, len(found.leftovers))
    assert found.leftovers[0].subject.startswith("row:app.db#jobs?")
