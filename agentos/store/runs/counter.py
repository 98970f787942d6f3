"""The last sequence number of a run in a folder.

Syncing it with every save would double the cost of one, so it is not synced: after a power cut it may be old, and then the
files of the run are asked. Whether that is needed is told by what stands beside the number: the boot it was written in, and
the folder it was written to, which a copy is not. A deletion does sync it, for the highest number may go with the file that had
it.

    agentos-counter/1 <kind of seal> <seal>
    <boot> <inode of the folder> <number>

An empty file is what a power cut leaves of a new one. Anything else that does not fit its seal is damage.
"""

from __future__ import annotations

import hmac
import os
from functools import cache

from agentos.store.runs.nodefile import Sealer, damaged

NAME = "last"
_MAGIC = "agentos-counter/1"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST = 512


@cache
def boot() -> str:
    """Names this boot of the system. Where the system does not say, each process has its own, and asks the files more often."""
    try:
        with open(_BOOT_ID, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return os.urandom(16).hex()


class Counter:
    """The counter of one run; opened under the lock of its folder, closed before the lock is given back."""

    def __init__(self, folder: int, path: str, inode: int, sealer: Sealer) -> None:
        self._where = os.path.join(path, NAME)
        self._inode = inode
        self._sealer = sealer
        self._descriptor = os.open(NAME, _FLAGS, 0o600, dir_fd=folder)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def read(self) -> tuple[int, bool]:
        """The number, and whether it is surely the last one that was given."""
        content = os.pread(self._descriptor, _MOST, 0)
        if not content.strip(b"\0"):
            return 0, False
        first, _, line = content.rstrip(b"\n").partition(b"\n")
        if not hmac.compare_digest(first, self._first(line)):
            raise damaged(self._where)
        written_in, inode, number = line.decode("ascii").split(" ")
        return int(number), (written_in, int(inode)) == (boot(), self._inode)

    def write(self, number: int) -> None:
        """Remember the number: from now on for every process, after a power cut only once synced."""
        line = f"{boot()} {self._inode} {number}".encode()
        # One sector of the disk holds it all, so it is there whole or not at all. Padding keeps a shorter one from leaving a
        # rest.
        os.pwrite(self._descriptor, (self._first(line) + b"\n" + line).ljust(_MOST - 1, b"\n") + b"\n", 0)

    def sync(self) -> None:
        """Make it durable."""
        os.fsync(self._descriptor)

    def _first(self, line: bytes) -> bytes:
        return f"{_MAGIC} {self._sealer.kind} {self._sealer.seal(line)}".encode()
