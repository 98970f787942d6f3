"""Look what a JSON file, or the last complete line of a JSONL file, has at a pointer.

What is not exactly one JSON value, read the same way by every reader, is not looked into: see _strict_json.py. A line without
its line end is torn, whether it could be read or not: who writes it may not be done.
"""

from __future__ import annotations

import json
from typing import Any

from agentos import _strict_json
from agentos._text import shown
from agentos.core.checkpoints.codec import MAX_DEPTH
from agentos.core.checkpoints.kinds.documents import JSON, LAST_LINE
from agentos.core.checkpoints.kinds.pointers import resolve
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.artifact_exists import bare_facts
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at
from agentos.probes.content import read_content
from agentos.probes.paths import place_of

# How much is read unless the evidence says otherwise: of a document all of it, of lines the last one.
_MOST = {JSON: 16 << 20, LAST_LINE: 1 << 20}
# What was found must fit into a claim, a few levels down.
_DEEPEST = MAX_DEPTH - 4
_BLANK = b" \t\r\n"


class JsonValue:
    """Facts: `exists`, `type`, `near` when nothing is there; of a file `found`, and `json`, the value, or `why` there is none.

    Of lines also `lines`, whether any is complete, and `torn`, how many bytes came after it.
    """

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look, and never past the deadline."""
        return looked_at(lambda deadline: _look(evidence, around, deadline), around.timeout)


def _look(evidence: Evidence, around: Surroundings, deadline: Deadline) -> Observation:
    path, form = evidence.expected["path"], evidence.metadata.get("format", JSON)
    most = evidence.metadata.get("max_bytes", _MOST[form])
    data = bytearray()
    with place_of(path, around) as place:
        facts = bare_facts(place)
        if facts["type"] != "file":
            return Seen(facts)
        answer = read_content(place, deadline, data.extend, most, last=form == LAST_LINE, cancel=around.cancel)
    if form == LAST_LINE:
        line, torn = _last_line(path, bytes(data), whole=answer["size"] <= most)
        facts |= {"lines": line is not None, "torn": torn}
        if line is None:
            return Seen({**facts, "found": False})
        data = bytearray(line)
    return Seen({**facts, **_pointed_at(evidence.expected["pointer"], path, bytes(data))})


def _last_line(path: str, data: bytes, *, whole: bool) -> tuple[bytes | None, int]:
    """The last line that is complete and not blank, and how much came after it."""
    end = data.rfind(b"\n") + 1
    before = data[:end].rstrip(_BLANK)
    start = before.rfind(b"\n") + 1
    if not whole and not start:
        raise CannotSee(
            "TOO_LARGE",
            f"{shown(path)}: its last line is longer than the {len(data):,} bytes that are read for this claim",
            "allow more with metadata['max_bytes']",
        )
    return before[start:] or None, len(data[end:].strip(_BLANK) and data[end:])


def _pointed_at(pointer: str, path: str, data: bytes) -> dict[str, Any]:
    try:
        document = _strict_json.parse(data, _DEEPEST)
    except ValueError as error:
        hint = "save it without a byte order mark" if data.startswith(b"\xef\xbb\xbf") else "find out who wrote it, and how"
        raise CannotSee("NOT_JSON", f"{shown(path)}: {error}", hint) from None
    found = resolve(pointer, document)
    if not found.exists:
        return {"found": False, "why": found.why}
    return {"found": True, "json": json.dumps(found.value, ensure_ascii=False, sort_keys=True)}
