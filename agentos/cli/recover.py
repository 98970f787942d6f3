"""`agentos recover TASK`: from where may it go on, why not from later, and what can be done. Only looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli import exits
from agentos.cli.door import Door, base_option, note
from agentos.cli.exits import Exit
from agentos.cli.marks import bold, fancy, mark_of
from agentos.cli.verb import verb
from agentos.errors import CheckpointNotFoundError

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager, Recovery

SHAPE = {
    "task_id": "the task",
    "verdict": "`fresh`, `resume`, `repair`, `diverged`, `uncertain`, `blocked`, `held` or `finished`",
    "checkpoint": "the checkpoint that it may go on from, or that stands in the way; null if there is none",
    "snapshot": "the state to go on with; null unless it was measured just now that it may be used",
    "differences": "what does not hold or could not be checked: `subject`, `outcome`, `expected`, `found`, `recorded_by`, …",
    "rejected": "newer checkpoints that cannot be stood on: `checkpoint_id`, `sequence`, `reasons`",
    "leftovers": "what steps left behind that are no longer on the timeline, or will not be",
    "interrupted": "steps that never ended: `step_id`, `verdict` (`adopt`, `retry`, `uncertain`, `running`), `reason`, …",
    "options": "what can be done, as calls of the library",
    "commands": "the same as commands",
    "registry": "the registry that was asked",
    "created": "whether it was created just now",
    "holder": "who holds the task, in words",
    "notes": "what else is to be known",
    "plan": "for `repair`: what would be put back",
    "restored": "what was put back; a look puts nothing back",
    "recorded": "whether the registry took what was found; if not, `resume` could not act on it",
}

# What is not among them is not known.
_MARKS = {Exit.SAFE: "verified", Exit.DIFFERS: "failed", Exit.REPAIRABLE: "open", Exit.CONFLICT: "open"}

new_option = click.option("--new", is_flag=True, help="Nothing need be known of it yet: a new task starts from the beginning.")


@verb("recover", SHAPE)
@click.argument("task_id", metavar="TASK")
@new_option
@click.option("--deadline", type=click.FloatRange(min=0), metavar="SECONDS", help="Seconds for all looks together.")
@base_option
def command(door: Door, task_id: str, new: bool, deadline: float | None, base: str | None) -> Exit:  # noqa: FBT001 - a flag
    """Find out from where TASK may go on. Changes nothing; ends with 0 only if `agentos resume` would give a state now.

    So not with 0, but with 6, where the registry is read-only or its disk is full: the answer is told all the same.
    """
    with door.measuring(base) as manager:
        recovery = manager.recover(named(manager, task_id, new=new), deadline=deadline)
    return tell(door, recovery)


def named(manager: CheckpointManager, task_id: str, *, new: bool) -> str:
    """The task that is meant. One that is not there is a mistake in its name, unless it may be new."""
    from agentos.cli.naming import task_named  # noqa: PLC0415 - help names no task

    if new:
        return task_id
    try:
        found = task_named(manager, task_id)
    except CheckpointNotFoundError as error:
        raise CheckpointNotFoundError(error.message, hint=f"{error.hint}; --new if it has not begun yet") from None
    if found != task_id:
        note(f"{shown(task_id, 80)} is short for {shown(found)}")
    return found


def tell(door: Door, recovery: Recovery) -> Exit:
    """All of it, and the code that says what may be concluded."""
    from agentos.cli.documents import recovery_document  # noqa: PLC0415 - help says nothing

    door.answer(recovery_document(recovery, door.say), [said(door, recovery)])
    return concluded(recovery)


def concluded(recovery: Recovery) -> Exit:
    """What may be concluded from it. Where the registry takes nothing, nobody can go on."""
    ended = exits.of_recovery(recovery)
    if ended is Exit.SAFE and not recovery.recorded:
        note("it would be safe to go on, but the registry takes nothing now: `agentos resume`, and an agent, would be refused")
        return Exit.UNAVAILABLE
    return ended


def said(door: Door, recovery: Recovery) -> str:
    """All of it in sentences; on a terminal the answer stands out."""
    from agentos.core.checkpoints.telling import explained  # noqa: PLC0415 - help says nothing

    answer, _, reasons = explained(recovery, door.say, door.offer).partition("\n")
    mark = f"{mark_of(_MARKS.get(exits.of_recovery(recovery), 'error'))} " if fancy() else ""
    return f"{mark}{bold(answer)}\n{reasons}"
