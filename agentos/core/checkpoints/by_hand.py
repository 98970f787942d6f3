"""A restore that a person asked for, of any checkpoint, under the task's claim; then the world is measured again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentos._text import shown
from agentos.core.checkpoints.deciding import claimed
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.observing import Unseen
from agentos.core.checkpoints.parts import Parts
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.putting_back import Wishes
from agentos.core.checkpoints.recovery import Survey
from agentos.core.checkpoints.repairing import settle_restores
from agentos.core.checkpoints.restores import NOTHING, Cannot, Copied, Restored, RestorePlan, is_at
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.stored import StoredRestore
from agentos.errors import CheckpointNotFoundError, InvalidInputError, RestoreRefusedError

__all__ = ["RestorePlan", "copy_out", "look_at", "plan_restore", "plan_undo", "restore", "settle"]

_NOT_LOOKED = Unseen("NOT_LOOKED", "what is there now plays no part")


def plan_restore(parts: Parts, checkpoint_id: str) -> RestorePlan:
    """What would make the world of this checkpoint hold."""
    survey, stored = _surveyed(parts, checkpoint_id)
    return survey.plan(stored, survey.judged(stored))


def copy_out(parts: Parts, checkpoint_id: str, folder: str, only: Sequence[str]) -> Copied:
    """Write what the files of this checkpoint's world were into a folder of its own. Nothing is looked at but the vault."""
    survey, stored = _surveyed(parts, checkpoint_id)
    wishes = Wishes(parts.around_step(stored).base_path)
    wishes.add_wholly(claim._replace(seen=lambda: _NOT_LOOKED) for claim in survey.stands(stored))
    targets = {path: thing for path, thing in wishes.targets.items() if thing != NOTHING and (not only or is_at(path, only))}
    there = [*wishes.targets, *(subject.partition(":")[2] for subject in wishes.cannot)]
    for path in only:
        if not any(is_at(each, [path]) for each in there):
            raise InvalidInputError(f"only: the checkpoint has nothing at {shown(path)}; nothing was written")
    copied = parts.hands().copy_out(folder, targets)
    cannot = (
        Cannot(subject, why) for subject, why in wishes.cannot.items() if not only or is_at(subject.partition(":")[2], only)
    )
    return replace(copied, cannot=(*copied.cannot, *cannot))


def look_at(parts: Parts, checkpoint_id: str) -> Outcome:
    """What the world of this checkpoint is worth now."""
    survey, stored = _surveyed(parts, checkpoint_id)
    return survey.judged(stored).outcome


def settle(parts: Parts, task_id: str) -> list[str]:
    """End the restores of the task whose processes died; in words, what became of each."""
    if all(each.ended_at is not None for each in parts.registry.restores(task_id)):
        return []
    with claimed(parts.registry, task_id):
        return settle_restores(parts.registry, parts.hands, task_id, parts.moved_to)


def plan_undo(parts: Parts, restore_id: str) -> RestorePlan:
    """What would take a restore back."""
    return parts.putting_back(_known(parts, restore_id).task_id).undoing(restore_id, parts.moved_to)


def restore(parts: Parts, plan: RestorePlan, lease: Lease | None) -> Restored:
    """Do it, and say whether what was to be true is."""
    with claimed(parts.registry, plan.task_id, lease):
        settle_restores(parts.registry, parts.hands, plan.task_id, parts.moved_to)
        done = parts.hands().restore(plan)
        if plan.undoes is not None:
            return done
        survey, stored = _surveyed(parts, plan.checkpoint_id)
        return replace(done, verified=survey.judged(stored).outcome is Outcome.VERIFIED)


def undo(parts: Parts, restore_id: str, lease: Lease | None) -> Restored:
    """Take a restore back. Whatever an earlier attempt left half done is ended before this one is planned."""
    stored = _known(parts, restore_id)
    with claimed(parts.registry, stored.task_id, lease):
        settle_restores(parts.registry, parts.hands, stored.task_id, parts.moved_to)
        return parts.hands().restore(plan_undo(parts, restore_id))


def _known(parts: Parts, restore_id: str) -> StoredRestore:
    stored = parts.registry.restore(restore_id)
    if stored is None:
        raise RestoreRefusedError(f"restore {shown(restore_id, 80)}: there is none", hint="restores(task_id) lists them")
    return stored


def _surveyed(parts: Parts, checkpoint_id: str) -> tuple[Survey, StoredStep]:
    stored = parts.registry.checkpoint(checkpoint_id)
    task = None if stored is None else parts.registry.task(stored.task_id)
    if stored is None or task is None:
        raise CheckpointNotFoundError(
            f"checkpoint {shown(checkpoint_id, 80)}: unknown", hint="list_checkpoints(task_id) shows what there is"
        )
    return parts.survey(task), stored
