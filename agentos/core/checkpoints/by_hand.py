"""A restore that a person asked for, of any checkpoint, under the task's claim; then the world is measured again."""

from __future__ import annotations

from dataclasses import replace

from agentos._text import shown
from agentos.core.checkpoints.deciding import claimed
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.parts import Parts
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.recovery import Survey
from agentos.core.checkpoints.repairing import settle_restores
from agentos.core.checkpoints.restores import Restored, RestorePlan
from agentos.core.checkpoints.results import Outcome
from agentos.errors import CheckpointNotFoundError, RestoreRefusedError

__all__ = ["RestorePlan", "plan_restore", "plan_undo", "restore"]


def plan_restore(parts: Parts, checkpoint_id: str) -> RestorePlan:
    """What would make the world of this checkpoint hold."""
    survey, stored = _surveyed(parts, checkpoint_id)
    return survey.plan(stored, survey.judged(stored))


def plan_undo(parts: Parts, restore_id: str) -> RestorePlan:
    """What would take a restore back."""
    stored = parts.registry.restore(restore_id)
    if stored is None:
        raise RestoreRefusedError(f"restore {shown(restore_id, 80)}: there is none", hint="restores(task_id) lists them")
    return parts.putting_back(stored.task_id).undoing(restore_id)


def restore(parts: Parts, plan: RestorePlan, lease: Lease | None) -> Restored:
    """Do it, and say whether what was to be true is."""
    with claimed(parts.registry, plan.task_id, lease):
        settle_restores(parts.registry, parts.hands, plan.task_id)
        done = parts.hands().restore(plan)
        if plan.undoes is not None:
            return done
        survey, stored = _surveyed(parts, plan.checkpoint_id)
        return replace(done, verified=survey.judged(stored).outcome is Outcome.VERIFIED)


def _surveyed(parts: Parts, checkpoint_id: str) -> tuple[Survey, StoredStep]:
    stored = parts.registry.checkpoint(checkpoint_id)
    task = None if stored is None else parts.registry.task(stored.task_id)
    if stored is None or task is None:
        raise CheckpointNotFoundError(
            f"checkpoint {shown(checkpoint_id, 80)}: unknown", hint="list_checkpoints(task_id) shows what there is"
        )
    return parts.survey(task), stored
