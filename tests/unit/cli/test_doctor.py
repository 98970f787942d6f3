"""doctor: what is wrong is named, with what it means and what to do; looking changes nothing."""

import json
from pathlib import Path

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager
from tests.support import execute
from tests.unit.checkpoints.steps import wrote
from tests.unit.cli.program import AS_ANYBODY, agentos, on_a_terminal


@pytest.fixture
def kept(db: Path, tmp_path: Path) -> Path:
    """A task with two checkpoints whose files are kept; where one of the contents lies."""
    with CheckpointManager(db, tmp_path, keep=True) as manager:
        wrote(manager, "a", "one" * 90)
        wrote(manager, "b", "two" * 90)
        [item] = manager.list_checkpoints("t")[0].evidence_pack.evidence_list
    digest = str(item.expected["sha256"])
    return tmp_path / "vault" / "objects" / digest[:2] / digest[2:]


def test_all_is_well(db: Path, kept: Path):
    """Exit code 0, what was looked at, and what a quick look leaves out."""
    ended = agentos("doctor", "--db", db)
    assert (0, "") == (ended.returncode, ended.stderr)
    looked, well = ended.stdout.splitlines()
    assert f"{db}: " in looked
    assert " rows and 2 kept contents, " in looked
    assert well.endswith("everything is there, and as it was written; --deep also reads everything in the vault")
    told = json.loads(agentos("doctor", "--deep", "--json", "--db", db).stdout)
    assert (True, True, 2, [], 2) == (told["is_sound"], told["deep"], told["contents"], told["findings"], told["rows"]["steps"])


def test_a_damaged_row_is_named(db: Path, kept: Path):
    """Where it is, what it means, what to do; exit code 1."""
    execute(db, "update steps set verified = 0 where place = 1")
    ended = agentos("doctor", "--db", db)
    assert (Exit.DIFFERS, "") == (ended.returncode, ended.stderr)
    assert "row: what is stored is not what was written" in ended.stdout
    assert "its seal does not fit what it holds" in ended.stdout
    assert "  -> restore a backup" in ended.stdout


def test_findings_are_a_document_too(db: Path, kept: Path):
    """Kind, place, what, what it means and what to do, each by name."""
    execute(db, "delete from tasks")
    told = json.loads(agentos("doctor", "--json", "--db", db).stdout)
    assert not told["is_sound"]
    assert {"kind", "where", "what", "means", "hint"} == set(told["findings"][0])
    assert ("lost", "task t") == (told["findings"][0]["kind"], told["findings"][0]["where"])


def test_kept_content_that_is_gone_or_damaged(db: Path, kept: Path):
    """Gone is seen at once; that its bytes changed is seen by whoever reads them."""
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    kept.write_bytes(data)
    assert 0 == agentos("doctor", "--db", db).returncode
    deep = agentos("doctor", "--deep", "--db", db)
    assert (Exit.DIFFERS, True) == (deep.returncode, "content damaged: " in deep.stdout)
    assert "; needed by step step_" in deep.stdout
    kept.unlink()
    gone = agentos("doctor", "--db", db)
    assert (Exit.DIFFERS, True) == (gone.returncode, "content missing: " in gone.stdout)


def test_content_that_cannot_be_looked_at_is_not_called_damaged(db: Path, kept: Path):
    """Nobody may read it: nobody can tell, so nothing is proven and nothing is damaged. Exit code 3."""
    kept.chmod(0)
    ended = agentos("doctor", "--db", db, program=AS_ANYBODY)
    assert (Exit.UNCHECKED, True) == (ended.returncode, "content unreadable: " in ended.stdout)


def test_a_link_in_place_of_content_is_damage(db: Path, kept: Path):
    """Whatever it leads to: it was not kept."""
    kept.unlink()
    kept.symlink_to(kept.name)
    ended = agentos("doctor", "--db", db)
    assert (Exit.DIFFERS, True) == (ended.returncode, "content damaged: " in ended.stdout)


def test_on_a_terminal_it_has_marks(db: Path, kept: Path):
    """In colour, and the same exit codes."""
    code, said = on_a_terminal("doctor", "--deep", "--db", db)
    assert (0, True) == (code, "\x1b[32m✓\x1b[0m everything is there, and as it was written\r\n" in said)
    execute(db, "delete from names")
    execute(db, "update tasks set head = 0")
    code, said = on_a_terminal("doctor", "--db", db)
    assert (Exit.DIFFERS, True) == (code, "\x1b[31m✗\x1b[0m tasks: t, active: its seal does not fit" in said)


def test_what_was_left_out_of_a_tree_is_not_missed(db: Path, tmp_path: Path):
    """A file too large to be kept was never in the vault: that is no finding."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "large").write_bytes(b"x" * 5000)
    (work / "small").write_bytes(b"x")
    with CheckpointManager(db, keep_limit=1000) as manager:
        manager.task("t", workspace=work).resume({})
        assert not manager.collect(dry_run=True).missing
    assert 0 == agentos("doctor", "--deep", "--db", db).returncode


def test_a_registry_in_use_is_looked_at_as_it_is(db: Path, kept: Path):
    """A manager that has it open and writes between two looks: neither sees anything wrong, and it goes on."""
    with CheckpointManager(db, keep=True) as manager:
        for number in range(3):
            wrote(manager.at(db.parent), "a", f"{number}" * 200)
            assert 0 == agentos("doctor", "--deep", "--db", db).returncode
