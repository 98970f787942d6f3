"""A process that leaves a folder half changed, one that resumes there with repair, one that collects: to be killed anywhere.

python -m tests.torture.mender DIRECTORY PART SEED FAULT. The folder's checkpoints come from the steps of workshop.py. What is
left behind has something of everything: a step that said what it would change and died at the end of its work, a stranger's
files, contents that nothing needs, and a draft.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.faults.channel import ack
from tests.torture.handyman import TASK, Job, Life
from tests.torture.planted_hands import plant
from tests.torture.stranger import meddle
from tests.torture.workshop import Step, Tree, furnish

STEPS = 4


def argv(directory: Path, part: str, seed: str = "", fault: str = "") -> list[str]:
    """The command line of 'leave', 'resume' or 'collect'."""
    return [sys.executable, "-m", "tests.torture.mender", str(directory), part, seed, fault]


def job_in(directory: Path, seed: str = "", trees: Sequence[Tree] = ()) -> Job:
    """The job of this directory, whose promises are to hold in full."""
    return Job(directory, seed, list(trees), durability="full")


def main() -> None:
    """Do the part of the command line."""
    logging.disable(logging.WARNING)
    _, directory, part, seed, fault = sys.argv
    plant(fault)
    PARTS[part](job_in(Path(directory), seed))
    # Without a word: nothing is closed, nothing is let go of.
    os._exit(0)


def _resume(job: Job) -> None:
    with job.manager() as manager, job.task(manager) as task:
        ack(f"resumed {task.resume({'n': 0}, repair=True)['n']}")


def _collect(job: Job) -> None:
    with job.manager() as manager:
        ack(f"collected {manager.collect().contents}")


def _leave(job: Job) -> None:
    """Take the steps, the last of which is not committed; then a stranger changes what is there."""
    furnish(job.work, job.seed)
    life = Life(job, os.open(os.devnull, os.O_WRONLY))
    manager = job.manager()
    task = job.task(manager)
    state = task.resume({"n": 0}, repair=True)
    while state["n"] < STEPS:
        life.take_step(task, state)
    # Most checkpoints go, and what only they needed is for a collection.
    manager.prune(TASK, keep_verified=1)
    step = Step(job.work, job.seed, STEPS)
    task.step("tool_executed", state, touches=step.touches).__enter__()
    step.work()
    meddle(job.work, Random(job.seed))
    job.directory.joinpath("vault/drafts/of-nobody").write_bytes(b"half")


PARTS: dict[str, Callable[[Job], None]] = {"leave": _leave, "resume": _resume, "collect": _collect}


if __name__ == "__main__":
    main()
