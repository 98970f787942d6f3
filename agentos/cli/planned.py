"""What `restore` and `undo` share: show the plan, ask, follow it, and say how to take that back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli.door import Door, note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentos.core.checkpoints import CheckpointManager
    from agentos.core.checkpoints.restores import Restored, RestorePlan


def settle(manager: CheckpointManager, task_id: str) -> None:
    """End what a killed restore left: a plan that is made before would be outdated by it."""
    for what in manager.settle_restores(task_id):
        note(what)


def within(base_path: str, only: Iterable[str]) -> list[str]:
    """The paths as a plan for this folder names them; one may be absolute if it lies there.

    Raises:
        UsageError: one is empty. A variable that is not set must not mean everything.
    """
    wanted = [os.path.relpath(path, base_path) if os.path.isabs(path) else path and os.path.normpath(path) for path in only]
    if "" in wanted:
        raise click.UsageError("--only needs a path, found nothing; without it all is meant, and `.` says so too.")
    return wanted


def part(plan: RestorePlan, only: Iterable[str]) -> RestorePlan:
    """The part of it that was asked for."""
    wanted = within(plan.base_path, only)
    return plan.only(*wanted) if wanted else plan


def show(door: Door, plan: RestorePlan) -> None:
    """The plan, before anything is asked or done; the one document of `--json` has it too."""
    click.echo(plan.explain(), err=door.as_json)


def follow(door: Door, manager: CheckpointManager, plan: RestorePlan, *, yes: bool, dry_run: bool) -> Restored | None:
    """Do it, if there is anything to do and that was agreed to."""
    if not plan.operations:
        return None
    if dry_run:
        note("nothing was done: --dry-run")
        return None
    count = len(plan.operations)
    what = f"this path in {shown(plan.base_path)}" if count == 1 else f"these {count:,} paths in {shown(plan.base_path)}"
    door.confirm(f"Change {what}? What is overwritten or deleted is kept.", yes=yes)
    return manager.restore(plan)


def done(door: Door, restored: Restored) -> Iterator[str]:
    """What was done, and how to take it back."""
    from agentos._ways import Way, undo  # noqa: PLC0415 - help offers nothing

    yield door.say(Way(f"done: {len(restored.plan.operations):,} changed; ", undo(restored.restore_id), " takes it back"))
