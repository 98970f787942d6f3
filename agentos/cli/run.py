"""`agentos run TASK -- CMD…`: any command as a step of a task, proven when it ended well, and skipped when it is done.

Which steps are done is part of the task's state, so what is skipped is exactly what the state stands on that `resume` measured.
How the command is run is probes/foreground.py; its name and what proves it are in run_step.py.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from agentos.cli.door import Door, note
from agentos.cli.exits import Exit
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from agentos.cli.run_step import Step
    from agentos.core.checkpoints import Recovery, Task
    from agentos.core.checkpoints.running import CommandRun

# As a shell says it.
_BY_SIGNAL = 128
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126

_AGAIN = {False: "; it will be run again the next time", True: "; whether it may be run again, `agentos resolve` says"}

SHAPE = {
    "task": "the task",
    "step": "the name that the step is known by",
    "ran": "whether the command was run by this call; false if it was done before, or could not be started",
    "done": "whether the step is done: run, proven and committed, by this call or an earlier one",
    "exit_code": "what the command ended with; null if it was not run, or ended by a signal",
    "signal": "the number of the signal that ended it, or null",
    "checkpoint": "the checkpoint that it became; of a step that was done before, the one that the task stands on",
    "sequence": "its number, or null",
    "put_back": "the restores that were done before the command was run: `agentos undo` brings back what they overwrote",
}


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell that completes pays for it

    return [CompletionItem(incomplete, type="file")]


@verb("run", SHAPE)
@click.argument("task_id", metavar="TASK")
@click.argument("words", metavar="-- CMD…", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=_files)
@click.option("--step", "name", default=None, metavar="NAME", help="What the step is known by, instead of its words.")
@click.option("--any-words", is_flag=True, help="With --step: it is the same step whatever its words were.")
@click.option("--workspace", default=None, metavar="PATH", help="Prove and keep all of this folder.")
@click.option("--exclude", multiple=True, metavar="LINE", help="Leave this out of --workspace and --tree, as .gitignore would.")
@click.option("--file", "files", multiple=True, metavar="PATH", help="Prove and keep this file.")
@click.option("--tree", "trees", multiple=True, metavar="PATH", help="Prove and keep everything in this folder.")
@click.option("--gone", multiple=True, metavar="PATH", help="Prove that nothing is here.")
@click.option(
    "--not-rerunnable", is_flag=True, help="It must not run twice: if it may have run, a person decides (exit code 4)."
)
@click.option(
    "--expects-file", "expected", multiple=True, metavar="PATH", help="It leaves this file: if it is there, the step is done."
)
@click.option("--no-repair", is_flag=True, help="Put nothing back before: what differs ends with exit code 8.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=None,
    metavar="SECONDS",
    help="Wait for another holder, or for what cannot be checked.",
)
def command(door: Door, task_id: str, no_repair: bool, wait: float | None, **asked: Any) -> int:  # noqa: FBT001 - click's
    """Run CMD as a step of TASK: begun, run, its exit code recorded, proven, committed; skipped if that was done before.

    What differs from what the last step left is put back first, and what that overwrites is kept. The exit code is the
    command's, or 128 and the number of the signal that ended it; it is 0 only if the step is done. When agentos refuses,
    nothing was run, standard error says so, and the code is its own. With --json the command's standard output goes to standard
    error.
    """
    from agentos.cli.run_step import Asked, Step  # noqa: PLC0415 - help needs nothing of the rules

    step = Step.of(Asked(**asked))
    with door.starting() as manager:
        step.refuse_left_out(manager, task_id)
        with step.task(manager, task_id) as task:
            for pid in manager.end_commands(task_id):
                note(f"process {pid} was left of a step that was interrupted: killed")
            state = task.resume({}, repair=not no_repair, wait=wait)
            assert task.recovery is not None
            _tell_what_was_put_back(task.recovery)
            if step.is_done(state):
                return _skipped(door, step, task.recovery)
            return _run(door, step, task, state)


def _tell_what_was_put_back(recovery: Recovery) -> None:
    for each in recovery.restored:
        said = each.plan.explain().partition("\n")[0]
        note(f"put back: {said}; `agentos undo {each.restore_id}` brings back what was there")


def _skipped(door: Door, step: Step, recovery: Recovery) -> Exit:
    from agentos.cli.exits import of_recovery  # noqa: PLC0415 - as above

    stands = recovery.checkpoint
    where = f", before or at checkpoint number {stands.sequence_number}" if stands is not None else ""
    another = "; if this is another step, give it a --step NAME of its own" if step.may_be_another(stands) else ""
    note(f"skipped, it is done: {step.shown}{where}{another}")
    _answer(door, step, recovery, done=True)
    return of_recovery(recovery)


def _run(door: Door, step: Step, task: Task, state: dict[str, Any]) -> int:
    from agentos.cli.run_step import FailedError, NotStartedError  # noqa: PLC0415 - as above

    block = step.block(task, state)
    try:
        with block:
            ran = step.run(block, task, door.path, sys.stderr if door.as_json else None)
    except NotStartedError as error:
        # Nothing was run, so there is nothing to be uncertain about.
        task.manager.abandon_step(block.step_id, by="agentos run", reason="it could not be started", lease=task.lease)
        note(str(error))
        _answer(door, step, task.recovery, done=False)
        return _NOT_FOUND if isinstance(error.__cause__, FileNotFoundError) else _NOT_EXECUTABLE
    except FailedError as failure:
        note(f"not done: {step.shown}: {failure}{_AGAIN[step.asked.not_rerunnable]}")
        _answer(door, step, task.recovery, done=False, ran=failure.ran)
        return _code_of(failure.ran)
    _answer(door, step, task.recovery, done=True, ran=ran, checkpoint=block.checkpoint)
    return Exit.SAFE


def _code_of(ran: CommandRun) -> int:
    if ran.exit_code is None:
        return _BY_SIGNAL + (ran.signal or 0)
    # It ended well, and what it was to leave is not there.
    return ran.exit_code or Exit.DIFFERS


def _answer(
    door: Door, step: Step, recovery: Recovery | None, *, done: bool, ran: CommandRun | None = None, checkpoint: Any = None
) -> None:
    stands = checkpoint if checkpoint is not None or recovery is None else recovery.checkpoint
    door.answer(
        {
            "task": recovery.task_id if recovery is not None else None,
            "step": step.name,
            "ran": ran is not None,
            "done": done,
            "exit_code": None if ran is None else ran.exit_code,
            "signal": None if ran is None else ran.signal,
            "checkpoint": None if stands is None else stands.checkpoint_id,
            "sequence": None if stands is None else stands.sequence_number,
            "put_back": [] if recovery is None else [each.restore_id for each in recovery.restored],
        },
        # Standard output is the command's own.
        [],
    )
