"""Claims about services in steps: measured when the block ends."""

from __future__ import annotations

import pytest

from agentos.core.checkpoints.manager import CheckpointManager
from agentos.errors import EvidenceDefinitionError, NotVerifiedError
from tests.unit.probes.engines import ID, IMAGE, STATE, Engine, container, listening


def test_a_step_proves_the_run_of_a_container_that_goes_on_when_its_block_ends(tmp_path, monkeypatch):
    """What is claimed is what was found then: id, image and start."""
    task = CheckpointManager(tmp_path / "registry.db").task("deploy")
    with listening(tmp_path / "s", Engine(container())) as environ:
        monkeypatch.setenv("DOCKER_HOST", environ["DOCKER_HOST"])
        with task.step("tool_executed", {}) as step:
            step.proves_container("web")
            with pytest.raises(EvidenceDefinitionError, match="the name of a container"):
                step.proves_container("../x")
    (claim,) = step.checkpoint.evidence_pack.evidence_list
    assert {"id": ID, "image_digest": IMAGE, "started_at": STATE["StartedAt"]} == claim.expected
    assert step.checkpoint.verified


def test_a_step_whose_container_does_not_run_is_not_verified(tmp_path, monkeypatch):
    """The claim is committed, and fails: a promise that was not kept is no smaller promise."""
    task = CheckpointManager(tmp_path / "registry.db", verify_timeout=0.5).task("deploy")
    gone = Engine(container(Running=False, Status="exited", ExitCode=1))
    with listening(tmp_path / "s", gone) as environ:
        monkeypatch.setenv("DOCKER_HOST", environ["DOCKER_HOST"])
        with pytest.raises(NotVerifiedError, match="web: expected a running container, found it exited"):  # noqa: SIM117
            with task.step("tool_executed", {}) as step:
                step.proves_container("web")
