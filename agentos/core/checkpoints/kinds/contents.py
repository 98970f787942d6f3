"""Claims about a part of what a file holds: its beginning, and how often something is in it.

They are about the same subject as every claim about a file, its path: whoever claims a part of a file anew has changed it, and
what earlier steps claimed of it, whole or in part, speaks of a file that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.files import LARGEST, SHA256, TRUST, check_digest, missing, subject
from agentos.core.checkpoints.kinds.kind import (
    HOLDS,
    LONGEST_WAIT,
    Effort,
    Filled,
    Kind,
    Lifetime,
    Schema,
    Verdict,
    refuse,
    told,
)
from agentos.core.checkpoints.kinds.matchers import COUNT, check_count, described, matches
from agentos.core.checkpoints.kinds.places import PATH, check_path
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome


def failed(code: str, evidence: Evidence, said: str, *notes: str) -> Verdict:
    """What is at this path differs."""
    return Verdict(Outcome.FAILED, code, f"{shown(evidence.expected['path'])}: {said}", TRUST, notes=notes)


def no_file(evidence: Evidence, facts: dict[str, Any]) -> Verdict | None:
    """The verdict where there is no file that could hold anything."""
    if not facts["exists"]:
        return missing(shown(evidence.expected["path"]), "a file", facts)
    return None if facts["type"] == "file" else failed("WRONG_TYPE", evidence, f"expected a file, found a {facts['type']}")


def check_most(evidence: Evidence) -> None:
    """Refuse what is no largest size."""
    most = evidence.metadata.get("max_bytes", 1)
    if type(most) is not int or not 1 <= most <= LARGEST:
        refuse(evidence, f"metadata['max_bytes'] must be a number of bytes from 1, found {told(evidence, most)}")


def _check_prefix(evidence: Evidence) -> None:
    check_path(evidence)
    check_digest(evidence)
    count = evidence.expected["bytes"]
    if type(count) is not int or not 1 <= count <= LARGEST:
        refuse(
            evidence,
            f"expected['bytes'] must be a number of bytes from 1, found {told(evidence, count)}",
            "claim artifact_exists of a file that may be empty",
        )


def _judge_prefix(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    gone = no_file(evidence, facts)
    if gone is not None:
        return gone
    count, want, got = evidence.expected["bytes"], evidence.expected["sha256"].lower(), facts["sha256"]
    if facts["bytes"] < count:
        said = f"expected at least {count:,} bytes, found {facts['bytes']:,} (modified {facts['modified_at']})"
        return failed("FILE_TOO_SHORT", evidence, f"{said}: it was cut off, or begun anew")
    if want != got:
        said = f"expected its first {count:,} bytes to have sha256 {want[:12]}…, found {got[:12]}…"
        return failed("HASH_MISMATCH", evidence, f"{said} (modified {facts['modified_at']})")
    return HOLDS


def _fill_prefix(evidence: Evidence, seen: Seen) -> Filled | None:
    if not seen.facts.get("bytes"):
        return None
    measured = {"bytes": seen.facts["bytes"], "sha256": seen.facts["sha256"]}
    return {"path": evidence.expected["path"], **measured}, evidence.metadata


MOST: Schema = {"type": "integer", "minimum": 1, "maximum": LARGEST}

FILE_PREFIX_SHA256 = Kind(
    {"path": PATH, "bytes": {"type": "integer", "minimum": 1, "maximum": LARGEST}, "sha256": SHA256},
    frozenset({"path", "bytes", "sha256"}),
    Lifetime.LASTING,
    _check_prefix,
    subject,
    _judge_prefix,
    effort=Effort.READ,
    fill=_fill_prefix,
    look_key=lambda evidence: (evidence.expected["path"], evidence.expected.get("bytes")),
)


# file_contains

# A closed list: others are no encodings of text, or take time without limit.
ENCODINGS = (
    *("ascii", "latin-1", "cp1252", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"),
    *("big5", "euc-jp", "euc-kr", "gb18030", "shift-jis"),
)
FLAGS: Mapping[str, re.RegexFlag] = {"ignorecase": re.IGNORECASE, "multiline": re.MULTILINE, "dotall": re.DOTALL}
_LONGEST_TEXT, _LONGEST_REGEX = 10_000, 1_000


def flags_of(evidence: Evidence) -> int:
    """The flags of its expression, as a number."""
    return int(sum(FLAGS[name] for name in set(evidence.metadata.get("flags", ()))))


def _check_contains(evidence: Evidence) -> None:
    check_path(evidence)
    check_most(evidence)
    _check_times(evidence)
    expected, encoding = evidence.expected, evidence.metadata.get("encoding", "utf-8")
    if encoding not in ENCODINGS:
        refuse(evidence, f"metadata['encoding'] is {told(evidence, encoding)}", f"one of: {', '.join(ENCODINGS)}")
    pattern, regex = expected["pattern"], expected.get("regex", False)
    if type(regex) is not bool:
        refuse(evidence, f"expected['regex'] must be true or false, found {told(evidence, regex)}")
    longest = _LONGEST_REGEX if regex else _LONGEST_TEXT
    if type(pattern) is not str or not 0 < len(pattern) <= longest:
        said = f"expected['pattern'] must be text of 1 to {longest:,} characters, found {told(evidence, pattern)}"
        refuse(evidence, said, "everything contains nothing" if pattern == "" else "")
    _check_flags(evidence)
    if not regex:
        _check_letters(evidence, pattern, encoding)
    if regex:
        _check_regex(evidence, pattern)


def _check_letters(evidence: Evidence, pattern: str, encoding: str) -> None:
    """Refuse a text that no file in this encoding can hold."""
    try:
        pattern.encode(encoding)
    except UnicodeEncodeError:
        refuse(evidence, f"expected['pattern'] has letters that {encoding} has not, found {told(evidence, pattern)}")


def _check_times(evidence: Evidence) -> None:
    expected = evidence.expected
    if "count" in expected:
        check_count(evidence, "expected['count']", expected["count"])
    if "absent" in expected and (expected["absent"] is not True or "count" in expected):
        refuse(evidence, "expected['absent'] must be true, without a count", 'such as "absent": true, or "count": 3')
    limit = evidence.metadata.get("time_limit", 1)
    if type(limit) not in (int, float) or not 0 < limit <= LONGEST_WAIT:
        refuse(evidence, f"metadata['time_limit'] must be a number of seconds up to a day, found {told(evidence, limit)}")


def _check_flags(evidence: Evidence) -> None:
    flags = evidence.metadata.get("flags", [])
    if type(flags) is not list or not all(type(name) is str and name in FLAGS for name in flags):
        known = ", ".join(FLAGS)
        refuse(evidence, f"metadata['flags'] must be a list of flags, found {told(evidence, flags)}", f"known: {known}")
    if flags and not evidence.expected.get("regex", False):
        refuse(evidence, "metadata['flags'] are for regular expressions only", 'give "regex": true')


def _check_regex(evidence: Evidence, pattern: str) -> None:
    text = "encoding" in evidence.metadata
    if not text and not pattern.isascii():
        refuse(
            evidence,
            "expected['pattern'] is an expression over bytes, and holds characters that are none",
            "say which with metadata['encoding']",
        )
    try:
        longest = _longest_match(pattern if text else pattern.encode(), flags_of(evidence))
    except (re.error, RecursionError, OverflowError, ValueError, Warning) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        refuse(evidence, f"expected['pattern'] is no regular expression: {told(evidence, why)}")
        raise
    if not longest:
        # Matches of nothing do not count: that it is absent would hold of every file.
        said = f"expected['pattern'] can match nothing but the empty text, found {told(evidence, pattern)}"
        refuse(evidence, said, "let it match what it looks for: ERROR in place of (?=ERROR), \\n\\n in place of ^$")


def _longest_match(pattern: str | bytes, flags: int) -> int:
    """How many characters a match may have at most. The parser is that of `re` itself, which does not say it otherwise."""
    from re import _parser  # type: ignore[attr-defined] # noqa: PLC0415 - few claims are expressions

    re.compile(pattern, flags)
    return int(_parser.parse(pattern, flags).getwidth()[1])


def _judge_contains(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    gone = no_file(evidence, facts)
    if gone is not None:
        return gone
    expected, found = evidence.expected, facts["count"]
    want = 0 if "absent" in expected else expected.get("count", {"ge": 1})
    if matches(want, found):
        return HOLDS
    code = "COUNT_DIFFERS" if found and "absent" not in expected else "PATTERN_PRESENT" if found else "PATTERN_MISSING"
    pattern = shown(repr(expected["pattern"]), 120)
    return failed(code, evidence, f"expected {pattern} {_times(want)}, found it {_times(found)}")


def _times(count: Any) -> str:
    if count in (0, 1):
        return "once" if count else "not at all"
    said = f"{count:,}" if type(count) is int else described(count)
    return f"{said} time" if said.endswith(" 1") else f"{said} times"


FILE_CONTAINS = Kind(
    {
        "path": PATH,
        "pattern": {"type": "string", "minLength": 1, "maxLength": _LONGEST_TEXT},
        "regex": {"type": "boolean"},
        "count": COUNT,
        "absent": {"const": True},
    },
    frozenset({"path", "pattern"}),
    Lifetime.LASTING,
    _check_contains,
    subject,
    _judge_contains,
    metadata={
        "encoding": {"enum": list(ENCODINGS)},
        "flags": {"type": "array", "items": {"enum": list(FLAGS)}},
        "max_bytes": MOST,
        "time_limit": {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_WAIT},
    },
    together=(
        {"properties": {"expected": {"not": {"required": ["count", "absent"]}}}},
        {
            "if": {"properties": {"expected": {"properties": {"regex": {"const": True}}, "required": ["regex"]}}},
            "then": {"properties": {"expected": {"properties": {"pattern": {"maxLength": _LONGEST_REGEX}}}}},
            "else": {"properties": {"metadata": {"properties": {"flags": {"maxItems": 0}}}}},
        },
        {
            "if": {
                "properties": {
                    "expected": {"properties": {"regex": {"const": True}}, "required": ["regex"]},
                    "metadata": {"not": {"required": ["encoding"]}},
                }
            },
            "then": {"properties": {"expected": {"properties": {"pattern": {"pattern": "^[\\u0000-\\u007f]*$"}}}}},
        },
    ),
    effort=Effort.READ,
)
