"""Between what users hold and what the registry keeps: packs and results as JSON, stored steps as checkpoints.

Pure translation: nothing is judged, and nothing that is loaded counts as verified for any gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.kinds import as_claimed, kind_of
from agentos.core.checkpoints.kinds.kind import RELEASE, lifetime_of
from agentos.core.checkpoints.lifecycle import StepState
from agentos.core.checkpoints.models import Checkpoint, Evidence, EvidencePack, EvidenceType, VerificationStatus, trusted
from agentos.core.checkpoints.ports import Claim, StoredStep
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome
from agentos.errors import EvidenceDefinitionError, SnapshotError

_TYPES = {each.value: each for each in EvidenceType}
# Left out of what is stored where there is nothing to say.
_MOSTLY_EMPTY = ("flaky", "attempts", "notes")
# What a step leaves behind of which nobody said what it would be.
EMPTY_PACK = b'{"evidence_list":[],"require_all":true,"allow_partial":false,"min_verified":0}'


@dataclass(frozen=True, match_args=False)
class Step:
    """A step as it was begun, and what became of it."""

    step_id: str
    task_id: str
    checkpoint_type: str
    state: str
    snapshot_data: dict[str, Any]
    work_item_id: str | None
    metadata: dict[str, Any]
    begun_at: datetime
    host: str
    error: str | None
    checkpoint_id: str | None
    sequence_number: int | None
    # The process that began it, as it is stored; see holders.py.
    runner: str
    rerunnable: bool
    expects: EvidencePack | None


def encode_pack(pack: EvidencePack) -> tuple[bytes, EvidencePack]:
    """The definitions and the policy, without results; and a pending copy of the pack that shares nothing with it."""
    try:
        data, plain = codec.encode_checked(
            {
                "evidence_list": [
                    {
                        "evidence_type": str(item.evidence_type),
                        "description": item.description,
                        "expected": item.expected,
                        "metadata": item.metadata,
                    }
                    for item in pack.evidence_list
                ],
                "require_all": pack.require_all,
                "allow_partial": pack.allow_partial,
                "min_verified": pack.min_verified,
                # Left out where there are none, as in nearly every pack.
                **({"releases": pack.releases} if pack.releases else {}),
                **({"min_assurance": pack.min_assurance.value} if pack.min_assurance is not None else {}),
            },
            "evidence_pack",
            small=True,
        )
    except SnapshotError as error:
        raise EvidenceDefinitionError(error.message, hint=error.hint) from None
    return data, _pack_of(plain)


def decode_pack(data: bytes) -> EvidencePack:
    """A pack whose items are all pending."""
    return _pack_of(codec.decode(data))


def _pack_of(stored: dict[str, Any]) -> EvidencePack:
    stored["evidence_list"] = [_pending(item) for item in stored["evidence_list"]]
    stored.setdefault("releases", [])
    least = stored.get("min_assurance")
    stored["min_assurance"] = None if least is None else Assurance(least)
    return trusted(EvidencePack, **stored)


def _pending(stored: dict[str, Any]) -> Evidence:
    # A name that is no type of ours was brought by others, and may not be known in this process.
    stored["evidence_type"] = _TYPES.get(stored["evidence_type"], stored["evidence_type"])
    return trusted(
        Evidence,
        **stored,
        verified=False,
        verification_status=VerificationStatus.PENDING,
        verification_error=None,
        verified_at=None,
        result=None,
    )


def encode_results(pack: EvidencePack, at: datetime) -> bytes:
    """What the last look at each item gave."""
    items = [None if item.result is None else _stored_result(item.result) for item in pack.evidence_list]
    results = {"at": at.isoformat(), "items": items}
    try:
        return orjson.dumps(results)
    except TypeError:
        # Only an integer beyond 64 bits, in what was expected, brings us here.
        return codec.encode(results, "results")


def _stored_result(result: EvidenceResult) -> dict[str, Any]:
    assurance = None if result.assurance is None else result.assurance.value
    plain = {**result.__dict__, "outcome": result.outcome.value, "assurance": assurance}
    for name in _MOSTLY_EMPTY:
        if not plain[name]:
            del plain[name]
    return plain


def _loaded_result(stored: dict[str, Any]) -> EvidenceResult:
    stored["outcome"] = Outcome(stored["outcome"])
    stored["assurance"] = None if stored["assurance"] is None else Assurance(stored["assurance"])
    stored = {"flaky": False, "attempts": [], "notes": [], **stored}
    return trusted(EvidenceResult, **stored)


def attach_results(pack: EvidencePack, data: bytes) -> None:
    """Put stored results back on the items of their pack."""
    stored = codec.decode(data)
    at = datetime.fromisoformat(stored["at"])
    for item, result in zip(pack.evidence_list, stored["items"], strict=True):
        if result is not None:
            item.record(_loaded_result(result), at)


def claims_of(pack: EvidencePack, base_path: str) -> tuple[Claim, ...]:
    """What each item and each release is about, for the index from which the world is folded.

    Releases are numbered on from the items.
    """
    claims = []
    for number, item in enumerate(pack.evidence_list):
        kind = kind_of(item)
        rules = "" if kind.rules is None else kind.rules(item)
        claims.append(Claim(kind.subject(item, base_path), number, lifetime_of(item, kind.lifetime).value, rules))
    claimed = {claim.subject for claim in claims} if pack.releases else set()
    for number, subject in enumerate(pack.releases, len(claims)):
        spelled = as_claimed(subject, base_path)
        if spelled in claimed:
            raise EvidenceDefinitionError(
                f"EvidencePack.releases: {shown(spelled, 120)} is claimed in the same pack", hint="claim it, or let go of it"
            )
        claims.append(Claim(spelled, number, RELEASE))
    return tuple(claims)


def checkpoint_from(stored: StoredStep, pack: EvidencePack, snapshot: dict[str, Any]) -> Checkpoint:
    """The checkpoint with this pack and this snapshot."""
    return trusted(
        Checkpoint,
        checkpoint_id=stored.checkpoint_id or "",
        task_id=stored.task_id,
        work_item_id=stored.work_item_id,
        checkpoint_type=stored.checkpoint_type,
        sequence_number=stored.sequence or 0,
        snapshot_data=snapshot,
        evidence_pack=pack,
        metadata=codec.decode(stored.metadata),
        created_at=_time(stored.committed_at),
        verified=stored.verified,
        last_verified_at=_time(stored.last_verified_at),
        step_id=stored.step_id,
        base_path=stored.base_path,
        superseded_by=stored.superseded_by,
        adopted=stored.state is StepState.ADOPTED,
    )


def loaded_checkpoint(stored: StoredStep) -> Checkpoint:
    """The checkpoint as it is stored, with the results of the look that is shown."""
    pack = decode_pack(stored.pack or b"")
    if stored.results is not None:
        attach_results(pack, stored.results)
    return checkpoint_from(stored, pack, codec.decode(stored.snapshot))


def loaded_step(stored: StoredStep) -> Step:
    """The step as it was begun."""
    return Step(
        stored.step_id,
        stored.task_id,
        stored.checkpoint_type,
        stored.state.value,
        codec.decode(stored.snapshot),
        stored.work_item_id,
        codec.decode(stored.metadata),
        datetime.fromisoformat(stored.begun_at),
        stored.host,
        stored.error,
        stored.checkpoint_id,
        stored.sequence,
        stored.runner,
        stored.rerunnable,
        None if stored.expects is None else decode_pack(stored.expects),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
