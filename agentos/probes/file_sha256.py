"""Look at the content of a file: its SHA-256, its size, and when it was last modified.

Only regular files are opened, once, without waiting and without dropping a lock of this process. A file that did not hold
still, by its descriptor or by its name, has no digest.
"""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from agentos._descriptors import held, reading
from agentos._text import shown
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.artifact_exists import bare_facts
from agentos.probes.cannot_see import ABSENT, CannotSee, Deadline, Moved, looked_at, timed_out, unreadable
from agentos.probes.elsewhere import measure_elsewhere
from agentos.probes.hashing import measure
from agentos.probes.paths import Place, place_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The name was there a moment ago: what is said of it now is said of something else.
_SWAPPED = (*ABSENT, errno.ELOOP, errno.ENXIO)


class FileSha256:
    """Facts: `exists`, `type`, and for a regular file `sha256`, `size`, `modified_at`; `near` when nothing is there."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look, again if the file moved, and never past the deadline."""
        return looked_at(lambda deadline: _look(evidence.expected["path"], around, deadline), around.timeout)


def _look(path: str, around: Surroundings, deadline: Deadline) -> Observation:
    with place_of(path, around) as place:
        facts = bare_facts(place)
        if place.status is None or facts["type"] != "file":
            return Seen(facts)
        measured = _measured(place, place.status, deadline)
        _refuse_replaced(place, measured)
    moment = modified_at(measured["mtime_ns"])
    return Seen({**facts, "sha256": measured["sha256"], "size": measured["size"], "modified_at": moment})


def _measured(place: Place, status: os.stat_result, deadline: Deadline) -> dict[str, Any]:
    if held(status):
        answer = measure_elsewhere(place, deadline)
    else:
        try:
            with reading(place.open) as descriptor:
                answer = measure(descriptor, deadline.at)
        except OSError as error:
            answer = {"problem": "unreadable", "errno": error.errno}
    if "problem" in answer:
        raise _reason(place.path, answer)
    return answer


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
    if problem == "unreadable" and answer["errno"] not in _SWAPPED:
        return unreadable(path, OSError(answer["errno"], os.strerror(answer["errno"])))
    return Moved(path, "changed" if problem == "changed" else "was replaced")


def _refuse_replaced(place: Place, measured: dict[str, Any]) -> None:
    """What was read must still be what the path names."""
    try:
        now = place.status_by_name()
    except OSError as error:
        raise Moved(place.path, "was replaced") from error
    if [now.st_dev, now.st_ino] != measured["identity"]:
        raise Moved(place.path, "was replaced")
    if (now.st_size, now.st_mtime_ns) != (measured["size"], measured["mtime_ns"]):
        raise Moved(place.path, "changed")


def modified_at(nanoseconds: int) -> str:
    """The moment in ISO 8601, UTC. A file system may hold moments that no calendar does."""
    try:
        return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{nanoseconds // 10**9} s after 1970"
