"""A stranger who works in a task's folder while its agent is dead, and who wants back what the next resume overwrote.

What explain() printed is all that the stranger knows: the calls are read off that text, and made.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from random import Random

from agentos.core.checkpoints import CheckpointManager
from tests.torture.workshop import LEDGER, SCRATCH, Tree, differences, tree_of

_CALL = re.compile(r"manager\.undo_restore\('(restore_[0-9A-Z]{26})'\)")
# What a restore has under way, and what only steps change.
_NOT_MINE = (b".agentos-restore-", os.fsencode(LEDGER))


def meddle(folder: Path, rng: Random) -> Tree:
    """Change some things in the folder; what the stranger wrote, and is still there."""
    written = set()
    for number in range(rng.randint(1, 6)):
        paths = [folder / os.fsdecode(path) for path in sorted(tree_of(folder)) if not path.startswith(_NOT_MINE)]
        written.add(_change(folder, paths, rng, b"by a stranger %d %d\n" % (number, rng.getrandbits(64))))
    (folder / SCRATCH / f"{rng.getrandbits(64)}").write_bytes(b"of no concern to anybody")
    there = tree_of(folder)
    mine = {os.fsencode(path.relative_to(folder)) for path in written if path is not None}
    return {path: leaf for path, leaf in there.items() if path in mine}


def _change(folder: Path, paths: list[Path], rng: Random, text: bytes) -> Path | None:
    path = rng.choice(paths) if paths and rng.random() < 0.8 else folder / f"strange {rng.randint(0, 3)}"
    act = rng.random()
    if act < 0.25 and os.path.lexists(path):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        return None
    if path.is_symlink():
        path.unlink()
    if path.is_dir():
        # Into the folder, or in its place.
        if act < 0.8:
            path /= "strange"
            if path.is_dir():
                return None
        else:
            shutil.rmtree(path)
    if act < 0.45 and path.is_file():
        path.write_bytes(path.read_bytes() + text)
    else:
        path.write_bytes(text * rng.choice([1, 1, 3000]))
    if act > 0.9:
        path.chmod(0o700)
    return path


def calls_in(explained: str) -> list[str]:
    """The restores that explain() says how to take back, in the order in which it names them."""
    return list(dict.fromkeys(_CALL.findall(explained)))


def get_back(manager: CheckpointManager, printed: list[str], folder: Path, written: Tree, rng: Random) -> list[str]:
    """Make the printed calls, the newest restore first; which of the stranger's things are not back."""
    now = tree_of(folder)
    gone = [path for path, leaf in sorted(written.items()) if now.get(path) != leaf]
    found = []
    for path in rng.sample(gone, min(len(gone), rng.randint(0, 2))):
        found += [f"only: {line}" for line in _one_back(manager, printed, folder, path, written)]
    for restore_id in sorted(printed, reverse=True):
        manager.undo_restore(restore_id)
    now = tree_of(folder)
    return found + differences(written, {path: now[path] for path in written if path in now})


def _one_back(manager: CheckpointManager, printed: list[str], folder: Path, path: bytes, written: Tree) -> list[str]:
    """Only this path."""
    others = {name: leaf for name, leaf in tree_of(folder).items() if not _shares(name, path)}
    for restore_id in sorted(printed, reverse=True):
        plan = manager.plan_undo(restore_id).only(os.fsdecode(path))
        if plan.operations:
            manager.restore(plan)
    now = tree_of(folder)
    rest = {name: leaf for name, leaf in now.items() if not _shares(name, path)}
    return differences({path: written[path]}, {path: now[path]} if path in now else {}) + differences(others, rest)


def _shares(name: bytes, path: bytes) -> bool:
    """Whether one lies on the way to the other."""
    return name == path or name.startswith(path + b"/") or path.startswith(name + b"/")
