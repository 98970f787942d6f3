"""Run a program under the recorder and hand back what it did to its directory, in order, with its acknowledgements.

The library is built from the C files beside this one; without a compiler, or off Linux, building raises
`RecorderUnavailableError` with the reason and the caller skips. A recording is checked before it is handed back:
replayed to its end it must give the directory as it is, byte for byte, or some change was not seen and nothing may be
concluded from it. Power cuts are not made here: see replay.py. Nor are sweeps of faults: see inject.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.channel import Fault
from tests.faults.filesystem import Entry, Filesystem, Namespace, read_tree
from tests.faults.tape import Effect, Op, Tape, TapeError, read_tape

SOURCES = ("recorder.c", "tape.c", "places.c")
HEADERS = ("tape.h", "places.h")
# The shared-memory index is written through a mapping and rebuilt by whoever opens the database first.
REBUILT = "-shm"
REPOSITORY = Path(__file__).resolve().parents[2]


class RecorderUnavailableError(Exception):
    """The library cannot be built here; the message is the reason for a skip."""


@dataclass(frozen=True, slots=True)
class Ack:
    """One acknowledged call: where on the tape, by which process, and what it said."""

    index: int
    pid: int
    text: str


@dataclass(frozen=True, slots=True)
class Recording:
    """A run: the directory before it, every call on it, how the program ended."""

    directory: Path
    root_inode: int
    before: tuple[Entry, ...]
    ops: tuple[Op, ...]
    totals: dict[str, int]
    fired: int
    returncode: int
    stderr: str

    @property
    def acks(self) -> list[Ack]:
        """The acknowledgements in order."""
        return [line for line in self._lines() if line.text[0] not in "#!"]

    @property
    def marks(self) -> dict[str, int]:
        """Where each mark stands; of several with one name, the last."""
        return {line.text[1:]: line.index for line in self._lines() if line.text[0] == "#"}

    def _lines(self) -> list[Ack]:
        said = ((op, op.data.decode().splitlines()) for op in self.ops if op.effect is Effect.ACK)
        return [Ack(op.index, op.pid, text) for op, lines in said for text in lines if text]

    def calls_between(self, first: str, last: str) -> Counter[tuple[str, str]]:
        """How often each (call, path) happened between two marks, e.g. ('fdatasync', 'registry.db-wal')."""
        ops = self.ops[self.marks[first] : self.marks[last]]
        return Counter((op.call, op.path) for op in ops if op.effect is not Effect.ACK)

    def filesystem(self, namespace: Namespace = "strict") -> Filesystem:
        """The disk as it was before the first call."""
        return Filesystem(self.before, self.root_inode, namespace)


class Recorder:
    """A built library; `record` and `count` run programs under it."""

    def __init__(self, library: Path) -> None:
        self.library = library

    @classmethod
    def build(cls, cache: Path) -> Recorder:
        """Compile into `cache`, once. Raises RecorderUnavailableError with the reason if that cannot be done here."""
        library = cache / "recorder.so"
        if not library.exists():
            _compile(library)
        return cls(library)

    def record(
        self,
        argv: Sequence[str],
        directory: Path,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        fault: Fault | None = None,
        timeout: float = 60,
        check: bool = True,
    ) -> Recording:
        """Run `argv` and record what it, and every program it starts, does below `directory`.

        With `check` a program that fails raises; turn it off when a fault is injected.
        """
        directory = directory.resolve()
        before = tuple(read_tree(directory))
        tape, ended = self._run(argv, directory, cwd, env, fault, timeout)
        if check and ended.returncode:
            raise RuntimeError(f"{argv} ended with {ended.returncode}: {ended.stderr}")
        recording = Recording(
            directory=directory,
            root_inode=directory.stat().st_ino,
            before=before,
            ops=tape.ops,
            totals=tape.totals,
            fired=tape.fired,
            returncode=ended.returncode,
            stderr=ended.stderr,
        )
        verify_complete(recording)
        return recording

    def count(self, argv: Sequence[str], directory: Path, *, env: Mapping[str, str] | None = None) -> dict[str, int]:
        """Run `argv` and say how many calls of each kind it made below `directory`; no data is kept."""
        return self._run(argv, directory.resolve(), None, {**(env or {}), "REC_COUNT": "1"}, None, 60)[0].totals

    def environment(
        self, directory: Path, tape: Path, acks: Path, fault: Fault | None = None, env: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """What a process needs to be recorded, for callers that start and end it themselves; `acks` is created."""
        acks.touch()
        settings = {"REC_DIR": str(directory.resolve()), "REC_LOG": str(tape.resolve()), "REC_ACK": str(acks.resolve())}
        armed = {"REC_FAULT": fault.encoded} if fault else {}
        return worker_environment({**(env or {}), **settings, **armed, "LD_PRELOAD": str(self.library)})

    def _run(
        self,
        argv: Sequence[str],
        directory: Path,
        cwd: Path | None,
        env: Mapping[str, str] | None,
        fault: Fault | None,
        timeout: float,
    ) -> tuple[Tape, subprocess.CompletedProcess[str]]:
        with tempfile.TemporaryDirectory(prefix="tape-") as scratch:
            tape = Path(scratch, "tape")
            settings = self.environment(directory, tape, Path(scratch, "acks"), fault, env)
            ended = subprocess.run(argv, cwd=cwd, env=settings, timeout=timeout, capture_output=True, text=True, check=False)
            return read_tape(tape), ended


def worker_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a worker: ours, able to import the repository, plus `extra`."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **(extra or {})}


def verify_complete(recording: Recording) -> None:
    """Raise TapeError unless the tape explains every byte that is in the directory now."""
    disk = recording.filesystem()
    for op in recording.ops:
        disk.apply(op)
    found = {entry.path: entry.content for entry in read_tree(recording.directory) if not entry.path.endswith(REBUILT)}
    told = {path: content for path, content in disk.live_tree().items() if not path.endswith(REBUILT)}
    wrong = sorted(path for path in found.keys() | told.keys() if found.get(path, 0) != told.get(path, 0))
    if wrong:
        raise TapeError(f"the tape does not explain {', '.join(wrong)}: changed in a way the recorder does not see")


def _compile(library: Path) -> None:
    if sys.platform != "linux":
        raise RecorderUnavailableError(f"no recorder on {sys.platform}: it preloads a library and reads /proc, as on Linux")
    wanted = [os.environ["CC"]] if "CC" in os.environ else ["cc", "gcc", "clang"]
    compiler = next(filter(None, map(shutil.which, wanted)), None)
    if compiler is None:
        raise RecorderUnavailableError(f"no C compiler: none of {', '.join(wanted)} is on the PATH")
    library.parent.mkdir(parents=True, exist_ok=True)
    # Built beside and renamed, so that parallel test processes never load half a library.
    partial = library.with_suffix(f".{os.getpid()}")
    sources = [str(Path(__file__).with_name(name)) for name in SOURCES]
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-shared", "-fPIC", "-pthread", "-o", str(partial), *sources]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise RecorderUnavailableError(
            f"no C compiler: {Path(compiler).name} cannot build the recorder: {built.stderr.strip()[:400]}"
        )
    partial.replace(library)
