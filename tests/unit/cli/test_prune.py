"""prune: what may go goes after a yes, and a dry run changes nothing."""

import json
from pathlib import Path

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.support import dump
from tests.unit.checkpoints.steps import wrote
from tests.unit.cli.program import agentos, on_a_terminal


def rewritten(db: Path, base: Path, times: int = 5, task: str = "report-42") -> None:
    with CheckpointManager(db, base) as manager:
        for turn in range(times):
            wrote(manager, "a", str(turn), task=task)


def test_a_dry_run_says_what_would_go_and_changes_nothing(db: Path, tmp_path: Path):
    """The counts, and not a row less."""
    rewritten(db, tmp_path)
    before = dump(db)
    ended = agentos("prune", "--keep-verified", 2, "--dry-run", "--db", db)
    assert (0, "would remove 3 checkpoints of 1 task\n", "") == (ended.returncode, ended.stdout, ended.stderr)
    assert before == dump(db)


def test_without_a_terminal_nothing_goes_unless_it_is_agreed_to(db: Path, tmp_path: Path):
    """A script that forgot --yes is told what would have gone, and nothing went."""
    rewritten(db, tmp_path)
    before = dump(db)
    ended = agentos("prune", "--keep-verified", 2, "--db", db)
    assert (Exit.USAGE, "") == (ended.returncode, ended.stdout)
    assert "Remove 3 checkpoints of 1 task?" in ended.stderr
    assert before == dump(db)


def test_what_may_go_goes(db: Path, tmp_path: Path):
    """Of the task that was named, in short, and of no other."""
    rewritten(db, tmp_path)
    rewritten(db, tmp_path, task="other")
    ended = agentos("prune", "rep", "--keep-verified", 2, "--yes", "--json", "--db", db)
    told = json.loads(ended.stdout)
    assert (0, 1, 3, False) == (ended.returncode, told["tasks"], told["checkpoints"], told["dry_run"])
    with CheckpointManager(db, tmp_path) as manager:
        assert (2, 5) == (len(manager.list_checkpoints("report-42")), len(manager.list_checkpoints("other")))


def test_on_a_terminal_a_no_is_a_no(db: Path, tmp_path: Path):
    """Nothing is typed, so nothing is agreed to."""
    rewritten(db, tmp_path)
    before = dump(db)
    code, said = on_a_terminal("prune", "--keep-verified", 2, "--db", db, typed="n\n")
    assert Exit.INTERRUPTED == code
    assert "Remove 3 checkpoints of 1 task? [y/N]" in said
    assert before == dump(db)


def test_on_a_terminal_a_yes_is_a_yes(db: Path, tmp_path: Path):
    """The question comes first, then what was done."""
    rewritten(db, tmp_path)
    code, said = on_a_terminal("prune", "--keep-verified", 2, "--db", db, typed="y\n")
    assert (0, True) == (code, "removed 3 checkpoints of 1 task; " in said)


def test_what_is_young_stays(db: Path, tmp_path: Path):
    """--older-than takes an age, and nothing else."""
    rewritten(db, tmp_path)
    assert "nothing to remove\n" == agentos("prune", "--keep-verified", 1, "--older-than", "1h", "--db", db).stdout
    wrong = agentos("prune", "--older-than", "yesterday", "--db", db)
    assert (Exit.USAGE, True) == (wrong.returncode, "yesterday: not an age" in wrong.stderr)


def test_a_task_that_is_not_there(db: Path, tmp_path: Path):
    """A usage error with what is near."""
    rewritten(db, tmp_path, 1)
    ended = agentos("prune", "report-43", "--db", db)
    assert (Exit.USAGE, True) == (ended.returncode, "did you mean report-42?" in ended.stderr)
