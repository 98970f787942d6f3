"""Claims about one value in a JSON document: what a file, or the last line of one, has at a pointer.

Values are compared by type, as everywhere: see matchers.py. They are about the subject of every claim about a file, its path.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.contents import MOST, check_most, failed, no_file
from agentos.core.checkpoints.kinds.files import subject
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Filled, Kind, Lifetime, Verdict, refuse, told
from agentos.core.checkpoints.kinds.matchers import MATCHER, check_matcher, described, matches
from agentos.core.checkpoints.kinds.places import PATH, check_path
from agentos.core.checkpoints.kinds.pointers import POINTER, check_pointer
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen

JSON, LAST_LINE = "json", "jsonl-last"
FORMATS = (JSON, LAST_LINE)
_MOST_SHOWN = 200


def _check(evidence: Evidence) -> None:
    check_path(evidence)
    expected = evidence.expected
    check_pointer(evidence, "expected['pointer']", expected["pointer"])
    if ("value" in expected) is ("exists" in expected):
        refuse(evidence, "expected must say either 'value' or 'exists'", 'such as "value": 3, or "exists": false')
    if "value" in expected:
        check_matcher(evidence, "expected['value']", expected["value"])
    elif type(expected["exists"]) is not bool:
        refuse(evidence, f"expected['exists'] must be true or false, found {told(evidence, expected['exists'])}")
    check_most(evidence)
    given = evidence.metadata.get("format", JSON)
    if given not in FORMATS:
        refuse(evidence, f"metadata['format'] is {told(evidence, given)}", f"one of: {', '.join(FORMATS)}")


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    gone = no_file(evidence, facts)
    if gone is not None:
        return gone
    torn = facts.get("torn")
    notes = (f"its last line is torn after {torn:,} bytes, and the one before it was read",) if torn else ()
    problem = _problem(evidence, facts)
    return failed(*problem, *notes) if problem else replace(HOLDS, notes=notes)


def _problem(evidence: Evidence, facts: dict[str, Any]) -> tuple[str, Evidence, str] | None:
    """What is wrong with what was found: the code, and what is said."""
    expected = evidence.expected
    if not facts.get("lines", True):
        return "NO_LINE", evidence, "expected a complete line, found none"
    place = shown(expected["pointer"], 120) or "the document"
    if expected.get("exists") is False:
        found = f"expected nothing at {place}, found {_brief_text(facts['json'])}" if facts["found"] else ""
        return ("POINTER_PRESENT", evidence, found) if found else None
    if not facts["found"]:
        return "POINTER_MISSING", evidence, facts["why"]
    if "value" not in expected or matches(expected["value"], json.loads(facts["json"])):
        return None
    return "VALUE_DIFFERS", evidence, f"{place}: expected {described(expected['value'])}, found {_brief_text(facts['json'])}"


def _brief_text(text: str) -> str:
    return shown(text, _MOST_SHOWN)


def _fill(evidence: Evidence, seen: Seen) -> Filled | None:
    if not seen.facts.get("found"):
        return None
    value = json.loads(seen.facts["json"])
    # A bare list or object could be meant as a matcher.
    matcher = {"equals": value} if isinstance(value, (dict, list)) else value
    measured = {"path": evidence.expected["path"], "pointer": evidence.expected["pointer"], "value": matcher}
    return measured, evidence.metadata


def _brief(facts: dict[str, Any]) -> dict[str, Any]:
    return {**facts, "json": _brief_text(facts["json"])} if "json" in facts else facts


def _look_key(evidence: Evidence) -> tuple[Any, ...]:
    expected, metadata = evidence.expected, evidence.metadata
    return expected["path"], expected["pointer"], metadata.get("format", JSON), metadata.get("max_bytes")


JSON_VALUE = Kind(
    {"path": PATH, "pointer": POINTER, "value": MATCHER, "exists": {"type": "boolean"}},
    frozenset({"path", "pointer"}),
    Lifetime.LASTING,
    _check,
    subject,
    _judge,
    metadata={"format": {"enum": list(FORMATS)}, "max_bytes": MOST},
    together=({"properties": {"expected": {"oneOf": [{"required": ["value"]}, {"required": ["exists"]}]}}},),
    effort=Effort.READ,
    fill=_fill,
    look_key=_look_key,
    brief=_brief,
)
