"""`agentos resolve STEP landed|not-landed`: a person's word on a step of which nobody knows whether it had its effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentos.cli.door import Door, base_option, note
from agentos.cli.verb import verb
from agentos.cli.word import word_options

if TYPE_CHECKING:
    from agentos.core.checkpoints import Recovery

SHAPE = {
    "step_id": "the step",
    "outcome": "`landed` or `not-landed`",
    "checkpoint": "the checkpoint that it became, if it landed and the task still stands where it was begun; else null",
}


@verb("resolve", SHAPE)
@click.argument("step_id", metavar="STEP")
@click.argument("outcome", metavar="landed|not-landed", type=click.Choice(["landed", "not-landed"]))
@word_options
@base_option
def command(door: Door, step_id: str, outcome: str, by: str, reason: str, base: str | None) -> None:
    """Say whether STEP had its effect: what landed becomes a checkpoint and does not run again, what did not is given up.

    The task goes on with the state that the step began with. What a landed step left, and nobody proved, differs from then on:
    `agentos accept TASK` keeps it, and the next repair would take it away.
    """
    from agentos.cli.documents import checkpoint_document  # noqa: PLC0415 - help says nothing
    from agentos.cli.naming import step_named  # noqa: PLC0415 - help names no step

    with door.acting(base) as manager:
        step_id = step_named(manager, step_id)
        became = manager.resolve_step(step_id, outcome.replace("-", "_"), by=by, reason=reason)
        found = None if became is None else manager.recover(became.task_id)
    document = None if became is None else checkpoint_document(became)
    told = "it is given up"
    if became is not None:
        number = f"number {became.sequence_number} ({became.checkpoint_id})"
        told = f"it is checkpoint {number}, with the state that the step began with"
    if outcome == "landed" and became is None:
        told = "it does not run again; the task went on since, so nothing stands on it"
    lines = [f"step {step_id}: {outcome}: {told}"]
    door.answer({"step_id": step_id, "outcome": outcome, "checkpoint": document}, lines)
    if found is not None:
        _hint(door, found)


def _hint(door: Door, found: Recovery) -> None:
    """Whether something differs now: if the step left it, a repair would take back what was just said to have landed."""
    from agentos._ways import Way, accept, repair  # noqa: PLC0415 - help offers nothing

    if any(each.outcome == "failed" for each in found.differences):
        keeps = (accept(found.task_id), " keeps it; ", repair(found.task_id), " takes it away")
        note(door.say(Way("the world differs from what was proven before, perhaps by what the step left: ", *keeps)))
