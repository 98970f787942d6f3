"""The command itself: which registry it is about, how it ends, and that nothing ever ends in a traceback."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentos import errors
from agentos.cli import exits
from agentos.cli.exits import Exit
from agentos.cli.main import VERBS
from agentos.core.checkpoints import CheckpointManager, Verdict
from agentos.core.checkpoints.results import Outcome
from agentos.store import ensure_migrations
from tests.support import environment, execute, run
from tests.unit.cli.program import COMMAND, agentos, on_a_terminal

# Which registry.


def test_a_registry_is_found_by_option_variable_settings_and_default(tmp_path: Path):
    """In this order; a file of settings is found upwards, and a path in it is one from its own folder."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    def asked(*arguments: str, cwd: Path = below, **extra: str) -> str:
        said = agentos("verify", "x", *arguments, cwd=cwd, **extra).stderr
        return Path(said.removeprefix("agentos: ").partition(": no registry here")[0]).relative_to(tmp_path).as_posix()

    assert "a/b/store/registry.sqlite" == asked()
    (tmp_path / "pyproject.toml").write_text('[tool.agentos]\ndb = "p.sqlite"\n')
    assert "p.sqlite" == asked()
    (tmp_path / "agentos.toml").write_text('db = "state/t.sqlite"\n')
    assert "state/t.sqlite" == asked()
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'agentos'\n[tool]\nagentos = 1\n")
    assert "state/t.sqlite" == asked()
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.agentos]\ndb = 'nearer.sqlite'\n")
    assert "a/nearer.sqlite" == asked()
    assert "a/b/e.sqlite" == asked(AGENTOS_DB="e.sqlite")
    assert "a/b/o.sqlite" == asked("--db", "o.sqlite", AGENTOS_DB="e.sqlite")


@pytest.mark.parametrize("text", ["db = 5", "db = ''", "db = ", "\xff"])
def test_settings_that_say_nothing_useful_are_a_usage_error(tmp_path: Path, text: str):
    """Not a registry somewhere else, silently."""
    (tmp_path / "agentos.toml").write_text(text, encoding="latin-1")
    ended = agentos("verify", "x", cwd=tmp_path)
    assert Exit.USAGE == ended.returncode
    assert "agentos.toml" in ended.stderr


@pytest.mark.parametrize("verb", ["recover t", "migrate", "run t -- true"])
def test_an_option_that_names_no_registry_is_a_usage_error(tmp_path: Path, verb: str):
    """`--db "$UNSET"` is no wish to be told of another registry, nor to make one."""
    name, *rest = verb.split()
    ended = agentos(name, "--db=", *rest, cwd=tmp_path)
    assert (Exit.USAGE, []) == (ended.returncode, list(tmp_path.iterdir())), ended.stderr
    assert "--db" in ended.stderr


@pytest.mark.parametrize("verb", ["recover t", "verify --all", "accept t --reason x", "tasks"])
def test_a_question_makes_no_registry_of_an_empty_file(db: Path, verb: str):
    """It may be what a disk left of one: nothing is in it, and it is left as it is."""
    db.touch()
    ended = agentos(*verb.split(), "--db", db)
    assert (Exit.UNAVAILABLE, "", b"") == (ended.returncode, ended.stdout, db.read_bytes()), ended.stderr
    assert f"{db}: no registry here: the file is empty" in ended.stderr
    assert 0 == agentos("migrate", "--db", db).returncode


@pytest.mark.parametrize("what", ["missing", "folder", "text", "foreign", "damaged"])
def test_a_registry_that_cannot_be_used_is_exit_code_6(tmp_path: Path, what: str):
    """Whatever is wrong with the file: one sentence, its path, exit code 6; and a question creates nothing."""
    path = tmp_path / "x.sqlite"
    if what == "folder":
        path.mkdir()
    elif what == "text":
        path.write_text("not a database" * 100)
    elif what == "foreign":
        execute(path, "create table mine (a)")
    elif what == "damaged":
        ensure_migrations(path)
        path.write_bytes(path.read_bytes()[:5000])
    ended = agentos("verify", "x", "--db", path)
    assert (6, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith("agentos: ")
    assert str(path) in ended.stderr
    assert (what != "missing") is path.exists()


def test_a_registry_from_the_future_is_exit_code_7(db: Path):
    """A newer schema is refused by name."""
    ensure_migrations(db)
    execute(db, "pragma user_version = 99")
    assert Exit.TOO_NEW == agentos("verify", "x", "--db", db).returncode


def test_a_folder_that_is_gone_is_a_sentence(tmp_path: Path):
    """The current directory was removed: said, not raised."""
    code = """
import os, subprocess, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])
for arguments in (["migrate"], ["verify", "x"]):
    ended = subprocess.run([sys.executable, "-m", "agentos", *arguments], capture_output=True, text=True)
    print(ended.returncode, "Traceback" in ended.stderr, ended.stderr.count(chr(10)) > 0)
"""
    for line in run(code, tmp_path / "gone").splitlines():
        status, traceback, said = line.split()
        assert ("False", "True") == (traceback, said)
        assert "0" != status


# How it ends.


def subclasses(kind: type[errors.AgentosError]) -> set[type[errors.AgentosError]]:
    below = set(kind.__subclasses__())
    return below.union(*map(subclasses, below)) if below else below


def test_every_error_has_an_exit_code_of_its_own():
    """A class that is in no table would end as if something could not be checked; those two that may, are named."""
    general = {errors.CheckpointError, errors.NotSafeToResumeError}
    kinds = {kind for kind in subclasses(errors.AgentosError) if kind.__module__ == "agentos.errors"} - general
    assert set() == {kind for kind in kinds if not any(issubclass(kind, listed) for listed, _ in exits.ERRORS)}
    assert 0 not in {exits.of_error(kind("x")) for kind in kinds | general}


def test_no_entry_of_the_table_is_hidden_by_an_earlier_one():
    """The first class that fits decides, so each must be reached by its own."""
    for kind, code in exits.ERRORS:
        assert code == exits.of_error(kind("x")), kind


def test_every_verdict_and_outcome_has_an_exit_code():
    """And 0 means that `resume` returns a state."""
    assert {each.value for each in Verdict} == set(exits.VERDICTS)
    assert {each.value for each in Outcome} == set(exits.OUTCOMES)
    assert {"fresh", "resume", "finished"} == {name for name, code in exits.VERDICTS.items() if code == 0}


def test_the_exit_codes_are_the_documented_ones():
    """Numbers are the interface of scripts: they never change."""
    assert {0, 1, 2, 3, 4, 5, 6, 7, 8, 130, 141} == set(exits.MEANINGS) == set(Exit)
    assert [0, 8, 5, 3, 1, 4] == [exits.worst(map(Exit, codes)) for codes in ([], [0, 8], [8, 5], [5, 3], [3, 1], [1, 4])]


def test_a_bug_is_a_sentence_that_says_so_and_proves_nothing(db: Path):
    """What nobody foresaw does not end as "the world differs"; --debug shows where it was."""
    ensure_migrations(db)
    code = """
import sys
from agentos.core.checkpoints import CheckpointManager
from agentos.cli.main import main
CheckpointManager.find_ids = lambda *_, **__: [][1]
main(sys.argv[1:])
"""
    for more, traceback in (([], False), (["--debug"], True)):
        ended = subprocess.run(
            [*COMMAND[:1], "-c", code, "verify", "x", "--db", str(db), *more],
            env=environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (Exit.UNCHECKED, traceback) == (ended.returncode, "Traceback" in ended.stderr)
        assert "this is a bug in agentos" in ended.stderr


def test_an_error_with_json_is_a_document_too(made: dict[str, str], db: Path):
    """A program reads one document on standard output, whatever happened; a person reads the same on the other one."""
    ended = agentos("verify", "nope", "--db", db, "--json")
    told = json.loads(ended.stdout)
    assert (Exit.USAGE, Exit.USAGE) == (ended.returncode, told["exit_code"])
    assert "CheckpointNotFoundError" == told["error"]["error"]
    assert ended.stderr.startswith("agentos: checkpoint nope: unknown\n  -> ")


def test_a_reader_that_goes_away_is_no_traceback(made: dict[str, str], db: Path):
    """`agentos … | head` ends quietly, and not as if the world differed."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [*COMMAND, "verify", made["good"], "--db", str(db)],
            env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (Exit.CUT_OFF, b"") == (ended.returncode, ended.stderr)


@pytest.mark.parametrize("words", ["--help", "recover --help", "--version"])
def test_help_that_nobody_reads_is_no_world_that_differs(words: str):
    """`agentos --help | true` ends as every verb does whose reader went away."""
    assert (Exit.CUT_OFF, "") == ended_with(words, stdout="cut off")[::2]


@pytest.mark.parametrize("stderr", ["cut off", "full"])
@pytest.mark.parametrize(("words", "code", "said"), [
    ("recover nobody", Exit.USAGE, ""),
    ("recover", Exit.USAGE, ""),
    ("log report-42 --limit 1", Exit.SAFE, "task report-42: active"),
    ("run another -- sh -c 'exit 7'", 7, ""),
    ("run another -- true", Exit.SAFE, ""),
])  # fmt: skip
def test_an_exit_code_is_true_also_where_nobody_hears_why(
    made: dict[str, str], db: Path, words: str, code: int, said: str, stderr: str
):
    """What is said beside the answer, and cannot be, changes nothing of it: above all, it is no world that differs."""
    told = ended_with(words, "--db", str(db), stderr=stderr)
    assert (code, True) == (told[0], told[1].startswith(said)), told


def ended_with(words: str, *before: str, stdout: str = "", stderr: str = "") -> tuple[int, str, str]:
    """How the command ended, and what it said, with one of its streams leading nowhere."""
    verb, *rest = shlex.split(words)
    reader, cut = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full:
        places = {"": subprocess.PIPE, "cut off": cut, "full": full.fileno()}
        line = [*COMMAND, verb, *before, *rest]
        ended = subprocess.run(
            line, stdout=places[stdout], stderr=places[stderr], env=environment(), text=True, check=False, timeout=60
        )
    os.close(cut)
    return ended.returncode, ended.stdout or "", ended.stderr or ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_cannot_be_written_is_a_sentence(made: dict[str, str], db: Path, unbuffered: str):
    """Standard output on a full disk: nothing was told, so nothing is safe, whenever that is noticed."""
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [*COMMAND, "verify", made["good"], "--db", str(db)],
            env=environment(PYTHONUNBUFFERED=unbuffered), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert Exit.UNCHECKED == ended.returncode
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["recover --json --bogus", "--help"])
def test_nor_does_help_or_a_mistake_end_otherwise_there(words: str, unbuffered: str):
    """With a code of its own, 1 would say that the world differs."""
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [*COMMAND, *words.split()],
            env=environment(PYTHONUNBUFFERED=unbuffered), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (Exit.UNCHECKED, False) == (ended.returncode, "Traceback" in ended.stderr), ended.stderr


def test_who_wants_no_colour_gets_none_whoever_wants_some(made: dict[str, str], db: Path):
    """NO_COLOR is a person's wish, FORCE_COLOR that of what runs the command."""
    assert "\x1b[" in on_a_terminal("verify", made["good"], "--db", db, FORCE_COLOR="1")[1]
    assert "\x1b[" not in on_a_terminal("verify", made["good"], "--db", db, FORCE_COLOR="1", NO_COLOR="1")[1]


INTERRUPTED = {
    "while it is read": """
import os, signal, sys
class Hit:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Hit())
""",
    "while it is left": "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGINT)\n",
}


@pytest.mark.parametrize("when", INTERRUPTED)
@pytest.mark.parametrize("ignored", [False, True])
def test_control_c_before_and_after_all_is_no_traceback_either(when: str, *, ignored: bool):
    """It ends as a program does that knows nothing of signals; a shell says 130. Who ignores it, as nohup does, ignores it."""
    before = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" * ignored
    code = f"{before}{INTERRUPTED[when]}from agentos.__main__ import main\nmain()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (0 if ignored else -signal.SIGINT, "") == (ended.returncode, ended.stderr)
    assert (ignored or when == "while it is left") is ended.stdout.startswith("agentos ")


# What is typed.


def test_version():
    """The installed version."""
    ended = agentos("--version")
    assert 0 == ended.returncode
    assert re.fullmatch(r"agentos \d+\.\d+\.\d+\S*\n", ended.stdout)


def test_help_has_every_verb_and_every_exit_code():
    """And says where the registry is looked for."""
    ended = agentos("--help")
    assert (0, "") == (ended.returncode, ended.stderr)
    for word in (*VERBS, *(str(int(code)) for code in Exit)):
        assert re.search(rf"^  {word} +\S", ended.stdout, re.MULTILINE), word
    assert "AGENTOS_DB" in ended.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str):
    """Also on a terminal, where nothing is asked either."""
    ended = agentos(verb, "--help")
    assert (0, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith(f"Usage: agentos {verb}")


def test_no_arguments_shows_the_help():
    """Nobody is left without a hint."""
    ended = agentos()
    assert "Usage: agentos" in ended.stdout + ended.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["verify"], ["verify", "x", "--nonsense"]])
def test_what_is_no_command_is_a_usage_error(arguments: list[str]):
    """Exit code 2, what was wrong, and where help is."""
    ended = agentos(*arguments)
    assert (2, "") == (ended.returncode, ended.stdout)
    assert "Error: " in ended.stderr


def test_a_mistyped_verb_is_guessed():
    """The near ones are named."""
    assert "Did you mean resolve or restore or recover?" in agentos("resolv").stderr


def test_bad_input_is_a_usage_error(made: dict[str, str], db: Path):
    """What the manager refuses is a sentence here too."""
    ended = agentos("verify", "x" * 600, "--db", db)
    assert Exit.USAGE == ended.returncode
    assert "agentos: checkpoint_id has 600 characters" in ended.stderr


def test_an_undecodable_argument_is_a_sentence(made: dict[str, str], db: Path):
    """Bytes that are no text reach the command as arguments now and then."""
    ended = subprocess.run(
        [*[part.encode() for part in COMMAND], b"verify", b"\xff\xfe", b"--db", str(db).encode()],
        env=environment(), capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert Exit.USAGE == ended.returncode
    assert b"Traceback" not in ended.stderr
    assert b"lone surrogate" in ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_cannot_show_our_letters_gets_others(made: dict[str, str], db: Path, encoding: str):
    """A sign that the encoding does not have is written in its escaped form: the report arrives, whatever the locale."""
    line = [*COMMAND, "verify", made["bad"], "--db", str(db)]
    ended = subprocess.run(line, env=environment(PYTHONIOENCODING=encoding), capture_output=True, check=False, timeout=60)
    assert Exit.DIFFERS == ended.returncode
    assert b"Traceback" not in ended.stderr
    assert b"NOT VERIFIED" in ended.stdout


def test_help_loads_no_verb_and_nothing_of_the_rules():
    """`agentos --help` costs what click costs."""
    code = """
import sys
from agentos.cli.main import VERBS, main
try:
    main(["--help"])
except SystemExit as ending:
    verbs = {f"agentos.cli.{place.function.partition(':')[0]}" for place in VERBS.values()}
    print(ending.code, sorted(name for name in sys.modules if name in verbs or name.startswith(("agentos.core", "sqlite3"))))
"""
    assert run(code).endswith("0 []\n")


def test_names_with_control_characters_do_not_reach_the_terminal(db: Path, tmp_path: Path):
    """A checkpoint's own name may hold anything; what is printed drives no terminal."""
    from agentos.core.checkpoints import Evidence, EvidencePack, EvidenceType

    (tmp_path / "out.txt").write_text("one")
    name = "x\x1b]0;owned\x07\x1b[2J"
    with CheckpointManager(db, tmp_path) as manager:
        claim = Evidence(EvidenceType.ARTIFACT_EXISTS, name, {"path": "out.txt"})
        manager.commit_step(manager.begin_step(name, "tool_executed", {}), EvidencePack([claim]), name)
    for arguments in (("verify", name), ("verify", name, "--json"), ("verify", f"{name}x")):
        ended = agentos(*arguments, "--db", db)
        assert "\x1b" not in ended.stdout + ended.stderr
        assert "\x07" not in ended.stdout + ended.stderr


def test_migrate_makes_the_registry_and_says_what_it_did(db: Path):
    """Once; the second time there is nothing to do. On a terminal the same."""
    first = agentos("migrate", "--db", db, "--json")
    told = json.loads(first.stdout)
    assert (0, str(db), True) == (first.returncode, told["registry"], len(told["applied"]) > 0)
    code, said = on_a_terminal("migrate", "--db", db)
    assert (0, "up to date\r\n") == (code, said)
