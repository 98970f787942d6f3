"""`agentos finish TASK`: the task is done, measured once more; it takes no further steps."""

from __future__ import annotations

import click

from agentos.cli import exits
from agentos.cli.door import Door
from agentos.cli.exits import Exit
from agentos.cli.verb import verb

SHAPE = {
    "task": "the task",
    "checkpoint": "the checkpoint that it ends on, or null if it never had one",
    "already": "whether it was finished before",
}


@verb("finish", SHAPE)
@click.argument("task_text", metavar="TASK")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=None,
    metavar="SECONDS",
    help="Wait for another holder, or for what cannot be checked.",
)
def command(door: Door, task_text: str, wait: float | None) -> Exit:
    """Say that TASK is done: everything it stands on is measured first, and then it takes no further steps.

    One that is finished already is measured again. Nothing is put back here: what differs ends with the code for it.
    """
    from agentos.cli.naming import task_named  # noqa: PLC0415 - help needs no registry

    with door.acting() as manager, manager.task(task_named(manager, task_text)) as task:
        task.resume({}, wait=wait)
        found = task.recovery
        assert found is not None
        already = found.verdict == "finished"
        if not already:
            task.finish()
        stands = found.checkpoint
        number = "without a checkpoint" if stands is None else f"at checkpoint number {stands.sequence_number}"
        document = {"task": task.task_id, "checkpoint": stands and stands.checkpoint_id, "already": already}
        door.answer(document, [f"{task.task_id}: finished {number}"])
        return exits.of_recovery(found)
