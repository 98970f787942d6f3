"""What a worker says to the harness: lines written to the file, or pipe, that REC_ACK names.

A plain line acknowledges: from then on the harness holds the store to it. '#name' marks a place on the tape. '!…'
arms a fault in the recorder while the worker runs. A line is one write, so that it is on the tape, or in the pipe,
whole or not at all. Without REC_ACK the lines go to standard output, and a worker can be run by hand.
Reading the lines is not done here: see tape.py and kill.py.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from dataclasses import dataclass
from functools import cache

# A write of at most this size to a pipe is never interleaved with another process's.
LONGEST_LINE = 4096

_SPEC = re.compile(r"(?P<call>[a-z]+)(?:64)?:(?P<nth>\d+):(?P<action>[A-Z]\w*)(?P<lasting>\+?)")


@dataclass(frozen=True, slots=True)
class Fault:
    """The nth call of a kind since the fault was armed fails, or raises a signal; if lasting, so do all later ones."""

    call: str
    nth: int
    action: str
    lasting: bool = False

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read 'fdatasync:3:EIO', 'pwrite64:5:ENOSPC+' or 'unlink:1:SIGKILL'."""
        found = _SPEC.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no fault: expected call:nth:ERRNO or call:nth:SIGNAL, with + at the end to last")
        return cls(found["call"], int(found["nth"]), found["action"], bool(found["lasting"]))

    def __str__(self) -> str:
        return f"{self.call}:{self.nth}:{self.action}{'+' if self.lasting else ''}"

    @property
    def encoded(self) -> str:
        """The form the recorder reads: errno as a positive number, a signal as a negative one."""
        if self.nth < 1:
            raise ValueError(f"{self}: calls are counted from 1")
        return f"{self.call}:{self.nth}:{_number(self.action)}:{int(self.lasting)}"


def _number(action: str) -> int:
    if action.startswith("SIG"):
        return -int(signal.Signals[action])
    return int(getattr(errno, action))


@cache
def _descriptor() -> int:
    target = os.environ.get("REC_ACK")
    return os.open(target, os.O_WRONLY | os.O_APPEND) if target else 1


def _say(line: str) -> None:
    encoded = (line + "\n").encode()
    if "\n" in line or len(encoded) > LONGEST_LINE:
        raise ValueError(f"one line of at most {LONGEST_LINE} bytes, got {line[:60]!r}…")
    os.write(_descriptor(), encoded)


def ack(text: str) -> None:
    """Promise that what `text` names is stored. Call it only after the store's call returned."""
    if text[:1] in ("#", "!", ""):
        raise ValueError(f"{text!r}: an acknowledgement is not empty and does not start with # or !")
    _say(text)


def mark(name: str) -> None:
    """Leave a named place on the tape, so that calls can be counted between two of them."""
    _say(f"#{name}")


def arm(fault: Fault) -> None:
    """Arm a fault from here on; the count starts at this line. Without a recorder it does nothing."""
    _say(f"!{fault.encoded}")


def disarm() -> None:
    """Let every call through again."""
    _say("!")
