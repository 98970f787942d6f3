"""vault: what takes the space, and away with what nothing needs."""

import json
from pathlib import Path
from random import Random

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.unit.checkpoints.steps import wrote
from tests.unit.cli.program import agentos, on_a_terminal


@pytest.fixture
def kept(db: Path, tmp_path: Path) -> Path:
    """Three contents, of which one is needed; the folder of the vault's objects."""
    with CheckpointManager(db, tmp_path, keep=True) as manager:
        # With nothing in common: none is kept as a difference to another.
        for number in range(3):
            wrote(manager, "a", Random(number).randbytes(200).hex())
        manager.prune("t", keep_verified=1)
    return tmp_path / "vault" / "objects"


def files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def test_what_takes_the_space_is_shown(db: Path, kept: Path):
    """By task, for safety copies, and for nothing."""
    ended = agentos("vault", "--db", db)
    head, *rest = ended.stdout.splitlines()
    assert (0, "") == (ended.returncode, ended.stderr)
    assert f"{kept.parent}: 3 contents, " in head
    assert ["task t", "what restores overwrote", "nothing needs this: `agentos vault --collect` removes it"] == [
        line.split("bytes  ")[1] for line in rest
    ]
    told = json.loads(agentos("vault", "--db", db, "--json").stdout)
    assert (3, ["t"], 0, None) == (told["contents"], list(told["tasks"]), told["safety"], told["collected"])
    assert told["bytes"] == told["tasks"]["t"] + told["unneeded"]


def test_a_dry_run_removes_nothing(db: Path, kept: Path):
    """And says what would go."""
    ended = agentos("vault", "--collect", "--dry-run", "--db", db)
    assert (0, True) == (ended.returncode, ended.stdout.startswith("would remove 2 contents, "))
    assert 3 == files(kept)


def test_collecting_wants_a_yes(db: Path, kept: Path):
    """Without one and without a terminal nothing goes; with one, what nothing needs does, and the rest stays."""
    ended = agentos("vault", "--collect", "--db", db)
    assert (Exit.USAGE, 3) == (ended.returncode, files(kept))
    ended = agentos("vault", "--collect", "--yes", "--db", db, "--json")
    told = json.loads(ended.stdout)
    assert (0, 2, 1, 1, 0) == (ended.returncode, told["collected"]["contents"], told["contents"], files(kept), told["unneeded"])


def test_on_a_terminal_it_asks(db: Path, kept: Path):
    """A no leaves everything."""
    code, said = on_a_terminal("vault", "--collect", "--db", db, typed="n\n")
    assert (Exit.INTERRUPTED, True, 3) == (code, "Remove 2 contents, " in said, files(kept))
    code, said = on_a_terminal("vault", "--collect", "--db", db, typed="y\n")
    assert (0, True, 1) == (code, "removed 2 contents, " in said, files(kept))


def test_content_that_is_needed_and_gone_is_said(db: Path, kept: Path):
    """What is not there cannot be collected, and whoever collects should know; the exit code is not 0."""
    with CheckpointManager(db) as manager:
        [last] = manager.list_checkpoints("t")
    needed = last.evidence_pack.evidence_list[0].expected["sha256"]
    (kept / needed[:2] / needed[2:]).unlink()
    ended = agentos("vault", "--collect", "--yes", "--db", db)
    assert (Exit.DIFFERS, True) == (ended.returncode, f"missing: {needed}: " in ended.stdout)
