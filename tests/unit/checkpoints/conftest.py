"""A registry on a real file, and a folder for the agent to work in. Files that need another kind define their own."""

from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager


@pytest.fixture
def work(tmp_path: Path, monkeypatch) -> Path:
    """The folder the agent works in, which is the current directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def manager(db: Path, work: Path):
    with CheckpointManager(db) as manager:
        yield manager
