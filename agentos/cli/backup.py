"""`agentos backup FILE`: registry and vault in one file, known to be whole."""

from __future__ import annotations

import os

import click

from agentos._text import shown
from agentos.cli.amounts import in_bytes, things
from agentos.cli.door import Door, yes_option
from agentos.cli.exits import Exit
from agentos.cli.marks import mark_of
from agentos.cli.progress import showing
from agentos.cli.verb import verb

SHAPE = {
    "path": "the backup's path",
    "bytes": "its size",
    "checkup": "what `agentos doctor --deep` says of it, unpacked: see there",
}


@verb("backup", SHAPE)
@click.argument("file", metavar="FILE")
@click.option("--damaged", is_flag=True, help="Keep the copy also if something in it is damaged or missing.")
@yes_option
def command(door: Door, file: str, *, damaged: bool, yes: bool) -> Exit:
    """Copy registry and vault into FILE, a tar, while agents go on; unpack it, look at all of it, and only then name it FILE.

    `tar -xf FILE` unpacks a folder with registry.sqlite, vault/ and a README.txt that says how to go on from it.
    """
    replace = os.path.isfile(file)
    if replace:
        door.confirm(f"{shown(file)} is there already. Replace it?", yes=yes)
    with door.looking() as manager, showing() as progress:
        made = manager.backup(file, replace=replace, damaged=damaged, progress=progress)
    found = made.checkup
    holds = f"{things(found.rows.get('tasks', 0), 'task')}, {things(found.contents, 'kept content')}, {in_bytes(made.bytes)}"
    mark, words = ("verified", "unpacked and looked at: all of it is there, and as it was written")
    if not found.is_sound:
        mark, words = ("failed", f"unpacked and looked at: {found.in_words()}; `agentos doctor --deep` says what")
    door.answer(made.to_dict(), [f"{shown(made.path)}: {holds}", f"{mark_of(mark)} {words}"])
    return Exit.SAFE if found.is_sound else Exit.DIFFERS
