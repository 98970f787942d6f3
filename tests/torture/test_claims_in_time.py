"""Claims of real processes: one that is stopped and comes back, one that dies, one whose wall clock is an hour off.

What a claim lasts is decided by the clock that counts from the boot and by whether its process lives; what may be written, by
its token alone. The wall clock decides nothing: a process with another one runs under clock.c, which moves that clock alone.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import NotSafeToResumeError, TaskHeldError
from agentos.store.registry.sqlite.registry import SQLiteRegistry
from tests.support import content, dump, environment
from tests.torture.holder import TASK

HOUR = 3600
TTL = 0.4
# Much longer than anything here takes, and shorter than an hour.
LONG = 600.0


class Other:
    """Another process, which does as it is told: see holder.py."""

    def __init__(self, directory: Path, fault: str, extra: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tests.torture.holder", str(directory), fault]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment(**extra), **pipes)

    def tell(self, *order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[Any]:
        assert self.process.stdout is not None
        found: list[Any] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, *order: Any) -> Any:
        self.tell(*order)
        return self.answer()[1]

    def stop(self) -> None:
        """Until it does not run any more."""
        self.process.send_signal(signal.SIGSTOP)
        while Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Callable[..., Other]]:
    """Start other processes; they are gone when the test ends."""
    started: list[Other] = []

    def start(fault: str = "", **extra: str) -> Other:
        started.append(Other(tmp_path, fault, extra))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(tmp_path / "registry.sqlite", tmp_path) as manager:
        yield manager


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that moves the wall clock, or a skip with the reason."""
    compiler = next(filter(None, map(shutil.which, [os.environ["CC"]] if "CC" in os.environ else ["cc", "gcc", "clang"])), None)
    if sys.platform != "linux" or compiler is None:
        pytest.skip("no C compiler on Linux, which a wall clock of its own for one process needs")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    built = subprocess.run(
        [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True, check=False
    )
    if built.returncode:
        pytest.skip(f"no C compiler: {Path(compiler).name} cannot build the clock: {built.stderr.strip()[:400]}")
    return library


def taken_after(take: Callable[[], Any], patience: float = 10.0) -> float:
    """Seconds until the task was to be had."""
    started = time.monotonic()
    while time.monotonic() - started < patience:
        try:
            take()
        except TaskHeldError:
            time.sleep(0.01)
        else:
            return time.monotonic() - started
    pytest.fail("the task was never to be had")


LATE_CALLS = [
    ["begin"],
    ["commit"],
    ["commit_without"],
    ["resolve", "landed"],
    ["resolve", "not_landed"],
    ["abandon"],
    ["once"],
    ["finish"],
]


def stopped_and_overtaken(manager: CheckpointManager, holder: Other) -> dict[str, Any]:
    """A holder is stopped until another has its task, and then makes its calls late; what each was answered."""
    assert 1 == holder.ask("claim", TTL)
    holder.ask("begin")
    holder.ask("begin")
    holder.stop()
    with pytest.raises(TaskHeldError):
        manager.claim_task(TASK)
    # Each begin let the claim last its whole time again, once a third of it was over.
    assert TTL * 2 / 3 - 0.2 < taken_after(lambda: manager.claim_task(TASK, ttl=LONG))
    holder.process.send_signal(signal.SIGCONT)
    return {" ".join(call): holder.ask(*call) for call in LATE_CALLS}


def test_a_holder_that_was_stopped_and_overtaken_changes_nothing(tmp_path: Path, manager: CheckpointManager, other):
    """After SIGCONT its begin, commit, resolve and once are refused as stale, and not a row differs."""
    holder = other()
    rows: list[Any] = []
    claim = manager.claim_task

    def noting(*args: Any, **kwargs: Any) -> Any:
        lease = claim(*args, **kwargs)
        rows.append(dump(manager.db_path))
        return lease

    manager.claim_task = noting  # type: ignore[method-assign]
    answers = stopped_and_overtaken(manager, holder)
    assert {" ".join(call): "LeaseLostError" for call in LATE_CALLS} == answers
    assert "TaskHeldError" == holder.ask("begin_without")
    assert holder.ask("release") is False
    assert rows[-1] == dump(manager.db_path)
    assert not (tmp_path / "called").exists()


def test_without_the_token_a_holder_that_was_overtaken_goes_on(manager: CheckpointManager, other):
    """The same with the comparison of tokens taken out: its late calls land, so the test above can fail."""
    answers = stopped_and_overtaken(manager, other("no-fence"))
    assert "LeaseLostError" not in {answers["begin"], answers["commit"], answers["once"]}


@pytest.mark.parametrize("reaped", [True, False])
def test_the_claim_of_a_process_that_died_is_free_at_once(tmp_path: Path, manager: CheckpointManager, other, reaped: bool):
    """Kill -9, and the next one resumes within a second, without any ttl; also while the dead one is a zombie."""
    (tmp_path / "out").write_text("one")
    manager.commit_step(manager.begin_step(TASK, "tool_executed", {"n": 1}), content("out", "one"))
    holder = other()
    assert 1 == holder.ask("claim")
    with pytest.raises(NotSafeToResumeError, match="held"):
        manager.task(TASK).resume({})
    holder.process.kill()
    started = time.monotonic()
    if reaped:
        holder.process.wait()
    task = manager.task(TASK)
    assert {"n": 1} == task.resume({}, wait=1)
    assert time.monotonic() - started < 1
    assert task.lease is not None
    assert 2 == task.lease.token


def test_whoever_just_missed_the_claim_does_not_go_on_without_it(manager: CheckpointManager, monkeypatch):
    """Another had the task at the moment of the claim and let go right after: that is held, and never a state to use."""
    claim = SQLiteRegistry.claim

    def late(self: SQLiteRegistry, task_id: str, holder: str, ttl: float | None) -> Any:
        monkeypatch.setattr(SQLiteRegistry, "claim", claim)
        with CheckpointManager(manager.db_path) as another:
            lease = another.claim_task(task_id)
            try:
                return claim(self, task_id, holder, ttl)
            finally:
                another.release_task(lease)

    monkeypatch.setattr(SQLiteRegistry, "claim", late)
    task = manager.task(TASK)
    with pytest.raises(NotSafeToResumeError) as refusal:
        task.resume({})
    assert "held" == refusal.value.recovery.verdict
    assert "process" in refusal.value.recovery.explain()
    assert {} == task.resume({})
    assert task.lease is not None


def test_the_wall_clock_of_another_process_can_be_moved(other, clock: Path):
    """The library moves the clock that it is meant to move, and no other."""
    wall, boot = other(LD_PRELOAD=str(clock), CLOCK_SHIFT=str(HOUR)).ask("clocks")
    assert abs(wall - time.time() - HOUR) < 60
    assert abs(boot - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


def is_stolen(other: Callable[..., Other], clock: Path, shift: int, fault: str) -> bool:
    """Whether a process whose clock is off gets the task of a living holder, minutes before its time is up."""
    assert 1 == other(fault).ask("claim", LONG)
    thief = other(fault, LD_PRELOAD=str(clock), CLOCK_SHIFT=str(shift))
    assert thief.ask("verdict") in ("held", "fresh")
    return bool(thief.ask("claim") != "TaskHeldError")


def is_stranded(other: Callable[..., Other], clock: Path, shift: int, fault: str) -> bool:
    """Whether a stopped holder whose clock is off keeps the task from others although its time is up."""
    holder, heir = other(fault, LD_PRELOAD=str(clock), CLOCK_SHIFT=str(shift)), other(fault)
    heir.ask("clocks")  # It has started: what follows takes less than a second.
    assert 1 == holder.ask("claim", 1.0)
    holder.stop()
    early = heir.ask("claim") != "TaskHeldError"
    assert not early or fault, "it was taken before its time was up"
    time.sleep(1.5)
    return not early and bool(heir.ask("claim") == "TaskHeldError")


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_a_wall_clock_that_is_off_neither_steals_nor_strands_a_claim(tmp_path: Path, other, clock: Path, shift: int):
    """An hour ahead or behind: a living holder's claim stands, and a claim whose time is up can be taken."""
    assert not is_stolen(other, clock, shift, "")
    for name in os.listdir(tmp_path):
        if name.startswith("registry"):
            (tmp_path / name).rename(tmp_path / f"first-{name}")
    assert not is_stranded(other, clock, shift, "")


def test_expiry_by_the_wall_clock_would_steal(other, clock: Path):
    """With the wall clock planted as the clock of claims, an hour ahead is enough to take a living holder's task."""
    assert is_stolen(other, clock, HOUR, "wall-clock")


def test_expiry_by_the_wall_clock_would_strand(other, clock: Path):
    """And a holder that was an hour ahead keeps it for an hour more."""
    assert is_stranded(other, clock, HOUR, "wall-clock")
