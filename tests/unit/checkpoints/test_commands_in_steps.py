"""step.run: a command of a step is run once, its record is claimed at once, and its products when the block ends."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager, CommandRun, Task
from agentos.errors import EvidenceUnavailableError, InvalidInputError, NotVerifiedError


@pytest.fixture
def task(manager: CheckpointManager) -> Task:
    return manager.task("build")


def test_a_command_is_run_and_claimed(task, work):
    """What it said is there to act on; the checkpoint stands on how it ended, and on what it left."""
    with task.step("tool_executed", {}) as step:
        ran = step.run(["sh", "-c", "echo made; printf abc > out"], products=["out"])
        assert isinstance(ran, CommandRun)
        assert (True, 0, b"made\n", "made\n", b"") == (ran.ok, ran.exit_code, ran.stdout, ran.text, ran.stderr)
        assert 0 < ran.duration < 60
    command, file = step.checkpoint.evidence_pack.evidence_list
    assert ("command_exit", "recorded") == (command.evidence_type, command.result.assurance)
    assert ("file_sha256", hashlib.sha256(b"abc").hexdigest()) == (file.evidence_type, file.expected["sha256"])
    assert [] == command.metadata["record"]["products"]


def test_it_is_not_run_again(task, work):
    """Neither when the block ends, nor when the checkpoint is verified, rolled back to or resumed from."""
    with task.step("tool_executed", {"n": 1}) as step:
        step.run(["sh", "-c", "echo run >> log"], products=["log"])
    assert task.manager.verify_checkpoint(step.checkpoint.checkpoint_id)
    assert {"n": 1} == task.manager.rollback_to_checkpoint(step.checkpoint.checkpoint_id)
    assert {"n": 1} == task.resume({})
    assert "run\n" == (work / "log").read_text()


def test_a_command_that_failed_fails_the_step(task):
    """The agent may look at it first; the checkpoint is stored unverified with the reason."""
    ran: list[CommandRun] = []
    with (
        pytest.raises(NotVerifiedError, match="expected exit code 0, recorded 2"),
        task.step("tool_executed", {}) as step,
    ):
        ran.append(step.run(["sh", "-c", "exit 2"]))
    assert [(False, 2)] == [(each.ok, each.exit_code) for each in ran]
    assert not step.checkpoint.verified


def test_a_product_is_measured_when_the_block_ends_and_once(task, work):
    """It may be worked on until then, and may be claimed by more than one name."""
    with task.step("tool_executed", {}) as step:
        step.proves_file("out", "first")
        step.proves_prefix("out")
        step.run(["sh", "-c", "echo early > out"], products=["out", "./out", work / "out"])
        (work / "out").write_text("late")
        step.proves_file(".//out", "last")
    [prefix, _, file] = step.checkpoint.evidence_pack.evidence_list
    assert "file_prefix_sha256" == prefix.evidence_type
    assert ("last", 4) == (file.description, file.expected["size"])


def test_a_product_that_was_not_left_fails_the_step(task):
    """As a file that was promised and is not there."""
    with pytest.raises(NotVerifiedError, match="out: expected a file, found nothing"), task.step("tool_executed", {}) as step:
        step.run(["true"], products=["out"])


def test_it_runs_where_the_task_works(task, work, tmp_path, monkeypatch):
    """Not where the process happens to be; a folder beneath it may be named."""
    (work / "d").mkdir()
    monkeypatch.chdir(tmp_path)
    with task.step("tool_executed", {}) as step:
        assert f"{work}\n" == step.run(["pwd"]).text
        assert f"{work}/d\n" == step.run(["pwd"], cwd=Path("d")).text
    assert [".", "d"] == [each.metadata["record"]["cwd"] for each in step.checkpoint.evidence_pack.evidence_list]


def test_nothing_is_run_outside_the_block(task, work):
    """Before it no intent is kept, and after it nothing would be claimed."""
    step = task.step("tool_executed", {})
    with pytest.raises(InvalidInputError, match="block is not under way"):
        step.run(["touch", "ran"])
    with step:
        step.run(["true"])
    with pytest.raises(InvalidInputError, match="block is not under way"):
        step.run(["touch", "ran"])
    assert not (work / "ran").exists()


def test_what_is_refused_or_not_started_claims_nothing(task, work):
    """The block may go on without it."""
    with task.step("tool_executed", {}) as step:
        with pytest.raises(EvidenceUnavailableError, match="no-such-program: no such program"):
            step.run(["no-such-program"], products=["out"])
        with pytest.raises(InvalidInputError, match="leaves the base path"):
            step.run(["touch", "ran"], products=["../out"])
        step.run(["true"])
    assert ["true"] == [each.description for each in step.checkpoint.evidence_pack.evidence_list]
    assert not (work / "ran").exists()


def test_a_record_goes_through_the_store(task, manager):
    """What no text can hold, and a great deal of it, comes back as it was and still holds."""
    with task.step("tool_executed", {}) as step:
        ran = step.run(["sh", "-c", r"printf '\377\000\033'; head -c 3000000 /dev/zero"], max_output=2_000_000)
        assert (2_000_000, 3_000_003) == (len(ran.stdout), ran.evidence.metadata["record"]["stdout"]["bytes"])
    assert manager.get_checkpoint(step.checkpoint.checkpoint_id).evidence_pack == step.checkpoint.evidence_pack
    assert manager.verify_checkpoint(step.checkpoint.checkpoint_id)


def test_a_sensitive_command_is_nowhere_in_the_registry(task, db):
    """Its arguments and what it said are given to whoever ran it, and to nobody else."""
    with task.step("tool_executed", {}) as step:
        ran = step.run(["echo", "hunter2"], sensitive=True)
        assert "hunter2\n" == ran.text
        assert "hunter2" not in repr(ran)
    task.manager.close()
    for file in db.parent.glob(f"{db.name}*"):
        assert b"hunter2" not in file.read_bytes()
    assert "a command (sensitive)" == step.checkpoint.evidence_pack.evidence_list[0].description


def test_what_the_block_says_of_a_product_itself_counts_more(task):
    """A file that was claimed in words of its own is not claimed in other words because a command leaves it."""
    with task.step("tool_executed", {}) as step:
        step.proves_file("out", "the report", keep=False)
        step.run(["touch", "out"], products=["out"])
    [file, _] = step.checkpoint.evidence_pack.evidence_list
    assert ("the report", False) == (file.description, file.metadata["keep"])
