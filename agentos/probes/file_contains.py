"""Look how often a text or a regular expression is in a file, counting matches that do not overlap.

A text is looked for as the content comes. An expression gets all of it, in a child process that is killed when its time is
over. Nothing is counted in a file that did not hold still.
"""

from __future__ import annotations

import codecs
import json
import os
import tempfile
import time
from typing import IO, Any

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.kinds.contents import flags_of
from agentos.core.checkpoints.kinds.kind import told
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.artifact_exists import bare_facts
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at
from agentos.probes.content import read_content
from agentos.probes.paths import Place, place_of

_MOST = 64 << 20
_TIME_LIMIT = 10.0
_MOST_SAID = 1 << 12


class FileContains:
    """Facts: `exists`, `type`, `near` when nothing is there, and for a regular file `count`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look, and never past the deadline."""
        return looked_at(lambda deadline: _look(evidence, around, deadline), around.timeout)


def _look(evidence: Evidence, around: Surroundings, deadline: Deadline) -> Observation:
    with place_of(evidence.expected["path"], around) as place:
        facts = bare_facts(place)
        if facts["type"] != "file":
            return Seen(facts)
        count = _matching if evidence.expected.get("regex", False) else _holding
        return Seen({**facts, "count": count(evidence, place, around, deadline)})


def _holding(evidence: Evidence, place: Place, around: Surroundings, deadline: Deadline) -> int:
    """How often the text is in the file."""
    encoding = evidence.metadata.get("encoding")
    pattern = evidence.expected["pattern"]
    count = _Bytes(pattern.encode()) if encoding is None else _Text(pattern, encoding)
    read_content(place, deadline, count.take, evidence.metadata.get("max_bytes", _MOST), cancel=around.cancel)
    try:
        return count.end()
    except UnicodeDecodeError as error:
        raise _not_text(place, f"{encoding}: {error.reason}") from None


class _Bytes:
    """Counts as pieces come; what may be the beginning of a match is kept for the next piece."""

    def __init__(self, pattern: bytes) -> None:
        self._pattern, self._rest, self._count = pattern, b"", 0

    def take(self, piece: memoryview) -> None:
        parts = (self._rest + bytes(piece)).split(self._pattern)
        self._count += len(parts) - 1
        self._rest = parts[-1][-(len(self._pattern) - 1) :] if len(self._pattern) > 1 else b""

    def end(self) -> int:
        return self._count


class _Text:
    """The same for text, which is looked at character by character: bytes could match in the middle of one."""

    def __init__(self, pattern: str, encoding: str) -> None:
        self._pattern, self._rest, self._count = pattern, "", 0
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._trouble: UnicodeDecodeError | None = None

    def take(self, piece: memoryview | bytes, *, last: bool = False) -> None:
        try:
            # What is no text may be no more than a file that did not hold still, which is found out when all of it was read.
            text = "" if self._trouble else self._decoder.decode(bytes(piece), last)
        except UnicodeDecodeError as error:
            self._trouble, text = error, ""
        parts = (self._rest + text).split(self._pattern)
        self._count += len(parts) - 1
        self._rest = parts[-1][-(len(self._pattern) - 1) :] if len(self._pattern) > 1 else ""

    def end(self) -> int:
        self.take(b"", last=True)
        if self._trouble:
            raise self._trouble
        return self._count


def _matching(evidence: Evidence, place: Place, around: Surroundings, deadline: Deadline) -> int:
    """How often the expression matches."""
    limit = float(evidence.metadata.get("time_limit", _TIME_LIMIT))
    order = {
        "pattern": evidence.expected["pattern"],
        "flags": flags_of(evidence),
        "encoding": evidence.metadata.get("encoding"),
        "seconds": limit,
    }
    with _out_of_the_way() as file:
        # Not as arguments, which anybody on this machine can read.
        file.write(json.dumps(order).encode() + b"\n")
        read_content(place, deadline, file.write, evidence.metadata.get("max_bytes", _MOST), cancel=around.cancel)
        file.flush()
        file.seek(0)
        answer = _asked(evidence, place, file.fileno(), min(deadline.at, time.monotonic() + limit), around)
    if "count" in answer:
        return int(answer["count"])
    if answer.get("problem") == "not_text":
        raise _not_text(place, f"{order['encoding']}: {answer['why']}")
    said = f"{shown(place.path)}: matching {_named(evidence)} takes more memory than it may"
    raise CannotSee("OUT_OF_MEMORY", said, "write it simpler, or look for a text")


def _out_of_the_way() -> IO[bytes]:
    """A file that only this process can name, in memory where there is such a thing."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("agentos"), "w+b")
    return tempfile.TemporaryFile()


def _asked(evidence: Evidence, place: Place, descriptor: int, until: float, around: Surroundings) -> dict[str, Any]:
    """What the child says."""
    with importing:
        from agentos.probes import matching  # noqa: PLC0415 - few claims are expressions
        from agentos.probes.children import run_child  # noqa: PLC0415 - as above
        from agentos.probes.elsewhere import python_program  # noqa: PLC0415 - as above

    said = bytearray()

    def sink(stream: str, piece: bytes) -> bool:
        if stream == "stdout":
            said.extend(piece)
        return len(said) <= _MOST_SAID

    program = python_program(matching.__file__)
    if program is None:
        raise _no_child(place, "there is no Python interpreter to start")
    try:
        ended = run_child([*program, str(descriptor)], sink, until=until, cancel=around.cancel, pass_fds=(descriptor,))
    except OSError as error:
        raise _no_child(place, error.strerror or "it could not be started") from error
    if ended.timed_out:
        raise CannotSee(
            "TIMED_OUT",
            f"{shown(place.path)}: matching {_named(evidence)} did not end within its time limit",
            "an expression such as (a+)+ can take for ever: write it simpler, look for a text, or allow more with time_limit",
        )
    try:
        answer = json.loads(said)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _no_child(place, "it gave no answer")
    return answer


def _named(evidence: Evidence) -> str:
    return told(evidence, evidence.expected["pattern"], 120)


def _not_text(place: Place, why: str) -> CannotSee:
    return CannotSee("NOT_TEXT", f"{shown(place.path)}: is no text in {why}", "leave metadata['encoding'] out to look at bytes")


def _no_child(place: Place, why: str) -> CannotSee:
    said = f"{shown(place.path)}: an expression is matched in a child process, and {why}"
    return CannotSee("NO_CHILD_PROCESS", said, "look for a text, which needs none")
