"""Claims about a part of what a file holds: its beginning.

They are about the same subject as every claim about a file, its path: whoever claims a part of a file anew has changed it, and
what earlier steps claimed of it, whole or in part, speaks of a file that is gone.
"""

from __future__ import annotations

from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.files import LARGEST, SHA256, TRUST, check_digest, missing, subject
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Filled, Kind, Lifetime, Schema, Verdict, refuse, told
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
