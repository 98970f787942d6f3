"""`agentos steps [TASK]`: steps that began and never ended. Reads the registry; `recover` looks whether they landed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from agentos._text import listed, shown
from agentos.cli.columns import ago, clock
from agentos.cli.door import Door
from agentos.cli.marks import bold, mark_of
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints.records import Step

SHAPE = {
    "steps": "task by task, oldest first: `step_id`, `task_id`, `checkpoint_type`, `work_item_id`, `begun_at`, `runner` in "
    "words, `running` (null if that cannot be seen from here), `rerunnable`, `expects` (descriptions), `error`",
}


@verb("steps", SHAPE)
@click.argument("task_id", metavar="[TASK]", required=False)
def command(door: Door, task_id: str | None) -> None:
    """List the steps that began and never ended, of TASK or of all: who was at them, and whether they may run again."""
    from agentos.cli.naming import task_named  # noqa: PLC0415 - help names no task

    with door.looking() as manager:
        tasks = manager.interrupted_tasks() if task_id is None else [task_named(manager, task_id)]
        found = [_document(step) for task in tasks for step in manager.list_open_steps(task)]
    lines = [line for step in found for line in _lines(door, step)]
    door.answer({"steps": found}, lines or ["no step was interrupted"])


def _document(step: Step) -> dict[str, Any]:
    from agentos.core.checkpoints.holders import described, is_alive  # noqa: PLC0415 - help asks for no process

    expects = [] if step.expects is None else [item.description for item in step.expects.evidence_list]
    return {
        "step_id": step.step_id,
        "task_id": step.task_id,
        "checkpoint_type": step.checkpoint_type,
        "work_item_id": step.work_item_id,
        "begun_at": step.begun_at.isoformat(),
        "runner": described(step.runner),
        # A process whose step ended with an exception lives on, and is not at it any more.
        "running": False if step.error is not None else is_alive(step.runner),
        "rerunnable": step.rerunnable,
        "expects": expects,
        "error": step.error,
    }


def _lines(door: Door, step: dict[str, Any]) -> Iterator[str]:
    from agentos._ways import Way, recover, resolve  # noqa: PLC0415 - help offers nothing

    name = step["work_item_id"]
    about = f" {shown(name, 80)}" if name is not None else ""
    yield f"{mark_of('open')} {bold(step['step_id'])} · task {shown(step['task_id'], 80)} · {step['checkpoint_type']}{about}"
    begun = f"{clock(step['begun_at'])} UTC ({ago(step['begun_at'])})"
    yield f"    begun {begun} by {step['runner']}: {_state(step)}"
    if step["error"]:
        yield f"    its block ended with {shown(step['error'], 200)}"
    if step["expects"]:
        yield f"    to leave behind: {listed(step['expects'])}"
    if step["running"]:
        return
    if step["rerunnable"]:
        yield "    -> " + door.say(Way(recover(step["task_id"]), " looks what became of it; it may run again"))
    else:
        yield "    -> " + door.say(Way("it must not run twice; if looking does not settle it: ", resolve(step["step_id"])))


def _state(step: dict[str, Any]) -> str:
    return {True: "still at it", False: "not at it any more", None: "which cannot be seen from here"}[step["running"]]
