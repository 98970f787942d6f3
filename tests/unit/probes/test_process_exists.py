"""process_exists: who has a pid, and how many fit a description. The processes are real."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from agentos import _process
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen, Unseen
from agentos.core.checkpoints.results import EvidenceResult
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceUnavailableError, InvalidInputError
from agentos.probes import process_exists
from agentos.probes.cannot_see import Deadline
from tests.support import environment

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")
OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def number() -> str:
    """An argument that no other process has."""
    return f"{Random().randrange(10**8, 10**9)}.5"


@contextlib.contextmanager
def running(*argv: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(list(argv), **options) as process:
        try:
            yield process
        finally:
            process.kill()


def verified(claim: Evidence) -> EvidenceResult:
    EvidenceVerifier().verify_evidence(claim)
    assert claim.result is not None
    return claim.result


def code(claim: Evidence, **expected: Any) -> str:
    """What is said of the same claim with some of it forged."""
    return verified(Evidence(claim.evidence_type, "forged", {**claim.expected, **expected}, dict(claim.metadata))).code


def count(wanted: Any = 1, **description: Any) -> EvidenceResult:
    """What one look is worth, which waits for nothing."""
    claim, verifier = Evidence("process_exists", "counted", {**description, "count": wanted}), EvidenceVerifier()
    kind_of(claim).refuse_malformed(claim)
    return kind_of(claim).result(claim, verifier.observe(claim, verifier.around, once=True))


def wait_for_state(pid: int, wanted: str) -> None:
    while Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] != wanted:
        os.sched_yield()


def test_a_process_is_claimed_for_good():
    """It runs, stopped or not; killed it is what is left of one; waited for it is gone. It never comes back."""
    with running("sleep", "60") as process:
        claim = Evidence.capture_process(process.pid, description="the worker")
        assert {"pid", "start_ticks", "boot_id"} == claim.expected.keys()
        assert ("sleep", "the worker") == (claim.metadata["name"], claim.description)
        assert "VERIFIED" == code(claim)
        process.send_signal(signal.SIGSTOP)
        wait_for_state(process.pid, "T")
        assert "VERIFIED" == code(claim)
        process.kill()
        wait_for_state(process.pid, "Z")
        assert "PROCESS_ENDED" == code(claim)
    assert "PROCESS_GONE" == code(claim)


def test_without_a_pid_it_is_this_process():
    """Which runs, as long as it can ask."""
    claim = Evidence.capture_process()
    assert os.getpid() == claim.expected["pid"]
    assert "VERIFIED" == code(claim)


def test_a_pid_that_was_given_out_again_is_not_taken_for_the_process():
    """The attack: another process has the pid, and only its start tells."""
    claim = Evidence.capture_process()
    for shift in (-1000, -2, 2, 1000):
        assert "PID_REUSED" == code(claim, start_ticks=claim.expected["start_ticks"] + shift)


def test_a_pid_is_really_given_out_again(tmp_path):
    """In a pid namespace of its own the next pid can be chosen: the same pid, another process."""
    program = (
        "import os, subprocess\n"
        "from agentos.core.checkpoints import Evidence, EvidenceVerifier\n"
        "first = subprocess.Popen(['sleep', '60'])\n"
        "claim = Evidence.capture_process(first.pid)\n"
        "first.kill(); first.wait()\n"
        "import time; time.sleep(0.05)\n"
        "open('/proc/sys/kernel/ns_last_pid', 'w').write(str(first.pid - 1))\n"
        "second = subprocess.Popen(['sleep', '61'])\n"
        "EvidenceVerifier().verify_evidence(claim)\n"
        "print(first.pid == second.pid, claim.result.code)\n"
        "second.kill(); second.wait()\n"
    )
    said = inside(program, "--pid", "--fork", "--mount-proc")
    assert "True PID_REUSED" == said


def inside(program: str, *unshare: str) -> str:
    """What a program prints in namespaces of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("namespaces are made as root, with unshare")
    command = ["unshare", *unshare, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"no such namespace here: {done.stderr.strip()[-200:]}")
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


LOOKS = """
import json, sys
from agentos.core.checkpoints import Evidence, EvidenceVerifier
for claim in json.loads({claims!r}):
    claim = Evidence("process_exists", "claimed outside", *claim)
    EvidenceVerifier().verify_evidence(claim)
    print(claim.result.outcome.value, claim.result.code)
"""


def test_from_another_namespace_nothing_is_known_of_it():
    """Its pid is somebody else's there, or nobody's: that is no sign that it ended. Nor can it be counted."""
    import json

    claim = Evidence.capture_process()
    here = {"pid_ns": claim.metadata["pid_ns"], "deadline": 2}
    claims = [(claim.expected, claim.metadata), ({"name": "sleep", "count": 0}, here)]
    program = LOOKS.format(claims=json.dumps(claims))
    assert ["error OTHER_NAMESPACE"] * 2 == inside(program, "--pid", "--fork", "--mount-proc").splitlines()
    # With a /proc that is not its own it would count the processes of others.
    program = LOOKS.format(claims=json.dumps([({"name": "sleep", "count": 0}, {"deadline": 2})]))
    assert "error NO_PROC" == inside(program, "--pid", "--fork")


def test_after_a_restart_nothing_runs_that_ran_before():
    """Whatever has its pid now. On another machine it may run all the same."""
    claim = Evidence.capture_process()
    assert "MACHINE_RESTARTED" == code(claim, boot_id=OTHER_BOOT)
    claim.metadata["host"] = "elsewhere"
    assert "OTHER_HOST" == code(claim, boot_id=OTHER_BOOT)
    # A machine, or a container on it, may be renamed.
    assert "VERIFIED" == code(claim)


def test_a_hidden_process_is_not_taken_for_gone(monkeypatch, look):
    """Its pid answers, and /proc does not: something is there."""
    claim = Evidence.capture_process(os.getppid())
    monkeypatch.setattr(_process, "_look", lambda pid: None)
    seen = look("process_exists", metadata=claim.metadata, **claim.expected)
    assert isinstance(seen, Unseen)
    assert "PROCESS_HIDDEN" == seen.code


def test_hidden_processes_may_fit_any_description():
    """Mounted so that others are not listed, /proc proves neither that there are none nor how many there are."""
    program = (
        "import os, subprocess\n"
        "subprocess.run(['mount', '-t', 'proc', '-o', 'hidepid=2', 'proc', '/proc'], check=True)\n"
        "other = subprocess.Popen(['sleep', '60'])\n"
        "from agentos.core.checkpoints import Evidence, EvidenceVerifier\n"
        "def look():\n"
        "    for expected in ({'name': 'sleep', 'count': 0}, {'name': {'prefix': 'python'}, 'count': {'ge': 1}}):\n"
        "        claim = Evidence('process_exists', 'd', expected, {'deadline': 2})\n"
        "        EvidenceVerifier('/').verify_evidence(claim)\n"
        "        print(claim.result.code, claim.result.found['hidden'])\n"
        "look()\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "look()\n"
    )
    said = inside(program, "--pid", "--fork", "--mount-proc").splitlines()
    assert (["COUNT_DIFFERS False", "VERIFIED False"], ["PROCESS_OUT_OF_SIGHT True", "VERIFIED True"]) == (said[:2], said[2:])


@pytest.mark.parametrize("name", ["a b", "a) Z 1 2", ") X (", "((", "a\nb", "\\x1b[2J"])
def test_a_process_may_be_called_anything(base, number, name):
    """Spaces, brackets and line ends stand in the middle of what the system says about it."""
    program = base / name
    shutil.copy(shutil.which("sleep") or "", program)
    with running(str(program), number) as process:
        claim = Evidence.capture_process(process.pid)
        assert name == claim.metadata["name"]
        assert "VERIFIED" == code(claim)
        assert [process.pid] == count(name=name, exe=str(program)).found["pids"]
        process.kill()
        wait_for_state(process.pid, "Z")
        assert "PROCESS_ENDED" == code(claim)


def test_processes_are_found_by_what_they_are(number):
    """By name, arguments, program and user, by any and by all of them."""
    program = os.path.realpath(shutil.which("sleep") or "")
    with running("sleep", number), running("sleep", number, "0"):
        assert "VERIFIED" == count(2, argv={"contains": number}).code
        assert "VERIFIED" == count(1, argv={"equals": ["sleep", number]}).code
        everything = {"name": "sleep", "argv": {"contains": number}, "exe": {"suffix": os.path.basename(program)}}
        assert "VERIFIED" == count({"ge": 2}, **everything).code
        assert "VERIFIED" == count({"ge": 2}, selector=everything).code
        assert "COUNT_DIFFERS" == count(1, selector={"argv": {"contains": number}}).code
        assert "COUNT_DIFFERS" == count(1, **everything).code
        assert "PROCESS_MISSING" == count(2, **everything, user="nobody-of-this-name").code
    assert "PROCESS_MISSING" == count(argv={"contains": number}).code
    assert "VERIFIED" == count(0, argv={"contains": number}).code


def test_what_is_left_of_a_process_is_not_counted(number):
    """It has a name and a pid, and runs no more."""
    with running("sleep", number) as process:
        before = count({"ge": 1}, name="sleep").found["pids"]
        assert process.pid in before
        process.kill()
        wait_for_state(process.pid, "Z")
        assert process.pid not in count({"ge": 0, "lt": 10**6}, name="sleep").found["pids"]


# Long to clear away: what it holds is given back page by page.
LARGE = (
    "import mmap, sys; held = mmap.mmap(-1, 1 << 28); held.write(bytes(1 << 28)); print('ready', flush=True); sys.stdin.read()"
)


def test_a_process_that_is_being_cleared_away_ran_when_it_was_listed(number):
    """Its arguments are gone before it is: whoever took its place may not have been listed, so the list is no answer."""
    for _ in range(5):
        program = [sys.executable, "-c", LARGE, number]
        with running(*program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            scan = process_exists._Scan(psutil, {"argv": {"contains": number}, "count": 0})
            scan.take(Deadline(20))
            assert [process.pid] == [each.pid for each in scan.fitting]
            process.kill()
            while Path(f"/proc/{process.pid}/cmdline").read_bytes():
                os.sched_yield()
            scan.take(Deadline(20))
            assert ([], True) == (scan.fitting, scan.passed >= 1)
            # Once it was seen to be over, it has nothing more to say about another list.
            wait_for_state(process.pid, "Z")
            assert process.pid in {each.pid for each in scan._over}


def test_a_process_that_the_list_had_passed_is_found(number, monkeypatch):
    """Pids go round: the successor's may be lower than the one of whom it took over, and be read before it is there."""
    expected = {"argv": {"contains": number}, "count": 0}
    with running("sleep", number) as process:
        while number.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            os.sched_yield()
        lists = [[pid for pid in psutil.pids() if pid != process.pid], psutil.pids()]
        monkeypatch.setattr(psutil, "pids", lambda: lists.pop(0) if lists else [process.pid])
        scan = process_exists._Scan(psutil, expected)
        scan.take(Deadline(20))
        assert scan.passed >= 1
        assert "COUNT_DIFFERS" == count(0, argv={"contains": number}).code


def test_a_process_that_is_still_starting_is_waited_for(number):
    """Up to the deadline, and what was seen before is told."""
    with running("sh", "-c", f"sleep 0.4; exec sleep {number}"):
        claim = Evidence("process_exists", "late", {"argv": {"equals": ["sleep", number]}, "count": 1}, {"deadline": 20})
        assert "VERIFIED" == verified(claim).code
        assert claim.result.flaky
        assert {"PROCESS_MISSING"} == {each["code"] for each in claim.result.attempts[:-1]}


def test_one_that_ends_is_not_waited_for():
    """However long the deadline is."""
    claim = Evidence.capture_process()
    claim.expected["start_ticks"] += 1000
    claim.metadata["deadline"] = 60
    begun = time.monotonic()
    assert "PID_REUSED" == verified(claim).code
    assert time.monotonic() - begun < 30


def test_what_is_not_there_cannot_be_captured():
    """Neither nobody nor what is left of somebody, and no pid that no process can have."""
    with running("sleep", "60") as process:
        process.kill()
        wait_for_state(process.pid, "Z")
        with pytest.raises(EvidenceUnavailableError, match="nothing to capture"):
            Evidence.capture_process(process.pid)
    for pid in (process.pid, 2**22 + 1, 2**70):
        with pytest.raises(EvidenceUnavailableError, match="nothing to capture"):
            Evidence.capture_process(pid)
    for nonsense in (0, -1, True, "1", 1.0):
        with pytest.raises(InvalidInputError, match="a pid is needed, found"):
            Evidence.capture_process(nonsense)  # type: ignore[arg-type]


def test_without_psutil_a_description_cannot_be_looked_for(monkeypatch, look):
    """The reason says what to install; one process is found all the same."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    seen = look("process_exists", name="sleep", count=1)
    assert isinstance(seen, Unseen)
    assert ("NOT_INSTALLED", "pip install 'agentos-recovery[process]'") == (seen.code, seen.hint)
    assert isinstance(look("process_exists", pid=os.getpid()), Seen)


def test_a_count_ends_at_its_time_limit(look):
    """A machine has as many processes as it has."""
    seen = look("process_exists", name="sleep", count=1, around={"timeout": 1e-9})
    assert isinstance(seen, Unseen)
    assert "TIMED_OUT" == seen.code
