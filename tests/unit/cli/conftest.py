"""A registry with something of everything in it."""

from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager, EvidencePack
from tests.support import content, exists


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def made(db: Path, tmp_path: Path) -> dict[str, str]:
    """A task with a checkpoint that holds, one that does not, a superseded one, and a step that never ended."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:

        def commit(pack: EvidencePack, name: str | None = None) -> str:
            return manager.commit_step(manager.begin_step("report-42", "tool_executed", {}), pack, name).checkpoint_id

        good = commit(content("out.txt", "one"))
        later = commit(exists("out.txt"))
        manager.rollback_to_checkpoint(good, supersede_later=True)
        bad = commit(exists("gone.txt"))
        step = manager.begin_step("report-42", "tool_executed", {})
        manager.note_error(step, ValueError("interrupted\x1b[31m"))
    return {"good": good, "bad": bad, "later": later, "step": step}
