"""Which process this is, and whether another one still lives.

A pid alone names nobody: it is given out again. With the moment its process started, the boot of the machine and the pid
namespace it names one process for good. What cannot be seen from here is answered None, never taken for dead.
Nothing is decided here: see core/checkpoints/claiming.py for what follows from it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

_FIELDS = 5
_MAX_TEXT = 1024
_MAX_DIGITS = 20
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_NANO = 1_000_000_000
# After the name of the program in /proc/<pid>/stat.
_STATE, _FLAGS, _THREADS, _START = 0, 6, 17, 19
_EXITING = 0x4


@dataclass(frozen=True)
class Process:
    """One process of one boot of one machine. `start` 0, and an empty `boot` or `namespace`, were not to be had."""

    host: str
    pid: int
    # In ticks since the machine started.
    start: int
    boot: str
    namespace: str

    @cached_property
    def text(self) -> str:
        """One line that `parse` gives back; equal for equal processes only."""
        return f"{_escaped(self.host)}/{self.pid}/{self.start}/{_escaped(self.boot)}/{_escaped(self.namespace)}"

    @staticmethod
    def parse(text: object) -> Process | None:
        """The process that has this text, or None if there can be none."""
        if not isinstance(text, str) or len(text) > _MAX_TEXT or not text.isascii():
            return None
        parts = text.split("/")
        if len(parts) != _FIELDS or not all(part.isdigit() and len(part) <= _MAX_DIGITS for part in parts[1:3]):
            return None
        try:
            host, boot, namespace = (_unescaped(part) for part in (parts[0], parts[3], parts[4]))
        except ValueError:
            return None
        process = Process(host, int(parts[1]), int(parts[2]), boot, namespace)
        # One text per process: 007 and %61 are no other way to write 7 and a.
        return process if process.pid > 0 and process.text == text else None


def _escaped(value: str) -> str:
    # A host may be called anything, also what is no text; a line of plain letters goes through every store and message.
    data = value.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in data)


def _unescaped(value: str) -> str:
    first, *rest = value.split("%")
    data = first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)
    return data.decode("utf-8", "surrogatepass")


_this: Process | None = None
_ahead: float | None = None


def this_process() -> Process:
    """The process that asks. Cheap: it is looked up once, and anew after a fork."""
    global _this  # noqa: PLW0603 - a process is one process
    if _this is None:
        _this = Process(os.uname().nodename, os.getpid(), _own_start(), _boot(), _namespace())
    return _this


def _forget() -> None:
    global _this, _ahead  # noqa: PLW0603 - as above
    _this = _ahead = None


os.register_at_fork(after_in_child=_forget)


def boottime() -> float:
    """Seconds since the machine started, asleep or not. No wall clock moves it, and all processes of the machine share it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock) - _seconds_ahead()


def is_alive(process: Process) -> bool | None:
    """True: it lives, be it stopped. False: it ended, for good. None: that cannot be seen from here.

    A process of another boot ended when the machine did. One in another pid namespace is out of sight.
    """
    here = this_process()
    if process == here:
        return True
    if process.boot != here.boot:
        return False if process.boot and here.boot else None
    if process.namespace != here.namespace or (not here.boot and process.host != here.host):
        return None
    if not process.start:
        return None if _has_pid(process.pid) else False
    sight = sight_of(process.pid)
    return sight.there and not sight.ended and is_same_start(sight.start, process.start)


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be seen of a pid. `there` None: something may have it, and who that is cannot be seen from here."""

    there: bool | None
    # In ticks since the machine started.
    start: int = 0
    # It is what is left of a process that nobody has waited for.
    ended: bool = False


def sight_of(pid: int) -> Sight:
    """Who has this pid now, as far as that can be seen from here."""
    found = _look(pid) if _proc_is_ours() else None
    if found is None:
        return Sight(None if _has_pid(pid) else False)
    start, ended = found
    return Sight(there=True, start=start, ended=ended)


def is_ending(pid: int) -> bool:
    """Whether it runs no more, though not all of it is cleared away yet: its arguments and its program already are."""
    try:
        return bool(int(_stat(f"/proc/{pid}/stat")[_FLAGS]) & _EXITING)
    except (OSError, ValueError, IndexError):
        return False


def is_same_start(one: int, other: int) -> bool:
    """Whether these are the start of one process, if they are those of one pid."""
    # Seen from a time namespace that is ahead by parts of a tick, the same moment may round to its neighbour; no system gives
    # the same pid out twice within a hundredth of a second.
    return abs(one - other) <= 1


def is_proc_ours() -> bool:
    """Whether /proc is there, and speaks of the processes of this namespace."""
    return _proc_is_ours()


def _look(pid: int) -> tuple[int, bool] | None:
    """When the process with this pid started, and whether it is a mere zombie; None if nothing is to be seen."""
    try:
        fields = _stat(f"/proc/{pid}/stat")
    except (OSError, ValueError, IndexError):
        return None
    # The first thread of a process may end before the others do, and those still write.
    ended = fields[_STATE] in {b"Z", b"X", b"x"} and int(fields[_THREADS]) <= 1
    return _start(fields), ended


def _stat(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        text = file.read()
    # A program may be called anything, also "a) Z 1".
    return text[text.rindex(b")") + 1 :].split()


def _start(fields: list[bytes]) -> int:
    return int(fields[_START]) - round(_seconds_ahead() * os.sysconf("SC_CLK_TCK"))


def _own_start() -> int:
    try:
        return _start(_stat("/proc/self/stat"))
    except (OSError, ValueError, IndexError):
        return 0


def _has_pid(pid: int) -> bool:
    """Whether anything has this pid; who, is not said."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _proc_is_ours() -> bool:
    # In a pid namespace without a /proc of its own, the numbers there are those of other processes.
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _boot() -> str:
    # As bytes: the first use of an encoding imports it, and a process that is forked meanwhile would wait for that for ever.
    with suppress(OSError, ValueError), open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read().decode().strip()
    return ""


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def _seconds_ahead() -> float:
    """By how much this process's time namespace, if it lives in one, is ahead of the machine: in its clocks and in /proc."""
    global _ahead  # noqa: PLW0603 - a process lives in one
    if _ahead is None:
        _ahead = _offset()
    return _ahead


def _offset() -> float:
    with suppress(OSError, ValueError, IndexError):
        # What can be read are the offsets of the children's; a process that only prepared one for them is not in it.
        if os.stat("/proc/self/ns/time").st_ino != os.stat("/proc/self/ns/time_for_children").st_ino:
            return 0.0
        with open("/proc/self/timens_offsets", "rb") as file:
            for line in file:
                name, seconds, nanoseconds = line.split()
                if name in {b"boottime", b"7"}:
                    return int(seconds) + int(nanoseconds) / _NANO
    return 0.0
