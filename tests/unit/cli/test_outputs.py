"""No verb that writes a file puts it over a registry, or over what belongs to one, whatever the registry is called."""

import shutil
from pathlib import Path

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.support import content
from tests.unit.cli.program import agentos

TASK = "report-42"
# What is in braces is the place to write to.
WRITERS = {
    "backup": "backup {} --yes",
    "export": "export report-42 {} --yes",
    "junit": "verify --all --junit {}",
    "markdown": "verify --all --markdown {}",
    "resume": "resume report-42 --snapshot-out {}",
    "rollback": "rollback CHECKPOINT --snapshot-out {}",
}


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, str]:
    """A registry with a name of its user's own, and its checkpoint."""
    registry = tmp_path / "store" / "agents.db"
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(registry, tmp_path) as manager:
        made = manager.commit_step(manager.begin_step(TASK, "tool_executed", {}), content("out.txt", "one"))
    return registry, made.checkpoint_id


@pytest.mark.parametrize("place", ["agents.db", "agents.db-wal", "link", "elsewhere.db"])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_registry_is_overwritten(store: tuple[Path, str], tmp_path: Path, writer: str, place: str):
    """This one, its log, a link to it, another one: a sentence, exit code 2, and every task is still there."""
    registry, checkpoint = store
    other = registry.with_name("elsewhere.db")
    shutil.copy(registry, other)
    registry.with_name("link").symlink_to(registry)
    target = str(registry.with_name(place))
    words = [{"{}": target, "CHECKPOINT": checkpoint}.get(word, word) for word in WRITERS[writer].split()]
    ended = agentos(*words, "--db", registry, cwd=tmp_path)
    assert (Exit.USAGE, True) == (ended.returncode, "a registry" in ended.stderr), ended.stderr
    for each in (registry, other):
        assert 0 == agentos("doctor", "--db", each).returncode
        assert TASK in agentos("tasks", "--db", each).stdout
