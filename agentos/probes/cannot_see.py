"""How a probe gives up.

Inside the eyes an exception carries the reason, so that every descriptor on the way is closed by its own `with`; at the edge it
becomes an Unseen. Whether looking again may help is said with it; whether it is looked at again is decided by whoever asked.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from agentos._text import shown
from agentos.core.checkpoints.observing import Observation, Unseen

# subprocess and select refuse waits that do not fit their clocks; a day is as good as for ever.
_LONGEST = 86_400.0

# What the system answers when nothing is there. Everything else says that looking was not possible.
ABSENT = (errno.ENOENT, errno.ENOTDIR)
# A moment later it may be another answer.
_PASSING = (errno.ESTALE, errno.EBUSY, errno.EINTR, errno.EAGAIN)
_HINTS = {
    errno.EACCES: "look as a user who may read it, or change its permissions",
    errno.EPERM: "look as a user who may read it, or change its permissions",
    errno.EIO: "the device reports a fault; nothing is known about the content",
    errno.ESTALE: "a network mount went away; mount it again",
    errno.ELOOP: "symbolic links lead in a circle",
    errno.ENAMETOOLONG: "no file system can hold such a name",
    errno.EMFILE: "this process has too many files open",
    errno.ENFILE: "this machine has too many files open",
}


class CannotSee(Exception):  # noqa: N818 - it is no error: it says that nothing is known
    """The probe cannot look, and this is why."""

    transient = False

    def __init__(self, code: str, message: str, hint: str = "", *, transient: bool = False) -> None:
        super().__init__(message)
        self.unseen = Unseen(code, message, hint, transient=transient or self.transient)


class Moved(CannotSee):
    """The thing changed while it was looked at. Looking again may help."""

    transient = True

    def __init__(self, subject: str, how: str) -> None:
        super().__init__(
            "CHANGED_WHILE_READING",
            f"{shown(subject)}: {how} while it was being looked at",
            "wait until whoever writes it is done, then verify again",
        )


def unreadable(subject: str, error: OSError) -> CannotSee:
    """What the system said about `subject`, as a reason."""
    said = error.strerror or type(error).__name__
    hint, passing = _HINTS.get(error.errno or 0, ""), error.errno in _PASSING
    return CannotSee("UNREADABLE", f"{shown(subject)}: cannot be looked at: {said}", hint, transient=passing)


class Deadline:
    """The moment after which nobody waits any more."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + min(seconds, _LONGEST)

    def left(self) -> float:
        """Seconds until then, never negative."""
        return max(0.0, self.at - time.monotonic())

    def passed(self) -> bool:
        """Whether it is too late."""
        return time.monotonic() >= self.at


def timed_out(subject: str) -> CannotSee:
    """The deadline came first."""
    return CannotSee("TIMED_OUT", f"{shown(subject)}: not read within the time limit", "give the verifier a longer timeout")


def looked_at(look: Callable[[Deadline], Observation], timeout: float) -> Observation:
    """What `look` gives, and the reason if it gives up."""
    try:
        return look(Deadline(timeout))
    except CannotSee as reason:
        return reason.unseen
