"""A fork must cost no acknowledged commit and no hang; nor may a second manager in the same process."""

import os
import signal
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from tests.support import run, start

# The parent opens the registry, forks and exits; the child commits when it is told to, and waits to be killed.
# What protects it can be switched off, to show that the trap is there.
FORKING = """
import os, sys, time
from agentos import CheckpointError, CheckpointManager, _fork
from agentos.store.watching import WatchedFiles
from tests.support import exists
db, base, protection = sys.argv[1:4]
if protection != "hook":
    _fork.close_on_fork = lambda thing: None
if protection == "nothing":
    WatchedFiles.are_in_place = lambda self: True
manager = CheckpointManager(db, base)
manager.commit_step(manager.begin_step("parent", "tool_executed", {}), exists("out.txt"))
if os.fork():
    os._exit(0)
print("child", os.getpid(), flush=True)
sys.stdin.readline()
try:
    for _ in range(100):
        step = manager.begin_step("child", "tool_executed", {})
        print("acknowledged", manager.commit_step(step, exists("out.txt")).sequence_number, flush=True)
except CheckpointError as error:
    print("refused", type(error).__name__, flush=True)
print("done", flush=True)
time.sleep(60)
"""

OPEN_AND_CLOSE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("select count(*) from steps").fetchone()
connection.close()
"""


def forked(db: Path, base: Path, protection: str) -> list[str]:
    """What the child said before it was killed, a third process having opened and closed the file before it began."""
    (base / "out.txt").write_text("one")
    with start(FORKING, db, base, protection) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        child = int(parent.stdout.readline().split()[1])
        try:
            parent.wait(30)
            run(OPEN_AND_CLOSE, db)
            parent.stdin.write("go\n")
            parent.stdin.flush()
            said = []
            for line in parent.stdout:
                if line == "done\n":
                    break
                said.append(line.strip())
        finally:
            os.kill(child, signal.SIGKILL)
        assert "" == parent.stdout.read()
    return said


def survivors(db: Path, base: Path) -> list[int]:
    with CheckpointManager(db, base) as manager:
        return [each.sequence_number for each in manager.list_checkpoints("child", 1000)]


def test_what_a_forked_child_was_acknowledged_survives_its_death(tmp_path: Path):
    """Parent opens, forks and exits, a third process opens and closes, the child commits 100 and is killed: 100 are there."""
    db = tmp_path / "registry.sqlite"
    said = forked(db, tmp_path, "hook")
    assert [f"acknowledged {n}" for n in range(1, 101)] == said
    assert list(range(100, 0, -1)) == survivors(db, tmp_path)


def test_without_the_fork_hook_the_log_that_moved_is_noticed(tmp_path: Path):
    """The second line of defence, alone: the first commit finds its log gone, and nothing is acknowledged."""
    db = tmp_path / "registry.sqlite"
    assert ["refused StoreReplacedError"] == forked(db, tmp_path, "watch")


def test_the_trap_is_real_without_any_protection_everything_acknowledged_is_lost(tmp_path: Path):
    """PROTECTION SWITCHED OFF: this shows the loss that the two tests above prevent. 100 acknowledged, none there."""
    db = tmp_path / "registry.sqlite"
    assert [f"acknowledged {n}" for n in range(1, 101)] == forked(db, tmp_path, "nothing")
    assert [] == survivors(db, tmp_path)


def test_forks_while_other_threads_write_neither_hang_nor_lose(tmp_path: Path):
    """20 forks while four threads commit: every child commits through the inherited manager and ends, all numbers are there."""
    code = """
import faulthandler, os, sys, threading
from agentos import CheckpointManager
from tests.support import exists
manager = CheckpointManager(sys.argv[1], sys.argv[2])
commit = lambda: manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"))
stop = threading.Event()
def write():
    while not stop.is_set():
        commit()
threads = [threading.Thread(target=write) for _ in range(4)]
for thread in threads:
    thread.start()
codes = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(30, exit=True)
        status = 1
        try:
            commit()
            commit()
            status = 0
        finally:
            os._exit(status)
    codes.append(os.waitpid(pid, 0)[1])
stop.set()
for thread in threads:
    thread.join()
assert codes == [0] * 20, codes
numbers = [each.sequence_number for each in manager.list_checkpoints("t", 10**6)]
assert numbers == list(range(len(numbers), 0, -1))
print(len(numbers) > 40)
"""
    (tmp_path / "out.txt").write_text("one")
    assert "True\n" == run(code, tmp_path / "registry.sqlite", tmp_path, timeout=100)


def test_a_fork_in_the_middle_of_a_first_import_does_not_hang_the_child(tmp_path: Path):
    """A module imported by another thread at that moment would stay half imported in the child, and its lock taken for ever."""
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.5)\n")
    code = """
import faulthandler, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from agentos import CheckpointManager, _fork
CheckpointManager(os.path.join(sys.argv[1], "registry.sqlite"))
def first():
    with _fork.importing:
        import slow
thread = threading.Thread(target=first)
thread.start()
time.sleep(0.1)
pid = os.fork()
if pid == 0:
    faulthandler.dump_traceback_later(20, exit=True)
    import slow
    os._exit(0)
print(os.waitpid(pid, 0)[1])
"""
    assert "0\n" == run(code, tmp_path)


def test_a_fork_waits_for_a_thread_that_is_about_to_log(tmp_path: Path):
    """Logging has a lock and a hook of its own; whoever holds a lock of ours may still take it, whichever came first."""
    code = """
import faulthandler, os, sys, threading, time
import agentos
from agentos import CheckpointManager
manager = CheckpointManager(sys.argv[1])
database = manager._registry._database
entered = threading.Event()
def log(_):
    import logging
    entered.set()
    time.sleep(0.3)
    logging.getLogger("a new name").warning("%s", "said")
thread = threading.Thread(target=database.read, args=(log,))
thread.start()
entered.wait(10)
faulthandler.dump_traceback_later(20, exit=True)
pid = os.fork()
if pid == 0:
    os._exit(0)
print(os.waitpid(pid, 0)[1], flush=True)
os._exit(0)
"""
    assert "0\n" == run(code, tmp_path / "registry.sqlite")


def test_both_sides_of_a_fork_go_on_with_the_same_manager(tmp_path: Path):
    """A step begun before the fork is committed by the child, and refused to the parent; both begin new ones."""
    code = """
import os, sys
from agentos import CheckpointManager
from agentos.errors import StepAlreadyCommittedError
from tests.support import exists
manager = CheckpointManager(sys.argv[1], sys.argv[2])
step = manager.begin_step("t", "tool_executed", {"n": 1})
pid = os.fork()
if pid == 0:
    status = 1
    try:
        assert manager.commit_step(step, exists("out.txt")).sequence_number == 1
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
try:
    manager.commit_step(step, exists("out.txt"))
except StepAlreadyCommittedError:
    print("refused")
again = manager.begin_step("t", "tool_executed", {"n": 2})
print(again != step, manager.commit_step(again, exists("out.txt")).sequence_number)
"""
    (tmp_path / "out.txt").write_text("one")
    assert "refused\nTrue 2\n" == run(code, tmp_path / "registry.sqlite", tmp_path)


def test_a_fork_of_a_fork_with_managers_in_every_generation(tmp_path: Path):
    """Grandchildren inherit nothing that is open; managers made on the way are closed around the next fork as well."""
    code = """
import os, sys
from agentos import CheckpointManager
from tests.support import exists
managers = []
def work():
    managers.append(CheckpointManager(sys.argv[1], sys.argv[2]))
    for manager in managers:
        manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"))
for generation in range(4):
    work()
    pid = os.fork()
    if pid:
        status = os.waitpid(pid, 0)[1]
        os._exit(1 if status else 0)
work()
print([each.sequence_number for each in managers[0].list_checkpoints("t")] == list(range(15, 0, -1)), flush=True)
"""
    (tmp_path / "out.txt").write_text("one")
    assert "True\n" == run(code, tmp_path / "registry.sqlite", tmp_path)


def test_a_manager_that_is_garbage_does_not_stand_in_the_way_of_a_fork(tmp_path: Path):
    """Registration is weak: a forgotten manager is neither kept alive nor locked."""
    code = """
import gc, os, sys
from agentos import CheckpointManager, _fork
for _ in range(5):
    CheckpointManager(sys.argv[1]).close()
manager = CheckpointManager(sys.argv[1])
del manager
gc.collect()
left = [type(thing).__name__ for thing in _fork._registered]
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(left.count("Database"))
"""
    assert "0\n" == run(code, tmp_path / "registry.sqlite")


@pytest.mark.parametrize("second", ["manager", "foreign", "evidence"])
def test_opening_the_file_a_second_time_in_one_process_drops_no_lock(tmp_path: Path, second: str):
    """Closing any descriptor of a file drops a process's locks on it; after a second look at the file they are still held."""
    code = """
import hashlib, os, sys, time
from agentos import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints import CheckpointError
from tests.support import exists
db, base, second = sys.argv[1:4]
manager = CheckpointManager(db, base)
manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"))
if second == "manager":
    CheckpointManager(db, base).close()
elif second == "foreign":
    from agentos.store import opening
    opening._look_at_rest(db)
else:
    claims = [
        Evidence(EvidenceType.FILE_SHA256, "itself", {"path": db, "sha256": "0" * 64}),
        Evidence(EvidenceType.ARTIFACT_EXISTS, "itself", {"path": db}),
        Evidence(EvidenceType.DB_ROW, "its row", {"table": "tasks", "where": {"task_id": "t"}}),
        Evidence(EvidenceType.DB_ROW, "its row", {"table": "tasks", "where": {"task_id": "t"}}, {"db_path": db}),
    ]
    manager.commit_step(manager.begin_step("t", "tool_executed", {}), EvidencePack(claims))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    step = manager.begin_step("child", "tool_executed", {})
    print("acknowledged", manager.commit_step(step, exists("out.txt")).sequence_number, flush=True)
print("done", flush=True)
time.sleep(60)
"""
    db = tmp_path / "registry.sqlite"
    (tmp_path / "out.txt").write_text("one")
    with start(code, db, tmp_path, second) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            assert "ready\n" == process.stdout.readline()
            run(OPEN_AND_CLOSE, db)
            process.stdin.write("go\n")
            process.stdin.flush()
            assert [f"acknowledged {n}\n" for n in range(1, 21)] == [process.stdout.readline() for _ in range(20)]
            assert "done\n" == process.stdout.readline()
        finally:
            process.kill()
    assert list(range(20, 0, -1)) == survivors(db, tmp_path)
