"""A history with everything in it, every question that can be asked about it, and the answers.

Questions only read; `rollbacks`, recovery among them, also write, and are asked last. An answer that was refused with one of
our errors is `ERROR`. Whatever else is raised goes through: it fails the test that asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointError, CheckpointManager
from tests.support import content, exists, exited
from tests.torture.agent import fingerprint, open_manager

TASKS = ("plan", "report", "idle")
TYPES = ("tool_executed", "llm_response", "approval_point")
ERROR = "refused"
Answers = dict[str, Any]
Ask = Callable[[CheckpointManager], Any]


@dataclass(frozen=True)
class Known:
    """What there is to ask about."""

    checkpoints: tuple[str, ...]
    steps: tuple[str, ...]


def make(directory: Path, at_the_end: Callable[[], None] = lambda: None) -> Known:
    """Verified and not, named, superseded, deleted, looked at again, left open; `at_the_end` is called before it is closed."""
    (directory / "kept.txt").write_text("kept", encoding="ascii")
    with open_manager(directory) as manager:
        for number in range(24):
            _take_step(manager, number)
        manager.begin_step("idle", TYPES[1], {"only": "begun"}, expects=content("never.txt", "sent"), rerunnable=False)
        manager.once("paid", {"amount": 7}, lambda: "receipt", task_id="idle")
        listed = [each for task in TASKS for each in manager.list_checkpoints(task, include_superseded=True)]
        begun = [each for task in TASKS for each in manager.list_open_steps(task)]
        at_the_end()
        steps = [*(each.step_id for each in listed), *(each.step_id for each in begun)]
        return Known(tuple(each.checkpoint_id for each in listed), tuple(steps))


def _take_step(manager: CheckpointManager, number: int) -> None:
    task, kind = TASKS[number % 2], TYPES[number % 3]
    packs = (exists("kept.txt", "gone.txt"), content("kept.txt", "kept"), exited(0, actual_exit_code=0))
    step_id = manager.begin_step(task, kind, {"number": number, "text": "x" * (40 * number)}, f"item-{number}")
    name = f"name-{number}" if number % 5 == 2 else None
    after = {"number": number, "after": True} if number % 4 == 1 else None
    checkpoint = manager.commit_step(step_id, packs[0 if number % 7 == 0 else number % 3], name, snapshot=after)
    if number % 6 == 3:
        manager.verify_checkpoint(checkpoint.checkpoint_id)
    if number % 8 == 5:
        manager.begin_step(task, TYPES[0], {"left": number})
    if number == 12:
        manager.delete_checkpoint(checkpoint.checkpoint_id)
    if number == 15:
        manager.rollback_to_checkpoint("name-2", supersede_later=True)


def questions(known: Known) -> Iterator[tuple[str, Ask]]:
    """Every question that only reads."""
    for task in TASKS:
        for kind in (None, *TYPES):
            yield f"last {kind} of {task}", partial(_last, task, kind)
        for limit, kind, all_of_them in ((100, None, False), (100, None, True), (2, TYPES[1], False)):
            yield f"list of {task}, {limit}, {kind}, {all_of_them}", partial(_listed, task, limit, kind, all_of_them)
        yield f"open steps of {task}", partial(CheckpointManager.list_open_steps, task_id=task)
    for checkpoint_id in (*known.checkpoints, "name-never"):
        yield f"checkpoint {checkpoint_id}", partial(_one, checkpoint_id)
    for step_id in known.steps:
        yield f"step {step_id}", partial(CheckpointManager.get_step, step_id=step_id)


def _last(task: str, kind: str | None, manager: CheckpointManager) -> Any:
    return _shape(manager.get_last_verified_checkpoint(task, kind))


def _listed(task: str, limit: int, kind: str | None, all_of_them: bool, manager: CheckpointManager) -> Any:
    found = manager.list_checkpoints(task, limit, kind, include_superseded=all_of_them)
    return [_shape(checkpoint) for checkpoint in found]


def _one(checkpoint_id: str, manager: CheckpointManager) -> Any:
    return _shape(manager.get_checkpoint(checkpoint_id))


def _shape(checkpoint: Any) -> Any:
    return checkpoint and (checkpoint.checkpoint_id, fingerprint(checkpoint))


def answers(directory: Path, known: Known, refusals: type[Exception] = CheckpointError) -> Answers:
    """Every answer that a new manager gives."""
    return _ask(directory, dict(questions(known)), refusals)


def rollbacks(directory: Path, known: Known) -> Answers:
    """What recovery finds, what rolling back to each checkpoint returns, and in the end what going on does to the timeline."""
    asked: dict[str, Ask] = {f"recovery of {task}": partial(_recovered, task) for task in TASKS}
    asked["what was done once"] = partial(CheckpointManager.once, key="paid", request={"amount": 7}, fn=lambda: "done twice")
    for each in known.checkpoints:
        asked[f"rollback to {each}"] = partial(CheckpointManager.rollback_to_checkpoint, checkpoint_id=each)
    asked["rollback for good"] = _roll_back_for_good
    asked["resume for good"] = partial(CheckpointManager.resume, task_id="report", default={"fresh": True})
    return _ask(directory, asked, CheckpointError)


def _recovered(task: str, manager: CheckpointManager) -> Any:
    found = manager.recover(task)
    differences = [(each.subject, each.outcome, each.recorded_by) for each in found.differences]
    steps = [(each.step_id, each.verdict, each.reason) for each in found.interrupted]
    return found.verdict.value, found.snapshot, _shape(found.checkpoint), differences, found.rejected, found.leftovers, steps


def _roll_back_for_good(manager: CheckpointManager) -> Any:
    state = manager.rollback_to_checkpoint("name-2", supersede_later=True)
    return state, [checkpoint.checkpoint_id for checkpoint in manager.list_checkpoints("plan")]


def _ask(directory: Path, asked: dict[str, Ask], refusals: type[Exception]) -> Answers:
    try:
        manager = open_manager(directory)
    except refusals:
        return dict.fromkeys(asked, ERROR)
    with manager:
        return {name: _answered(ask, manager, refusals) for name, ask in asked.items()}


def _answered(ask: Ask, manager: CheckpointManager, refusals: type[Exception]) -> Any:
    try:
        return ask(manager)
    except refusals:
        return ERROR


def wrong(given: Answers, right: Answers) -> list[str]:
    """The questions that were answered, and not as they should be."""
    return [name for name, answer in given.items() if answer not in (ERROR, right[name])]
