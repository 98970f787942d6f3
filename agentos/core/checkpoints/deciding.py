"""The human's word: take the world as it is, start over, open again, say whether a step landed.

Each is written down with who said it and why, in the transaction that acts on it (what is accepted, in the metadata of the
checkpoint that it becomes), and each takes the task's claim for as long as it takes, so that nobody who was working on an older
belief can go on with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentos import _ways
from agentos._text import shown
from agentos._ways import Way
from agentos.core.checkpoints import codec, resuming
from agentos.core.checkpoints.choosing import chosen
from agentos.core.checkpoints.holders import is_alive, is_running, left_running, new_holder
from agentos.core.checkpoints.judging import Finding
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.lifecycle import StepState
from agentos.core.checkpoints.models import Checkpoint
from agentos.core.checkpoints.parts import Parts
from agentos.core.checkpoints.ports import Registry, StoredStep
from agentos.core.checkpoints.resuming import decision
from agentos.core.checkpoints.taking import taken_as_it_is
from agentos.errors import (
    CheckpointNotFoundError,
    InvalidInputError,
    NotInterruptedError,
    StepNotFoundError,
)

if TYPE_CHECKING:
    from agentos.core.checkpoints.manager import CheckpointManager

LANDED, NOT_LANDED = "landed", "not_landed"
_EVER = datetime.min.replace(tzinfo=UTC)


@contextmanager
def claimed(registry: Registry, task_id: str, lease: Lease | None = None) -> Iterator[Lease]:
    """Hold the task: by this lease, or by a claim of its own that ends with the block."""
    if lease is not None:
        yield lease
        return
    own = registry.claim(task_id, new_holder(), None)
    try:
        yield own
    finally:
        registry.release(own)


def refuse_unknown(registry: Registry, task_id: str) -> None:
    """Refuse a task that was never begun: a decision about nothing is a mistake in its name."""
    if registry.task(task_id) is None:
        raise CheckpointNotFoundError(f"task {shown(task_id, 80)}: nothing was ever begun", hint="look at the task's id")


def resolve_step(parts: Parts, step_id: str, outcome: str, by: str, reason: str, lease: Lease | None) -> Checkpoint | None:
    """Settle an interrupted step; the checkpoint it became, if it did."""
    if type(outcome) is not str or outcome not in (LANDED, NOT_LANDED):
        raise InvalidInputError(f"outcome must be {LANDED!r} or {NOT_LANDED!r}, found {shown(outcome, 60)}")
    step = _interrupted(parts, step_id, outcome)
    if step.state is not StepState.BEGUN:
        return None if step.checkpoint_id is None else _loaded(parts, step.checkpoint_id)
    with claimed(parts.registry, step.task_id, lease) as held:
        task = parts.registry.task(step.task_id)
        if outcome == LANDED and task is not None and task.head == step.parent:
            stored = resuming.adopt(parts, step, held, by, f"{LANDED}: {reason}")
            return _loaded(parts, stored.checkpoint_id or "")
        # It landed, but the task went on since it began: nothing stands on it, and it must not run again.
        parts.registry.abandon(step_id, held, decision(by, outcome, step_id, reason))
    return None


def _interrupted(parts: Parts, step_id: str, outcome: str) -> StoredStep:
    step = parts.registry.step(step_id)
    if step is None:
        raise StepNotFoundError(f"step {shown(step_id, 80)}: unknown", hint="recover(task_id) lists interrupted steps")
    settled = {LANDED: StepState.ADOPTED, NOT_LANDED: StepState.ABANDONED}
    if step.state is not StepState.BEGUN and step.state is not settled[outcome]:
        raise NotInterruptedError(
            f"step {step_id}: {step.state.value} already, so it cannot be called {outcome}",
            hint=Way(_ways.log(step.task_id), " shows what happened to its task"),
        )
    if (is_running(step) and is_alive(step.runner)) or left_running(step):
        raise NotInterruptedError(f"step {step_id}: a living process is in the middle of it", hint="wait for it, or stop it")
    return step


def _loaded(parts: Parts, checkpoint_id: str) -> Checkpoint | None:
    from agentos.core.checkpoints.records import loaded_checkpoint  # noqa: PLC0415 - one use

    stored = parts.registry.checkpoint(checkpoint_id)
    return None if stored is None else loaded_checkpoint(stored)


def accept(
    manager: CheckpointManager,
    parts: Parts,
    task_id: str,
    *,
    by: str,
    reason: str,
    subjects: Sequence[str] | None,
    checkpoint_id: str | None,
) -> Checkpoint:
    """Commit a checkpoint that takes what differs as it is now."""
    refuse_unknown(parts.registry, task_id)
    with claimed(parts.registry, task_id) as lease:
        head, named = _ground(parts, task_id, checkpoint_id)
        found = _differences(parts, task_id, head, subjects)
        snapshot = codec.decode(named.snapshot)
        # Everything is measured before anything is stored.
        packs = [(base, taken_as_it_is(part, parts)) for base, part in _by_base(found).items()]
        taken = []
        for base, pack in packs:
            # Changed long before this step began, and about to be believed: it must not be lost to a power cut.
            parts.sync_files(pack, parts.around(base, lambda: None), _EVER)
            about = [claim.description for claim in pack.evidence_list] + pack.releases
            metadata = {"accepted": {"by": by, "reason": reason, "what": about}}
            # What was kept before is kept again: the next repair may need it.
            there = manager.at(base, keep=any(each.evidence.metadata.get("kept") for each in found) or None)
            step_id = there.begin_step(task_id, "manual_checkpoint", snapshot, metadata=metadata, lease=lease)
            taken.append(there.commit_step(step_id, pack, lease=lease))
            parts.registry.decide(task_id, lease, decision(by, "accept", taken[-1].checkpoint_id, reason))
    return taken[-1]


def _by_base(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """A relative path is accepted under the base it was claimed under: its namesake elsewhere is another file."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.claimed.around.base_path, []).append(finding)
    return found


def _ground(parts: Parts, task_id: str, checkpoint_id: str | None) -> tuple[StoredStep, StoredStep]:
    """The newest live checkpoint, whose world is taken, and the one whose snapshot is."""
    head = next(iter(parts.registry.candidates(task_id, 1 << 62, 1)), None)
    wanted = checkpoint_id if checkpoint_id is not None else None if head is None else head.checkpoint_id
    named = None if wanted is None else parts.registry.checkpoint(wanted)
    if head is None or named is None or named.task_id != task_id:
        raise CheckpointNotFoundError(
            f"task {shown(task_id, 80)}: no checkpoint{f' {shown(checkpoint_id, 80)}' if checkpoint_id else ''} to accept on",
            hint=Way(_ways.restart(task_id), " starts over; ", _ways.log(task_id), " shows what there is"),
        )
    return head, named


def _differences(parts: Parts, task_id: str, head: StoredStep, subjects: Sequence[str] | None) -> list[Finding]:
    task = parts.registry.task(task_id)
    assert task is not None, "it was claimed just now"
    survey = parts.survey(task)
    found = survey.judged(head).findings
    if subjects is not None:
        found = chosen(found, subjects, survey.stands(head))
    if not found:
        raise InvalidInputError(
            f"task {shown(task_id, 80)}: nothing differs, so there is nothing to accept",
            hint=Way(_ways.recover(task_id), " says whether anything else stands in the way"),
        )
    return found
