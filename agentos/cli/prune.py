"""`agentos prune`: let old checkpoints go, and give their space back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from agentos.cli.amounts import age, in_bytes, things
from agentos.cli.door import Door, yes_option
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints import Pruned

SHAPE = {
    "tasks": "how many tasks lost something",
    "checkpoints": "how many checkpoints were removed",
    "emptied": "how many lost their snapshots only: a kept checkpoint stands on what they claim",
    "abandoned": "how many steps that ended without a checkpoint were removed",
    "verifications": "how many old verifications of kept checkpoints were removed",
    "bytes_freed": "bytes that the registry's file takes less; 0 with `--dry-run`",
    "dry_run": "whether nothing was removed: the counts are what would be",
}


@verb("prune", SHAPE)
@click.argument("task_id", metavar="[TASK]", required=False)
@click.option("--keep-verified", default=100, show_default=True, metavar="N", help="So many verified ones of a task stay.")
@click.option("--older-than", default=None, metavar="AGE", help="Only what is older than this: 90m, 12h, 30d, 4w.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@yes_option
def command(door: Door, task_id: str | None, keep_verified: int, older_than: str | None, *, dry_run: bool, yes: bool) -> None:
    """Remove old checkpoints of TASK, or of all tasks, with superseded and abandoned steps and old verifications.

    What a kept checkpoint stands on stays, and so does every step that has not ended.
    Kept files go with `agentos vault --collect`.
    """
    before = None if older_than is None else age(older_than)
    with door.acting() as manager:
        if task_id is not None:
            from agentos.cli.naming import task_named  # noqa: PLC0415 - help needs no registry

            task_id = task_named(manager, task_id)
        found = manager.prune(task_id, keep_verified=keep_verified, older_than=before, dry_run=True)
        if not dry_run and _sum(found):
            door.confirm(f"Remove {_words(found)}?", yes=yes)
            found = manager.prune(task_id, keep_verified=keep_verified, older_than=before)
    door.answer({**asdict(found), "dry_run": dry_run}, [_line(found, dry_run=dry_run)])


def _sum(found: Pruned) -> int:
    return found.checkpoints + found.emptied + found.abandoned + found.verifications


def _words(found: Pruned) -> str:
    parts = [
        things(found.checkpoints, "checkpoint"),
        things(found.emptied, "snapshot of a checkpoint that others stand on", "snapshots of checkpoints that others stand on"),
        things(found.abandoned, "abandoned step"),
        things(found.verifications, "old verification"),
    ]
    return f"{', '.join(part for part in parts if not part.startswith('0 '))} of {things(found.tasks, 'task')}"


def _line(found: Pruned, *, dry_run: bool) -> str:
    if not _sum(found):
        return "nothing to remove"
    if dry_run:
        return f"would remove {_words(found)}"
    return f"removed {_words(found)}; {in_bytes(found.bytes_freed)} given back"
