"""capture_command: a command is run once, to a limit, and what is claimed is how it ended. Real processes, all of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceUnavailableError, InvalidInputError
from agentos.probes import children

EMPTY = hashlib.sha256().hexdigest()


def judged(claim: Evidence, base: Path) -> tuple[bool, str, str]:
    holds = EvidenceVerifier(base).verify_evidence(claim)
    assert claim.result is not None
    return holds, claim.result.code, claim.result.message


def record(argv: list[str], base: Path, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = Evidence.capture_command(argv, base_path=base, **options).metadata["record"]
    return found


def python(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


def lives(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except FileNotFoundError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


def is_gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while lives(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not lives(pid)


def test_what_is_claimed_is_how_it_ended(base):
    """Arguments, folder, exit code, times, and both streams by size, hash and end."""
    (base / "d").mkdir()
    claim = Evidence.capture_command(["sh", "-c", "echo said; echo warned >&2; pwd"], base_path=base, cwd="d")
    found = claim.metadata["record"]
    said = f"said\n{base}/d\n"
    assert ({"exit_code": 0}, ["sh", "-c", "echo said; echo warned >&2; pwd"], "d") == (
        claim.expected,
        found["argv"],
        found["cwd"],
    )
    assert found["stdout"] == {"sha256": hashlib.sha256(said.encode()).hexdigest(), "bytes": len(said), "tail": said}
    assert (7, "warned\n") == (found["stderr"]["bytes"], found["stderr"]["tail"])
    assert (0, None, False) == (found["exit_code"], found["signal"], found["timed_out"])
    assert found["started_at"] <= found["ended_at"]
    assert judged(claim, base) == (True, "VERIFIED", "")
    assert claim.result.assurance == "recorded"


def test_a_command_that_failed_gives_evidence_that_fails(base):
    """What is claimed is what was asked for, never what came; the reason has the last words, and the notes more of them."""
    claim = Evidence.capture_command(["sh", "-c", "echo 3 failed; exit 3"], base_path=base)
    holds, code, said = judged(claim, base)
    assert (False, "EXIT_MISMATCH") == (holds, code)
    assert "expected exit code 0, recorded 3 (after 0." in said
    assert said.endswith("; its stdout ends: 3 failed")
    assert ["stdout: 3 failed"] == claim.result.notes


def test_another_exit_code_may_be_asked_for(base):
    """A scanner that says "found something" with 1 did what it was to do."""
    assert judged(Evidence.capture_command(["sh", "-c", "exit 1"], base_path=base, exit_code=1), base)[0]
    assert not judged(Evidence.capture_command(["true"], base_path=base, exit_code=1), base)[0]


@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV"), (40, "signal 40")])
def test_a_command_that_was_killed_has_no_exit_code(base, number, name):
    """Neither -9 nor 137 is an exit code that it ended with, so no expected code can make it hold."""
    claim = Evidence.capture_command(["sh", "-c", f"kill -{int(number)} $$"], base_path=base, exit_code=137)
    holds, code, said = judged(claim, base)
    assert (None, int(number)) == (claim.metadata["record"]["exit_code"], claim.metadata["record"]["signal"])
    assert (False, "COMMAND_KILLED") == (holds, code)
    assert f"recorded that it was killed by {name} (" in said


def test_time_is_up_for_the_whole_group(base):
    """What the command started dies with it; what it said until then is recorded."""
    program = "sleep 60 & echo $! > child; echo begun; wait"
    claim = Evidence.capture_command(["sh", "-c", program], base_path=base, timeout=0.5)
    assert (False, "COMMAND_TIMED_OUT") == judged(claim, base)[:2]
    assert "begun\n" == claim.metadata["record"]["stdout"]["tail"]
    assert claim.metadata["record"]["duration_ms"] < 10_000
    assert is_gone(int((base / "child").read_text()))


def test_a_command_that_will_not_be_asked_is_killed_all_the_same(base):
    """Ignoring the polite signals, or being stopped, holds nobody up."""
    for program in ("trap '' TERM INT HUP; while :; do sleep 1; done", "kill -STOP $$"):
        assert record(["sh", "-c", program], base, timeout=0.3)["timed_out"]


def test_a_grandchild_that_holds_the_pipes_holds_nobody_up(base):
    """The command ended, so that is that: what it left running is ended too."""
    found = record(["sh", "-c", "sleep 60 & echo $! > child; echo done"], base, timeout=30)
    assert (0, "done\n") == (found["exit_code"], found["stdout"]["tail"])
    assert found["duration_ms"] < 10_000
    assert is_gone(int((base / "child").read_text()))


def test_a_grandchild_that_left_the_group_holds_nobody_up_either(base):
    """A daemon with a session of its own lives on and floods our pipe; the record is written all the same."""
    program = (
        "import os, sys\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "open('child', 'w').write(str(os.getpid()))\n"
        "while True: os.write(1, b'x' * 4096)\n"
    )
    found = record(python(program), base, timeout=30)
    assert 0 == found["exit_code"]
    assert found["duration_ms"] < 10_000
    # Its pipe has no reader any more.
    assert is_gone(int((base / "child").read_text()))


def test_a_flood_is_counted_and_hashed_and_not_kept(base):
    """The command never waits for room; the record has the end of what it said."""
    program = "import sys\nfor n in range(400000): sys.stdout.write(f'{n:063}\\n')\nsys.stderr.write('e' * 3000000)"
    found = record(python(program), base, max_output=1000)
    whole = hashlib.sha256()
    for number in range(400_000):
        whole.update(f"{number:063}\n".encode())
    assert (25_600_000, whole.hexdigest()) == (found["stdout"]["bytes"], found["stdout"]["sha256"])
    # 1,000 bytes hold 15 whole lines; the half one before them is left out.
    assert [f"{n:063}" for n in range(399_985, 400_000)] == found["stdout"]["tail"].split()
    assert (3_000_000, "e" * 1000) == (found["stderr"]["bytes"], found["stderr"]["tail"])


@pytest.mark.parametrize("most", [0, 1, 100_000])
def test_the_record_holds_at_most_4096_bytes_of_each_stream(base, most):
    """However much whoever ran it wants to have."""
    found = record(python("print('x' * 99999)"), base, max_output=most)
    assert min(most, 4096) == len(found["stdout"]["tail"])
    assert 100_000 == found["stdout"]["bytes"]


def test_all_that_is_said_at_the_end_is_heard(base):
    """What lies in the pipe when the command is gone belongs to it, every time."""
    for _ in range(20):
        assert 65_536 == record(["head", "-c", "65536", "/dev/zero"], base)["stdout"]["bytes"]


def test_what_lies_in_the_pipes_is_heard_however_late_it_is_read(base, monkeypatch):
    """A process that others keep from running comes to it when the time for last words is over."""
    monkeypatch.setattr(children, "_LAST_WORDS", -1.0)
    for _ in range(5):
        found = record(["sh", "-c", "head -c 65536 /dev/zero; head -c 65536 /dev/zero >&2"], base)
        assert (65_536, 65_536) == (found["stdout"]["bytes"], found["stderr"]["bytes"])


def test_what_is_no_text_is_told_as_text(base):
    """Binary output is hashed as it is, and its end is escaped; it goes through every store."""
    claim = Evidence.capture_command(["printf", r"\377\000\033[2Jend\303"], base_path=base, exit_code=1)
    found = claim.metadata["record"]["stdout"]
    assert hashlib.sha256(b"\xff\0\033[2Jend\xc3").hexdigest() == found["sha256"]
    assert "\\xff\0\033[2Jend\\xc3" == found["tail"]
    assert "\033" not in judged(claim, base)[2]
    assert Evidence.from_dict(claim.to_dict()) == claim


def test_standard_input_is_empty(base):
    """A command that asks gets no answer, and ends."""
    assert EMPTY == record(["cat"], base, timeout=20)["stdout"]["sha256"]


def test_there_is_no_shell(base):
    """Words are words."""
    assert "$HOME; ls * | x\n" == record(["echo", "$HOME; ls * | x"], base)["stdout"]["tail"]


def test_variables_are_added_and_only_their_names_are_kept(base, monkeypatch):
    """The environment is this process's, and more; a value may be a secret."""
    monkeypatch.setenv("INHERITED", "from here")
    argv = ["sh", "-c", 'test "$INHERITED" = "from here" && echo "$TOKEN" | wc -c']
    claim = Evidence.capture_command(argv, base_path=base, env={"TOKEN": "hunter2"})
    assert "8\n" == claim.metadata["record"]["stdout"]["tail"].lstrip()
    assert judged(claim, base)[0]
    assert ["TOKEN"] == claim.metadata["record"]["env"]
    assert "hunter2" not in repr(claim)


def test_a_password_in_an_address_is_not_kept(base):
    """Neither in the arguments nor in what was said; the digest of the output is that of all of it."""
    claim = Evidence.capture_command(["echo", "postgres://user:hunter2@host/db"], base_path=base)
    assert "hunter2" not in repr(claim)
    assert judged(claim, base)[0]


def test_a_sensitive_command_leaves_neither_arguments_nor_output(base):
    """Not in the record, not in the reason, not in the error when it cannot be started."""
    claim = Evidence.capture_command(["sh", "-c", "echo hunter2; exit 1"], base_path=base, sensitive=True)
    assert not judged(claim, base)[0]
    assert "hunter2" not in repr(claim)
    with pytest.raises(EvidenceUnavailableError) as refused:
        Evidence.capture_command(["hunter2"], base_path=base, sensitive=True)
    assert "hunter2" not in repr((str(refused.value), refused.value.diagnostics()))


def test_products_are_measured_when_it_ended(base):
    """Each by SHA-256 and size, once however often it is named."""
    claim = Evidence.capture_command(["sh", "-c", "printf abc > out"], base_path=base, products=["out", Path("out")])
    assert [{"path": "out", "sha256": hashlib.sha256(b"abc").hexdigest(), "size": 3}] == claim.metadata["record"]["products"]
    assert judged(claim, base)[0]


def test_a_product_that_is_not_there_fails_the_claim(base):
    """The command said 0 and left nothing: that is no success, and it is not run again to find out."""
    claim = Evidence.capture_command(["true"], base_path=base, products=["out"])
    holds, code, said = judged(claim, base)
    assert (False, "PRODUCT_MISSING") == (holds, code)
    assert said == "true: was to leave out, and ended without: out: expected a file, found nothing."


def test_it_is_run_once(base):
    """However often it is verified."""
    claim = Evidence.capture_command(["sh", "-c", "echo run >> log"], base_path=base)
    for _ in range(3):
        assert judged(claim, base)[0]
    assert "run\n" == (base / "log").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"argv": "rm -rf x"}, "argv must be a list of text that is not empty, found rm -rf x"),
        ({"argv": []}, "argv must be a list"),
        ({"argv": None}, "argv must be a list"),
        ({"argv": ["sh", 7]}, r"argv\[1\] must be text, found 7"),
        ({"argv": ["sh", Path("x")]}, r"argv\[1\] must be text"),
        ({"argv": [b"sh"]}, r"argv\[0\] must be text"),
        ({"argv": ["sh", "a\0b"]}, r"argv\[1\] holds a NUL"),
        ({"argv": ["sh", "\udcff"]}, r"argv\[1\]: .* lone surrogate"),
        ({"argv": [""]}, r"argv\[0\] is empty"),
        ({"timeout": 0}, "timeout must be"),
        ({"timeout": None}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"timeout": 10**9}, "timeout must be"),
        ({"exit_code": True}, "exit_code must be an integer from 0 to 255"),
        ({"exit_code": -9}, "exit_code must be"),
        ({"exit_code": "0"}, "exit_code must be"),
        ({"max_output": -1}, "max_output must be"),
        ({"products": "out"}, "products must be a list"),
        ({"products": ["../x"]}, "leaves the base path"),
        ({"products": [7]}, "a path is needed, found 7"),
        ({"env": ["A=b"]}, "env must be a dict"),
        ({"env": {"A=b": "c"}}, "env: A=b is no name"),
        ({"env": {"": "c"}}, "env: .*is no name"),
        ({"env": {"A": 7}}, r"env\['A'\] must be text"),
        ({"env": {"A": "\0"}}, r"env\['A'\] must be text without a NUL"),
        ({"cwd": 7}, "cwd must be a path"),
        ({"cwd": "a\0b"}, "cwd must be a path"),
        ({"description": 7}, "description must be text"),
        ({"description": "\ud800"}, "description: .* lone surrogate"),
        ({"sensitive": "yes"}, "sensitive must be true or false"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(base, options, says):
    """By the name of the argument; nothing was run."""
    argv = options.pop("argv", ["touch", "ran"])
    with pytest.raises(InvalidInputError, match=says):
        Evidence.capture_command(argv, base_path=base, **options)
    assert [] == os.listdir(base)


def test_what_cannot_be_started_is_told_by_name(base):
    """No program, no permission, no program format, no interpreter, no folder: each is a reason, and no record is written."""
    for name, content, mode in (("plain", "x", 0o600), ("noexec", "\x7fELF", 0o700), ("orphan", "#!/nowhere/sh\n", 0o700)):
        (base / name).write_text(content)
        (base / name).chmod(mode)
    for argv, cwd, code, says in (
        (["no-such-program"], None, "PROGRAM_NOT_FOUND", "no-such-program: no such program; nothing was run"),
        (["./orphan"], None, "PROGRAM_NOT_FOUND", "./orphan: no such program"),
        (["./plain"], None, "NOT_STARTED", "./plain: cannot be started: Permission denied"),
        (["./noexec"], None, "NOT_STARTED", "./noexec: cannot be started: Exec format error"),
        (["true", "x" * 5_000_000], None, "NOT_STARTED", "true: cannot be started: Argument list too long"),
        (["true"], "gone", "NO_CWD", f"{base}/gone: expected a folder"),
        (["true"], "plain", "NO_CWD", f"{base}/plain: expected a folder"),
    ):
        with pytest.raises(EvidenceUnavailableError) as refused:
            Evidence.capture_command(argv, base_path=base, cwd=cwd)
        assert code == refused.value.diagnostics()["code"]
        assert refused.value.message.startswith(says)


RUNS = """
import signal, sys
from agentos.core.checkpoints import Evidence
{before}
try:
    Evidence.capture_command(["sh", "-c", {program!r}], base_path={base!r})
except BaseException as error:
    print(type(error).__name__, getattr(error, "_details", ""))
"""


def started(base: Path, program: str, before: str = "") -> subprocess.Popen[str]:
    text = RUNS.format(program=program, base=str(base), before=before)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def test_control_c_ends_the_command_and_what_it_started(base):
    """Whoever ran it is interrupted: nothing goes on behind its back."""
    with started(base, "sleep 60 & echo $! > child.new; mv child.new child; wait") as process:
        until = time.monotonic() + 20
        while not (base / "child").exists() and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    assert said.startswith("KeyboardInterrupt")
    assert is_gone(int((base / "child").read_text()))


INTERRUPTED = """
import random, signal, sys
from agentos.core.checkpoints import Evidence

def interrupt(*_):
    raise KeyboardInterrupt

def run(*argv):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 0.004))
        Evidence.capture_command(argv, timeout=1)
    except KeyboardInterrupt:
        return 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0

# What is loaded when a command is first run takes longer than the time until the interrupt.
Evidence.capture_command(["true"])
signal.signal(signal.SIGALRM, interrupt)
print(sum(run("sleep", sys.argv[1]) for _ in range(int(sys.argv[2]))))
"""


def test_no_interrupt_at_any_moment_leaves_the_command_running(count, seed):
    """Above all not one that comes while it is started, before anybody has its number."""
    number, times = f"{Random(seed).randrange(10**8, 10**9)}.5", count(60, 1000)
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, number, str(times)], capture_output=True, text=True, check=False)
    assert "" == done.stderr
    assert 0 == running_with(number)
    # C code that calls back into Python makes another error of one now and then.
    assert int(done.stdout) > times * 0.9


def running_with(number: str) -> int:
    """How many commands with this argument run."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found += number.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


def test_an_end_that_somebody_else_waited_for_is_not_guessed(base):
    """A process that ignores SIGCHLD never learns exit codes; 0 would be a lie."""
    before = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    with started(base, "exit 3", before) as process:
        said, _ = process.communicate(timeout=20)
    assert said.startswith("EvidenceUnavailableError {'code': 'END_UNSEEN'")
