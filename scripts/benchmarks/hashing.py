"""How fast a large file is measured through the verifier, against `hashlib.file_digest`, and what memory that takes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agentos.core.checkpoints import Evidence, EvidenceType, EvidenceVerifier
from benchmarks.counts import MEBIBYTE
from benchmarks.place import Bench, environment
from benchmarks.results import Bar, Row, skipped
from benchmarks.rounds import Turn, interleaved

LEAST_SPEED = 0.95

# In a process of its own: the peak of this one says nothing about one call. A small file first, so that what every look loads
# is there before the first reading.
_PEAK = """
import json, sys
from agentos.core.checkpoints import Evidence, EvidenceType, EvidenceVerifier

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

verifier, peaks = EvidenceVerifier(sys.argv[1]), []
for name, digest in json.loads(sys.argv[2]):
    assert verifier.verify_evidence(Evidence(EvidenceType.FILE_SHA256, name, {"path": name, "sha256": digest}))
    peaks.append(peak())
print(peaks[-1] - peaks[0])
"""


def rows(bench: Bench) -> Iterator[Row]:
    """Speed, and growth of the peak of memory."""
    with bench.folder("hashing") as folder:
        large, small = written(folder / "large.bin", bench.counts.hashed_bytes), written(folder / "small.bin", MEBIBYTE)
        yield _speed(bench, folder / "large.bin", large)
        yield _memory(folder, [("small.bin", small), ("large.bin", large)])


def written(path: Path, size: int) -> str:
    """Fill a file without holes, on disk before anything is timed; its digest."""
    block, left = os.urandom(MEBIBYTE), size
    with path.open("wb") as file:
        while left > 0:
            left -= file.write(left.to_bytes(8, "big") + block[8:])
        file.truncate(size)
        os.fsync(file.fileno())
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _speed(bench: Bench, path: Path, digest: str) -> Row:
    verifier = EvidenceVerifier(path.parent)
    size = path.stat().st_size

    def through_agentos() -> None:
        claim = Evidence(EvidenceType.FILE_SHA256, "large", {"path": path.name, "sha256": digest})
        assert verifier.verify_evidence(claim), claim.verification_error

    def through_hashlib() -> None:
        with path.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest

    turns = {"hashlib": timed(through_hashlib), "agentos": timed(through_agentos)}
    measured = interleaved(turns, bench.counts.hashing_rounds)
    speeds = {name: size / measured.median(name) / 1e9 for name in turns}
    return Row(
        f"file_sha256, {size // MEBIBYTE:,} MiB: speed",
        "hashlib.file_digest",
        round(measured.ratio("hashlib", "agentos"), 3),
        bar=Bar("at least", LEAST_SPEED),
        detail=f"{speeds['agentos']:.2f} GB/s against {speeds['hashlib']:.2f}",
        raw={"gb_per_s": round(speeds["agentos"], 3), "baseline_gb_per_s": round(speeds["hashlib"], 3)},
    )


def timed(work: Callable[[], None]) -> Turn:
    """A turn that does this, and takes its time."""

    def take() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return take


def _memory(folder: Path, files: list[tuple[str, str]]) -> Row:
    name = "file_sha256: growth of the peak of memory"
    if not os.path.exists("/proc/self/status"):
        return skipped(name, "this system does not tell the peak of a process")
    command = [sys.executable, "-c", _PEAK, str(folder), json.dumps(files)]
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout
    return Row(name, "a file of 1 MiB", round(int(said) / 1024, 2), "MiB")
