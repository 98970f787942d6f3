"""verify: the world is looked at now, and the exit code says what came of it."""

import json
import re
import subprocess
import sys
from pathlib import Path

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from tests.support import dump, environment, exists
from tests.unit.cli.program import agentos, on_a_terminal


def test_verify_what_holds(made: dict[str, str], db: Path, tmp_path: Path):
    """Exit code 0; each item with its assurance, and the sum."""
    ended = agentos("verify", made["good"], "--db", db, cwd=Path("/"))
    assert (0, "") == (ended.returncode, ended.stderr)
    head, item, total = ended.stdout.splitlines()
    assert f"checkpoint {made['good']} · task report-42 · number 1 · 1 evidence · require_all" == head
    assert re.fullmatch(r"  ok +file_sha256  content of out.txt  observed +\d+\.\d ms", item)
    assert re.fullmatch(r"1 verified, 0 failed, 0 error · .* · VERIFIED", total)


def test_verify_what_does_not_hold(made: dict[str, str], db: Path, tmp_path: Path):
    """Exit code 1; what was expected, what was found, and what to do."""
    (tmp_path / "out.txt").write_text("two")
    ended = agentos("verify", made["good"], "--db", db)
    assert Exit.DIFFERS == ended.returncode
    assert "out.txt: expected sha256" in ended.stdout
    assert "        -> " in ended.stdout
    assert ended.stdout.endswith(" · NOT VERIFIED\n")


def test_verify_what_could_not_be_checked(made: dict[str, str], db: Path, tmp_path: Path):
    """Exit code 3: that is no sign of damage, and the last known answer stands."""
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    kept = moved / "registry.sqlite"
    tmp_path.rename(moved)
    ended = agentos("verify", made["good"], "--db", kept)
    assert Exit.UNCHECKED == ended.returncode
    assert "UNKNOWN" in ended.stdout
    with CheckpointManager(kept) as manager:
        stored = manager.get_checkpoint(made["good"])
    moved.rename(tmp_path)
    assert stored is not None
    assert stored.verified


def test_verify_a_partial_pack_that_might_hold_is_unknown_not_failed(db: Path, tmp_path: Path):
    """One item failed and one could not be seen, and one would be enough: nobody knows, and the exit code says so."""
    (tmp_path / "link").symlink_to("/")
    pack = exists("gone", "link", require_all=False, allow_partial=True, min_verified=1)
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    assert Exit.UNCHECKED == agentos("verify", checkpoint.checkpoint_id, "--db", db).returncode


def test_verify_an_empty_pack_does_not_hold(db: Path, tmp_path: Path):
    """Nothing claimed is nothing proven."""
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), EvidencePack())
    ended = agentos("verify", checkpoint.checkpoint_id, "--db", db)
    assert (Exit.DIFFERS, True) == (ended.returncode, "NOT VERIFIED" in ended.stdout)


def test_verify_counts_what_is_only_declared_apart(db: Path, tmp_path: Path):
    """A claim that nothing recorded backs is verified as its contract says, and said to be declared only."""
    pack = EvidencePack([Evidence(EvidenceType.COMMAND_EXIT, "tests", {"exit_code": 0})])
    with CheckpointManager(db, tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    ended = agentos("verify", checkpoint.checkpoint_id, "--db", db)
    assert (0, True) == (ended.returncode, "(1 declared only)" in ended.stdout)


def test_verify_an_unknown_checkpoint(made: dict[str, str], db: Path):
    """Exit code 2, and where to look."""
    ended = agentos("verify", "nope", "--db", db)
    assert (Exit.USAGE, "") == (ended.returncode, ended.stdout)
    assert "agentos: checkpoint nope: unknown\n  -> `agentos log TASK` shows what there is\n" == ended.stderr


def test_verify_json_is_one_document(made: dict[str, str], db: Path):
    """For a program: the outcome, and everything that was found."""
    ended = agentos("verify", made["bad"], "--db", db, "--json")
    told = json.loads(ended.stdout)
    assert (Exit.DIFFERS, "failed") == (ended.returncode, told["outcome"])
    assert made["bad"] == told["reports"][0]["checkpoint"]["checkpoint_id"]
    assert "ARTIFACT_MISSING" == told["reports"][0]["results"][0]["code"]


def test_verify_writes_what_other_programs_read(made: dict[str, str], db: Path, tmp_path: Path):
    """JUnit XML and Markdown into files; what was written is said beside the answer."""
    junit, markdown = tmp_path / "r.xml", tmp_path / "r.md"
    ended = agentos("verify", made["bad"], "--db", db, "--junit", junit, "--markdown", markdown)
    assert Exit.DIFFERS == ended.returncode
    assert 'type="ARTIFACT_MISSING"' in junit.read_text()
    assert "gone.txt" in markdown.read_text()
    assert 2 == ended.stderr.count("agentos: wrote ")


def test_verify_has_marks_on_a_terminal(made: dict[str, str], db: Path):
    """In colour, and the same exit code."""
    code, said = on_a_terminal("verify", made["bad"], "--db", db)
    assert (Exit.DIFFERS, True) == (code, "\x1b[31m✗\x1b[0m artifact_exists" in said)


def test_verify_where_nothing_can_be_written_measures_all_the_same(made: dict[str, str], db: Path):
    """A registry whose write lock is taken away by its own file mode: the answer comes, and a note that it is not kept."""
    code = """
import os, sys
from agentos.cli.main import main
import agentos.cli.door
real = os.access
os.access = lambda path, mode: False if mode == os.W_OK else real(path, mode)
main(sys.argv[1:])
"""
    before = dump(db)
    ended = subprocess.run(
        [sys.executable, "-c", code, "verify", made["good"], "--db", str(db)],
        env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (Exit.SAFE, True) == (ended.returncode, "will not be recorded" in ended.stderr)
    assert before == dump(db)


def test_verify_every_checkpoint_of_a_task(made: dict[str, str], db: Path, tmp_path: Path):
    """Those on the timeline, oldest first; of what holds one line, of what does not everything, and the sum."""
    ended = agentos("verify", "--task", "report", "--db", db)
    assert (Exit.DIFFERS, "") == (ended.returncode, ended.stderr)
    lines = ended.stdout.splitlines()
    assert f"ok         checkpoint {made['good']} · task report-42 · number 1 · 1 evidence · require_all" == lines[0]
    assert lines[1].startswith(f"FAILED     checkpoint {made['bad']} · ")
    assert "2 checkpoints, of which 1 verified" == lines[-1]
    assert made["later"] not in ended.stdout
    assert "gone.txt" in ended.stdout


def test_verify_everything(made: dict[str, str], db: Path, tmp_path: Path):
    """Every task; one document, one set of reports for other programs."""
    with CheckpointManager(db, tmp_path) as manager:
        other = manager.commit_step(manager.begin_step("another", "tool_executed", {}), exists("out.txt")).checkpoint_id
    junit = tmp_path / "r.xml"
    ended = agentos("verify", "--all", "--db", db, "--json", "--junit", junit)
    told = json.loads(ended.stdout)
    assert (Exit.DIFFERS, "failed") == (ended.returncode, told["outcome"])
    assert [other, made["good"], made["bad"]] == [each["checkpoint"]["checkpoint_id"] for each in told["reports"]]
    assert 3 == junit.read_text().count("<testsuite ")
    assert 0o644 == junit.stat().st_mode & 0o777
    assert [0, 0] == [agentos("verify", *which, "--db", db).returncode for which in (("--task", "another"), (other,))]


def test_verify_nothing_proves_nothing(db: Path, tmp_path: Path):
    """A registry without a checkpoint, a task that only began: not 0, for nothing was measured."""
    with CheckpointManager(db, tmp_path) as manager:
        assert (Exit.UNCHECKED, "error") == unproven("--all", "--db", db)
        manager.begin_step("t", "tool_executed", {})
    assert (Exit.UNCHECKED, "error") == unproven("--task", "t", "--db", db)


def unproven(*arguments: object) -> tuple[int, str]:
    ended = agentos("verify", *arguments, "--json")
    return ended.returncode, json.loads(ended.stdout)["outcome"]


def test_verify_wants_to_know_what(made: dict[str, str], db: Path):
    """One of the three, and no more."""
    for arguments in ((), (made["good"], "--all"), ("--task", "report-42", "--all")):
        assert Exit.USAGE == agentos("verify", *arguments, "--db", db).returncode


def test_verify_shows_how_far_it_is_only_to_a_person(made: dict[str, str], db: Path):
    """A terminal sees how many checkpoints were looked at, on a line that is taken away again; nobody else does."""
    code = "import agentos.cli.progress as shown, agentos.cli.main as cli; shown._QUIET = shown._EVERY = 0; cli.main()"
    arguments = ("verify", "--task", "report-42", "--db", db)
    ended, said = on_a_terminal(*arguments, program=(sys.executable, "-c", code))
    assert Exit.DIFFERS == ended
    assert "\r\x1b[Kcheckpoints verified: 1 50 %" in said
    assert said.rindex("checkpoints verified") < said.rindex("\r\x1b[K") < said.index("2 checkpoints, of which 1 verified")
    assert "" == agentos(*arguments).stderr
