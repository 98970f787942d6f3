"""An agent under torture: takes steps through the real manager and acknowledges each call after it returned.

One process, or several that share a registry. Each line says enough to be held against the registry later: see audit.py.
The registry lies in folders that the manager has to make; artifacts are written without any sync, because making them
durable is the manager's part. Everything random comes from the errand's seed. Faults are planted by planted.py, never here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import orjson

from agentos.core.checkpoints import Checkpoint, CheckpointManager, Evidence, EvidencePack, EvidenceType
from tests.faults.channel import ack, mark

TYPES = ("tool_executed", "llm_response", "custom:torture")


@dataclass(frozen=True, slots=True)
class Errand:
    """What one agent is sent to do. `steps` of 0 means: until it is killed, or the clock reaches `until`."""

    directory: str
    task: str = "t"
    steps: int = 3
    # Of several processes each takes the next of these names: 'full relaxed' is one that syncs and one that does not.
    durability: str = "full"
    artifacts: bool = False
    body_bytes: int = 600
    seed: int = 0
    # A name of planted.FAULTS, or nothing.
    fault: str = ""
    # How many agents do the same at once; each has its own seed.
    processes: int = 1
    lock_timeout: float = 30.0
    # Moments of the system's monotonic clock: wait for the first, stop at the second.
    since: float = 0.0
    until: float = 0.0
    # Another folder of migrations: a later agentos.
    migrations: str = ""

    @property
    def argv(self) -> list[str]:
        """The command line that does this errand in a process of its own."""
        return [sys.executable, "-m", "tests.torture.agent", json.dumps(asdict(self))]


def registry_of(directory: str | Path) -> Path:
    """Where agents keep their registry: two folders down, neither of which is there before the first one comes."""
    return Path(directory, "memory", "here", "registry.sqlite")


def open_manager(directory: str | Path, durability: str = "full", lock_timeout: float = 30.0) -> CheckpointManager:
    """The manager of this directory, looking at the world from there."""
    return CheckpointManager(registry_of(directory), directory, durability=durability, lock_timeout=lock_timeout)


def main() -> None:
    """Do the errand of the command line."""
    # Several processes on an old SQLite are warned about; here that is the point.
    logging.disable(logging.WARNING)
    errand = Errand(**json.loads(sys.argv[1]))
    if errand.processes > 1:
        sys.exit(do_together(errand))
    from tests.torture.planted import plant

    plant(errand.fault, errand.migrations)
    do(errand)


def do_together(errand: Errand) -> int:
    """Send several agents and wait for all; the first exit code that is not 0."""
    kinds = errand.durability.split()
    errands = [
        replace(errand, processes=1, seed=errand.seed + number, durability=kinds[number % len(kinds)])
        for number in range(errand.processes)
    ]
    agents = [subprocess.Popen(each.argv) for each in errands]
    return next(filter(None, [agent.wait() for agent in agents]), 0)


def do(errand: Errand) -> None:
    """Take the steps, in this process."""
    rng = Random(f"{errand.seed}:{errand.task}")
    time.sleep(max(0.0, errand.since - time.monotonic()) if errand.since else 0)
    with open_manager(errand.directory, errand.durability, errand.lock_timeout) as manager:
        mark("open")
        for number in _numbers(errand):
            take_step(manager, errand, rng, number)
        mark("done")


def _numbers(errand: Errand) -> Iterator[int]:
    for number in range(errand.steps) if errand.steps else count():
        if errand.until and time.monotonic() >= errand.until:
            return
        yield number


def take_step(manager: CheckpointManager, errand: Errand, rng: Random, number: int) -> None:
    """Begin, work, commit; one step in four is begun and left, as if the work had been given up."""
    state: dict[str, Any] = {"number": number, "body": rng.randbytes(errand.body_bytes // 2).hex(), "done": False}
    step_id = begin(manager, errand, state, number)
    if number % 4 == 3:
        step_id = begin(manager, errand, state, number)
    pack = work(errand, number, state["body"])
    after = {**state, "done": True} if number % 3 == 1 else None
    if errand.fault == "ack-early":
        ack(said("commit", durability="full", task=errand.task, step=step_id, checkpoint=step_id.removeprefix("step_")))
        manager.commit_step(step_id, pack, snapshot=after)
    else:
        acknowledge(manager.commit_step(step_id, pack, snapshot=after), errand.durability)


def begin(manager: CheckpointManager, errand: Errand, state: dict[str, Any], number: int) -> str:
    """Begin a step, then say so."""
    step_id = manager.begin_step(errand.task, TYPES[number % len(TYPES)], state, f"item-{number}", {"process": os.getpid()})
    ack(said("begin", durability=errand.durability, task=errand.task, step=step_id, state=digest(state)))
    return step_id


def work(errand: Errand, number: int, content: str) -> EvidencePack:
    """Leave an artifact and prove it, or have a command to show for it, which touches no file."""
    if not errand.artifacts:
        done = Evidence(EvidenceType.COMMAND_EXIT, "the command", {"exit_code": 0}, {"actual_exit_code": 0})
        return EvidencePack([done])
    folder = Path(errand.directory, "work", errand.task)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}-{os.getpid()}.txt"
    path.write_text(content, encoding="ascii")
    proof = {"path": str(path.relative_to(errand.directory)), "sha256": hashlib.sha256(content.encode()).hexdigest()}
    return EvidencePack([Evidence(EvidenceType.FILE_SHA256, "the artifact", proof)])


def acknowledge(checkpoint: Checkpoint, durability: str) -> None:
    """Say that this checkpoint was returned."""
    line = said(
        "commit",
        durability=durability,
        task=checkpoint.task_id,
        step=checkpoint.step_id,
        checkpoint=checkpoint.checkpoint_id,
        sequence=checkpoint.sequence_number,
        fingerprint=fingerprint(checkpoint),
    )
    ack(line)


def said(verb: str, **facts: Any) -> str:
    """One line."""
    return f"{verb} {json.dumps(facts)}"


def fingerprint(checkpoint: Checkpoint) -> str:
    """A hash over every field, results of the verification included."""
    return digest(checkpoint.to_dict())


def digest(value: Any) -> str:
    """A hash over JSON."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


if __name__ == "__main__":
    main()
