"""An agent whose life is recovery: it claims, leaves steps begun, adopts, walks back, does things once, prunes, starts over.

Its life has several processes, one after the other; each but the last ends in the middle of something, without a word, and the
next one finds that. What a call returned is acknowledged after it returned. Before a file is changed that a checkpoint claims,
a line says so: until the next line the world may be seen before the change, after it, or, after a power cut, in neither state.
Two more processes resume and prune what others left behind; they are for faults at their calls, and try again after one.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointError, CheckpointManager, EvidencePack, Lease, Task
from tests.faults.channel import Fault, ack, arm, mark
from tests.support import content
from tests.torture.planted_recovery import plant

TASK = "t"
KEPT = 2
# The syncs of a removal, with its giving back of space.
SYNCS = range(1, 6)
Notes = dict[str, Any]


def argv(directory: Path, part: str = "life", fault: str = "") -> list[str]:
    """The command line: a whole life, or one part of it, or some with commas between."""
    return [sys.executable, "-m", "tests.torture.recovering", str(directory), part, fault]


def open_manager(directory: Path) -> CheckpointManager:
    """The manager of this directory, which looks at the world from its folder `work`, wherever that is by now."""
    return CheckpointManager(directory / "registry.sqlite", directory / "work")


def said(verb: str, **facts: Any) -> None:
    """Acknowledge."""
    ack(f"{verb} {json.dumps(facts)}")


def main() -> None:
    """Live the part of the command line."""
    logging.disable(logging.WARNING)
    directory, part, fault = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if part == "life" or "," in part:
        for name in LIFE if part == "life" else part.split(","):
            subprocess.run(argv(directory, name, fault), check=True)
        return
    plant(fault)
    PARTS[part](Agent(directory))


class Agent:
    """One process of that life."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.work = directory / "work"
        self.manager = open_manager(directory)
        self.task: Task = self.manager.task(TASK)

    def resume(self) -> int:
        """Claim and go on; what that decided is acknowledged with it."""
        state = self.task.resume({"n": 0})
        recovery, lease = self.task.recovery, self.task.lease
        assert recovery is not None
        assert lease is not None
        said("token", token=lease.token)
        superseded = [each.checkpoint_id for each in recovery.rejected]
        adopted = recovery.checkpoint.checkpoint_id if recovery.checkpoint and recovery.checkpoint.adopted else None
        said("resumed", n=state["n"], superseded=superseded, adopted=adopted)
        return int(state["n"])

    def write(self, name: str, text: str) -> EvidencePack:
        """Replace a file whole, without any sync; the claim that it has this content."""
        partial = self.work / f"{name}.partial"
        partial.write_text(text)
        partial.replace(self.work / name)
        return content(name, text)

    def change(self, name: str, text: str, *may_be: int) -> EvidencePack:
        """The same to a file that is claimed: from here on the task may stand at any of these, or nowhere."""
        said("changing", may_be=may_be)
        return self.write(name, text)

    def begin(self, number: int, **more: Any) -> str:
        step_id = self.manager.begin_step(TASK, "tool_executed", {"n": number}, lease=self.task.lease, **more)
        said("begun", step=step_id)
        return step_id

    def commit(self, step_id: str, number: int, pack: EvidencePack) -> None:
        checkpoint = self.manager.commit_step(step_id, pack, lease=self.task.lease)
        assert checkpoint.verified
        said("committed", checkpoint=checkpoint.checkpoint_id, n=number)

    def step(self, number: int, name: str) -> None:
        """A step with a file of its own, which nobody claims yet."""
        step_id = self.begin(number)
        self.commit(step_id, number, self.write(name, f"{number}"))

    def once(self, key: str, fn: Callable[[], Any]) -> None:
        def noted() -> Any:
            said("about", key=key)
            return fn()

        lease: Lease | None = self.task.lease
        expects = content(key, key)
        result = self.manager.once(key, {"key": key}, noted, task_id=TASK, expects=expects, lease=lease)
        said("done", key=key, result=result)

    def effect(self, key: str) -> None:
        """What happens once, durably: what it returns will be durable too."""
        self.write(key, key)
        for path, flags in ((self.work / key, os.O_RDWR), (self.work, os.O_RDONLY)):
            handle = os.open(path, flags)
            os.fsync(handle)
            os.close(handle)


def crash() -> None:
    """End without a word: nothing is closed, nothing is let go of."""
    os._exit(0)


def _begins(agent: Agent) -> None:
    """Two modes, a file, something once, and a step whose effect is there when the process ends."""
    agent.resume()
    agent.commit(agent.begin(1), 1, agent.write("mode", "B"))
    agent.step(2, "a")
    step_id = agent.begin(3)
    agent.commit(step_id, 3, agent.change("mode", "A", 2, 3))

    def pay() -> int:
        agent.effect("pay")
        return 7

    agent.once("pay", pay)
    agent.begin(4, expects=content("b", "4"))
    agent.change("b", "4", 3, 4)
    crash()


def _adopts(agent: Agent) -> None:
    """Finds that effect; then changes the mode back, and ends before it says so."""
    assert 4 == agent.resume()
    agent.step(5, "c")
    agent.begin(6)
    agent.change("mode", "B", 2, 5)
    crash()


def _walks_back(agent: Agent) -> None:
    """Finds the mode of step 1, so that 3 to 5 fall; then ends within something that happens once, unsynced."""
    assert 2 == agent.resume()
    agent.step(13, "d")

    def mail() -> None:
        agent.write("mail", "mail")
        crash()

    agent.once("mail", mail)


def _ends(agent: Agent) -> None:
    """Finds that it happened, removes what is old, starts over, and finishes."""
    assert 13 == agent.resume()
    agent.once("mail", lambda: agent.directory.joinpath("twice").touch())
    for number in (14, 15):
        agent.step(number, f"e-{number}")
    agent.task.release()
    said("pruning", keep=KEPT)
    agent.manager.prune(TASK, keep_verified=KEPT)
    said("pruned")
    said("restarting")
    agent.manager.restart(TASK, by="a person", reason="all over")
    said("restarted")
    assert 0 == agent.resume()
    agent.step(21, "f")
    said("finishing")
    agent.task.finish()
    said("finished")
    agent.manager.close()


def _tangles(agent: Agent) -> None:
    """Leaves a task whose next resume adopts one step, rolls back past a checkpoint and gives up another step."""
    agent.resume()
    agent.commit(agent.begin(1), 1, agent.write("mode", "B"))
    agent.begin(10, expects=content("x", "10"))
    step_id = agent.begin(2)
    agent.commit(step_id, 2, agent.change("mode", "A", 1))
    agent.begin(3)
    agent.change("mode", "B", 1)
    agent.write("x", "10")
    crash()


def _grows(agent: Agent) -> None:
    """Leaves a task with much to remove: old checkpoints, some that were rolled back past, and steps that were given up."""
    agent.resume()
    first = agent.manager.commit_step(agent.begin(1), agent.write("mode", "B"), lease=agent.task.lease)
    for number in range(2, 5):
        agent.step(number, f"g-{number}")
    agent.manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True, lease=agent.task.lease)
    for number in range(5, 15):
        agent.step(number, f"g-{number}")
        agent.manager.abandon_step(agent.begin(100 + number), lease=agent.task.lease)
    agent.task.release()
    agent.manager.close()


def _meets_failing_sync(nth: int) -> Callable[[Agent], None]:
    """Remove what is old on a disk whose nth sync fails, and end there: what the log holds stays as it is."""

    def part(agent: Agent) -> None:
        arm(Fault("fdatasync", nth, "EIO"))
        try:
            agent.manager.prune(TASK, keep_verified=KEPT)
            said("pruned")
        except CheckpointError as error:
            mark(f"raised {type(error).__name__}")
        # Another one has the registry open, so that closing it tidies nothing up; neither does the end of both.
        crash()

    def with_neighbour(agent: Agent) -> None:
        with open_manager(agent.directory) as neighbour:
            neighbour.list_checkpoints(TASK)
            part(agent)

    return with_neighbour


def _goes_on(agent: Agent) -> None:
    """One more step, by a process that knows nothing of the failed sync."""
    agent.task.resume({"n": 0})
    agent.step(15, "g-15")
    crash()


def _insists(what: Callable[[CheckpointManager], None]) -> Callable[[Agent], None]:
    """Try, and once more through a new manager if that fails; what is none of our errors is marked as bare."""

    def part(agent: Agent) -> None:
        agent.manager.close()
        for attempt in range(2):
            try:
                with open_manager(agent.directory) as manager:
                    mark(f"attempt {attempt}")
                    what(manager)
            except CheckpointError as error:
                mark(f"raised {attempt} {type(error).__name__}: {str(error)[:300]!r}")
            except Exception as error:  # noqa: BLE001 - this is what must never happen, whatever it is
                mark(f"bare {attempt} {type(error).__name__}: {str(error)[:300]!r}")
            else:
                return

    return part


def _resume_tangled(manager: CheckpointManager) -> None:
    with manager.task(TASK) as task:
        state = task.resume({"n": 0})
        assert task.lease is not None
        said("token", token=task.lease.token)
        said("adopted", n=state["n"])


def _prune_grown(manager: CheckpointManager) -> None:
    manager.prune(TASK, keep_verified=KEPT)
    said("pruned")


LIFE = ("begins", "adopts", "walks back", "ends")
PARTS: dict[str, Callable[[Agent], None]] = {
    "begins": _begins,
    "adopts": _adopts,
    "walks back": _walks_back,
    "ends": _ends,
    "tangles": _tangles,
    "grows": _grows,
    "resume": _insists(_resume_tangled),
    "prune": _insists(_prune_grown),
    "goes on": _goes_on,
    **{f"failing sync {nth}": _meets_failing_sync(nth) for nth in SYNCS},
}


if __name__ == "__main__":
    main()
