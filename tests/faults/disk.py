"""Disks that are full, and disks that cannot be written.

With root a small tmpfs is mounted, filled and remounted read-only, and always unmounted again; without root, or where
mounting is not permitted, entering raises `DiskUnavailableError` with the reason for a skip. The rootless variant
limits the size of the files a child may write: Python ignores SIGXFSZ, so a write beyond it fails with EFBIG.
What the store makes of it is not decided here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_LIMITED = """
import os, resource, sys
size = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
os.execvp(sys.argv[2], sys.argv[2:])
"""


class DiskUnavailableError(Exception):
    """No such disk can be made here; the message is the reason for a skip."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A mounted filesystem of a few hundred kilobytes."""

    path: Path

    def fill(self, leave: int = 0) -> None:
        """Use up the space with one file, except the last `leave` bytes, rounded down to pages."""
        with self.ballast.open("ab", buffering=0) as ballast:
            free = os.statvfs(self.path)
            ballast.write(bytes(max(0, free.f_bavail * free.f_frsize - leave)))

    def drain(self) -> None:
        """Give the space back."""
        self.ballast.unlink(missing_ok=True)

    @property
    def ballast(self) -> Path:
        """The file that uses up the space; it belongs to the disk, not to the store."""
        return self.path / "ballast"

    def make_read_only(self) -> None:
        """Refuse every write from here on, to root as well. Fails while a file is open for writing."""
        _mount("-o", "remount,ro", str(self.path))

    def make_writable(self) -> None:
        """Permit writes again."""
        _mount("-o", "remount,rw", str(self.path))


@contextmanager
def small_disk(path: Path, size: int = 256 * 1024) -> Iterator[SmallDisk]:
    """Mount a tmpfs of `size` bytes at `path`, which is created; DiskUnavailableError if that is not permitted."""
    if sys.platform != "linux":
        raise DiskUnavailableError(f"no tmpfs on {sys.platform}")
    if os.geteuid() != 0:
        raise DiskUnavailableError("mounting a small disk needs root")
    path.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    try:
        yield SmallDisk(path)
    finally:
        # Lazily, so that a process that still has a file open cannot leave the mount behind.
        subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True)


def _mount(*arguments: str) -> None:
    try:
        subprocess.run(["mount", *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError as missing:
        raise DiskUnavailableError("there is no mount command") from missing
    except subprocess.CalledProcessError as refused:
        raise DiskUnavailableError(f"mount {' '.join(arguments)} was refused: {refused.stderr.strip()}") from refused


def limit_file_size(argv: Sequence[str], size: int) -> list[str]:
    """The same program, in which no file can grow beyond `size` bytes. Needs no root."""
    return [sys.executable, "-c", _LIMITED, str(size), *argv]
