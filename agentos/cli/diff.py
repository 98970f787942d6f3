"""`agentos diff A [B]`: what changed between two checkpoints, in the state and with `--files` in the workspace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli import naming
from agentos.cli.columns import ago
from agentos.cli.door import Door, note
from agentos.cli.marks import bold, sign_of
from agentos.cli.outline import brief, cut, place
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints.comparing import Comparison, Side
    from agentos.core.checkpoints.differing import Change
    from agentos.core.checkpoints.files_between import FileChange, Leaf

SHAPE = {
    "from": "the older side: `checkpoint_id`, `task_id`, `sequence_number`, `checkpoint_type`, `created_at`; or null",
    "to": "the newer side, likewise",
    "changes": "of the state: `path` (a JSON pointer), `change` (`added`, `removed`, `changed`), `before`, `after`",
    "files": "with `--files`: `path`, `change` (as above; `claimed` and `unclaimed` where nothing is known of the other side), "
    "`before`, `after`; else null",
    "notes": "what is not known of the files, and why",
}
_LINES = 120


@verb("diff", SHAPE)
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
@click.option("--files", is_flag=True, help="Also what changed in the files that were proven and kept.")
@click.option("--full", is_flag=True, help="Show every change, not only the first ones.")
def command(door: Door, first: str, second: str | None, *, files: bool, full: bool) -> None:
    """Show what changed from checkpoint A to checkpoint B.

    With A alone: what A changed, from the checkpoint before it on the timeline. Files are compared by what was claimed of them
    and kept, so no look at the world is needed, and none is taken.
    """
    with door.looking() as manager:
        named = [naming.checkpoint_named(manager, text) for text in (first, second) if text is not None]
        found = manager.compare_checkpoints(named[-1], named[0] if len(named) > 1 else None, files=files)
    door.answer(found.to_dict(), _lines(found, None if full else _LINES))
    for each in found.notes:
        note(each)


def _lines(found: Comparison, most: int | None) -> Iterator[str]:
    yield f"from  {'nothing: there is no checkpoint before' if found.before is None else _side(found.before)}"
    yield f"to    {_side(found.after)}"
    yield bold("state") + ("" if found.changes else ": nothing changed")
    yield from cut(_tree(found.changes), most, "  … and more: --full shows every change, --json every value whole")
    if found.files is not None:
        yield bold("files") + ("" if found.files else ": nothing is known to have changed")
        yield from cut(map(_file, found.files), most, "  … and more: --full shows every path")


def _side(side: Side) -> str:
    named = f"number {side.sequence_number}  {shown(side.checkpoint_id, 80)}  {side.checkpoint_type}  {ago(side.created_at)}"
    return f"{named}  task {shown(side.task_id, 80)}"


def _tree(changes: Sequence[Change]) -> Iterator[str]:
    """One line for each change, beneath lines for what it lies in."""
    inside: tuple[str | int, ...] = ()
    for change in changes:
        way = change.way[:-1]
        same = next((depth for depth, (one, other) in enumerate(zip(inside, way, strict=False)) if one != other), None)
        common = min(len(inside), len(way)) if same is None else same
        for depth in range(common, len(way)):
            yield f"  {'  ' * depth}  {place(way[depth])}"
        inside = way
        name = place(change.way[-1]) if change.way else "everything"
        yield f"  {'  ' * len(way)}{sign_of(change.kind)} {name}: {_value(change)}"


def _value(change: Change) -> str:
    if change.kind == "changed":
        return f"{brief(change.before, 60)} -> {brief(change.after, 60)}"
    return brief(change.after if change.kind == "added" else change.before)


def _file(change: FileChange) -> str:
    path = shown(change.path, 200)
    if change.change == "changed" and change.before is not None and change.after is not None:
        return f"  {sign_of('changed')} {path}  {_became(change.before, change.after)}"
    leaf = change.after or change.before
    said = _leaf(leaf) if leaf is not None else ""
    if change.change == "claimed":
        return f"  {sign_of('added')} {path}  {said}; nothing was known of it before"
    if change.change == "unclaimed":
        return f"  {sign_of('removed')} {path}  {said}; nobody vouches for it any more"
    return f"  {sign_of(change.change)} {path}  {said}"


def _leaf(leaf: Leaf) -> str:
    size = f" of {leaf.size:,} bytes" if leaf.size is not None and leaf.kind == "file" else ""
    return f"{leaf.kind}{size}"


def _became(before: Leaf, after: Leaf) -> str:
    if before.kind != after.kind:
        return f"{_leaf(before)} -> {_leaf(after)}"
    if before.sha256 == after.sha256:
        return "made executable" if after.executable else "no longer executable"
    if None not in (before.size, after.size):
        return f"{before.size:,} -> {after.size:,} bytes"
    return "other content"
