"""A program that saves and clears workflow checkpoints in files, and says after each call that it returned.

What it does follows from a seed alone, as in runs_worker.py. Run as `python -m tests.torture.runs_flow_worker`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from agentos.flow.checkpoint import CheckpointData, FileCheckpointStore
from tests.faults.channel import ack

Contents = dict[str, dict[str, Any]]


def call(seed: str, number: int) -> CheckpointData | None:
    """The checkpoint to save, or None to clear the run."""
    rng = Random(f"{seed}:{number}")
    if rng.random() < 0.1:
        return None
    result = {"number": number, "text": "x" * rng.choice([0, 100, 6000])}
    return CheckpointData(f"step {rng.randrange(4)}", seed, "0" * 16, (result,), f"2025-12-20T15:30:{number % 60:02}Z")


def states(seed: str, returned: int) -> list[Contents]:
    """What the run may hold after so many calls returned."""
    contents: Contents = {}
    for number in range(returned):
        contents = _after(contents, seed, number)
    return [contents, _after(contents, seed, returned)]


def _after(contents: Contents, seed: str, number: int) -> Contents:
    data = call(seed, number)
    return {} if data is None else {**contents, data.checkpoint_id: data.to_dict()}


async def contents_of(store: FileCheckpointStore, workflow_id: str) -> Contents:
    """Everything a run holds."""
    found = {name: await store.load(workflow_id, name) for name in await store.list_checkpoints(workflow_id)}
    return {name: data.to_dict() for name, data in found.items() if data is not None}


def wrong(directory: Path, seed: str, acks: Iterable[str]) -> list[str]:
    """A sentence if the store is not what the acknowledgements allow, now or after it was written to again."""
    returned = len(list(acks))
    return asyncio.run(_wrong(FileCheckpointStore(directory / "deep" / "base"), seed, states(seed, returned)))


async def _wrong(store: FileCheckpointStore, seed: str, allowed: list[Contents]) -> list[str]:
    found = await contents_of(store, seed)
    if found not in allowed:
        return [f"found {sorted(found)}, expected one of {[sorted(each) for each in allowed]}"]
    await store.save(seed, CheckpointData("afterwards", seed, "0" * 16, ()))
    await store.clear("another run")
    return [] if {*found, "afterwards"} == set(await contents_of(store, seed)) else ["it cannot be written to any more"]


def argv(directory: Path, seed: str, calls: int) -> list[str]:
    """The command line that runs this program."""
    return [sys.executable, "-m", "tests.torture.runs_flow_worker", str(directory), seed, str(calls)]


async def main() -> None:
    """Make the calls that the command line asks for."""
    directory, seed, calls = sys.argv[1:]
    store = FileCheckpointStore(Path(directory) / "deep" / "base")
    for number in range(int(calls)):
        data = call(seed, number)
        await (store.clear(seed) if data is None else store.save(seed, data))
        ack(str(number))


if __name__ == "__main__":
    asyncio.run(main())
