"""Read the file at a place: opened once, without waiting and without dropping a lock of this process.

A file that did not hold still, by its descriptor or by its name, gives no content, and neither does one that the system makes
up when it is read. What the content means is not asked here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from agentos._descriptors import held, reading
from agentos._text import shown
from agentos.core.checkpoints.cancelling import Cancel
from agentos.probes.cannot_see import ABSENT, CannotSee, Deadline, Moved, timed_out, unreadable
from agentos.probes.elsewhere import read_elsewhere
from agentos.probes.hashing import Take, read_still
from agentos.probes.paths import Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The name was there a moment ago: what is said of it now is said of something else.
_SWAPPED = (*ABSENT, errno.ELOOP, errno.ENXIO)


def read_content(
    place: Place, deadline: Deadline, take: Take, most: int, *, last: bool = False, cancel: Cancel | None = None
) -> dict[str, Any]:
    """Hand on the content of the regular file that was found at the place; what `hashing.read_still` says about it.

    Args:
        most: a file with more bytes is too large; `last`: then its last so many bytes will do.

    Raises:
        CannotSee: what was handed on is worth nothing, and why.
    """
    return answered(
        place,
        lambda descriptor: read_still(descriptor, deadline.at, take, most, last=last),
        lambda: read_elsewhere(place, deadline, cancel, take, most, last=last),
    )


def answered(
    place: Place, here: Callable[[int], dict[str, Any]], elsewhere: Callable[[], dict[str, Any]], *, growing: bool = False
) -> dict[str, Any]:
    """What a reading of the file gave, in this process or, if that has it open already, in another one.

    Args:
        growing: it may have grown since.

    Raises:
        CannotSee: it gave a problem, or the place names another file by now.
    """
    assert place.status is not None
    if held(place.status):
        answer = elsewhere()
    else:
        try:
            with reading(place.open) as descriptor:
                answer = here(descriptor)
        except OSError as error:
            answer = {"problem": "unreadable", "errno": error.errno}
    refuse_unread(place.path, answer)
    _refuse_replaced(place, answer, growing=growing)
    return answer


def refuse_unread(path: str, answer: dict[str, Any]) -> None:
    """Give up if the reading of this file gave a problem.

    Raises:
        CannotSee: it did, and this is what it means.
    """
    if "problem" in answer:
        raise _reason(path, answer)


def _reason(path: str, answer: dict[str, Any]) -> CannotSee:
    problem = answer["problem"]
    if problem == "late":
        return timed_out(path)
    if problem == "generated":
        return CannotSee(
            "GENERATED_FILE",
            f"{shown(path)}: its size says nothing about its content, which the system makes up when it is read",
            "claim a file that is stored somewhere",
        )
    if problem == "too_large":
        said = f"{shown(path)}: has {answer['size']:,} bytes, more than are read for this claim"
        return CannotSee("TOO_LARGE", said, "allow more with metadata['max_bytes']")
    if problem == "unreadable" and answer["errno"] not in _SWAPPED:
        return unreadable(path, OSError(answer["errno"], os.strerror(answer["errno"])))
    return Moved(path, "changed" if problem == "changed" else "was replaced")


def _refuse_replaced(place: Place, measured: dict[str, Any], *, growing: bool) -> None:
    """What was read must still be what the path names."""
    try:
        now = place.status_by_name()
    except OSError as error:
        raise Moved(place.path, "was replaced") from error
    if [now.st_dev, now.st_ino] != measured["identity"]:
        raise Moved(place.path, "was replaced")
    grown = growing and now.st_size > measured["size"]
    if not grown and (now.st_size, now.st_mtime_ns) != (measured["size"], measured["mtime_ns"]):
        raise Moved(place.path, "changed")


def modified_at(nanoseconds: int) -> str:
    """The moment in ISO 8601, UTC. A file system may hold moments that no calendar does."""
    try:
        return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{nanoseconds // 10**9} s after 1970"
