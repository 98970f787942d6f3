"""Cut the power: rebuild the disk as it may look after any prefix of a recording, with what was acknowledged by then.

At each place the cached changes may all be lost (`drop`), all be there (`keep`), be there as names without data
(`names`), as any subset (`subset`), or as a prefix whose last write is torn at a 512-byte sector (`torn`). A state
follows from its `Cut` alone, which prints itself, so every finding can be rebuilt. What -shm holds is left out: it is
rebuilt at open. Names survive in the order they were made, per directory (`strict`) or over all (`ext4`). Whether a
state is good is not decided here: the caller opens it with the store under test and compares with `State.acked`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.faults.filesystem import Change, Directory, File, Filesystem, Namespace, Node, Renaming, Symlink
from tests.faults.record import REBUILT, Recording

_Change = TypeVar("_Change", Change, Renaming)

SECTOR = 512
FASTEST_SCRATCH = Path("/dev/shm")


class Survival(StrEnum):
    """Which cached changes reach the platter."""

    DROP = "drop"
    KEEP = "keep"
    NAMES = "names"
    SUBSET = "subset"
    TORN = "torn"


@dataclass(frozen=True, order=True, slots=True)
class Cut:
    """A power cut after the first `prefix` calls; with the recording it says all about the state it leaves."""

    prefix: int
    survival: Survival
    namespace: Namespace
    seed: int

    def __str__(self) -> str:
        return f"Cut({self.prefix}, {self.survival.value!r}, {self.namespace!r}, seed={self.seed})"

    def rng(self) -> Random:
        return Random(str(self))


@dataclass(frozen=True, slots=True)
class State:
    """A directory after a power cut. It is there until the next state is asked for; the caller may write to it."""

    path: Path
    acked: tuple[str, ...]
    cut: Cut
    description: str


def sampled_states(
    recording: Recording, count: int, rng: Random, namespace: Namespace = "strict", scratch: Path | None = None
) -> Iterator[State]:
    """`count` states, the same for the same seed, with one right after each acknowledgement, all unsynced dropped."""
    return states(recording, sample_cuts(recording, count, rng, namespace), scratch)


def sample_cuts(recording: Recording, count: int, rng: Random, namespace: Namespace = "strict") -> list[Cut]:
    """Choose cuts without building them; fewer than `count` if there are not so many different ones."""
    seed = rng.getrandbits(32)
    prefixes = _telling_prefixes(recording)
    after_acks = {ack.index + 1 for ack in recording.acks} & set(prefixes)
    must = [Cut(prefix, Survival.DROP, namespace, seed) for prefix in sorted(after_acks)]
    if len(must) >= count:
        return sorted(rng.sample(must, count))
    rest = [Cut(prefix, survival, namespace, seed) for prefix in prefixes for survival in Survival]
    rest = [cut for cut in rest if cut.survival is not Survival.DROP or cut.prefix not in after_acks]
    return sorted(must + rng.sample(rest, min(len(rest), count - len(must))))


def _telling_prefixes(recording: Recording) -> list[int]:
    # Just before an acknowledgement the disk is the same as just after it, and less is promised.
    spoken = {ack.index for ack in recording.acks}
    return [prefix for prefix in range(len(recording.ops) + 1) if prefix not in spoken]


def states(recording: Recording, cuts: Iterable[Cut], scratch: Path | None = None) -> Generator[State, None, None]:
    """Build the state of each cut, in the order of the tape, always at the same path."""
    acks = recording.acks
    with tempfile.TemporaryDirectory(prefix="cut-", dir=scratch or _fast_scratch()) as base:
        target = Path(base) / "disk"
        for cut, disk in _walk_tape(recording, sorted(cuts)):
            _write_out(disk, cut, target)
            acked = tuple(ack.text for ack in acks if ack.index < cut.prefix)
            last = f"after {recording.ops[cut.prefix - 1]}" if cut.prefix else "before the first call"
            yield State(target, acked, cut, f"{cut} {last}, {len(acked)} acknowledged")


def _fast_scratch() -> Path | None:
    return FASTEST_SCRATCH if FASTEST_SCRATCH.is_dir() else None


def _walk_tape(recording: Recording, cuts: Sequence[Cut]) -> Iterator[tuple[Cut, Filesystem]]:
    disks: dict[Namespace, Filesystem] = {}
    for cut in cuts:
        if cut.namespace not in disks:
            disks[cut.namespace] = recording.filesystem(cut.namespace)
        disk = disks[cut.namespace]
        for op in recording.ops[disk.position : cut.prefix]:
            disk.apply(op)
        yield cut, disk


@dataclass(frozen=True, slots=True)
class _Survivors:
    """What is left of a file and of a directory; both are asked in the order of the walk, so a seed decides all."""

    content: Callable[[File], bytearray]
    names: Callable[[Directory], dict[str, Node]]


def _survivors(disk: Filesystem, cut: Cut) -> _Survivors:
    if cut.survival is Survival.DROP:
        return _Survivors(lambda file: file.durable, lambda directory: directory.durable)
    if cut.survival is Survival.KEEP:
        return _Survivors(lambda file: file.live, lambda directory: directory.live)
    if cut.survival is Survival.NAMES:
        return _Survivors(lambda file: file.durable, lambda directory: directory.live)
    if cut.survival is Survival.SUBSET:
        return _subset(disk, cut.rng())
    return _torn(disk, cut.rng())


def _subset(disk: Filesystem, rng: Random) -> _Survivors:
    share = rng.random()
    journal = rng.choice([0, *(change.index + 1 for directory in disk.directories for change in directory.pending)])

    def names(directory: Directory) -> dict[str, Node]:
        if disk.namespace == "ext4":
            return directory.with_changes(_until(directory.pending, journal))
        return directory.with_changes(directory.pending[: rng.randint(0, len(directory.pending))])

    return _Survivors(lambda file: file.with_changes([c for c in file.pending if rng.random() < share]), names)


def _torn(disk: Filesystem, rng: Random) -> _Survivors:
    writes = sorted((c for file in disk.files for c in file.pending if c.data), key=lambda change: change.index)
    if not writes:
        return _Survivors(lambda file: file.live, lambda directory: directory.live)
    # The newest write is the likeliest to be under way; an older one stands for a disk that fell behind.
    victim = writes[-1] if rng.random() < 0.5 else rng.choice(writes)
    piece = tear(victim, rng)

    def content(file: File) -> bytearray:
        return file.with_changes([*_until(file.pending, victim.index), *([piece] if victim in file.pending else [])])

    return _Survivors(content, lambda directory: directory.with_changes(_until(directory.pending, victim.index)))


def _until(changes: list[_Change], index: int) -> list[_Change]:
    return [change for change in changes if change.index < index]


def tear(write: Change, rng: Random) -> Change:
    """The write up to a sector border of the disk. Within one sector it is there whole or not at all."""
    data = write.data or b""
    first = SECTOR - write.offset % SECTOR
    return Change(write.index, write.offset, data[: rng.choice([0, *range(first, len(data), SECTOR), len(data)])])


def _write_out(disk: Filesystem, cut: Cut, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    _write_directory(disk.root, _survivors(disk, cut), target)


def _write_directory(directory: Directory, survivors: _Survivors, target: Path) -> None:
    for name, node in survivors.names(directory).items():
        path = target / name
        if isinstance(node, Symlink):
            path.symlink_to(node.target)
        elif isinstance(node, Directory):
            path.mkdir()
            _write_directory(node, survivors, path)
        elif not name.endswith(REBUILT):
            path.write_bytes(survivors.content(node))
