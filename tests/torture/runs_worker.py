"""A program that saves, overwrites and deletes in a run store, and says after each call that it returned.

What it does follows from a seed alone, so whoever reads its acknowledgements knows what must be stored (`Deeds`), and what
may be stored in addition: the one call that had not returned. `FAULTS` plants a mistake that the torture must find. It is run
as `python -m tests.torture.runs_worker`.
"""

from __future__ import annotations

import argparse
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from agentos import _disk as disk
from agentos import _folders as folders
from agentos.errors import CheckpointNotFoundError
from agentos.store import CheckpointStore, open_store
from tests.faults.channel import Fault, ack, arm

Contents = dict[str, bytes]
BACKENDS = {"file": "runs", "sqlite": "runs.sqlite"}
NODES = 6


def address(backend: str, directory: Path) -> str:
    """Where a store of this kind is, below a directory."""
    return f"{backend}:{directory / 'deep' / BACKENDS[backend]}"


class Deeds:
    """The calls of one worker, in order, each drawn from the seed; a worker has a run of its own and shares one with others."""

    def __init__(self, seed: str, backend: str) -> None:
        self.run_id = f"run of {seed}"
        self._seed = seed
        self._in_one_move = backend == "sqlite"

    def call(self, number: int) -> tuple[str, list[tuple[str, bytes]]]:
        """What to do, and to which nodes."""
        rng = Random(f"{self._seed}:{number}")
        kind = rng.choices(["save", "save_many", "delete", "delete_run"], [12, 4, 3, 1])[0]
        names = rng.sample([f"node {each}" for each in range(NODES)], 3 if kind == "save_many" else 1)
        return kind, [(name, self._value(number, name, rng)) for name in names]

    def _value(self, number: int, name: str, rng: Random) -> bytes:
        head = f"{self._seed} {number} {name} ".encode()
        return head + rng.randbytes(rng.choice([0, 10, 600, 5000, 20_000]))

    def apply(self, store: CheckpointStore, number: int) -> None:
        """Make the call."""
        kind, items = self.call(number)
        if kind == "save":
            store.save(self.run_id, *items[0])
        elif kind == "save_many":
            store.save_many(self.run_id, items)
        elif kind == "delete":
            store.delete(self.run_id, items[0][0])
        else:
            store.delete_run(self.run_id)

    def states(self, returned: int) -> list[Contents]:
        """What the run may hold after so many calls returned: exactly that, or in addition what the next one does."""
        contents: Contents = {}
        for number in range(returned):
            contents = self._steps(contents, number)[-1]
        return [contents, *self._steps(contents, returned)]

    def _steps(self, contents: Contents, number: int) -> list[Contents]:
        kind, items = self.call(number)
        if kind == "delete_run":
            return [{}]
        if kind == "delete":
            return [{name: value for name, value in contents.items() if name != items[0][0]}]
        prefixes = [{**contents, **dict(items[: end + 1])} for end in range(len(items))]
        return prefixes[-1:] if self._in_one_move else prefixes


def contents_of(store: CheckpointStore, run_id: str) -> Contents:
    """Everything a run holds, by way of both `list` and `load`."""
    found = {}
    for info in store.list(run_id):
        found[info.node_id] = store.load(run_id, info.node_id)
        if len(found[info.node_id]) != info.size:
            raise AssertionError(f"{info} has {len(found[info.node_id])} bytes")
    return found


def wrong(where: str, deeds: Deeds, acks: Iterable[str]) -> list[str]:
    """A sentence for each way in which the store is not what the acknowledgements allow, also after it was written to again."""
    returned = len(list(acks))
    allowed = deeds.states(returned)
    with open_store(where) as store:
        found = contents_of(store, deeds.run_id)
        if found not in allowed:
            return [f"after {returned} calls of {deeds.run_id}: {_summary(found)}, expected one of {[*map(_summary, allowed)]}"]
        if bool(found) != (deeds.run_id in store.list_runs()):
            return [f"list_runs is not right about {deeds.run_id}"]
        return _not_alive(store, deeds.run_id, found)


def _not_alive(store: CheckpointStore, run_id: str, found: Contents) -> list[str]:
    last = max((info.sequence for info in store.list(run_id)), default=0)
    store.save(run_id, "afterwards", b"alive")
    numbers = [info.sequence for info in store.list(run_id)]
    if len(set(numbers)) != len(numbers) or numbers[-1] <= last:
        return [f"a number was given twice: {numbers}, after {last}"]
    if {**found, "afterwards": b"alive"} != contents_of(store, run_id):
        return ["saving one node changed another"]
    store.delete(run_id, "afterwards")
    try:
        store.load(run_id, "afterwards")
    except CheckpointNotFoundError:
        return []
    return ["a deleted node is still there"]


def _summary(contents: Contents) -> dict[str, str]:
    return {name: value[:40].decode(errors="replace") for name, value in contents.items()}


def argv(backend: str, directory: Path, seed: str, calls: int, *, fault: str = "", die: str = "") -> list[str]:
    """The command line that runs this program; `die` kills it at a call of its own, e.g. `mkdir:2`."""
    options = ["--fault", fault, "--die", die]
    return [sys.executable, "-m", "tests.torture.runs_worker", backend, str(directory), seed, str(calls), *options]


def one_after_the_other(*commands: list[str]) -> list[str]:
    """The command line of a program that runs these, however they end."""
    return [sys.executable, "-c", f"import subprocess\nfor command in {commands!r}: subprocess.run(command)"]


def main() -> None:
    """Make the calls that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=BACKENDS)
    parser.add_argument("directory", type=Path)
    parser.add_argument("seed")
    parser.add_argument("calls", type=int)
    parser.add_argument("--fault", choices=["", *FAULTS], default="")
    parser.add_argument("--die", default="")
    options = parser.parse_args()
    if options.fault:
        FAULTS[options.fault]()
    if options.die:
        arm(Fault.parse(f"{options.die}:SIGKILL"))
    # That SQLite has a bug which several processes may meet is true, and not what is asked here.
    logging.disable()
    deeds = Deeds(options.seed, options.backend)
    durability = "relaxed" if options.fault == "relaxed" else None
    with open_store(address(options.backend, options.directory), durability=durability) as store:
        for number in range(options.calls):
            if options.fault == "ack-early":
                ack(str(number))
            deeds.apply(store, number)
            store.save("shared", f"{options.seed} {number % NODES}", b"x" * number)
            if options.fault != "ack-early":
                ack(str(number))


def _no_folder_sync() -> None:
    folders.sync_folder = lambda folder, path: None


def _no_file_sync() -> None:
    honest = os.fsync

    def fsync(fd: Any) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            honest(fd)

    os.fsync = fsync


def _in_place() -> None:
    def replace_file(folder: int, name: str, temporary: str, parts: list[bytes]) -> None:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)
        # Wide enough to be met by one of a few kills; without it one in hundreds would be.
        time.sleep(0.01)
        disk.write_all(descriptor, parts)
        os.fsync(descriptor)
        os.close(descriptor)

    disk.replace_file = replace_file


def _nothing() -> None:
    """The program itself does it."""


FAULTS: dict[str, Callable[[], None]] = {
    "ack-early": _nothing,
    "no-folder-sync": _no_folder_sync,
    "no-file-sync": _no_file_sync,
    "in-place": _in_place,
    "relaxed": _nothing,
}

if __name__ == "__main__":
    main()
