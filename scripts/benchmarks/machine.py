"""What the figures were measured on, without names of hosts, users or paths."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import time
from pathlib import Path
from statistics import median

_SYNCS = 200
_IN_MEMORY = ("tmpfs", "ramfs", "overlay on tmpfs")


def described(scratch: Path) -> dict[str, str]:
    """The machine, and the disk beneath the scratch folder."""
    return {
        "processor": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        # What follows the number was chosen by whoever built it.
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "file system": file_system(scratch),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
    }


def is_in_memory(kind: str) -> bool:
    """Whether a sync costs nothing on such a file system, so that every ratio here would mean another thing."""
    return kind in _IN_MEMORY


def file_system(path: Path) -> str:
    """The kind of file system that holds the path, as far as this system tells."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return "unknown"
    holding = [(mount[1], mount[2]) for mount in mounts if _holds(mount[1], str(path.resolve()))]
    # Of those that hold it, the innermost; of two on one place, the one that was mounted last.
    return max(enumerate(holding), key=lambda found: (len(found[1][0]), found[0]))[1][1] if holding else "unknown"


def _holds(place: str, path: str) -> bool:
    return place in ("/", path) or path.startswith(f"{place}/")


def sync_us(scratch: Path) -> float:
    """What 8 KB written over and synced cost in microseconds, in the median: the price beneath every durable step."""
    path = scratch / "sync.bin"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    sync = getattr(os, "fdatasync", os.fsync)
    taken = []
    try:
        os.pwrite(descriptor, bytes(1 << 20), 0)
        os.fsync(descriptor)
        for number in range(_SYNCS):
            started = time.perf_counter()
            os.pwrite(descriptor, number.to_bytes(8, "big") * 1024, number % 64 * 8192)
            sync(descriptor)
            taken.append(time.perf_counter() - started)
    finally:
        os.close(descriptor)
        path.unlink()
    return median(taken) * 1e6


def _processor() -> str:
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if found:
            return found[0]
    return platform.processor() or platform.machine()
