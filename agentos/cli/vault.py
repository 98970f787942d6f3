"""`agentos vault`: what kept content takes, what it is needed for, and the rest away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli.amounts import in_bytes, things
from agentos.cli.door import Door, yes_option
from agentos.cli.exits import Exit
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager
    from agentos.core.checkpoints.restores import Collected, VaultReport

SHAPE = {
    "place": "the vault's folder",
    "bytes": "bytes that everything in it takes",
    "contents": "how many contents are kept",
    "limit": "bytes it may take; null without a limit",
    "tasks": "bytes by task: what its checkpoints and open steps need; what several need counts for the first",
    "safety": "bytes of what restores overwrote, kept until that is pruned",
    "unneeded": "bytes that nothing needs: what `--collect` removes",
    "collected": "what that did: `contents`, `drafts`, `bytes` that go, `kept`, `kept_bytes`, `missing`, `dry_run`; or null",
}
_MOST_SHOWN = 20


@verb("vault", SHAPE)
@click.option("--collect", "collects", is_flag=True, help="Remove kept content that nothing needs any more.")
@click.option("--dry-run", is_flag=True, help="With --collect: only say what would be removed.")
@yes_option
def command(door: Door, *, collects: bool, dry_run: bool, yes: bool) -> Exit:
    """Show what kept content takes and what it is needed for; with --collect remove what nothing needs."""
    collected = None
    with door.acting() if collects and not dry_run else door.looking() as manager:
        if collects:
            collected = _collected(door, manager, dry_run=dry_run, yes=yes)
        report = manager.vault_report()
    document = {**asdict(report), "collected": None if collected is None else asdict(collected)}
    door.answer(document, _lines(report, collected))
    return Exit.DIFFERS if collected is not None and collected.missing else Exit.SAFE


def _collected(door: Door, manager: CheckpointManager, *, dry_run: bool, yes: bool) -> Collected:
    found = manager.collect(dry_run=True)
    if dry_run or not (found.contents or found.drafts):
        return found
    door.confirm(f"Remove {_what(found)}?", yes=yes)
    return manager.collect()


def _lines(report: VaultReport, collected: Collected | None) -> Iterator[str]:
    if collected is not None:
        yield f"{'would remove' if collected.dry_run else 'removed'} {_what(collected)}"
        for digest in collected.missing:
            yield f"missing: {digest}: a checkpoint needs it, and it is not in the vault"
    limit = "" if report.limit is None else f" of {in_bytes(report.limit)}"
    yield f"{shown(report.place)}: {things(report.contents, 'content')}, {in_bytes(report.bytes)}{limit}"
    largest = sorted(report.tasks.items(), key=lambda each: (-each[1], each[0]))
    for task_id, size in largest[:_MOST_SHOWN]:
        yield f"  {in_bytes(size):>12}  task {shown(task_id, 80)}"
    if len(largest) > _MOST_SHOWN:
        rest = sum(size for _, size in largest[_MOST_SHOWN:])
        yield f"  {in_bytes(rest):>12}  {things(len(largest) - _MOST_SHOWN, 'task')} more"
    yield f"  {in_bytes(report.safety):>12}  what restores overwrote"
    yield f"  {in_bytes(report.unneeded):>12}  nothing needs this: `agentos vault --collect` removes it"


def _what(found: Collected) -> str:
    drafts = f" and {things(found.drafts, 'leftover')} of crashes" if found.drafts else ""
    return f"{things(found.contents, 'content')}{drafts}, {in_bytes(found.bytes)}"
