"""tasks, log, show, diff, stats: what is stored, told to people and to programs; nothing is changed by asking."""

import json
import os
import re
from pathlib import Path

import pytest

from agentos.cli import diff, log, show, stats, tasks
from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from tests.support import execute, exists, run
from tests.unit.checkpoints.steps import committed, crashed, wrote
from tests.unit.cli.program import agentos, on_a_terminal

READING = (["tasks"], ["tasks", "--check"], ["log", "report-42"], ["show", "{good}"], ["diff", "{bad}", "--files"], ["stats"])
SHAPES = {"tasks": tasks.SHAPE, "log": log.SHAPE, "show": show.SHAPE, "diff": diff.SHAPE, "stats": stats.SHAPE}
HOSTILE = "x\x1b]0;owned\x07\x1b[2J\u202e"


def named(arguments: list[str], made: dict[str, str]) -> list[str]:
    return [each.format(**made) for each in arguments]


# What holds for all of them.


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_json_is_one_document_of_the_shape_that_is_documented(arguments: list[str], made: dict[str, str], db: Path):
    """Exactly the keys that its page names, whatever the exit code."""
    ended = agentos(*named(arguments, made), "--db", db, "--json")
    assert {*SHAPES[arguments[0]]} == {*json.loads(ended.stdout)}


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_terminal_gets_colours_and_everyone_else_words(arguments: list[str], made: dict[str, str], db: Path):
    """The same lines but for marks, and no escape where nobody looks at a terminal."""
    plain = agentos(*named(arguments, made), "--db", db)
    code, said = on_a_terminal(*named(arguments, made), "--db", db)
    assert plain.returncode == code
    assert "\x1b[" in said
    assert "\x1b" not in plain.stdout + plain.stderr
    assert "\x1b" not in on_a_terminal(*named(arguments, made), "--db", db, NO_COLOR="1")[1]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_asking_changes_nothing_and_creates_nothing(arguments: list[str], made: dict[str, str], db: Path):
    """Not a byte of the registry, and no file beside it."""
    before = (db.read_bytes(), {path.name for path in db.parent.iterdir()})
    agentos(*named(arguments, made), "--db", db)
    assert before == (db.read_bytes(), {path.name for path in db.parent.iterdir()})
    nowhere = db.parent / "nowhere" / "registry.sqlite"
    assert Exit.UNAVAILABLE == agentos(*named(arguments, made), "--db", nowhere).returncode
    assert not nowhere.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_asking_needs_no_right_to_write(arguments: list[str], made: dict[str, str], db: Path):
    """In a folder that nothing can be written to: the answer is the same."""
    code = """
import os, sys
from contextlib import redirect_stdout
from agentos.cli.main import agentos_command
from agentos.cli.verb import main_of
# Once before: nobody may not read the modules either.
with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
    main_of(agentos_command, sys.argv[1:])
os.setgid(65534); os.setuid(65534)
main_of(agentos_command, sys.argv[1:])
"""
    for folder in (db.parent, *db.parent.parents):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    db.chmod(0o644)
    said = run(code, *named(arguments, made), "--db", db, "--json")
    assert {*SHAPES[arguments[0]]} == {*json.loads(said)}


def test_nothing_hostile_reaches_the_terminal(db: Path, tmp_path: Path):
    """Control characters in every name, in the state and in evidence; a huge state; a secret."""
    (tmp_path / HOSTILE).mkdir()
    secret = Evidence(EvidenceType.FILE_SHA256, "secret", {"path": "pass-word", "sha256": "0" * 64}, {"sensitive": True})
    address = Evidence(EvidenceType.ARTIFACT_EXISTS, HOSTILE, {"path": HOSTILE}, {"note": "https://ann:hunter2@example.org/"})
    state = {HOSTILE: HOSTILE, "deep": [{HOSTILE: [HOSTILE] * 50}] * 50, "long": "y" * 1_000_000, "many": list(range(100_000))}
    with CheckpointManager(db, tmp_path) as manager:
        committed(manager, exists(HOSTILE), {"before": HOSTILE}, task=HOSTILE)
        step = manager.begin_step(HOSTILE, "tool_executed", state, HOSTILE, {"m": HOSTILE})
        manager.commit_step(step, EvidencePack([secret, address]), HOSTILE)
        open_step = manager.begin_step(HOSTILE, "tool_executed", state, expects=EvidencePack([secret, address]))
        manager.note_error(open_step, ValueError(HOSTILE))
        manager.abandon_step(crashed(manager, task=HOSTILE), by=HOSTILE, reason=HOSTILE)
    for arguments in (
        ["tasks", "--check"], ["log", HOSTILE], ["show", HOSTILE], ["show", open_step], ["diff", HOSTILE, "--files"], ["stats"],
        ["log", HOSTILE, "--limit", "1"], ["tasks", "--after", HOSTILE], ["show", HOSTILE + "y"], ["log", HOSTILE + "y"],
    ):  # fmt: skip
        for form in ([], ["--json"]):
            ended = agentos(*arguments, *form, "--db", db)
            said = ended.stdout + ended.stderr
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", said), arguments
            assert "pass-word" not in said, arguments
            assert "hunter2" not in said, arguments
            assert form or len(said) < 20_000, arguments
            assert form or max(map(len, said.splitlines())) < 1200, arguments


# tasks.


def test_tasks_in_aligned_columns(made: dict[str, str], db: Path):
    """Where each stands, in words, and the one thing to do next beside it."""
    ended = agentos("tasks", "--db", db)
    head, row = ended.stdout.splitlines()
    assert ["TASK", "STATUS", "LAST VERIFIED", "AGE", "INTERRUPTED", "HELD BY"] == re.split(r"  +", head)
    cells = ["report-42", "active", "number 1 of 3", made["good"], row[head.index("AGE") :].split("  ")[0], "1", "-"]
    assert cells == re.split(r"  +", row)
    assert head.index("AGE") == row.index(cells[4])
    assert re.fullmatch(r"just now|\d+ s ago", cells[4])
    assert (0, f"agentos: `agentos recover report-42 --db {db}` says from where it may go on\n") == (
        ended.returncode,
        ended.stderr,
    )


def test_tasks_come_page_by_page(db: Path):
    """Each page says how to get the next one; what it says is what is typed."""
    with CheckpointManager(db) as manager:
        for number in range(5):
            manager.finish_task(manager.get_step(crashed(manager, task=f"t {number}")).task_id)
    first = agentos("tasks", "--limit", 3, "--db", db)
    assert ["t 0", "t 1", "t 2"] == [line[:3] for line in first.stdout.splitlines()[1:]]
    assert f"agentos: more: agentos tasks --after 't 2' --db {db}\n" == first.stderr
    told = json.loads(agentos("tasks", "--limit", 3, "--after", "t 2", "--db", db, "--json").stdout)
    assert (["t 3", "t 4"], None) == ([task["task_id"] for task in told["tasks"]], told["next"])
    assert ("", "agentos: no task after that one\n") == (
        (ended := agentos("tasks", "--after", "t 9", "--db", db)).stdout, ended.stderr
    )  # fmt: skip
    assert "" == agentos("tasks", "--unfinished", "--db", db).stdout


def test_tasks_check_adds_the_verdict_and_ends_with_the_worst(db: Path, tmp_path: Path):
    """0 only if every task on the page may go on."""
    with CheckpointManager(db, tmp_path) as manager:
        wrote(manager, "a", "one", task="good")
    ended = agentos("tasks", "--check", "--db", db)
    assert (0, True) == (ended.returncode, ended.stdout.splitlines()[1].endswith("  resume"))
    with CheckpointManager(db, tmp_path) as manager:
        committed(manager, exists("a"), task="other")
        committed(manager, exists("b"), task="bad")
    told = json.loads((ended := agentos("tasks", "--check", "--db", db, "--json")).stdout)
    verdicts = {task["task_id"]: task["verdict"] for task in told["tasks"]}
    assert (Exit.DIFFERS, {"bad": "diverged", "good": "resume", "other": "resume"}) == (ended.returncode, verdicts)


def test_tasks_check_asks_about_the_others_although_one_is_damaged(db: Path, tmp_path: Path):
    """Exit code 6, and all that is intact."""
    with CheckpointManager(db, tmp_path) as manager:
        for name in ("a", "b", "c"):
            wrote(manager, "f", "one", task=name)
    execute(db, "update tasks set head = 9 where task_id = 'a'")
    execute(db, "update claims set standing = 0 where task_id = 'b'")
    ended = agentos("tasks", "--check", "--db", db)
    assert Exit.UNAVAILABLE == ended.returncode
    assert ["DAMAGED", "active", "active"] == [line.split()[1] for line in ended.stdout.splitlines()[1:]]
    assert ["could not be asked"] * 2 + ["resume"] == [re.split(r"  +", line)[-1] for line in ended.stdout.splitlines()[1:]]
    assert "agentos: task a: the registry is damaged" in ended.stderr
    assert Exit.UNAVAILABLE == agentos("tasks", "--db", db).returncode


# log.


def test_log_tells_what_happened_newest_first(made: dict[str, str], db: Path):
    """Every kind of event, with its time; and what to do next."""
    ended = agentos("log", "report", "--db", db)
    head, *lines = ended.stdout.splitlines()
    assert head.startswith("task report-42: active, newest checkpoint number 3, last verified number 1 (")
    found = [match[1] for line in lines if (match := re.search(r"\d\d:\d\d:\d\d  (\w+ +\S+ \S+)", line))]
    assert [
        f"open       step {made['step']}", "FAILED     number 3", "superseded number 2", "ok         number 1"
    ] == found  # fmt: skip
    assert "interrupted: it never ended" in ended.stdout
    assert f"rolled back past, to {made['good']}" in ended.stdout
    assert "looked at: FAILED " in ended.stdout
    assert (0, f"agentos: `agentos recover report-42 --db {db}` says from where it may go on\n") == (
        ended.returncode,
        ended.stderr,
    )


def test_log_comes_page_by_page(made: dict[str, str], db: Path):
    """What a page says to type is the next page; together they are all of it."""
    whole = json.loads(agentos("log", "report-42", "--db", db, "--json").stdout)
    events: list[object] = []
    before: list[object] = []
    told = {}
    for _ in range(4):
        ended = agentos("log", "report-42", "--limit", 1, *before, "--db", db, "--json")
        told = json.loads(ended.stdout)
        events += told["events"]
        before = ["--before", told["next"]]
        if told["next"] is not None:
            assert f"older: agentos log report-42 --before {told['next']} --db {db}\n" in ended.stderr
    assert (whole["events"], None) == (events, told["next"])
    assert Exit.USAGE == agentos("log", "report-42", "--before", "nonsense", "--db", db).returncode


def test_log_shows_what_is_intact_beside_damage(made: dict[str, str], db: Path):
    """Exit code 6, and the place of what is not what was written."""
    execute(db, "update steps set pack = '{}' where place = 2")
    ended = agentos("log", "report-42", "--db", db)
    assert Exit.UNAVAILABLE == ended.returncode
    assert re.search(r"DAMAGED +number 2: what is stored is not what was written", ended.stdout)
    assert re.search(r"ok +number 1", ended.stdout)


# show.


def test_show_tells_state_evidence_and_looks(made: dict[str, str], db: Path, tmp_path: Path):
    """What was expected, what was found and how sure that is, then and over time."""
    (tmp_path / "out.txt").write_text("two")
    agentos("verify", made["good"], "--db", db)
    ended = agentos("show", made["good"], "--db", db)
    said = ended.stdout
    assert (0, "") == (ended.returncode, ended.stderr)
    assert said.startswith(f"checkpoint {made['good']} · task report-42 · number 1 · 1 evidence · require_all\n")
    assert re.search(r"on the timeline; it did NOT hold when it was last looked at", said)
    assert re.search(r"\nstate\n  {}\n", said)
    assert re.search(r"\n  FAILED +file_sha256  content of out.txt  observed\n +expected  {path: \"out.txt\", sha256: ", said)
    assert re.search(r"\n +found +{exists: true, ", said)
    outcomes = re.findall(r"ago: (\w+) \(|now: (\w+) \(", said.partition("\nlooks\n")[2])
    assert ["FAILED", "held", "held"] == [one or other for one, other in outcomes]


def test_show_json_has_everything(made: dict[str, str], db: Path):
    """The checkpoint as the library gives it, and its history."""
    told = json.loads(agentos("show", made["later"], "--db", db, "--json").stdout)
    assert (made["later"], made["good"]) == (told["checkpoint"]["checkpoint_id"], told["checkpoint"]["superseded_by"])
    assert [("verified", 1)] == [(each["outcome"], each["number"]) for each in told["verifications"]]
    assert "observed" == told["verifications"][0]["results"][0]["assurance"]


def test_show_a_step_that_never_ended(made: dict[str, str], db: Path):
    """By its id, with its prefix or without: what it was about to do, and what ended it."""
    for text in (made["step"], made["step"].removeprefix("step_")):
        ended = agentos("show", text, "--db", db)
        assert ended.stdout.startswith(f"step {made['step']} · task report-42 · tool_executed · it never ended\n")
        assert "its block ended with ValueError: interrupted\\x1b[31m" in ended.stdout
        assert f"agentos: `agentos recover report-42 --db {db}` says what becomes of it\n" == ended.stderr
    told = json.loads(agentos("show", made["step"], "--db", db, "--json").stdout)
    assert (None, "begun", None) == (told["checkpoint"], told["step"]["state"], told["step"]["expects"])


def test_show_the_step_of_a_checkpoint_shows_the_checkpoint(made: dict[str, str], db: Path):
    """They are one thing."""
    assert agentos("show", f"step_{made['good']}", "--db", db).stdout.startswith(f"checkpoint {made['good']} ")


def test_show_cuts_a_long_state_unless_all_of_it_is_wanted(db: Path, tmp_path: Path):
    """And says that there is more."""
    with CheckpointManager(db, tmp_path) as manager:
        found = committed(manager, exists("."), {f"key {number}": number for number in range(100)})
    short = agentos("show", found.checkpoint_id, "--db", db).stdout
    assert ("key 39: 39" in short, "key 40: 40" in short, "--full shows all of it" in short) == (True, False, True)
    assert "key 99: 99" in agentos("show", found.checkpoint_id, "--full", "--db", db).stdout


@pytest.mark.parametrize("verb", ["show", "diff", "log"])
def test_what_is_not_there_is_a_usage_error(verb: str, made: dict[str, str], db: Path):
    """With something near, if there is something."""
    ended = agentos(verb, "nobody", "--db", db)
    assert (Exit.USAGE, "") == (ended.returncode, ended.stdout)
    assert re.match(r"agentos: (task|checkpoint) nobody: unknown\n  -> ", ended.stderr)


# diff.


@pytest.fixture
def grown(db: Path, tmp_path: Path) -> list[str]:
    """A workspace over three checkpoints."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "kept").write_text("same")
    with CheckpointManager(db, work) as manager, manager.task("t", workspace=work) as task:
        state = task.resume({"done": [], "n": 1, "gone": True})
        (work / "gone").write_text("x")
        with task.step("tool_executed", state) as step:
            (work / "edited").write_text("one")
            state["done"].append("first")
        with task.step("tool_executed", state) as step:
            (work / "edited").write_text("longer")
            (work / "gone").unlink()
            (work / "sub").mkdir()
            (work / "sub" / "new").write_text("new")
            step.state = {"done": ["first", "second"], "n": 1.0, "deep": {"a": [1, 2]}}
        found = [each.checkpoint_id for each in task.checkpoints()]
    return found[::-1]


def test_diff_tells_what_a_checkpoint_changed(grown: list[str], db: Path):
    """As a tree, from the one before it on the timeline."""
    lines = agentos("diff", grown[-1], "--db", db).stdout.splitlines()
    assert [f"from  number 2  {grown[-2]}", f"to    number 3  {grown[-1]}"] == [
        line.partition("  tool_")[0] for line in lines[:2]
    ]
    assert ["state", "    done", '    + [1]: "second"', "  ~ n: 1 -> 1.0", "  - gone: true", "  + deep: {a: [1, 2]}"] == lines[
        2:
    ]


def test_diff_of_files_needs_no_look_at_the_world(grown: list[str], db: Path, tmp_path: Path):
    """From what was kept, though the folder is gone by now."""
    (tmp_path / "work").rename(tmp_path / "elsewhere")
    said = agentos("diff", grown[-1], "--files", "--db", db).stdout.partition("\nfiles\n")[2]
    assert [
        "  ~ edited  3 -> 6 bytes", "  - gone  file of 1 bytes", "  + sub  folder", "  + sub/new  file of 3 bytes"
    ] == said.splitlines()  # fmt: skip


def test_diff_of_two_is_from_the_first_to_the_second(grown: list[str], db: Path):
    """As typed, also back in time; and of one with itself nothing."""
    told = json.loads(agentos("diff", grown[2], grown[1], "--files", "--db", db, "--json").stdout)
    assert (3, 2) == (told["from"]["sequence_number"], told["to"]["sequence_number"])
    assert {"path": "/done/1", "change": "removed", "before": "second"} == told["changes"][0]
    assert {("gone", "added"), ("edited", "changed"), ("sub", "removed"), ("sub/new", "removed")} == {
        (each["path"], each["change"]) for each in told["files"]
    }
    same = agentos("diff", grown[1], grown[1], "--files", "--db", db).stdout.splitlines()[2:]
    assert ["state: nothing changed", "files: nothing is known to have changed"] == same


def test_diff_of_the_first_checkpoint_has_nothing_before(grown: list[str], db: Path):
    """Everything in it is new."""
    said = agentos("diff", grown[0], "--db", db).stdout
    assert said.startswith("from  nothing: there is no checkpoint before\n")
    told = json.loads(agentos("diff", grown[0], "--db", db, "--json").stdout)
    assert (None, {"added"}) == (told["from"], {each["change"] for each in told["changes"]})


def test_diff_of_what_was_rolled_back_past_is_from_where_its_step_began(made: dict[str, str], db: Path):
    """Not from what took its place."""
    told = json.loads(agentos("diff", made["later"], "--db", db, "--json").stdout)
    assert made["good"] == told["from"]["checkpoint_id"]


def test_diff_tells_claims_that_begin_and_end_from_files_that_do(db: Path, tmp_path: Path):
    """Where only one side says anything of a path, nothing is known to have been added or removed."""
    with CheckpointManager(db, tmp_path) as manager:
        wrote(manager, "a", "one")
        second = wrote(manager, "b", "two")
        third = committed(manager, EvidencePack(releases=["file:a"], evidence_list=exists("b").evidence_list))
    files = [json.loads(agentos("diff", each.checkpoint_id, "--files", "--db", db, "--json").stdout)["files"]
             for each in (second, third)]  # fmt: skip
    assert [[("b", "claimed")], [("a", "unclaimed")]] == [[(each["path"], each["change"]) for each in found] for found in files]


# stats.


def test_stats_tell_what_failed_and_how_long_looking_took(made: dict[str, str], db: Path):
    """By type and by subject, the worst first."""
    ended = agentos("stats", "--db", db)
    head, *rest = ended.stdout.splitlines()
    assert (0, "", "1 task, 3 checkpoints, 4 verifications") == (ended.returncode, ended.stderr, head)
    assert "verifications: 3 held, 1 failed, 0 could not be checked" in rest
    rows = [re.split(r"  +", line)[:4] for line in rest if line.startswith(("artifact", "file"))]
    assert [
        ["artifact_exists", "2", "1", "-"], ["file_sha256", "2", "-", "-"],
        ["artifact_exists", "file:gone.txt", "1", "1"], ["file_sha256", "file:out.txt", "2", "-"],
        ["artifact_exists", "file:out.txt", "1", "-"],
    ] == rows  # fmt: skip


def test_stats_show_the_worst_subjects_and_how_many_there_are(made: dict[str, str], db: Path):
    """The rest on demand."""
    ended = agentos("stats", "--limit", 1, "--db", db)
    assert "agentos: 2 more subjects: --limit shows more of them\n" == ended.stderr
    told = json.loads(agentos("stats", "--limit", 1, "--db", db, "--json").stdout)
    assert (["file:gone.txt"], 3) == ([each["subject"] for each in told["subjects"]], told["subjects_in_all"])


def test_stats_of_an_empty_registry(db: Path):
    """Nothing, without a word of damage."""
    CheckpointManager(db).close()
    ended = agentos("stats", "--db", db)
    assert (0, "0 tasks, 0 checkpoints, 0 verifications") == (ended.returncode, ended.stdout.splitlines()[0])
    assert ("", "agentos: no task here\n") == ((ended := agentos("tasks", "--db", db)).stdout, ended.stderr)
