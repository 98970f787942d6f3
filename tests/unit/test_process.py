"""A process is named for good, and whether it lives is seen, or not claimed to be seen. The processes are real."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos import _process
from agentos._process import Process, boottime, is_alive, this_process
from tests.support import environment, run, start

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")

WAITING = """
import sys
from agentos._process import this_process
print(this_process().text, flush=True)
sys.stdin.readline()
"""

# Its first thread ends, by the system call that ends no more than a thread; the other one goes on.
LEADERLESS = """
import ctypes, os, sys, threading
from agentos._process import this_process
def go_on():
    with open("/proc/self/stat") as file:
        while file.read().rpartition(")")[2].split()[0] != "Z":
            file.seek(0)
    print(this_process().text, flush=True)
    sys.stdin.readline()
    os._exit(0)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""

ASKING = """
import sys
from agentos._process import Process, boottime, is_alive, this_process
print(this_process().text, is_alive(Process.parse(sys.argv[1])), boottime())
"""


@contextlib.contextmanager
def child(program: str = WAITING) -> Iterator[tuple[subprocess.Popen[str], Process]]:
    """A process that lives until the block ends, and what it calls itself."""
    with start(program) as popen:
        try:
            named = Process.parse(popen.stdout.readline().strip())
            assert named is not None
            yield popen, named
        finally:
            popen.kill()


def state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def wait_for_state(pid: int, wanted: str) -> None:
    # waitid says when a child stopped, but not when it became what is left of one; /proc says both.
    while state_of(pid) != wanted:
        os.sched_yield()


def asked_inside(*unshare: str, about: Process) -> tuple[Process, str, float]:
    """What a process in namespaces of its own is called, says about a process outside, and takes for the time."""
    if os.geteuid() != 0:
        pytest.skip("namespaces are made as root")
    command = ["unshare", *unshare, sys.executable, "-c", ASKING, about.text]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode != 0:
        pytest.skip(f"no such namespace here: {done.stderr.strip()[-200:]}")
    named, alive, now = done.stdout.split()
    process = Process.parse(named)
    assert process is not None
    return process, alive, float(now)


class TestWhoThisIs:
    @needs_proc
    def test_it_names_this_very_process(self):
        """Host, pid, start, boot and namespace, as the system says."""
        this = this_process()
        assert (socket.gethostname(), os.getpid()) == (this.host, this.pid)
        assert os.readlink("/proc/self/ns/pid") == f"pid:[{this.namespace}]"
        assert 0 < this.start / os.sysconf("SC_CLK_TCK") < boottime()
        assert 36 == len(this.boot)
        assert is_alive(this) is True

    def test_it_is_looked_up_once(self):
        """Every begin of a step asks."""
        assert this_process() is this_process()
        assert this_process().text is this_process().text

    @needs_proc
    def test_a_forked_child_is_another_process(self):
        """Although it inherits all that its parent had looked up."""
        parent = this_process()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writer, f"{this_process().text} {is_alive(parent)}".encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            named, parent_alive = pipe.read().split()
        os.waitpid(pid, 0)
        forked = Process.parse(named)
        assert forked is not None
        assert (pid, "True") == (forked.pid, parent_alive)
        assert replace(forked, pid=parent.pid, start=parent.start) == parent
        assert is_alive(forked) is False
        assert this_process() is parent

    def test_importing_it_costs_nothing_to_speak_of(self):
        """Every agent pays for it when it starts."""
        heavy = "import sys, agentos._process as p; print(p._this, *{'socket', 'subprocess', 'logging'} & set(sys.modules))"
        assert "None" == run(heavy).strip()


@needs_proc
class TestWhoLives:
    def test_a_running_child_lives_and_a_killed_one_does_not(self):
        """Once it is reaped, nothing of it is left to see."""
        with child() as (popen, named):
            assert popen.pid == named.pid
            assert is_alive(named) is True
            popen.kill()
            popen.wait()
            assert is_alive(named) is False

    def test_a_zombie_is_dead(self):
        """Killed and not yet reaped by its parent: it has a pid and a start, and will never write again."""
        with child() as (popen, named):
            popen.kill()
            wait_for_state(popen.pid, "Z")
            assert is_alive(named) is False

    @pytest.mark.parametrize("name", ["a) Z 1", ") X (", "((", "\\n) Z"])
    def test_a_program_may_be_called_anything(self, name):
        """Its name stands in the middle of what the system says about it, brackets and all."""
        with child(f"open('/proc/self/comm', 'w').write('{name}')\n{WAITING}") as (popen, named):
            assert is_alive(named) is True
            popen.kill()
            popen.wait()
            assert is_alive(named) is False

    def test_a_stopped_process_lives(self):
        """It may be told to go on at any moment."""
        with child() as (popen, named):
            popen.send_signal(signal.SIGSTOP)
            wait_for_state(popen.pid, "T")
            assert is_alive(named) is True
            popen.send_signal(signal.SIGCONT)
            assert is_alive(named) is True

    @pytest.mark.skipif(
        os.uname().machine not in {"x86_64", "aarch64"}, reason="the number of the system call is not known here"
    )
    def test_a_process_whose_first_thread_ended_lives(self):
        """It looks like a zombie, and its other threads still write."""
        with child(LEADERLESS) as (popen, named):
            assert "Z" == state_of(popen.pid)
            assert is_alive(named) is True
            popen.kill()
            popen.wait()
            assert is_alive(named) is False

    @pytest.mark.parametrize("shift", [-1_000_000, -50, 50, 1_000_000])
    def test_a_pid_that_was_given_out_again_is_another_process(self, shift):
        """The pid is there, and the process that started then is not."""
        with child() as (_, named):
            assert is_alive(replace(named, start=named.start + shift)) is False

    def test_a_process_of_another_boot_is_dead(self):
        """Whatever has its pid now: the machine was restarted since."""
        with child() as (_, named):
            assert is_alive(replace(named, boot="00000000-0000-4000-8000-000000000000")) is False

    def test_a_process_of_another_namespace_is_out_of_sight(self):
        """Its pid means something else here, so neither its presence nor its absence says anything."""
        with child() as (_, named):
            assert is_alive(replace(named, namespace="1")) is None
            assert is_alive(replace(named, namespace="1", pid=2**22 + 1)) is None

    def test_a_renamed_machine_is_the_same_machine(self):
        """The boot says which machine this is; names change."""
        with child() as (_, named):
            assert is_alive(replace(named, host="renamed")) is True

    @pytest.mark.parametrize("pid", [2**22 + 1, 2**31, 2**63, 10**19])
    def test_a_pid_that_no_process_can_have_is_dead(self, pid):
        """Also one that is too large to be asked about."""
        assert is_alive(replace(this_process(), pid=pid)) is False


@needs_proc
class TestWhatCannotBeSeen:
    def test_a_hidden_process_is_not_taken_for_dead(self, monkeypatch):
        """Mounts of /proc may hide other people's processes; their pids still answer."""
        with child() as (popen, named):
            monkeypatch.setattr(_process, "_stat", lambda path: open("/proc/0/stat"))  # noqa: SIM115 - raises, as hiding does
            assert is_alive(named) is None
            popen.kill()
            popen.wait()
            assert is_alive(named) is False

    @pytest.mark.parametrize(("answer", "expected"), [(PermissionError, None), (ProcessLookupError, False)])
    def test_of_a_hidden_process_only_its_pid_answers(self, monkeypatch, answer, expected):
        """A refusal says that something is there, but not since when."""

        def kill(pid: int, number: int) -> None:
            raise answer

        monkeypatch.setattr(os, "kill", kill)
        monkeypatch.setattr(_process, "_proc_is_ours", lambda: False)
        assert is_alive(replace(this_process(), pid=os.getppid())) is expected

    def test_a_process_that_could_not_say_when_it_started_is_known_by_its_pid_alone(self):
        """Which proves that it ended, once nothing has it, and never that it lives."""
        with child() as (popen, named):
            assert is_alive(replace(named, start=0)) is None
            popen.kill()
            popen.wait()
            assert is_alive(replace(named, start=0)) is False

    def test_without_a_boot_nothing_is_known_of_other_hosts(self, monkeypatch):
        """Where the system does not name its boots, a process of a host of another name may live there."""
        this = replace(this_process(), boot="", namespace="")
        monkeypatch.setattr(_process, "_this", this)
        assert is_alive(replace(this, host="elsewhere", pid=2**22 + 1)) is None
        assert is_alive(replace(this, pid=2**22 + 1)) is False
        assert is_alive(replace(this, boot="00000000-0000-4000-8000-000000000000")) is None

    def test_without_proc_a_process_still_knows_itself(self, monkeypatch):
        """And the clock runs all the same."""
        real = open

        def no_proc(path, *arguments, **options):
            return real(os.path.join("/nowhere", path), *arguments, **options) if path[0] != "/" else real("/nowhere/at/all")

        monkeypatch.setattr(_process, "_this", None)
        monkeypatch.setattr(_process, "_ahead", None)
        monkeypatch.setattr(_process, "open", no_proc, raising=False)
        monkeypatch.setattr(_process, "_namespace", lambda: "")
        this = this_process()
        assert (os.getpid(), 0, "", "") == (this.pid, this.start, this.boot, this.namespace)
        assert is_alive(this) is True
        assert boottime() > 0


@needs_proc
class TestNamespaces:
    def test_from_another_pid_namespace_a_living_process_is_out_of_sight(self):
        """And from here, one in there; both are of this boot."""
        with child() as (_, named):
            inside, said, _ = asked_inside("--pid", "--fork", "--mount-proc", about=named)
        assert ("None", None) == (said, is_alive(inside))
        assert this_process().boot == inside.boot
        assert this_process().namespace != inside.namespace

    def test_a_namespace_without_a_proc_of_its_own_reads_nobody_elses(self):
        """The numbers in /proc are those of other processes there: it does not take one of them for what it looks for."""
        here = this_process()
        inside, said, _ = asked_inside("--pid", "--fork", about=here)
        assert ("None", None) == (said, is_alive(inside))
        assert here.namespace != inside.namespace
        assert inside.pid < here.pid
        assert here.start <= inside.start

    @pytest.mark.parametrize("ahead", [1000, 86_400])
    def test_a_time_namespace_moves_neither_the_clock_nor_the_start_of_others(self, ahead):
        """All processes of the machine count from the same moment, wherever their clocks were set to."""
        with child() as (_, named):
            before = boottime()
            inside, said, now = asked_inside("--time", "--boottime", str(ahead), "--fork", about=named)
            assert before <= now <= boottime()
            assert "True" == said
            assert named.start <= inside.start <= boottime() * os.sysconf("SC_CLK_TCK")
            assert is_alive(inside) is False


class TestTheClock:
    def test_it_only_goes_forward(self):
        """Seconds since the machine started."""
        moments = [boottime() for _ in range(1000)]
        assert sorted(moments) == moments
        assert moments[0] > 0


class TestTheText:
    processes = st.builds(
        Process,
        host=st.text(st.characters(), max_size=64),
        pid=st.integers(1, 2**63),
        start=st.integers(0, 2**64 - 1),
        boot=st.text(st.characters(), max_size=36),
        namespace=st.text(max_size=12),
    )

    @given(processes)
    def test_what_was_written_is_read_back(self, process: Process):
        """Whatever the host is called: also with slashes, line ends, and what is no text."""
        assert process == Process.parse(process.text)
        assert process.text.isascii()
        assert process.text.isprintable()
        assert " " not in process.text

    @given(processes, processes)
    def test_two_processes_never_share_a_text(self, one: Process, other: Process):
        """A text names one process."""
        assert (one == other) == (one.text == other.text)

    @given(st.text(st.sampled_from("ab01/%-.6ff \n"), max_size=30))
    def test_a_process_has_one_text(self, text: str):
        """What is read is written the same again, or it is not read."""
        process = Process.parse(text)
        assert process is None or text == process.text

    @pytest.mark.parametrize(
        "text",
        [
            *("", "/", "////", "h/1/2/b", "h/1/2/b/n/x", "h/0/2/b/n", "h/-1/2/b/n", "h/01/2/b/n", "h/+1/2/b/n", "h/1/ 2/b/n"),
            *("h/1/2/b/n\n", "h/1/2.0/b/n", "h/\u0661/2/b/n", "h h/1/2/b/n", "%/1/2/b/n", "%6/1/2/b/n", "%61/1/2/b/n"),
            *("%zz/1/2/b/n", "%ff/1/2/b/n", "%2F/1/2/b/n", f"h/{'1' * 21}/2/b/n", f"{'h' * 2000}/1/2/b/n"),
            *(None, 7, b"h/1/2/b/n", ["h"], "a"),
        ],
    )
    def test_anything_else_names_nobody(self, text):
        """None, and no error: the text may have been a holder's made-up name."""
        assert Process.parse(text) is None

    def test_the_machines_own_host_name_may_be_no_text(self, monkeypatch):
        """The system hands bytes that are no UTF-8 over as surrogates, which no store takes."""
        process = Process("caf\udce9", 7, 8, "b", "n")
        assert "caf%ed%b3%a9/7/8/b/n" == process.text
        assert process == Process.parse(process.text)
