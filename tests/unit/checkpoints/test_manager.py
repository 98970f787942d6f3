"""CheckpointManager keeps every sentence of its contract, on a real SQLite file."""

import inspect
import os
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import agentos
from agentos.core.checkpoints import Checkpoint, CheckpointManager, Evidence, EvidencePack, EvidenceType, VerificationStatus
from agentos.errors import (
    CheckpointError,
    CheckpointIdTakenError,
    CheckpointNotFoundError,
    EvidenceMismatchError,
    EvidenceUnavailableError,
    ManagerClosedError,
    StepAlreadyCommittedError,
    StepNotFoundError,
    SupersededError,
    TaskFinishedError,
)
from tests.support import ULID, content, dump, execute, exists, exited, row, run


@pytest.fixture
def work(tmp_path: Path, monkeypatch) -> Path:
    """The folder the agent works in, which is the current directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "out.txt").write_text("one")
    monkeypatch.chdir(folder)
    return folder


def commit(manager: CheckpointManager, task="t", kind="tool_executed", pack=None, snapshot=None, **more) -> Checkpoint:
    step = manager.begin_step(task, kind, {"n": 1} if snapshot is None else snapshot)
    return manager.commit_step(step, exists("out.txt") if pack is None else pack, **more)


# The signatures.

CONTRACT: dict[str, tuple[list[tuple[str, Any]], Any]] = {
    "__init__": ([("db_path", "store/registry.sqlite"), ("base_path", None), ("auto_verify", True)], type(None)),
    "begin_step": (
        [
            ("task_id", inspect.Parameter.empty),
            ("checkpoint_type", inspect.Parameter.empty),
            ("snapshot", inspect.Parameter.empty),
            ("work_item_id", None),
            ("metadata", None),
        ],
        str,
    ),
    "commit_step": (
        [("step_id", inspect.Parameter.empty), ("evidence_pack", inspect.Parameter.empty), ("checkpoint_id", None)],
        Checkpoint,
    ),
    "verify_checkpoint": ([("checkpoint_id", inspect.Parameter.empty)], bool),
    "get_last_verified_checkpoint": (
        [("task_id", inspect.Parameter.empty), ("checkpoint_type", None)],
        Checkpoint | None,
    ),
    "rollback_to_checkpoint": ([("checkpoint_id", inspect.Parameter.empty)], dict[str, Any]),
    "get_checkpoint": ([("checkpoint_id", inspect.Parameter.empty)], Checkpoint | None),
    "list_checkpoints": (
        [("task_id", inspect.Parameter.empty), ("limit", 100), ("checkpoint_type", None)],
        list[Checkpoint],
    ),
    "delete_checkpoint": ([("checkpoint_id", inspect.Parameter.empty)], bool),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_positional_order_defaults_and_return_types_are_the_contracts(name: str):
    """Names, order, defaults and return type are exactly the seed's; whatever is added is keyword-only with a default."""
    method = getattr(CheckpointManager, name)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    positional = [(each.name, each.default) for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    added = [each for each in parameters if each.kind is not each.POSITIONAL_OR_KEYWORD]
    expected, returned = CONTRACT[name]
    assert expected == positional
    assert returned == get_type_hints(method)["return"]
    assert [] == [each.name for each in added if each.kind is not each.KEYWORD_ONLY or each.default is each.empty]


def test_the_same_names_come_from_both_packages():
    """`agentos` and `agentos.core.checkpoints` export the same eight names."""
    names = ["CheckpointManager", "EvidenceVerifier", "Evidence", "EvidencePack", "EvidenceType", "VerificationStatus"]
    for name in [*names, "Checkpoint", "CheckpointError"]:
        assert getattr(agentos, name) is getattr(agentos.core.checkpoints, name)


def test_the_default_registry_is_store_registry_sqlite(work: Path):
    """Without arguments the registry is `store/registry.sqlite` and the base the current directory."""
    with CheckpointManager() as manager:
        assert str(work / "store" / "registry.sqlite") == manager.db_path
        assert work == manager.base_path
        assert manager.auto_verify is True
    assert (work / "store" / "registry.sqlite").is_file()


# Beginning.


def test_begin_step_returns_a_prefixed_id_and_the_intent_is_in_the_registry(manager: CheckpointManager, db: Path):
    """The id says what it is, and the step's row is there before any work is done."""
    step = manager.begin_step("task-123", "iteration_start", {"iteration": 1, "state": "planning"})
    assert re.fullmatch(f"step_{ULID}", step)
    with closing(sqlite3.connect(db)) as connection:
        assert [(step, "task-123", "begun")] == connection.execute("select step_id, task_id, state from steps").fetchall()


def test_another_process_commits_what_this_one_began(manager: CheckpointManager, db: Path, work: Path):
    """An intent outlives its process: whoever knows the step's id can end it."""
    step = manager.begin_step("t", "tool_executed", {"n": 7}, "item-1", {"why": "test"})
    code = """
import sys
from agentos import CheckpointManager
from tests.support import exists
with CheckpointManager(sys.argv[1]) as manager:
    found = manager.get_step(sys.argv[2])
    assert (found.state, found.snapshot_data) == ("begun", {"n": 7})
    assert (found.work_item_id, found.metadata) == ("item-1", {"why": "test"})
    print(manager.commit_step(sys.argv[2], exists("out.txt")).sequence_number)
"""
    assert "1\n" == run(code, db, step, cwd=work)
    assert {"n": 7} == manager.list_checkpoints("t")[0].snapshot_data


def test_a_missing_task_is_created_and_a_work_item_need_not_exist(manager: CheckpointManager, db: Path):
    """The task's row is made by the first step; a work item's id is stored as given."""
    step = manager.begin_step("brand-new", "iteration_start", {}, work_item_id="no row of ours ☃")
    assert "no row of ours ☃" == manager.commit_step(step, exists("out.txt")).work_item_id
    assert [("brand-new", "active")] == [each[:2] for each in dump(db)["tasks"]]


def test_open_steps_are_listed_oldest_first_until_they_end(manager: CheckpointManager):
    """What was begun and never ended can be seen, also by a manager that did not begin it."""
    first, second = (manager.begin_step("t", "tool_executed", {"n": n}) for n in (1, 2))
    manager.begin_step("other", "tool_executed", {})
    assert [first, second] == [step.step_id for step in manager.list_open_steps("t")]
    manager.commit_step(first, exists("out.txt"))
    assert [second] == [step.step_id for step in manager.list_open_steps("t")]


# Committing.


def test_commit_step_returns_the_checkpoint_with_its_evidence(manager: CheckpointManager):
    """Every field of the returned checkpoint is what was given, measured or drawn."""
    before = datetime.now(UTC)
    step = manager.begin_step("task-1", "tool_executed", {"tool": "bash"}, "item-9", {"k": [1, None]})
    checkpoint = manager.commit_step(step, exists("out.txt"))
    assert isinstance(checkpoint, Checkpoint)
    assert step.removeprefix("step_") == checkpoint.checkpoint_id
    assert ("task-1", "item-9", "tool_executed", 1) == (
        checkpoint.task_id,
        checkpoint.work_item_id,
        checkpoint.checkpoint_type,
        checkpoint.sequence_number,
    )
    assert ({"tool": "bash"}, {"k": [1, None]}) == (checkpoint.snapshot_data, checkpoint.metadata)
    assert checkpoint.verified
    assert checkpoint.created_at is not None
    assert checkpoint.last_verified_at is not None
    assert before <= checkpoint.last_verified_at <= checkpoint.created_at <= datetime.now(UTC)
    item = checkpoint.evidence_pack.evidence_list[0]
    assert (True, VerificationStatus.VERIFIED, None) == (item.verified, item.verification_status, item.verification_error)
    assert checkpoint == manager.get_checkpoint(checkpoint.checkpoint_id)


def test_a_failed_verification_still_stores_the_checkpoint_with_the_reasons(manager: CheckpointManager):
    """A claim that does not hold refuses nothing: the checkpoint is there, unverified, and says why."""
    checkpoint = commit(manager, pack=exists("out.txt", "gone.txt"))
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert stored == checkpoint
    assert stored.verified is False
    good, bad = stored.evidence_pack.evidence_list
    assert (True, False) == (good.verified, bad.verified)
    assert VerificationStatus.FAILED is bad.verification_status
    assert bad.result is not None
    assert "ARTIFACT_MISSING" == bad.result.code
    assert "gone.txt: expected something, found nothing" in str(bad.verification_error)
    assert manager.get_last_verified_checkpoint("t") is None


def test_without_auto_verify_the_checkpoint_is_stored_unverified_and_pending(db: Path, work: Path):
    """`auto_verify=False` looks at nothing: not verified, no time, every item pending."""
    with CheckpointManager(db, auto_verify=False) as manager:
        checkpoint = commit(manager)
        assert (False, None) == (checkpoint.verified, checkpoint.last_verified_at)
        assert {"pending": 1, "verified": 0, "failed": 0} == {
            key: checkpoint.evidence_pack.verification_summary()[key] for key in ("pending", "verified", "failed")
        }
        assert checkpoint == manager.get_checkpoint(checkpoint.checkpoint_id)
        assert manager.get_last_verified_checkpoint("t") is None
        assert manager.verify_checkpoint(checkpoint.checkpoint_id)
        assert checkpoint.checkpoint_id == getattr(manager.get_last_verified_checkpoint("t"), "checkpoint_id", None)


def test_the_snapshot_is_the_one_of_begin_unless_commit_gives_another(manager: CheckpointManager):
    """`commit_step(snapshot=…)` is the state after the work and the one to resume from; that of begin is kept too."""
    step = manager.begin_step("t", "tool_executed", {"done": []})
    checkpoint = manager.commit_step(step, exists("out.txt"), snapshot={"done": [1]})
    begun = manager.get_step(step)
    assert {"done": [1]} == checkpoint.snapshot_data
    assert {"done": [1]} == manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    assert begun is not None
    assert {"done": []} == begun.snapshot_data


def test_the_same_snapshot_at_the_end_is_stored_once(manager: CheckpointManager, db: Path):
    """Giving the unchanged state again costs no second copy."""
    step = manager.begin_step("t", "tool_executed", {"big": "x" * 1000})
    assert {"big": "x" * 1000} == manager.commit_step(step, exists("out.txt"), snapshot={"big": "x" * 1000}).snapshot_data
    assert 1 == len(dump(db)["snapshots"])


def test_a_checkpoint_may_carry_a_name_of_its_own(manager: CheckpointManager):
    """A given `checkpoint_id` names the checkpoint, and the step's own ULID does not."""
    checkpoint = commit(manager, checkpoint_id="after the release")
    assert "after the release" == checkpoint.checkpoint_id
    assert checkpoint == manager.get_checkpoint("after the release")
    assert manager.get_checkpoint(checkpoint.step_id.removeprefix("step_")) is None
    assert {"n": 1} == manager.rollback_to_checkpoint("after the release")
    assert manager.delete_checkpoint("after the release")


def test_a_second_commit_of_a_step_is_refused_and_changes_nothing(manager: CheckpointManager, db: Path):
    """The first answer stands, whatever the second call brings."""
    step = manager.begin_step("t", "tool_executed", {})
    manager.commit_step(step, exists("out.txt"))
    before = dump(db)
    with pytest.raises(StepAlreadyCommittedError, match=f"step {step}: cannot commit, it is committed already"):
        manager.commit_step(step, exists("gone.txt"), "other-name", snapshot={"n": 2})
    assert before == dump(db)


def test_an_unknown_step_is_refused_and_changes_nothing(manager: CheckpointManager, db: Path):
    """A step that was never begun cannot be committed."""
    before = dump(db)
    with pytest.raises(StepNotFoundError, match="step step_nope: unknown"):
        manager.commit_step("step_nope", exists("out.txt"))
    assert before == dump(db)


@pytest.mark.parametrize("taken", ["name", "ulid", "open step", "deleted"])
def test_a_taken_checkpoint_id_is_refused_and_the_step_stays_begun(manager: CheckpointManager, db: Path, taken: str):
    """An id that names, will name or once named another checkpoint is refused; the step can be committed under another."""
    other = commit(manager, checkpoint_id="mine" if taken in ("name", "deleted") else None)
    wanted = other.checkpoint_id
    if taken == "open step":
        wanted = manager.begin_step("t", "tool_executed", {}).removeprefix("step_")
    if taken == "deleted":
        manager.delete_checkpoint("mine")
    step = manager.begin_step("t", "tool_executed", {})
    before = dump(db)
    with pytest.raises(CheckpointIdTakenError, match=f"checkpoint id {wanted}: taken; nothing was stored"):
        manager.commit_step(step, exists("out.txt"), wanted)
    assert before == dump(db)
    assert 2 == manager.commit_step(step, exists("out.txt"), "free").sequence_number


def test_the_ulid_of_its_own_step_is_no_taken_id(manager: CheckpointManager):
    """Naming the id that the checkpoint would get anyway is the same as leaving it out."""
    step = manager.begin_step("t", "tool_executed", {})
    own = step.removeprefix("step_")
    assert own == manager.commit_step(step, exists("out.txt"), own).checkpoint_id


def test_commit_is_one_transaction(manager: CheckpointManager, db: Path):
    """When any part of a commit cannot be stored, no part of it is: neither checkpoint, evidence, verification nor number."""
    commit(manager)
    step = manager.begin_step("t", "tool_executed", {})
    execute(db, "create trigger no_claims before insert on claims begin select raise(abort, 'no room'); end")
    before = dump(db)
    with pytest.raises(CheckpointError):
        manager.commit_step(step, exists("out.txt"), snapshot={"n": 2})
    assert before == dump(db)
    execute(db, "drop trigger no_claims")
    assert 2 == manager.commit_step(step, exists("out.txt")).sequence_number


def test_verification_happens_outside_any_write_transaction(manager: CheckpointManager, db: Path):
    """While the world is looked at, other processes can write: the evidence may even be about the registry itself."""
    step = manager.begin_step("t", "tool_executed", {})
    checkpoint = manager.commit_step(step, row({"task_id": "t"}, {"status": "active"}))
    assert checkpoint.verified, checkpoint.evidence_pack.evidence_list[0].verification_error


# Sequence numbers.


def test_sequence_numbers_are_per_task_and_in_commit_order(manager: CheckpointManager):
    """Numbers follow the commits, not the begins, and each task counts for itself."""
    first, second = (manager.begin_step("t", "tool_executed", {"n": n}) for n in (1, 2))
    other = commit(manager, task="other")
    assert [1, 2] == [manager.commit_step(step, exists("out.txt")).sequence_number for step in (second, first)]
    assert 1 == other.sequence_number
    assert [{"n": 1}, {"n": 2}] == [each.snapshot_data for each in manager.list_checkpoints("t")]


def test_a_number_is_never_used_again_after_a_delete(manager: CheckpointManager):
    """Deleting the newest checkpoint does not give its number to the next."""
    commit(manager)
    assert manager.delete_checkpoint(commit(manager).checkpoint_id)
    assert 3 == commit(manager).sequence_number
    assert [3, 1] == [each.sequence_number for each in manager.list_checkpoints("t")]


def test_two_managers_on_one_file_share_the_counter(manager: CheckpointManager, db: Path):
    """Numbers are drawn inside the commit's transaction, so two managers never draw the same."""
    with CheckpointManager(db) as other:
        numbers = [commit(each).sequence_number for each in (manager, other, other, manager)]
    assert [1, 2, 3, 4] == numbers


# Verifying.


def test_verify_checkpoint_measures_now_and_records_the_answer(manager: CheckpointManager, work: Path):
    """The stored flag follows the world: a file that goes clears it, a file that returns sets it again."""
    checkpoint = commit(manager)
    (work / "out.txt").rename(work / "away.txt")
    assert manager.verify_checkpoint(checkpoint.checkpoint_id) is False
    failed = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert failed is not None
    assert failed.verified is False
    assert "found nothing" in str(failed.evidence_pack.evidence_list[0].verification_error)
    (work / "away.txt").rename(work / "out.txt")
    assert manager.verify_checkpoint(checkpoint.checkpoint_id) is True
    again = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert again is not None
    assert again.verified
    moments = [each.last_verified_at for each in (checkpoint, failed, again)]
    assert sorted({moment for moment in moments if moment is not None}) == moments


def test_what_could_not_be_checked_is_false_but_leaves_the_flag(manager: CheckpointManager, db: Path, work: Path):
    """An unreadable database is no lost work: verify says False, records it, and the last known answer stands."""
    with closing(sqlite3.connect(work / "own.sqlite")) as connection:
        connection.execute("create table jobs (id integer)")
        connection.execute("insert into jobs values (1)")
        connection.commit()
    checkpoint = commit(manager, pack=row({"id": 1}, {}, "jobs", db_path="own.sqlite"))
    assert checkpoint.verified
    (work / "own.sqlite").write_bytes(b"this is no database at all" * 100)
    assert manager.verify_checkpoint(checkpoint.checkpoint_id) is False
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert stored is not None
    assert (True, checkpoint.last_verified_at) == (stored.verified, stored.last_verified_at)
    assert 1 == stored.evidence_pack.verification_summary()["error"]
    assert [("error", 1)] == [(each[4], each[5]) for each in dump(db)["verifications"]]
    assert checkpoint.checkpoint_id == getattr(manager.get_last_verified_checkpoint("t"), "checkpoint_id", None)


def test_verifications_are_appended_never_overwritten(manager: CheckpointManager, db: Path, work: Path):
    """Every look stays on record, with who looked."""
    checkpoint = commit(manager)
    manager.verify_checkpoint(checkpoint.checkpoint_id)
    (work / "out.txt").unlink()
    manager.verify_checkpoint(checkpoint.checkpoint_id)
    looks = [(number, outcome) for _, number, _, _, outcome, *_ in dump(db)["verifications"]]
    assert [(2, "verified"), (3, "failed")] == looks
    assert f"{os.uname().nodename}:{os.getpid()}" == dump(db)["verifications"][0][3]


# The last verified checkpoint.


def test_the_last_verified_checkpoint_is_the_newest_that_passed(manager: CheckpointManager):
    """A newer checkpoint that failed is passed over; no verified one is None."""
    assert manager.get_last_verified_checkpoint("t") is None
    first = commit(manager)
    commit(manager, pack=exists("gone.txt"))
    assert first == manager.get_last_verified_checkpoint("t")
    assert manager.get_last_verified_checkpoint("somebody else's") is None


def test_the_last_verified_checkpoint_of_a_type(manager: CheckpointManager):
    """With a type given, only checkpoints of that type count, and each type remembers its own."""
    start = commit(manager, kind="iteration_start")
    end = commit(manager, kind="iteration_end")
    custom = commit(manager, kind="custom:deploy.v2")
    assert start == manager.get_last_verified_checkpoint("t", "iteration_start")
    assert end == manager.get_last_verified_checkpoint("t", "iteration_end")
    assert custom == manager.get_last_verified_checkpoint("t", "custom:deploy.v2")
    assert custom == manager.get_last_verified_checkpoint("t")
    assert manager.get_last_verified_checkpoint("t", "llm_response") is None


def test_more_types_than_a_task_remembers_are_still_found(manager: CheckpointManager):
    """Any number of custom types can be asked for, also after the newest of one was deleted."""
    made = {name: commit(manager, kind=name) for name in (f"custom:type-{n}" for n in range(40))}
    again = {name: commit(manager, kind=name) for name in list(made)[::3]}
    for name, checkpoint in {**made, **again}.items():
        assert checkpoint == manager.get_last_verified_checkpoint("t", name)
    for name, checkpoint in again.items():
        assert manager.delete_checkpoint(checkpoint.checkpoint_id)
        assert made[name] == manager.get_last_verified_checkpoint("t", name)


def test_the_last_verified_lookup_does_not_touch_the_world(manager: CheckpointManager, work: Path):
    """It is a memory: it names a checkpoint whose file is gone, and rollback is what refuses it."""
    checkpoint = commit(manager)
    (work / "out.txt").unlink()
    assert checkpoint == manager.get_last_verified_checkpoint("t")
    with pytest.raises(EvidenceMismatchError):
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    assert manager.get_last_verified_checkpoint("t") is None


def test_the_last_verified_lookup_reads_no_more_on_a_long_timeline(manager: CheckpointManager, db: Path):
    """The lookup is an index lookup: its cost does not grow with the number of checkpoints behind it."""

    def steps_of_the_lookup() -> int:
        ticks = 0

        def tick() -> int:
            nonlocal ticks
            ticks += 1
            return 0

        connection = manager._registry._database._connection  # type: ignore[attr-defined]
        assert connection is not None
        connection.set_progress_handler(tick, 1)
        assert manager.get_last_verified_checkpoint("t") is not None
        connection.set_progress_handler(None, 0)
        return ticks

    commit(manager)
    short = steps_of_the_lookup()
    for _ in range(200):
        commit(manager)
    commit(manager, pack=exists("gone.txt"))
    assert 2 * short >= steps_of_the_lookup()


# Rolling back.


def test_rollback_returns_the_snapshot_and_leaves_the_timeline(manager: CheckpointManager):
    """The seed's rollback gives the state back; later checkpoints stay where they are."""
    first = commit(manager, snapshot={"iteration": 1})
    commit(manager, snapshot={"iteration": 2})
    assert {"iteration": 1} == manager.rollback_to_checkpoint(first.checkpoint_id)
    assert [2, 1] == [each.sequence_number for each in manager.list_checkpoints("t")]


def test_a_file_edited_after_the_checkpoint_blocks_rollback(manager: CheckpointManager, work: Path):
    """A checkpoint whose file changed is not resumed from, whatever its stored flag says, and the flag is cleared."""
    checkpoint = commit(manager, pack=content("out.txt", "one"))
    (work / "out.txt").write_text("two!")
    with pytest.raises(EvidenceMismatchError, match=r"does not hold: out.txt: expected sha256 .*, found .*4 bytes") as refused:
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    assert "nobody vouches" in refused.value.hint
    assert checkpoint.checkpoint_id == refused.value.diagnostics()["checkpoint_id"]
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert stored is not None
    assert stored.verified is False


def test_a_stored_flag_is_not_believed(manager: CheckpointManager, work: Path):
    """Rollback measures even a checkpoint that never verified, and one that did."""
    (work / "late.txt").unlink(missing_ok=True)
    checkpoint = commit(manager, pack=exists("late.txt"))
    assert checkpoint.verified is False
    (work / "late.txt").write_text("now")
    assert {"n": 1} == manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert stored is not None
    assert stored.verified is True


def test_an_empty_pack_never_verifies(manager: CheckpointManager):
    """Nothing claimed is nothing proven: stored unverified, and no rollback."""
    checkpoint = commit(manager, pack=EvidencePack())
    assert checkpoint.verified is False
    assert manager.verify_checkpoint(checkpoint.checkpoint_id) is False
    with pytest.raises(EvidenceMismatchError, match="it carries no evidence"):
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)


def test_what_a_later_step_recorded_is_named(manager: CheckpointManager, work: Path):
    """A checkpoint that fails because the task went on says which step recorded what is there now."""
    first = commit(manager, pack=content("out.txt", "one"))
    (work / "out.txt").write_text("two")
    second = commit(manager, pack=content("out.txt", "two"))
    with pytest.raises(EvidenceMismatchError) as refused:
        manager.rollback_to_checkpoint(first.checkpoint_id)
    said = f"checkpoint {second.checkpoint_id} (number 2, {second.step_id}) recorded what is there now"
    assert said in refused.value.message
    way = f"manager.rollback_to_checkpoint('{second.checkpoint_id}')"
    assert f"the task went on from here: {way}, or to a later one" == refused.value.hint


def test_what_nobody_recorded_is_not_ascribed_to_a_later_step(manager: CheckpointManager, work: Path):
    """A later claim about the same file that does not hold either is no recorder."""
    first = commit(manager, pack=content("out.txt", "one"))
    (work / "out.txt").write_text("two")
    commit(manager, pack=content("out.txt", "two"))
    (work / "out.txt").write_text("three")
    with pytest.raises(EvidenceMismatchError) as refused:
        manager.rollback_to_checkpoint(first.checkpoint_id)
    assert "recorded what is there now" not in refused.value.message


@pytest.mark.parametrize("how", ["deleted", "superseded"])
def test_a_recorder_that_left_the_timeline_is_no_place_to_roll_back_to(manager: CheckpointManager, work: Path, how: str):
    """Who recorded the value is still said; the advice never names a checkpoint that cannot be stood on."""
    first = commit(manager, pack=content("out.txt", "one"))
    (work / "out.txt").write_text("two")
    second = commit(manager, pack=content("out.txt", "two"))
    if how == "deleted":
        manager.delete_checkpoint(second.checkpoint_id)
    else:
        (work / "out.txt").write_text("one")
        manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
        (work / "out.txt").write_text("two")
    with pytest.raises(EvidenceMismatchError) as refused:
        manager.rollback_to_checkpoint(first.checkpoint_id)
    assert f"{second.step_id}, no longer on the timeline) recorded what is there now" in refused.value.message
    assert "roll back to" not in refused.value.hint


def test_a_recorded_exit_code_is_not_compared_with_another_steps_snapshot(manager: CheckpointManager):
    """A later claim about the same command is judged by what was recorded then, not by the state that failed."""
    failing = commit(manager, pack=exited(0, command="make"), snapshot={"exit_code": 1})
    commit(manager, pack=exited(1, command="make"), snapshot={"exit_code": 0})
    with pytest.raises(EvidenceMismatchError) as refused:
        manager.rollback_to_checkpoint(failing.checkpoint_id)
    assert "recorded what is there now" not in refused.value.message


def test_rollback_that_could_not_check_raises_unavailable_and_leaves_the_flag(manager: CheckpointManager, work: Path):
    """`could not see` is another error than `differs`, and nothing destructive follows from it."""
    folder = work / "sub"
    folder.mkdir()
    (folder / "a").write_text("a")
    with CheckpointManager(manager.db_path, base_path=folder) as inside:
        checkpoint = commit(inside, pack=exists("a"))
    folder.rename(work / "moved")
    with pytest.raises(EvidenceUnavailableError, match=r"could not be checked: .*is not there") as refused:
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    assert "no sign of damage" in refused.value.hint
    assert checkpoint.checkpoint_id == getattr(manager.get_last_verified_checkpoint("t"), "checkpoint_id", None)


def test_rollback_with_supersede_later_ends_the_timeline_there(manager: CheckpointManager):
    """Later checkpoints are kept, marked, and on the timeline no more; the next number is still a new one."""
    first, second, third = (commit(manager, snapshot={"n": n}) for n in (1, 2, 3))
    assert {"n": 1} == manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
    assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]
    assert first.checkpoint_id == getattr(manager.get_last_verified_checkpoint("t"), "checkpoint_id", None)
    everything = manager.list_checkpoints("t", include_superseded=True)
    assert [first.checkpoint_id] * 2 + [None] == [each.superseded_by for each in everything]
    assert first.checkpoint_id == getattr(manager.get_checkpoint(second.checkpoint_id), "superseded_by", None)
    assert 4 == commit(manager).sequence_number
    with pytest.raises(SupersededError, match=f"checkpoint {third.checkpoint_id}: not on the timeline any more"):
        manager.rollback_to_checkpoint(third.checkpoint_id, supersede_later=True)


def test_a_refused_rollback_supersedes_nothing(manager: CheckpointManager, work: Path):
    """The timeline is ended only where the world was just measured to hold."""
    first = commit(manager)
    second = commit(manager, pack=exists("out.txt"))
    (work / "out.txt").unlink()
    with pytest.raises(EvidenceMismatchError):
        manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
    assert [second.checkpoint_id, first.checkpoint_id] == [each.checkpoint_id for each in manager.list_checkpoints("t")]


def test_rollback_touches_no_file(manager: CheckpointManager, work: Path):
    """What comes back is the snapshot; files are as they were."""
    checkpoint = commit(manager)
    (work / "later.txt").write_text("kept")
    before = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    assert before == {path.name: path.stat().st_mtime_ns for path in work.iterdir()}


# Reading.


def test_get_checkpoint_is_none_for_an_unknown_id_and_the_others_raise(manager: CheckpointManager):
    """Asking is no error; standing on what is not there is."""
    assert manager.get_checkpoint("nope") is None
    assert manager.get_step("nope") is None
    for call in (manager.verify_checkpoint, manager.rollback_to_checkpoint):
        with pytest.raises(CheckpointNotFoundError, match="checkpoint nope: unknown"):
            call("nope")
    assert manager.delete_checkpoint("nope") is False


def test_a_step_that_is_only_begun_is_no_checkpoint(manager: CheckpointManager):
    """An intent is never found as a checkpoint, neither by id nor on the timeline."""
    step = manager.begin_step("t", "tool_executed", {})
    assert manager.get_checkpoint(step.removeprefix("step_")) is None
    assert [] == manager.list_checkpoints("t")


def test_list_checkpoints_is_newest_first_limited_and_filtered(manager: CheckpointManager):
    """Newest first; `limit` counts what passed the filter; unknown tasks are empty."""
    for n in range(6):
        commit(manager, kind="iteration_start" if n % 2 else "iteration_end", snapshot={"n": n})
    assert [6, 5, 4, 3, 2, 1] == [each.sequence_number for each in manager.list_checkpoints("t")]
    assert [6, 5] == [each.sequence_number for each in manager.list_checkpoints("t", 2)]
    assert [5, 3] == [each.sequence_number for each in manager.list_checkpoints("t", 2, "iteration_end")]
    assert [] == manager.list_checkpoints("t", 5, "llm_response")
    assert [] == manager.list_checkpoints("nobody")


def test_list_checkpoints_is_limited_to_a_hundred_by_default(manager: CheckpointManager):
    """The seed's default limit."""
    for n in range(103):
        commit(manager, snapshot={"n": n})
    assert list(range(103, 3, -1)) == [each.sequence_number for each in manager.list_checkpoints("t")]


# Deleting.


def test_delete_hides_the_checkpoint_and_removes_its_snapshots(manager: CheckpointManager, db: Path):
    """True once, False after; its snapshots are gone, its row and its claims stay."""
    kept = commit(manager)
    step = manager.begin_step("t", "tool_executed", {"secret": 1})
    gone = manager.commit_step(step, exists("out.txt"), snapshot={"secret": 2})
    assert 3 == len(dump(db)["snapshots"])
    assert manager.delete_checkpoint(gone.checkpoint_id) is True
    assert manager.delete_checkpoint(gone.checkpoint_id) is False
    assert 1 == len(dump(db)["snapshots"])
    assert manager.get_checkpoint(gone.checkpoint_id) is None
    assert [kept] == manager.list_checkpoints("t")
    assert kept == manager.get_last_verified_checkpoint("t")
    with pytest.raises(CheckpointNotFoundError):
        manager.rollback_to_checkpoint(gone.checkpoint_id)
    with pytest.raises(StepAlreadyCommittedError):
        manager.commit_step(step, exists("out.txt"))


def test_what_a_deleted_checkpoint_claimed_stays_in_force(manager: CheckpointManager, db: Path):
    """Its claims stay in the index from which the world is folded."""
    checkpoint = commit(manager, pack=exists("out.txt"))
    commit(manager)
    before = dump(db)["claims"]
    manager.delete_checkpoint(checkpoint.checkpoint_id)
    assert before == dump(db)["claims"]
    assert ("t", "file:out.txt", 1, 0, "lasting", str(manager.base_path), 1, "") in before


# Times, durability, the manager's own life.


def test_times_are_aware_and_in_utc(manager: CheckpointManager, monkeypatch):
    """Whatever the machine's zone, every time is UTC and says so."""
    checkpoint = commit(manager)
    step = manager.get_step(checkpoint.step_id)
    assert step is not None
    moments = [checkpoint.created_at, checkpoint.last_verified_at, step.begun_at]
    moments += [item.verified_at for item in checkpoint.evidence_pack.evidence_list]
    assert [timedelta(0)] * 4 == [moment.utcoffset() for moment in moments if moment is not None]


@pytest.mark.parametrize("durability", ["full", "commit", "relaxed"])
def test_every_durability_keeps_the_contract(db: Path, work: Path, durability: str):
    """The three names are accepted, and what was committed is read back by another manager."""
    with CheckpointManager(db, durability=durability) as manager:
        checkpoint = commit(manager)
        with CheckpointManager(db) as other:
            assert checkpoint == other.get_checkpoint(checkpoint.checkpoint_id)


@pytest.mark.parametrize(("durability", "levels"), [("full", [2, 2]), ("commit", [1, 2]), ("relaxed", [1, 1])])
def test_durability_decides_which_write_is_synced(db: Path, work: Path, durability: str, levels: list[int]):
    """Full syncs begin and commit, commit only the commit, relaxed neither; OFF is never used."""
    with CheckpointManager(db, durability=durability) as manager:
        database = manager._registry._database  # type: ignore[attr-defined]
        found = []
        step = manager.begin_step("t", "tool_executed", {})
        found.append(database._connection.execute("pragma synchronous").fetchone()[0])
        manager.commit_step(step, exists("out.txt"))
        found.append(database._connection.execute("pragma synchronous").fetchone()[0])
    assert levels == found


def test_a_closed_manager_says_so_and_closing_twice_is_fine(db: Path, work: Path):
    """After close every call raises ManagerClosedError, and the file is let go of."""
    with CheckpointManager(db) as manager:
        checkpoint = commit(manager)
    manager.close()
    calls = [
        lambda: manager.begin_step("t", "tool_executed", {}),
        lambda: manager.commit_step(checkpoint.step_id, exists("out.txt")),
        lambda: manager.get_checkpoint(checkpoint.checkpoint_id),
        lambda: manager.verify_checkpoint(checkpoint.checkpoint_id),
        lambda: manager.rollback_to_checkpoint(checkpoint.checkpoint_id),
        lambda: manager.get_last_verified_checkpoint("t"),
        lambda: manager.list_checkpoints("t"),
        lambda: manager.delete_checkpoint(checkpoint.checkpoint_id),
        lambda: manager.finish_task("t"),
    ]
    for call in calls:
        with pytest.raises(ManagerClosedError, match="this manager is closed"):
            call()
    assert not Path(f"{db}-wal").exists()


def test_a_finished_task_takes_no_further_steps(manager: CheckpointManager, db: Path):
    """After finish_task the task's row says completed, begin is refused, and what was begun before can still end."""
    step = manager.begin_step("t", "tool_executed", {})
    manager.finish_task("t")
    before = dump(db)
    with pytest.raises(TaskFinishedError, match="task t: finished"):
        manager.begin_step("t", "tool_executed", {})
    assert before == dump(db)
    assert "completed" == before["tasks"][0][1]
    assert manager.commit_step(step, row({"task_id": "t"}, {"status": "completed"})).verified
    manager.begin_step("another", "tool_executed", {})


def test_finishing_what_was_never_begun_is_refused(manager: CheckpointManager):
    """There is no task to finish, and none is made."""
    with pytest.raises(CheckpointNotFoundError, match="task nobody: nothing was ever begun"):
        manager.finish_task("nobody")


def test_a_managers_default_paths_do_not_follow_a_chdir(manager: CheckpointManager, tmp_path: Path, monkeypatch):
    """Both paths are made absolute when the manager is made."""
    checkpoint = commit(manager)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert manager.verify_checkpoint(checkpoint.checkpoint_id)
    assert commit(manager).verified


def test_evidence_given_to_commit_carries_the_answer(manager: CheckpointManager):
    """The seed's verifier updates the evidence objects it is given, and so does a commit."""
    pack = EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "out", {"path": "out.txt"})])
    commit(manager, pack=pack)
    assert pack.evidence_list[0].verified
    assert pack.is_verified()


@pytest.mark.parametrize("between", ["recover", "error"])
def test_a_look_that_decides_nothing_does_not_keep_a_failing_one_from_clearing_the_flag(
    manager: CheckpointManager, db: Path, work: Path, monkeypatch, between: str
):
    """While one process finds a difference, another looks without a judgement: the flag is cleared all the same."""
    (work / "out.txt").write_text("1")
    checkpoint = commit(manager, pack=exists("out.txt"))
    (work / "out.txt").unlink()
    judge = manager.verifier.judge_pack

    def judged_while_another_looks(*args, **kwargs):
        outcome = judge(*args, **kwargs)
        with CheckpointManager(db, base_path=work if between == "recover" else work / "unmounted") as other:
            other.recover("t") if between == "recover" else other.verify_checkpoint(checkpoint.checkpoint_id)
        return outcome

    monkeypatch.setattr(manager.verifier, "judge_pack", judged_while_another_looks)
    assert not manager.verify_checkpoint(checkpoint.checkpoint_id)
    assert not manager.get_checkpoint(checkpoint.checkpoint_id).verified
    assert manager.get_last_verified_checkpoint("t") is None


def test_what_is_beyond_the_contract_is_keyword_only():
    """A positional argument too many is refused, never taken for a field of ours."""
    with pytest.raises(CheckpointError, match="releases"):
        EvidencePack([], True, False, 0, ["file:x"])  # type: ignore[call-arg]
