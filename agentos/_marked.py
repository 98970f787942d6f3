"""The processes of a step's command, known by what their environment says: also those that nobody waits for any more.

A process that dies by SIGKILL takes nothing with it. What its command started goes on, in whatever group or session, and writes
into a world that others believe to be at rest. Linux shows the environment that a process was started with; where there is no
such thing, or the process is another user's, nothing is seen, and nothing is claimed.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from agentos._process import is_proc_ours

VARIABLE = "AGENTOS_STEP"
# One that hangs in the kernel dies when the kernel lets go; it is said to be there, and not waited for longer.
_PATIENCE = 5.0
_NAP = 0.01
# One that was started while it was looked, by one that ended right then, may have been passed by.
_LOOKS = 2


def processes_of(step_id: str) -> list[int]:
    """The pids of other processes that were started for this step, as far as that can be seen."""
    if not is_proc_ours():
        return []
    mark, this = f"{VARIABLE}={step_id}".encode(), os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != this]
    return [pid for pid in pids if _has(pid, mark)]


def is_marked(step_id: str) -> bool:
    """Whether this process itself was started for the step."""
    return os.environ.get(VARIABLE) == step_id


def end_processes_of(step_id: str) -> list[int]:
    """Kill them, and wait until they are gone; the pids of those that were killed."""
    mark, killed, until = f"{VARIABLE}={step_id}".encode(), set[int](), time.monotonic() + _PATIENCE
    empty = 0
    while empty < _LOOKS and time.monotonic() < until:
        found = processes_of(step_id)
        empty = 0 if found else empty + 1
        for pid in found:
            if _kill(pid, mark):
                killed.add(pid)
        if found:
            time.sleep(_NAP)
    return sorted(killed)


def _has(pid: int, mark: bytes) -> bool:
    # Empty once the process is over, also if nobody has waited for it: it runs no more.
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def _kill(pid: int, mark: bytes) -> bool:
    """Kill exactly this process: between the look and the signal its number may have been given out again."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _has(pid, mark):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False
