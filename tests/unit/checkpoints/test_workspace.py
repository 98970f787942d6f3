"""Where paths start: the base a checkpoint was committed under, a workspace that moved, and a base that is not there."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import EvidenceDefinitionError, EvidenceMismatchError, EvidenceUnavailableError, InvalidInputError
from tests.support import content, exists, row, run


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


def committed(db: Path, base: Path, pack=None) -> str:
    with CheckpointManager(db, base) as manager:
        step = manager.begin_step("t", "tool_executed", {"n": 1})
        checkpoint = manager.commit_step(step, pack or content("a.txt", "a"))
        assert checkpoint.verified
        assert str(base) == checkpoint.base_path
        return checkpoint.checkpoint_id


def test_relative_paths_resolve_where_the_checkpoint_was_committed(db: Path, here: Path, tmp_path: Path, monkeypatch):
    """A manager without a base of its own looks where the checkpoint was made, wherever it runs."""
    checkpoint = committed(db, here)
    monkeypatch.chdir(tmp_path)
    with CheckpointManager(db) as manager:
        assert manager.verify_checkpoint(checkpoint)
        assert {"n": 1} == manager.rollback_to_checkpoint(checkpoint)


def test_an_explicit_base_takes_the_place_of_the_stored_one(db: Path, here: Path, tmp_path: Path):
    """The workspace moved: a manager that was told so looks there and not where it was."""
    checkpoint = committed(db, here)
    there = tmp_path / "there"
    here.rename(there)
    with CheckpointManager(db, there) as manager:
        assert manager.verify_checkpoint(checkpoint)
    (there / "a.txt").write_text("b")
    here.mkdir()
    (here / "a.txt").write_text("a")
    with CheckpointManager(db, there) as manager, pytest.raises(EvidenceMismatchError):
        manager.rollback_to_checkpoint(checkpoint)


def test_a_base_that_is_not_there_is_an_error_and_never_clears_the_flag(db: Path, here: Path, tmp_path: Path):
    """An unmounted disk must not look like lost work: False or an error, and the last known answer stands."""
    checkpoint = committed(db, here)
    here.rename(tmp_path / "unmounted")
    with CheckpointManager(db) as manager:
        assert manager.verify_checkpoint(checkpoint) is False
        with pytest.raises(EvidenceUnavailableError, match="the folder that paths start from is not there"):
            manager.rollback_to_checkpoint(checkpoint)
        stored = manager.get_checkpoint(checkpoint)
        assert stored is not None
        assert stored.verified is True
        result = stored.evidence_pack.evidence_list[0].result
        assert result is not None
        assert ("error", "BASE_MISSING") == (result.outcome, result.code)
        assert checkpoint == getattr(manager.get_last_verified_checkpoint("t"), "checkpoint_id", None)


def test_a_wrong_explicit_base_that_is_not_there_is_an_error_too(db: Path, here: Path, tmp_path: Path):
    """A mistyped workspace is no damage either."""
    checkpoint = committed(db, here)
    with CheckpointManager(db, tmp_path / "mistyped") as manager:
        assert manager.verify_checkpoint(checkpoint) is False
        stored = manager.get_checkpoint(checkpoint)
    assert stored is not None
    assert stored.verified is True


def test_a_step_committed_by_another_process_resolves_where_it_began(db: Path, here: Path, tmp_path: Path):
    """The base of a begun step travels with it; a manager without a base of its own keeps it."""
    with CheckpointManager(db, here) as manager:
        step = manager.begin_step("t", "tool_executed", {})
    code = """
import sys
from agentos import CheckpointManager
from tests.support import exists
with CheckpointManager(sys.argv[1]) as manager:
    checkpoint = manager.commit_step(sys.argv[2], exists("a.txt"))
    print(checkpoint.verified, checkpoint.base_path)
"""
    assert f"True {here}\n" == run(code, db, step, cwd=tmp_path)


def test_a_relative_database_follows_the_same_rule(db: Path, here: Path, tmp_path: Path, monkeypatch):
    """`metadata['db_path']` starts at the base as well."""
    with closing(sqlite3.connect(here / "own.sqlite")) as connection:
        connection.execute("create table jobs (id integer)")
        connection.execute("insert into jobs values (1)")
        connection.commit()
    checkpoint = committed(db, here, row({"id": 1}, {}, "jobs", db_path="own.sqlite"))
    monkeypatch.chdir(tmp_path)
    with CheckpointManager(db) as manager:
        assert manager.verify_checkpoint(checkpoint)
    there = tmp_path / "there"
    here.rename(there)
    with CheckpointManager(db, there) as manager:
        assert manager.verify_checkpoint(checkpoint)


def test_paths_given_relative_become_absolute_at_once(tmp_path: Path, here: Path, monkeypatch):
    """A chdir after construction changes neither the base nor the registry."""
    monkeypatch.chdir(tmp_path)
    with CheckpointManager("registry.sqlite", Path("here")) as manager:
        monkeypatch.chdir("/")
        assert (str(tmp_path / "registry.sqlite"), here) == (manager.db_path, manager.base_path)
        step = manager.begin_step("t", "tool_executed", {})
        assert manager.commit_step(step, exists("a.txt")).verified


@pytest.mark.parametrize("path", ["../outside.txt", "sub/../../outside.txt", ".."])
def test_a_path_that_leaves_the_base_is_refused_at_commit(db: Path, here: Path, path: str):
    """`..` out of the base is a bad definition: nothing is stored."""
    with CheckpointManager(db, here) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        with pytest.raises(EvidenceDefinitionError, match="leaves the base path"):
            manager.commit_step(step, exists(path))
        assert [] == manager.list_checkpoints("t")


def test_a_link_out_of_the_base_is_not_followed(db: Path, here: Path, tmp_path: Path):
    """A symlink inside the workspace that leads out of it cannot vouch for anything."""
    (tmp_path / "outside.txt").write_text("x")
    (here / "link").symlink_to(tmp_path / "outside.txt")
    with CheckpointManager(db, here) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        checkpoint = manager.commit_step(step, exists("link"))
        result = checkpoint.evidence_pack.evidence_list[0].result
    assert result is not None
    assert ("error", "PATH_ESCAPES") == (result.outcome, result.code)


def test_allowed_roots_bound_absolute_paths(db: Path, here: Path, tmp_path: Path):
    """Absolute paths are allowed, unless roots are given: then only beneath one of them."""
    (tmp_path / "outside.txt").write_text("x")
    inside, outside = here / "a.txt", tmp_path / "outside.txt"
    with CheckpointManager(db, here) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        assert manager.commit_step(step, exists(inside, outside)).verified
    with CheckpointManager(db, here, allowed_roots=[here]) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        items = manager.commit_step(step, exists(inside, outside)).evidence_pack.evidence_list
        assert [True, False] == [item.verified for item in items]
        assert "is not beneath an allowed root" in str(items[1].verification_error)


@pytest.mark.parametrize("roots", ["/tmp", Path("/tmp"), [], 5, [5], [""]])
def test_allowed_roots_that_would_not_bound_anything_are_refused(db: Path, roots):
    """A single path would be read letter by letter, `/` first, and an empty list would allow everything."""
    with pytest.raises(InvalidInputError, match="allowed_roots"):
        CheckpointManager(db, allowed_roots=roots)
    assert not db.exists()


def test_a_current_directory_that_is_gone_is_a_sentence(tmp_path: Path):
    """Without a directory to start from, relative paths mean nothing, and that is said."""
    code = """
import os, sys
from agentos import CheckpointError, CheckpointManager
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])
for arguments in [(), ("relative.sqlite", "/"), (os.path.join(os.path.dirname(sys.argv[1]), "r.sqlite"),)]:
    try:
        CheckpointManager(*arguments)
    except CheckpointError as error:
        print(type(error).__name__, error.message)
"""
    said = run(code, tmp_path / "gone").splitlines()
    assert ["InvalidInputError the current directory is not there"] * 3 == [line.partition(":")[0] for line in said]


def test_the_registry_may_be_reached_through_a_link(here: Path, tmp_path: Path):
    """A linked registry is one registry: both names see the same checkpoints."""
    real = tmp_path / "real.sqlite"
    link = tmp_path / "link.sqlite"
    committed(real, here)
    os.symlink(real, link)
    committed(link, here)
    with CheckpointManager(real) as manager:
        assert [2, 1] == [each.sequence_number for each in manager.list_checkpoints("t")]
