"""The bound handle: a step is a block, what it claims is measured when the block ends, and an exception leaves it begun."""

import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import agentos
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType, StepBlock, Task
from agentos.errors import (
    CheckpointError,
    EvidenceDefinitionError,
    EvidenceUnavailableError,
    InvalidInputError,
    ManagerClosedError,
    NotVerifiedError,
    SnapshotError,
    TaskFinishedError,
)
from tests.support import dump, exists


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def manager(tmp_path: Path, work: Path):
    with CheckpointManager(tmp_path / "registry.sqlite", work) as manager:
        yield manager


@pytest.fixture
def task(manager: CheckpointManager) -> Task:
    return manager.task("report-42")


def claim(path: str) -> Evidence:
    return Evidence(EvidenceType.ARTIFACT_EXISTS, path, {"path": path})


def test_a_block_is_one_step(task: Task, work: Path):
    """Begun when it is entered, committed and verified when it is left; the checkpoint is there afterwards."""
    with task.step("tool_executed", {"n": 1}, work_item_id="item", metadata={"m": 1}) as step:
        assert isinstance(step, StepBlock)
        assert step.checkpoint is None
        [begun] = task.manager.list_open_steps("report-42")
        assert (step.step_id, "begun", {"n": 1}, "item", {"m": 1}) == (
            begun.step_id,
            begun.state,
            begun.snapshot_data,
            begun.work_item_id,
            begun.metadata,
        )
        (work / "a").write_text("a")
        step.proves(claim("a"))
    assert step.checkpoint is not None
    assert step.checkpoint.verified
    assert [step.checkpoint] == task.checkpoints()
    assert [] == task.manager.list_open_steps("report-42")


def test_the_loop_of_the_readme(manager: CheckpointManager, work: Path):
    """Step after step, the state grows in place, and each checkpoint holds the state at the end of its block."""
    task = manager.task("report-42")
    state: dict[str, Any] = {"done": []}
    for item in ("one", "two", "three"):
        with task.step("tool_executed", state) as step:
            path = work / f"{item}.md"
            path.write_text(item)
            step.proves_file(path)
            state["done"].append(item)
    task.finish()
    assert [["one", "two", "three"], ["one", "two"], ["one"]] == [each.snapshot_data["done"] for each in task.checkpoints()]
    assert all(each.verified for each in task.checkpoints())


def test_a_file_is_measured_when_the_block_ends(task: Task, work: Path):
    """proves_file may stand before the last write: the content at the end of the block is what is claimed."""
    path = work / "a.txt"
    path.write_text("early")
    with task.step("tool_executed", {}) as step:
        step.proves_file("a.txt", "the report")
        path.write_text("late")
    assert step.checkpoint is not None
    [item] = step.checkpoint.evidence_pack.evidence_list
    assert (EvidenceType.FILE_SHA256, "the report", 4) == (item.evidence_type, item.description, item.expected["size"])
    assert {} == task.manager.rollback_to_checkpoint(step.checkpoint.checkpoint_id)
    path.write_text("early")
    assert not task.manager.verify_checkpoint(step.checkpoint.checkpoint_id)


def test_a_file_that_was_never_written_is_not_verified(task: Task):
    """The claim stays and fails: the checkpoint is stored unverified, and the block says what is missing."""
    with (
        pytest.raises(NotVerifiedError, match=r"a.txt: expected a file, found nothing") as error,
        task.step("tool_executed", {}) as step,
    ):
        step.proves_file("a.txt")
    assert step.checkpoint is not None
    assert step.checkpoint.checkpoint_id == error.value.diagnostics()["checkpoint_id"]
    assert 1 == len(error.value.diagnostics()["reasons"])
    # It was claimed: what is missing is the file.
    assert "run it again" in error.value.hint
    assert "claim what" not in error.value.hint
    assert [False] == [each.verified for each in task.checkpoints()]


def test_a_claim_that_does_not_hold_raises_and_is_stored_unverified(task: Task):
    """Nothing is thrown away: the checkpoint is there with its reasons, and no gate stands on it."""
    with pytest.raises(NotVerifiedError), task.step("tool_executed", {"n": 1}) as step:
        step.proves(claim("gone"))
    [stored] = task.checkpoints()
    assert step.checkpoint == stored
    assert (False, {"n": 1}) == (stored.verified, stored.snapshot_data)
    assert task.manager.get_last_verified_checkpoint("report-42") is None


def test_nothing_claimed_is_not_verified(task: Task):
    """A block that proves nothing raises, and its checkpoint is stored unverified."""
    with pytest.raises(NotVerifiedError, match="nothing was claimed") as error, task.step("tool_executed", {}):
        pass
    assert "step.proves_file(path)" in error.value.hint
    assert [False] == [each.verified for each in task.checkpoints()]


def test_without_auto_verify_the_block_does_not_judge(tmp_path: Path, work: Path):
    """A manager that verifies later is not asked now."""
    with CheckpointManager(tmp_path / "registry.sqlite", work, auto_verify=False) as manager:
        with manager.task("t").step("tool_executed", {}) as step:
            step.proves(claim("gone"))
        assert step.checkpoint is not None
        assert step.checkpoint.verified is False


def test_the_state_may_be_replaced(task: Task, work: Path):
    """`step.state = …` is the state that is committed; that of the beginning is kept as it was."""
    with task.step("tool_executed", {"n": 1}) as step:
        (work / "a").write_text("a")
        step.proves_file("a")
        step.state = {"n": 2}
    assert step.checkpoint is not None
    assert {"n": 2} == step.checkpoint.snapshot_data
    begun = task.manager.get_step(step.step_id)
    assert begun is not None
    assert {"n": 1} == begun.snapshot_data


def test_a_typed_state_goes_in_and_comes_back(task: Task, work: Path):
    """A pydantic model is a state too, and may be changed inside the block."""

    class State(BaseModel):
        done: list[str] = []

    state = State()
    (work / "a").write_text("a")
    with task.step("tool_executed", state) as step:
        step.proves_file("a")
        state.done.append("a")
    assert step.checkpoint is not None
    assert State(done=["a"]) == step.checkpoint.snapshot_as(State)


def test_an_exception_leaves_the_step_begun_and_is_recorded(task: Task):
    """The caller's own exception comes out, the step is not a checkpoint, and the registry says what interrupted it."""
    with pytest.raises(ZeroDivisionError), task.step("tool_executed", {"n": 1}) as step:
        1 / 0  # noqa: B018 - it raises
    assert step.checkpoint is None
    assert [] == task.checkpoints()
    [begun] = task.manager.list_open_steps("report-42")
    assert (step.step_id, "ZeroDivisionError: division by zero") == (begun.step_id, begun.error)
    assert 1 == task.manager.commit_step(step.step_id, EvidencePack()).sequence_number


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=["interrupt", "exit", "generator"]
)
def test_leaving_by_an_interrupt_is_recorded_too(task: Task, raised: BaseException):
    """Control-C and exit end a block like any exception: begun, with the reason."""
    with pytest.raises(type(raised)), task.step("tool_executed", {}):
        raise raised
    [begun] = task.manager.list_open_steps("report-42")
    assert begun.error is not None
    assert begun.error.startswith(type(raised).__name__)


def test_the_recorded_error_is_escaped_and_short(task: Task):
    """Whatever an exception says, what is kept of it is safe to show."""
    with pytest.raises(ValueError, match="x"), task.step("tool_executed", {}):
        raise ValueError("\x1b[31m\n" + "x" * 10_000 + "\ud800")
    [begun] = task.manager.list_open_steps("report-42")
    assert begun.error is not None
    assert begun.error.startswith("ValueError: \\x1b[31m\\x0ax")
    assert len(begun.error) < 600


class Mute(Exception):  # noqa: N818 - it is no error of ours
    """An exception that cannot even be described."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_exception_without_words_is_still_the_one_that_comes_out(task: Task):
    """Recording must never hide what happened."""
    with pytest.raises(Mute), task.step("tool_executed", {}):
        raise Mute
    [begun] = task.manager.list_open_steps("report-42")
    assert begun.error is not None
    assert begun.error.startswith("Mute")


def test_an_error_that_cannot_be_recorded_does_not_hide_the_callers(manager: CheckpointManager, caplog):
    """With the registry gone the caller still sees its own exception; the log says that it was not written down."""

    def lose_the_registry() -> None:
        manager.close()
        1 / 0  # noqa: B018 - it raises

    with (
        caplog.at_level(logging.WARNING, "agentos.checkpoints"),
        pytest.raises(ZeroDivisionError),
        manager.task("t").step("tool_executed", {}),
    ):
        lose_the_registry()
    assert "could not be recorded" in caplog.text


@pytest.mark.parametrize("spoil", ["state", "pack"])
def test_a_block_that_ends_in_something_that_cannot_be_stored_is_recorded_as_interrupted(task: Task, work: Path, spoil: str):
    """A state that JSON cannot carry is refused at the end of the block; the step stays begun, with that as its error."""
    (work / "a").write_text("a")
    state: dict[str, Any] = {}
    evidence = claim("a")

    def work_and_spoil(step: StepBlock) -> None:
        step.proves(evidence)
        if spoil == "state":
            state["bad"] = {1, 2}
        else:
            evidence.expected["path"] = 5

    with pytest.raises(InvalidInputError), task.step("tool_executed", state) as step:
        work_and_spoil(step)
    [begun] = task.manager.list_open_steps("report-42")
    assert begun.error is not None
    assert begun.error.startswith("SnapshotError" if spoil == "state" else "EvidenceDefinitionError")


@pytest.mark.parametrize("bad", [{}, {"path": 5}, {"path": "a", "unknown": 1}, {"path": "../a"}])
def test_evidence_that_could_never_be_checked_is_refused_where_it_is_proved(task: Task, bad: dict[str, Any]):
    """The error comes from the line that is wrong, not from the end of the block."""
    with pytest.raises(EvidenceDefinitionError), task.step("tool_executed", {}) as step:
        step.proves(Evidence(EvidenceType.ARTIFACT_EXISTS, "bad", bad))
    assert [] == task.checkpoints()


@pytest.mark.parametrize("bad", ["junk", None, {"path": "a"}, exists("a")], ids=["text", "none", "dict", "pack"])
def test_only_evidence_can_be_proved(task: Task, bad: Any):
    """What is no evidence is refused by name."""
    with pytest.raises(InvalidInputError, match=r"step.proves: takes Evidence"), task.step("tool_executed", {}) as step:
        step.proves(bad)


@pytest.mark.parametrize("bad", ["", "nul\0", "../outside", 5, None, b"a"], ids=range(6))
def test_a_path_that_could_never_be_proved_is_refused_at_once(task: Task, bad: Any):
    """proves_file measures later, but says at once when there can be no such file; the others likewise."""
    for method in ("proves_file", "proves_absent", "releases"):
        with pytest.raises(InvalidInputError), task.step("tool_executed", {}) as step:
            getattr(step, method)(bad)
    assert [] == task.checkpoints()


def test_a_file_that_cannot_be_measured_when_the_block_ends_is_not_claimed_as_less(task: Task, work: Path):
    """Nothing is stored, so that no later look can verify what was never measured; the step stays begun, with the reason."""
    (work / "loop").symlink_to("loop")
    with pytest.raises(EvidenceUnavailableError, match="loop: cannot be looked at"), task.step("tool_executed", {}) as step:
        step.proves_file("loop")
    assert [] == task.checkpoints()
    [begun] = task.manager.list_open_steps("report-42")
    assert begun.error is not None
    assert begun.error.startswith("EvidenceUnavailableError: loop: cannot be looked at")


def test_absence_is_claimed_and_looked_at_when_the_block_ends(task: Task, work: Path):
    """A file that the step took away is proved to be gone; one that is still there is not."""
    (work / "a").write_text("a")
    with task.step("tool_executed", {}) as step:
        step.proves_absent("a")
        (work / "a").unlink()
    assert step.checkpoint is not None
    assert step.checkpoint.verified
    (work / "a").write_text("back")
    assert not task.manager.verify_checkpoint(step.checkpoint.checkpoint_id)
    with (
        pytest.raises(NotVerifiedError, match=r"a: expected nothing, found a file \(4 bytes\)"),
        task.step("tool_executed", {}) as step,
    ):
        step.proves_absent(work / "a", "tidied up")
    assert step.checkpoint is not None
    assert "tidied up" == step.checkpoint.evidence_pack.evidence_list[0].description


def test_a_file_is_released_under_the_name_it_was_claimed_by(task: Task, work: Path):
    """Relative or absolute: the subject is the same, it is stored with the pack, and it is no claim of its own."""
    (work / "kept").write_text("kept")
    with task.step("tool_executed", {}) as step:
        step.proves_file("kept")
        step.releases("./out//x")
        step.releases(work / "out" / "y")
    assert step.checkpoint is not None
    assert step.checkpoint.verified
    [stored] = task.checkpoints()
    assert ["file:out/x", "file:out/y"] == stored.evidence_pack.releases
    assert 1 == len(stored.evidence_pack.evidence_list)


def test_a_block_that_only_releases_is_not_verified(task: Task):
    """Letting go proves nothing."""
    with pytest.raises(NotVerifiedError, match="nothing was claimed"), task.step("tool_executed", {}) as step:
        step.releases("x")
    assert [False] == [each.verified for each in task.checkpoints()]


def test_a_state_that_cannot_be_stored_is_refused_before_the_block(task: Task):
    """Nothing was begun, and no work was done for nothing."""
    with pytest.raises(SnapshotError), task.step("tool_executed", {"bad": {1}}):
        pytest.fail("not reached")
    assert [] == task.manager.list_open_steps("report-42")


def test_a_finished_task_takes_no_further_steps(task: Task, work: Path):
    """finish() marks the task; the next block is refused before its first line."""
    (work / "a").write_text("a")
    with task.step("tool_executed", {}) as step:
        step.proves_file("a")
    task.finish()
    with pytest.raises(TaskFinishedError, match="task report-42: finished"), task.step("tool_executed", {}):
        pytest.fail("not reached")
    assert 1 == len(task.checkpoints())


def test_a_workspace_is_where_paths_of_the_task_start(manager: CheckpointManager, work: Path):
    """A relative workspace lies in the manager's base; the handle looks from there, the manager does not move."""
    (work / "out").mkdir()
    task = manager.task("t", workspace="out")
    with task.step("tool_executed", {}) as step:
        (work / "out" / "a.txt").write_text("a")
        step.proves_file("a.txt")
        step.proves(claim("a.txt"))
    assert step.checkpoint is not None
    assert step.checkpoint.verified
    assert str(work / "out") == step.checkpoint.base_path
    assert work == manager.base_path
    assert task.manager.verify_checkpoint(step.checkpoint.checkpoint_id)


def test_an_absolute_workspace(manager: CheckpointManager, tmp_path: Path):
    """Or anywhere else."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    task = manager.task("t", workspace=elsewhere)
    with task.step("tool_executed", {}) as step:
        (elsewhere / "a").write_text("a")
        step.proves_file("a")
    assert step.checkpoint is not None
    assert step.checkpoint.verified


def test_handles_share_the_registry_of_their_manager(manager: CheckpointManager, work: Path):
    """A handle with a workspace is a view: what it commits is on the manager's timeline, and closing closes both."""
    task = manager.task("t", workspace=work)
    (work / "a").write_text("a")
    with task.step("tool_executed", {}) as step:
        step.proves_file("a")
    assert [step.checkpoint] == manager.list_checkpoints("t")
    manager.close()
    with pytest.raises(ManagerClosedError):
        task.checkpoints()


def test_agentos_task_opens_the_default_registry(tmp_path: Path, monkeypatch):
    """`agentos.task` is the same over store/registry.sqlite below the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    task = agentos.task("report-42", workspace="out")
    with task.step("tool_executed", {"n": 1}) as step:
        (tmp_path / "out" / "a.txt").write_text("a")
        step.proves_file("a.txt")
    task.manager.close()
    assert (tmp_path / "store" / "registry.sqlite").is_file()
    with CheckpointManager() as manager:
        assert [step.checkpoint] == manager.list_checkpoints("report-42")


def test_agentos_task_takes_another_registry(tmp_path: Path):
    """And any other, by path."""
    task = agentos.task("t", workspace=tmp_path, db_path=tmp_path / "mine.sqlite")
    assert [] == task.checkpoints()
    task.manager.close()
    assert (tmp_path / "mine.sqlite").is_file()


def test_a_block_is_entered_once(task: Task, work: Path):
    """A block belongs to one step: the claims of the first would vouch for the second."""
    (work / "a").write_text("a")
    block = task.step("tool_executed", {})
    with block:
        block.proves_file("a")
    with pytest.raises(InvalidInputError, match="entered once"), block:
        pytest.fail("not reached")
    assert [block.checkpoint] == task.checkpoints()
    assert [] == task.manager.list_open_steps("report-42")


def test_a_checkpoint_limit_is_passed_on(task: Task, work: Path):
    """checkpoints(limit) is list_checkpoints of this task."""
    (work / "a").write_text("a")
    for n in range(3):
        with task.step("tool_executed", {"n": n}) as step:
            step.proves_file("a")
    assert [3, 2] == [each.sequence_number for each in task.checkpoints(2)]
    with pytest.raises(InvalidInputError):
        task.checkpoints(0)


def test_nothing_is_left_open_when_the_commit_itself_fails(task: Task, tmp_path: Path, work: Path):
    """A finished commit or a begun step: the registry knows one of the two, never something between."""
    (work / "a").write_text("a")
    with task.step("tool_executed", {}) as step:
        step.proves_file("a")
    before = dump(tmp_path / "registry.sqlite")
    with pytest.raises(CheckpointError):
        step.__exit__(None, None, None)
    assert before == dump(tmp_path / "registry.sqlite")
