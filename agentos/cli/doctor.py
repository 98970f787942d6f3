"""`agentos doctor`: is everything that was stored still there, and as it was written?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.cli.amounts import in_bytes, things
from agentos.cli.door import Door
from agentos.cli.exits import Exit
from agentos.cli.marks import bold, mark_of
from agentos.cli.progress import showing
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints.checkup import Checkup

SHAPE = {
    "is_sound": "whether nothing was found",
    "registry": "the path of the registry",
    "deep": "whether the indexes were compared page by page, and everything in the vault was read",
    "rows": "how many rows were looked at, by table",
    "contents": "how many kept contents were looked at",
    "bytes": "the bytes that those take",
    "counts": "how many findings there are, by kind",
    "findings": "the first of each kind: `kind`, `where`, `what`, `means` and `hint`",
}


@verb("doctor", SHAPE)
@click.option("--deep", is_flag=True, help="Read everything: also the vault, content by content. Takes its time.")
def command(door: Door, *, deep: bool) -> Exit:
    """Look at every row, every digest and every kept file, and say what is damaged or gone.

    Only looks, also at a registry that is in use or on a read-only disk.
    Exit code 1 if anything was found, 3 if something could not be looked at, 6 if the registry cannot be opened.
    """
    with door.looking() as manager, showing() as progress:
        found = manager.check(deep, progress=progress)
    door.answer(found.to_dict(), _lines(found))
    if found.is_sound:
        return Exit.SAFE
    return Exit.UNCHECKED if found.only_unreadable else Exit.DIFFERS


def _lines(found: Checkup) -> Iterator[str]:
    looked = f"{things(sum(found.rows.values()), 'row')} and {things(found.contents, 'kept content')}, {in_bytes(found.bytes)}"
    yield f"{shown(found.registry)}: {looked}"
    for kind, count in found.counts.items():
        these = [each for each in found.findings if each.kind == kind]
        yield bold(f"{kind}: {these[0].means}")
        for each in these:
            yield f"  {mark_of('failed')} {each.where}: {each.what}"
        if count > len(these):
            yield f"  and {count - len(these):,} more"
        yield f"  -> {these[0].hint}"
    if found.is_sound:
        how = "" if found.deep else "; --deep also reads everything in the vault"
        yield f"{mark_of('verified')} everything is there, and as it was written{how}"
