"""Read or hash one open file, and prove that it held still.

The bytes are read once, from one descriptor, with its status before and after: a digest of content that never existed is worse
than none. This file needs nothing but the standard library, because it runs in two places: imported by the probe, and as a
program in a child process for files that this process must not open (see `elsewhere.py`).

Whether the content is the right one is not asked here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Takes the next bytes; what it wants to keep of them it copies.
Take = Callable[[memoryview], object]
CHUNK = 1 << 20
_SECOND = 10**9
_MOST_TICKS = 3
_spare = threading.local()


def measure(descriptor: int, until: float) -> dict[str, Any]:
    """`sha256` and what `read_still` says, or `problem` and why there is no digest."""
    digest = hashlib.sha256()
    answer = read_still(descriptor, until, digest.update)
    return answer if "problem" in answer else {"sha256": digest.hexdigest(), **answer}


def read_still(descriptor: int, until: float, take: Take, most: int | None = None, *, last: bool = False) -> dict[str, Any]:
    """Hand on the content; its `size`, `mtime_ns` and `identity`, or `problem`: then what was handed on is worth nothing.

    Problems: `not_regular`, `too_large` (more than `most` bytes), `late` (the monotonic clock passed `until`), `changed`,
    `generated` (its size says nothing about its content, as under /proc), `unreadable` with an `errno`.

    Args:
        last: of a file that is larger than `most`, its last so many bytes will do.
    """
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return {"problem": "not_regular"}
        start = 0 if most is None else max(0, before.st_size - most)
        if start and not last:
            return {"problem": "too_large", "size": before.st_size}
        _wait_for_writes(descriptor, before)
        if still(os.fstat(descriptor)) != still(before):
            return {"problem": "changed"}
        os.lseek(descriptor, start, os.SEEK_SET)
        count = _through(descriptor, before.st_size - start, until, take)
        after = os.fstat(descriptor)
    except OSError as error:
        return {"problem": "unreadable", "errno": error.errno}
    if count is None:
        return {"problem": "late"}
    if still(before) != still(after):
        return {"problem": "changed"}
    if start + count != before.st_size:
        return {"problem": "generated"}
    return {"size": before.st_size, "mtime_ns": before.st_mtime_ns, "identity": [before.st_dev, before.st_ino]}


def measure_prefix(descriptor: int, until: float, most: int | None) -> dict[str, Any]:
    """`sha256` of the first `most` bytes, or of all that are there if there are fewer or None is asked for; `bytes`: how many.

    The file may grow meanwhile, and is said to have the `size` it had at last. Problems are those of `read_still`.
    """
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return {"problem": "not_regular"}
        size = before.st_size if most is None else min(before.st_size, most)
        digest = _digest_of_first(descriptor, size, until)
        made_up = os.pread(descriptor, 1, size)
        after = os.fstat(descriptor)
    except _Spoiled as spoiled:
        return {"problem": spoiled.problem}
    except OSError as error:
        return {"problem": "unreadable", "errno": error.errno}
    if made_up and size == after.st_size:
        return {"problem": "generated"}
    # One that is too short and being written may be long enough in a moment.
    if after.st_size < size or (most is not None and size < most and still(after) != still(before)):
        return {"problem": "changed"}
    identity = [before.st_dev, before.st_ino]
    return {"sha256": digest, "bytes": size, "size": after.st_size, "mtime_ns": after.st_mtime_ns, "identity": identity}


class _Spoiled(Exception):  # noqa: N818 - it says what is wrong with a file
    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def _digest_of_first(descriptor: int, size: int, until: float) -> str:
    """The digest of the first bytes as they were at one moment, though more may be written behind them.

    Either the file held still during one reading; or several readings agree, and it grew whenever it was written to. That it
    grew does not say that nothing else was written, and what one reading saw may have come and gone: so there are many of a
    small file, and of a large one there is a look at its status in many places.
    """
    digest, quiet = _read_first(descriptor, size, until)
    readings = max(_LEAST_READINGS, min(_MOST_READINGS, _ENOUGH // max(size, 1)))
    for _ in range(0 if quiet else readings - 1):
        again, quiet = _read_first(descriptor, size, until)
        if again != digest:
            raise _Spoiled("changed")
        if quiet:
            break
    return digest


_LEAST_READINGS, _MOST_READINGS, _ENOUGH = 3, 12, 64 << 20


def _read_first(descriptor: int, size: int, until: float) -> tuple[str, bool]:
    """The digest of one reading, and whether the file held still."""
    before = last = os.fstat(descriptor)
    _wait_for_writes(descriptor, before)
    digest, left = hashlib.sha256(), size
    buffer = _take_buffer()
    last = _grown(descriptor, last)
    while left:
        got = os.preadv(descriptor, [buffer[: min(left, CHUNK)]], size - left)
        if not got:
            raise _Spoiled("generated" if os.fstat(descriptor).st_size >= size else "changed")
        digest.update(buffer[:got])
        left -= got
        last = _grown(descriptor, last)
        if time.monotonic() >= until:
            raise _Spoiled("late")
    _spare.buffer = buffer
    return digest.hexdigest(), still(last) == still(before)


def _grown(descriptor: int, last: os.stat_result) -> os.stat_result:
    """The status by now, which is that of before unless the file grew."""
    now = os.fstat(descriptor)
    if still(now) == still(last):
        return now
    # A write that appends is stamped before it makes the file longer.
    _wait_for_writes(descriptor, now)
    now = os.fstat(descriptor)
    if now.st_size <= last.st_size:
        raise _Spoiled("changed")
    return now


def still(status: os.stat_result) -> tuple[int, ...]:
    """What must be the same before and after."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _wait_for_writes(descriptor: int, status: os.stat_result) -> None:
    """Let a write that is under way end. It was stamped when it began, so no later status would give it away."""
    wait_for_tick(status)  # (1)
    # (2) Asking for the first data takes the lock that a write holds to its end; an empty file has none to ask for.
    with contextlib.suppress(OSError, ValueError):
        os.lseek(descriptor, 0, os.SEEK_DATA)


def wait_for_tick(status: os.stat_result) -> None:
    """Let the clock of the file system move on from this stamp: until then another change could bear the same one."""
    for _ in range(_MOST_TICKS if _COARSE else 0):
        if not 0 <= status.st_ctime_ns - time.clock_gettime_ns(_COARSE) < _SECOND:
            break
        time.sleep(time.clock_getres(_COARSE))


def _clock_of_old_kernels() -> int:
    """The clock that ticks every few milliseconds and stamps files; since Linux 6.13 no stamp that was read is used again."""
    release = [int(part) for part in re.findall(r"\d+", os.uname().release)[:2]]
    return 5 if sys.platform == "linux" and release < [6, 13] else 0


_COARSE = _clock_of_old_kernels()
# Whether there is anything to wait for, for who cannot afford to ask about every file.
TICKS = bool(_COARSE)


def _through(descriptor: int, size: int, until: float, take: Take) -> int | None:
    """How many bytes were handed on; stops as soon as there are more than `size`. None: it got too late."""
    count = 0
    buffer = _take_buffer()
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        while got := file.readinto(buffer):
            take(buffer if got == CHUNK else buffer[:got])
            count += got
            if count > size:
                break
            if time.monotonic() >= until:
                return None
    _spare.buffer = buffer
    return count


def _take_buffer() -> memoryview:
    # It is taken out while in use: a signal handler that hashes in the middle of this must not write into it.
    buffer = getattr(_spare, "buffer", None)
    _spare.buffer = None
    return memoryview(bytearray(CHUNK)) if buffer is None else buffer


def main(arguments: list[str]) -> None:
    """Read the file that a parent process names, and say as JSON on standard error what was found.

    The name comes as hexadecimal bytes, relative to an inherited directory, or absolute if that is -1. The content is hashed;
    or it goes to standard output, if a largest size is given, with `last` behind it if the end of a larger file will do; or its
    first bytes are hashed, if `prefix` and their number are given, or all of them for no number.
    """
    import json  # noqa: PLC0415 - only the child process pays for it

    directory, name, flags, seconds = int(arguments[0]), bytes.fromhex(arguments[1]), int(arguments[2]), float(arguments[3])
    until, most = time.monotonic() + seconds, arguments[4:]
    try:
        descriptor = os.open(name, flags, dir_fd=None if directory < 0 else directory)
        if most[:1] == ["prefix"]:
            answer = measure_prefix(descriptor, until, int(most[1]) if most[1:] else None)
        elif most:
            answer = read_still(descriptor, until, sys.stdout.buffer.write, int(most[0]), last=most[1:] == ["last"])
            sys.stdout.buffer.flush()
        else:
            answer = measure(descriptor, until)
    except OSError as error:
        answer = {"problem": "unreadable", "errno": error.errno}
    sys.stderr.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
