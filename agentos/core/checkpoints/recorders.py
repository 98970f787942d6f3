"""Who recorded what is there now: for a refused rollback, the later checkpoint whose claim the world fits."""

from __future__ import annotations

from agentos.core.checkpoints import records
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.kind import Lifetime
from agentos.core.checkpoints.models import EvidencePack
from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.ports import Registry, StoredStep
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.verifier import EvidenceVerifier


def recorded_since(
    registry: Registry, verifier: EvidenceVerifier, stored: StoredStep, pack: EvidencePack, around: Surroundings
) -> dict[int, StoredStep]:
    """For each item that differs, the later checkpoint that recorded what is there now, if one did."""
    found = {}
    for number, item in enumerate(pack.evidence_list):
        if item.result is None or item.result.outcome is not Outcome.FAILED:
            continue
        if kind_of(item).lifetime is Lifetime.STEP:
            # A recorded fact does not change with the world, so no later step can have changed it.
            continue
        subject = kind_of(item).subject(item, around.base_path)
        for step_id, later_item in reversed(registry.later_claims(stored.task_id, subject, stored.sequence or 0)):
            later = registry.step(step_id)
            if later is not None and _holds_now(verifier, later, later_item, around):
                found[number] = later
                break
    return found


def _holds_now(verifier: EvidenceVerifier, later: StoredStep, item: int, around: Surroundings) -> bool:
    items = records.decode_pack(later.pack or b"").evidence_list
    if type(item) is not int or not 0 <= item < len(items):
        # A release is no claim; and the index is derived: an entry of it that is damaged explains nothing.
        return False
    return verifier.judge_pack(EvidencePack([items[item]]), around, checked=True) is Outcome.VERIFIED
