"""Say why a checkpoint cannot be stood on: what differs, who recorded what is there now, and what to do.

Chooses words, never outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentos._text import shown
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.results import Outcome
from agentos.errors import CheckpointError, EvidenceMismatchError, EvidenceUnavailableError


def refusal(stored: StoredStep, pack: EvidencePack, outcome: Outcome, recorded_by: Mapping[int, StoredStep]) -> CheckpointError:
    """The error for a rollback that was refused."""
    name = f"checkpoint {shown(stored.checkpoint_id, 80)} (number {stored.sequence}, {shown(stored.checkpoint_type, 80)})"
    reasons = list_reasons(pack, recorded_by)
    text = "; ".join(reasons) or "it carries no evidence, so nothing can be proven"
    details = {"checkpoint_id": stored.checkpoint_id, "task_id": stored.task_id, "reasons": reasons}
    if outcome is Outcome.ERROR:
        return EvidenceUnavailableError(
            f"{name} could not be checked: {text}",
            hint="this is no sign of damage: mend what stands in the way and try again; nothing was changed",
            **details,
        )
    return EvidenceMismatchError(f"{name} does not hold: {text}", hint=_way_out(pack, recorded_by), **details)


def list_reasons(pack: EvidencePack, recorded_by: Mapping[int, StoredStep] | None = None) -> list[str]:
    """One sentence for each item that did not verify."""
    return [
        _reason(item, (recorded_by or {}).get(number)) for number, item in enumerate(pack.evidence_list) if not item.verified
    ]


def _reason(item: Evidence, recorder: StoredStep | None) -> str:
    said = item.verification_error or "not checked"
    if recorder is None:
        return said
    gone = "" if recorder.live else ", no longer on the timeline"
    who = f"checkpoint {shown(recorder.checkpoint_id, 80)} (number {recorder.sequence}, {recorder.step_id}{gone})"
    return f"{said}; {who} recorded what is there now"


def _way_out(pack: EvidencePack, recorded_by: Mapping[int, StoredStep]) -> str:
    live = [stored for stored in recorded_by.values() if stored.live]
    if live:
        from agentos._ways import Way, rollback  # noqa: PLC0415 - only a refusal has a way out

        newest = max(live, key=lambda stored: stored.sequence or 0)
        return Way("the task went on from here: ", rollback(newest.checkpoint_id or ""), ", or to a later one")
    hints = [item.result.hint for item in pack.evidence_list if item.result is not None and item.result.hint]
    return hints[0] if hints else "commit evidence with each step; an empty pack never verifies"
