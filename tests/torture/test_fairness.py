"""Several processes on one registry: everybody gets on, and one that stands still stops nobody for longer than the deadline.

How long a wait takes is measured by the benchmarks; here nothing is timed.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import StoreBusyError
from tests.faults.channel import Fault
from tests.faults.kill import run_together
from tests.faults.record import Recorder, worker_environment
from tests.torture.agent import Errand, open_manager, registry_of
from tests.torture.audit import missing

# How long it may take until a process is seen to stand still; only a test that fails waits so long.
PATIENCE = 30
# A process of somebody else's that has the write lock and never gives it back.
HOLDER = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
os.kill(os.getpid(), signal.SIGSTOP)
"""


def commits(lines: list[str]) -> int:
    return sum(line.startswith("commit") for line in lines)


def test_eight_processes_share_one_registry(tmp_path: Path, count):
    """None fails, none starves: the slowest has at least a quarter of the fastest's commits; and everything is there."""
    since = time.monotonic() + 4
    errand = Errand(str(tmp_path), steps=0, since=since, until=since + count(3, 10))
    workers = run_together(lambda number: replace(errand, task=f"task-{number}", seed=number).argv, 8, timeout=120)
    assert [(0, "")] * 8 == [(worker.returncode, worker.stderr) for worker in workers]
    made = [commits(worker.acks) for worker in workers]
    print(f"8 processes: {sorted(made)} commits")
    assert min(made) * 4 >= max(made), made
    assert [] == missing(tmp_path, [ack for worker in workers for ack in worker.acks])


def is_stopped(process: subprocess.Popen) -> bool:
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert process.poll() is None, "it ended instead"
    return state == "T"


@contextmanager
def stopped(argv: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    """A process that has stopped by itself, to be continued or killed."""
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while not is_stopped(process):
            assert time.monotonic() < deadline, "it did not stop"
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """A registry with a step in it."""
    with open_manager(tmp_path) as manager:
        manager.begin_step("first", "manual_checkpoint", {})
    return tmp_path


@pytest.mark.parametrize("where", ["between two steps", "between begin and commit"])
def test_a_process_that_is_stopped_outside_a_write_delays_nobody(known: Path, where: str):
    """Seven others go on and reach the end of their work, though one stands still with the registry open."""
    fault = {"between two steps": "stop-after-commit", "between begin and commit": "stop-after-begin"}[where]
    with stopped(Errand(str(known), task="still", fault=fault).argv, worker_environment()) as still:
        workers = run_together(lambda number: Errand(str(known), task=f"t{number}", steps=5, lock_timeout=5).argv, 7)
        assert [(0, "", 5)] * 7 == [(worker.returncode, worker.stderr, commits(worker.acks)) for worker in workers]
        still.send_signal(signal.SIGCONT)
        assert 0 == still.wait(PATIENCE)


def busy(manager: CheckpointManager) -> StoreBusyError:
    with pytest.raises(StoreBusyError) as error:
        manager.begin_step("waiting", "manual_checkpoint", {})
    return error.value


def assert_names_the_holder(error: StoreBusyError, holder: subprocess.Popen) -> None:
    assert re.search(rf"the write lock was not free for 0\.3 s; nothing was stored\. .*process {holder.pid} \(", str(error))
    assert "stopped)" in error.message
    assert "stop or continue that process" in error.hint


def test_a_foreign_process_that_is_stopped_inside_a_write_is_named(known: Path):
    """Whoever waits gives up at its own deadline, says which process has the lock and that it is stopped, and goes on after."""
    with open_manager(known, lock_timeout=0.3) as manager:
        argv = [sys.executable, "-c", HOLDER, str(registry_of(known))]
        with stopped(argv, dict(os.environ)) as holder:
            assert_names_the_holder(busy(manager), holder)
            assert_names_the_holder(busy(manager), holder)
        manager.begin_step("waiting", "manual_checkpoint", {})


def test_an_agent_that_is_stopped_inside_a_write_is_named(recorder: Recorder, known: Path, tmp_path_factory):
    """The same for one of ours, stopped in the middle of a commit's writes; when it is continued its commit is there."""
    scratch = tmp_path_factory.mktemp("tape")
    errand = Errand(str(known), task="still", steps=2, fault="stop-in-commit")
    environment = recorder.environment(known, scratch / "tape", scratch / "acks")
    with stopped(errand.argv, environment) as holder, open_manager(known, lock_timeout=0.3) as manager:
        assert_names_the_holder(busy(manager), holder)
        assert [] == manager.list_checkpoints("still")
        holder.send_signal(signal.SIGCONT)
        assert 0 == holder.wait(PATIENCE)
        manager.begin_step("waiting", "manual_checkpoint", {})
        assert 2 == len(manager.list_checkpoints("still"))
    told = [line for line in (scratch / "acks").read_text().splitlines() if line[0] not in "#!"]
    assert [] == missing(known, told)


def test_an_agent_that_is_stopped_while_it_opens_the_log_is_named(
    recorder: Recorder, known: Path, tmp_path_factory, full: bool
):
    """Then SQLite does not let others even read; they are told whom to look for, and that nothing is damaged."""
    if not full:
        pytest.skip("SQLite itself waits ten seconds before it gives up here: only with --full")
    scratch = tmp_path_factory.mktemp("tape")
    environment = recorder.environment(known, scratch / "tape", scratch / "acks", Fault("pwrite", 3, "SIGSTOP"))
    with stopped(Errand(str(known), task="still").argv, environment) as holder:
        with pytest.raises(StoreBusyError) as error:
            open_manager(known, lock_timeout=0.3)
        assert_names_the_holder(error.value, holder)
        holder.send_signal(signal.SIGCONT)
        assert 0 == holder.wait(PATIENCE)
    with open_manager(known) as manager:
        assert 3 == len(manager.list_checkpoints("still"))
