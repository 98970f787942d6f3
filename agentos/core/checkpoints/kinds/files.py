"""Claims about files and folders: that something is there, that nothing is, and that a file has this content.

All are about the same subject, the path, so a later claim of any kind takes the place of an earlier one.
"""

from __future__ import annotations

import re
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Filled, Kind, Lifetime, Schema, Verdict, refuse, told
from agentos.core.checkpoints.kinds.places import PATH, check_path, from_base
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome

TYPES = ("any", "file", "directory")
LARGEST = 2**63 - 1
SHA256: Schema = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
TRUST = "nobody vouches for what is there now; put the recorded content back, or fall back to an earlier checkpoint"

_CAME_BACK = "find out who put it there; take it away, or fall back to an earlier checkpoint"


def _check_exists(evidence: Evidence) -> None:
    check_path(evidence)
    wanted = evidence.expected.get("type", "any")
    if wanted not in TYPES:
        refuse(evidence, f"expected['type'] is {told(evidence, wanted)}", "one of: any, file, directory")


def _check_sha256(evidence: Evidence) -> None:
    check_path(evidence)
    check_digest(evidence)
    size = evidence.expected.get("size", 0)
    if type(size) is not int or not 0 <= size <= LARGEST:
        refuse(evidence, f"expected['size'] must be a number of bytes, found {told(evidence, size)}")


def check_digest(evidence: Evidence) -> None:
    """Refuse what is no SHA-256."""
    digest = evidence.expected["sha256"]
    if type(digest) is not str or not _SHA256.fullmatch(digest):
        refuse(evidence, f"expected['sha256'] must be 64 hexadecimal digits, found {told(evidence, digest, 80)}")


def subject(evidence: Evidence, base_path: str) -> str:
    """`file:` and the path: relative if it lies beneath the base, so that it survives a move of the workspace."""
    return f"file:{from_base(evidence.expected['path'], base_path)}"


def path_of(evidence: Evidence) -> str:
    """The path, for claims that are judged by what is there and nothing else."""
    path: str = evidence.expected["path"]
    return path


def _judge_exists(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    wanted = evidence.expected.get("type", "any")
    if facts["exists"] and wanted in ("any", facts["type"]):
        return HOLDS
    path, thing = shown(evidence.expected["path"]), "something" if wanted == "any" else f"a {wanted}"
    if not facts["exists"]:
        return missing(path, thing, facts)
    return Verdict(Outcome.FAILED, "WRONG_TYPE", f"{path}: expected {thing}, found a {facts['type']}", TRUST)


def _judge_absent(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    if not facts["exists"]:
        return HOLDS
    size = f" ({facts['size']:,} bytes)" if "size" in facts else ""
    said = f"{shown(evidence.expected['path'])}: expected nothing, found a {facts['type']}{size}"
    return Verdict(Outcome.FAILED, "ARTIFACT_PRESENT", said, _CAME_BACK)


def _judge_sha256(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    expected, path = evidence.expected, shown(evidence.expected["path"])
    if not facts["exists"]:
        return missing(path, "a file", facts)
    if facts["type"] != "file":
        return Verdict(Outcome.FAILED, "WRONG_TYPE", f"{path}: expected a file, found a {facts['type']}", TRUST)
    want, got = expected["sha256"].lower(), facts["sha256"]
    if want != got:
        sizes = f"{expected['size']:,} -> {facts['size']:,} bytes" if "size" in expected else f"{facts['size']:,} bytes"
        return Verdict(
            Outcome.FAILED,
            "HASH_MISMATCH",
            f"{path}: expected sha256 {want[:12]}…, found {got[:12]}… ({sizes}, modified {facts['modified_at']})",
            TRUST,
        )
    if "size" in expected and expected["size"] != facts["size"]:
        return Verdict(
            Outcome.FAILED, "SIZE_MISMATCH", f"{path}: expected {expected['size']:,} bytes, found {facts['size']:,}", TRUST
        )
    return HOLDS


def _fill_sha256(evidence: Evidence, seen: Seen) -> Filled | None:
    if "sha256" not in seen.facts:
        return None
    return {"path": evidence.expected["path"], "sha256": seen.facts["sha256"], "size": seen.facts["size"]}, evidence.metadata


def missing(path: str, thing: str, facts: dict[str, Any]) -> Verdict:
    """Nothing is there."""
    near = facts.get("near", [])
    beside = f" Beside it: {', '.join(shown(name, 80) for name in near)}; an interrupted write?" if near else ""
    return Verdict(Outcome.FAILED, "ARTIFACT_MISSING", f"{path}: expected {thing}, found nothing.{beside}", TRUST)


_EXISTS = {"path": PATH, "type": {"enum": list(TYPES)}}
_CONTENT = {
    "path": PATH,
    "sha256": SHA256,
    "size": {"type": "integer", "minimum": 0, "maximum": LARGEST},
}

ARTIFACT_EXISTS = Kind(
    _EXISTS,
    frozenset({"path"}),
    Lifetime.LASTING,
    _check_exists,
    subject,
    _judge_exists,
    effort=Effort.GLANCE,
    look_key=path_of,
)
ARTIFACT_ABSENT = Kind(
    {"path": PATH},
    frozenset({"path"}),
    Lifetime.LASTING,
    check_path,
    subject,
    _judge_absent,
    effort=Effort.GLANCE,
    look_key=path_of,
)
FILE_SHA256 = Kind(
    _CONTENT,
    frozenset({"path", "sha256"}),
    Lifetime.LASTING,
    _check_sha256,
    subject,
    _judge_sha256,
    effort=Effort.READ,
    fill=_fill_sha256,
    look_key=path_of,
)
