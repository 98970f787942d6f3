"""The five examples of the seed's contract and its workflow function run as they are written.

The text below is the seed's. Only `/tmp/` becomes a folder of the test and the placeholder hash a real one.
"""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointError, CheckpointManager, Evidence, EvidencePack, EvidenceType
from tests.support import exists

IMPORTS = "from agentos.core.checkpoints import CheckpointManager, EvidencePack, Evidence, EvidenceType\n"

SIMPLE = """
from agentos.core.checkpoints import CheckpointManager, EvidencePack, Evidence, EvidenceType

# Initialize manager
manager = CheckpointManager()

# Begin step
step_id = manager.begin_step(
    task_id="task-123",
    checkpoint_type="tool_executed",
    snapshot={"tool": "bash", "command": "ls -la", "result": "success"}
)

# Create evidence
evidence_pack = EvidencePack([
    Evidence(
        evidence_type=EvidenceType.ARTIFACT_EXISTS,
        description="Log file created",
        expected={"path": "/tmp/run.log"}
    )
])

# Commit checkpoint
checkpoint = manager.commit_step(step_id, evidence_pack)

print(f"Checkpoint created: {checkpoint.checkpoint_id}")
print(f"Verified: {checkpoint.verified}")
"""

SEVERAL_TYPES = """
# Create comprehensive evidence pack
evidence_pack = EvidencePack([
    # File exists
    Evidence(
        evidence_type=EvidenceType.ARTIFACT_EXISTS,
        description="Output file created",
        expected={"path": "/tmp/output.txt", "type": "file"}
    ),
    # File hash
    Evidence(
        evidence_type=EvidenceType.FILE_SHA256,
        description="Output content verified",
        expected={
            "path": "/tmp/output.txt",
            "sha256": "abc123..."
        }
    ),
    # Command exit
    Evidence(
        evidence_type=EvidenceType.COMMAND_EXIT,
        description="Command succeeded",
        expected={"exit_code": 0}
    ),
    # Database row
    Evidence(
        evidence_type=EvidenceType.DB_ROW,
        description="Task status updated",
        expected={
            "table": "tasks",
            "where": {"task_id": "task-123"},
            "values": {"status": "completed"}
        }
    ),
])

step_id = manager.begin_step("task-123", "iteration_end", {"iteration": 1})
checkpoint = manager.commit_step(step_id, evidence_pack)
"""

RECOVERY = """
# Find last verified checkpoint
last_checkpoint = manager.get_last_verified_checkpoint("task-123")

if last_checkpoint:
    # Rollback to checkpoint
    snapshot = manager.rollback_to_checkpoint(last_checkpoint.checkpoint_id)

    # Restore state
    iteration = snapshot["iteration"]
    state = snapshot["state"]

    print(f"Resuming from iteration {iteration}")
else:
    print("No verified checkpoint found, starting from beginning")
"""

PARTIAL = """
# Allow partial verification (at least 2 out of 3)
evidence_pack = EvidencePack(
    evidence_list=[
        Evidence(EvidenceType.ARTIFACT_EXISTS, "File 1", {"path": "/tmp/f1.txt"}),
        Evidence(EvidenceType.ARTIFACT_EXISTS, "File 2", {"path": "/tmp/f2.txt"}),
        Evidence(EvidenceType.ARTIFACT_EXISTS, "File 3", {"path": "/tmp/f3.txt"}),
    ],
    require_all=False,
    allow_partial=True,
    min_verified=2
)

step_id = manager.begin_step("task-123", "tool_executed", {"result": "partial"})
checkpoint = manager.commit_step(step_id, evidence_pack)

# Check verification summary
summary = checkpoint.evidence_pack.verification_summary()
print(f"Verified: {summary['verified']}/{summary['total']}")
print(f"Is valid: {summary['is_verified']}")
"""

MANUAL = """
# Create checkpoint without auto-verify
manager = CheckpointManager(auto_verify=False)

step_id = manager.begin_step("task-123", "iteration_start", {"iteration": 1})
checkpoint = manager.commit_step(step_id, evidence_pack)

# Verify later
is_verified = manager.verify_checkpoint(checkpoint.checkpoint_id)

if is_verified:
    print("Checkpoint verified successfully")
else:
    # Check individual evidence
    checkpoint = manager.get_checkpoint(checkpoint.checkpoint_id)
    for evidence in checkpoint.evidence_pack.evidence_list:
        if not evidence.verified:
            print(f"Failed: {evidence.description} - {evidence.verification_error}")
"""

WORKFLOW = """
from agentos.core.checkpoints import CheckpointManager

def execute_task_with_checkpoints(task_id: str):
    manager = CheckpointManager()

    # Check for existing checkpoint
    last_checkpoint = manager.get_last_verified_checkpoint(task_id)

    if last_checkpoint:
        # Resume from checkpoint
        snapshot = manager.rollback_to_checkpoint(last_checkpoint.checkpoint_id)
        iteration = snapshot["iteration"] + 1
    else:
        # Start from beginning
        iteration = 1

    # Execute iterations
    while iteration <= max_iterations:
        # Begin step
        step_id = manager.begin_step(
            task_id=task_id,
            checkpoint_type="iteration_start",
            snapshot={"iteration": iteration, "state": get_state()}
        )

        try:
            # Do work
            result = execute_iteration(iteration)

            # Create evidence
            evidence_pack = create_evidence(result)

            # Commit checkpoint
            checkpoint = manager.commit_step(step_id, evidence_pack)

            if not checkpoint.verified:
                raise Exception("Checkpoint verification failed")

            iteration += 1

        except Exception as e:
            # Rollback to last checkpoint
            if last_checkpoint:
                manager.rollback_to_checkpoint(last_checkpoint.checkpoint_id)
            raise
"""


@pytest.fixture
def example(tmp_path: Path, monkeypatch):
    """Runs an example in the test's folder; what it left in its namespace."""
    (tmp_path / "f").mkdir()
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(IMPORTS, namespace)

    def perform(text: str, **given: Any) -> dict[str, Any]:
        namespace.update(given)
        exec(text.replace("/tmp/", f"{tmp_path}/f/").replace("abc123...", hashlib.sha256(b"out").hexdigest()), namespace)
        return namespace

    yield perform
    if "manager" in namespace:
        namespace["manager"].close()


@pytest.mark.parametrize("there", [True, False])
def test_example_1_simple_checkpoint(example, tmp_path: Path, capsys, there: bool):
    """A checkpoint is created either way; it is verified only if its log file is there."""
    if there:
        (tmp_path / "f" / "run.log").write_text("ran")
    made = example(SIMPLE)
    said = f"Checkpoint created: {made['checkpoint'].checkpoint_id}\nVerified: {there}\n"
    assert said == capsys.readouterr().out
    assert (tmp_path / "store" / "registry.sqlite").is_file()


def test_example_2_multiple_evidence_types(example, tmp_path: Path):
    """Four types in one pack: three hold; the registry's own row still says the task is active, and the reason names it."""
    (tmp_path / "f" / "output.txt").write_text("out")
    checkpoint = example(SEVERAL_TYPES, manager=CheckpointManager())["checkpoint"]
    *good, status = checkpoint.evidence_pack.evidence_list
    assert [True, True, True, False] == [item.verified for item in [*good, status]]
    assert "status: expected 'completed', found 'active'" in status.verification_error
    assert checkpoint.verified is False


def test_example_2_verifies_once_the_row_says_so(example, tmp_path: Path):
    """With a database of the user's own that says `completed`, the same pack verifies."""
    (tmp_path / "f" / "output.txt").write_text("out")
    manager = CheckpointManager()
    text = SEVERAL_TYPES.replace('"completed"', '"active"')
    assert example(text, manager=manager)["checkpoint"].verified


def test_example_3_recovery_from_a_checkpoint(example, tmp_path: Path, capsys):
    """With a verified checkpoint the state comes back; without one the task starts from the beginning."""
    manager = CheckpointManager()
    example(RECOVERY, manager=manager)
    (tmp_path / "a").write_text("a")
    step = manager.begin_step("task-123", "iteration_end", {"iteration": 7, "state": "writing"})
    manager.commit_step(step, exists("a"))
    restored = example(RECOVERY)
    assert "No verified checkpoint found, starting from beginning\nResuming from iteration 7\n" == capsys.readouterr().out
    assert (7, "writing") == (restored["iteration"], restored["state"])


@pytest.mark.parametrize(("files", "said"), [(2, "Verified: 2/3\nIs valid: True\n"), (1, "Verified: 1/3\nIs valid: False\n")])
def test_example_4_partial_evidence(example, tmp_path: Path, capsys, files: int, said: str):
    """Two of three are enough when the pack says so, and one is not."""
    for number in range(1, files + 1):
        (tmp_path / "f" / f"f{number}.txt").write_text("x")
    made = example(PARTIAL, manager=CheckpointManager())
    assert said == capsys.readouterr().out
    assert (files == 2) is made["checkpoint"].verified


@pytest.mark.parametrize("there", [True, False])
def test_example_5_manual_verification(example, tmp_path: Path, capsys, there: bool):
    """Without auto-verify the answer comes from verify_checkpoint, and the reasons from the stored evidence."""
    if there:
        (tmp_path / "f" / "a").write_text("a")
    pack = EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "the file a", {"path": "f/a"})])
    example(MANUAL, evidence_pack=pack)
    said = capsys.readouterr().out
    assert ("Checkpoint verified successfully\n" == said) is there
    assert said.startswith("Failed: the file a - f/a: expected something, found nothing") is not there


class Agent:
    """What the workflow function expects around it: work that writes a file per iteration, and dies where it is told."""

    def __init__(self, folder: Path, max_iterations: int = 4) -> None:
        self.folder = folder
        self.done: list[int] = []
        self.dies_at = 0
        self.lies_at = 0
        self.names = {
            "max_iterations": max_iterations,
            "get_state": lambda: "running",
            "execute_iteration": self.execute,
            "create_evidence": self.evidence,
        }

    def execute(self, iteration: int) -> int:
        if iteration == self.dies_at:
            raise RuntimeError(f"died in iteration {iteration}")
        if iteration != self.lies_at:
            (self.folder / f"{iteration}.txt").write_text(str(iteration))
        self.done.append(iteration)
        return iteration

    def evidence(self, iteration: int) -> EvidencePack:
        return exists(f"{iteration}.txt")


def test_the_workflow_resumes_after_a_crash(example, tmp_path: Path):
    """A crash in iteration 3 costs iteration 3 only: the next call goes on from the last verified checkpoint."""
    agent = Agent(tmp_path)
    agent.dies_at = 3
    execute = example(WORKFLOW, **agent.names)["execute_task_with_checkpoints"]
    with pytest.raises(RuntimeError, match="died in iteration 3"):
        execute("task-1")
    agent.dies_at = 0
    execute("task-1")
    assert [1, 2, 3, 4] == agent.done
    with CheckpointManager() as manager:
        assert [4, 3, 2, 1] == [each.snapshot_data["iteration"] for each in manager.list_checkpoints("task-1")]
        assert [3] == [step.snapshot_data["iteration"] for step in manager.list_open_steps("task-1")]


def test_the_workflow_raises_when_the_work_left_nothing_behind(example, tmp_path: Path):
    """An iteration that claims a file it did not write ends the workflow, and the last verified one is still named."""
    agent = Agent(tmp_path)
    agent.lies_at = 2
    execute = example(WORKFLOW, **agent.names)["execute_task_with_checkpoints"]
    with pytest.raises(Exception, match="Checkpoint verification failed"):
        execute("task-1")
    with CheckpointManager() as manager:
        last = manager.get_last_verified_checkpoint("task-1")
        assert last is not None
        assert 1 == last.snapshot_data["iteration"]


def test_the_workflow_refuses_to_resume_from_a_lie(example, tmp_path: Path):
    """When the newest verified checkpoint no longer holds, resuming raises and says what differs."""
    agent = Agent(tmp_path, max_iterations=2)
    execute = example(WORKFLOW, **agent.names)["execute_task_with_checkpoints"]
    execute("task-1")
    (tmp_path / "2.txt").unlink()
    with pytest.raises(CheckpointError, match=r"2.txt: expected something, found nothing"):
        execute("task-1")
    execute("task-1")
    assert [1, 2, 2] == agent.done
