"""What a claim becomes when somebody takes the world as it is: evidence of the same thing, measured now.

What can be measured by the eye that looked before is; a file that is gone or is no file any more, and a row that is gone or
came back, are claimed as that. Of anything else nothing is known that could be claimed, and it is released. What cannot be seen
cannot be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.judging import Finding
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.kind import is_sensitive
from agentos.core.checkpoints.models import Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.parts import Parts
from agentos.core.checkpoints.results import Outcome
from agentos.errors import EvidenceUnavailableError, InvalidInputError

# What is said of a claim whatever its type is.
_SHARED = ("lifetime", "sensitive")


def taken_as_it_is(findings: Sequence[Finding], parts: Parts) -> EvidencePack:
    """Evidence for what is there now, whatever was claimed before.

    Raises:
        EvidenceUnavailableError: something could not be looked at.
        InvalidInputError: nothing of it can be measured.
    """
    pack = EvidencePack()
    about: dict[str, list[Finding]] = {}
    for finding in findings:
        about.setdefault(finding.entry.subject, []).append(finding)
    for subject, same in about.items():
        unseen = same[0].result
        if unseen.outcome is Outcome.ERROR:
            raise EvidenceUnavailableError(f"{unseen.message}; what cannot be seen cannot be accepted", hint=unseen.hint)
        measured = [each for each in (_measured(group, parts) for group in _by_look(same)) if each is not None]
        pack.evidence_list += measured
        if not measured:
            pack.releases.append(subject)
    if not pack.evidence_list:
        pack.evidence_list += filter(None, (_commit_beneath(finding, parts) for finding in findings))
    if not pack.evidence_list:
        raise InvalidInputError(
            f"{listed(sorted(about))}: gone, and nothing is left that could be measured instead",
            hint="restart(task_id, by=…, reason=…), or put it back",
        )
    return pack


def _by_look(same: Sequence[Finding]) -> list[Sequence[Finding]]:
    """Those that one look can take together: what rows hold is not how many there are."""
    counts = [each for each in same if each.evidence.evidence_type is EvidenceType.DB_ROW_COUNT]
    others = [each for each in same if each not in counts]
    return [group for group in (others, counts) if group]


def _measured(same: Sequence[Finding], parts: Parts) -> Evidence | None:
    """Evidence of the one thing that all of these are about."""
    finding = same[0]
    thing = finding.entry.subject.partition(":")[0]
    if thing == "row":
        return _row(same, parts)
    again = _again(finding.evidence, finding, parts)
    return _file(finding, parts) if again is None and thing == "file" else again


def _again(claim: Evidence, finding: Finding, parts: Parts) -> Evidence | None:
    """The claim with what is there now; None if nothing of its type can be claimed of that."""
    fill = kind_of(claim).fill
    found = None if fill is None else fill(claim, _seen(claim, finding, parts))
    if found is None:
        return None
    expected, metadata = found
    # What was kept is not what is there now.
    fresh = {name: value for name, value in metadata.items() if name != "kept"}
    return Evidence(claim.evidence_type, _about(finding), expected, fresh)


def _commit_beneath(finding: Finding, parts: Parts) -> Evidence | None:
    """Where a worktree stands, if that is what is left to claim of one that is not clean."""
    if finding.evidence.evidence_type is not EvidenceType.GIT_CLEAN:
        return None
    asked = Evidence(EvidenceType.GIT_COMMIT, "", {"repo": finding.evidence.expected["repo"]}, _shared(finding.evidence))
    return _again(asked, finding, parts)


def _file(finding: Finding, parts: Parts) -> Evidence:
    path, about = finding.evidence.expected["path"], _about(finding)
    shared = _shared(finding.evidence)
    facts = _seen(Evidence(EvidenceType.FILE_SHA256, about, {"path": path}, shared), finding, parts).facts
    if not facts["exists"]:
        return Evidence(EvidenceType.ARTIFACT_ABSENT, about, {"path": path}, shared)
    if "sha256" in facts:
        measured = {"path": path, "sha256": facts["sha256"], "size": facts["size"]}
        return Evidence(EvidenceType.FILE_SHA256, about, measured, shared)
    kind = facts["type"] if facts["type"] == "directory" else "any"
    return Evidence(EvidenceType.ARTIFACT_EXISTS, about, {"path": path, "type": kind}, shared)


def _row(same: Sequence[Finding], parts: Parts) -> Evidence | None:
    """The row as it is, that it is gone, or how many there are; None if there is nothing that could hold it."""
    finding = same[0]
    claim, about = finding.evidence, _about(finding)
    if claim.evidence_type is EvidenceType.DB_ROW_COUNT:
        return _again(claim, finding, parts)
    named, metadata = {name: claim.expected[name] for name in ("table", "where")}, dict(claim.metadata)
    looked = Evidence(EvidenceType.DB_ROW, about, {**named, "columns": _columns([each.evidence for each in same])}, metadata)
    facts = _seen(looked, finding, parts).facts
    if facts["problem"]:
        return None
    if not facts["candidates"]:
        return Evidence(EvidenceType.DB_ROW_ABSENT, about, named, metadata)
    return Evidence(EvidenceType.DB_ROW, *_row_found(claim, about, named, facts), metadata)


def _columns(claims: Sequence[Evidence]) -> list[str] | None:
    """Those that were claimed; all of a row that was not to be there."""
    if claims[0].evidence_type is EvidenceType.DB_ROW_ABSENT:
        return None
    claimed = {name: None for claim in claims for name in claim.expected.get("values", ())}
    return list(claimed or claims[0].expected["where"])


def _row_found(claim: Evidence, about: str, named: dict[str, Any], facts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What is said of the row, and how it is described."""
    from agentos.core.checkpoints.kinds.rows import claimable  # noqa: PLC0415 - few claims are about rows

    values, left_out = claimable(facts["row"])
    if left_out:
        about = f"{about}, but for {listed(left_out)}, which no claim can carry"
    unique = {"unique": True} if claim.expected.get("unique", False) and facts["candidates"] == 1 else {}
    return about, {**named, "values": values, **unique}


def _shared(claim: Evidence) -> dict[str, Any]:
    return {name: value for name, value in claim.metadata.items() if name in _SHARED}


def _seen(claim: Evidence, finding: Finding, parts: Parts) -> Seen:
    seen = parts.verifier.observe(claim, finding.claimed.around)
    if isinstance(seen, Seen):
        return seen
    why = "it could not be looked at" if is_sensitive(claim) else seen.message
    raise EvidenceUnavailableError(f"{why}; what cannot be seen cannot be accepted", hint=seen.hint)


def _about(finding: Finding) -> str:
    subject = finding.entry.subject
    if is_sensitive(finding.evidence):
        return f"accepted: {finding.evidence.description.removeprefix('accepted: ')}"
    return f"accepted: {shown(finding.evidence.expected['path'] if subject.startswith('file:') else subject, 120)}"
