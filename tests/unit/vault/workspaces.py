"""Workspaces as values: a tree that is on the disk, the same as targets of a restore, and a disk made like it."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from agentos.core.checkpoints.restores import NOTHING, Kind, Thing
from agentos.vault.planning import About
from agentos.vault.vault import Vault

ABOUT = About("task", "checkpoint")
FOLDER = Thing(Kind.DIRECTORY)
# Content and whether it is executable, the target of a link, or a folder.
Item = tuple[bytes, bool] | str | None
Tree = dict[str, Item]


def tree(root: Path | str) -> Tree:
    """Everything in a folder, by path; special files by their kind."""
    found: Tree = {}
    for at, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(at, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, root)
            if stat.S_ISREG(status.st_mode):
                found[relative] = (Path(path).read_bytes(), bool(status.st_mode & stat.S_IXUSR))
            elif stat.S_ISLNK(status.st_mode):
                found[relative] = os.readlink(path)
            else:
                found[relative] = None if stat.S_ISDIR(status.st_mode) else f"special {stat.S_IFMT(status.st_mode):o}"
    return found


def make(root: Path, wanted: Mapping[str, Item | bytes]) -> None:
    """Have exactly this in the folder."""
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
    for path, item in wanted.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if item is None:
            place.mkdir(exist_ok=True)
        elif isinstance(item, str):
            place.symlink_to(item)
        else:
            content, executable = item if isinstance(item, tuple) else (item, False)
            place.write_bytes(content)
            place.chmod(0o755 if executable else 0o644)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def file(content: bytes, *, executable: bool | None = False) -> Thing:
    """The file that a target wants."""
    return Thing(Kind.FILE, sha(content), executable=executable)


def thing(item: Item) -> Thing:
    """The same as a target."""
    if item is None:
        return FOLDER
    return Thing(Kind.LINK, target=item) if isinstance(item, str) else file(item[0], executable=item[1])


def targets(wanted: Tree, there: Tree) -> dict[str | bytes, Thing]:
    """What makes one tree of another: what only the other has is to go."""
    gone: dict[str | bytes, Thing] = dict.fromkeys(there.keys() - wanted.keys(), NOTHING)
    return {**gone, **{path: thing(item) for path, item in wanted.items()}}


def keep_all(vault: Vault, wanted: Tree) -> None:
    """Keep what the files of a tree hold."""
    with vault.keeping() as keeping:
        for item in wanted.values():
            if isinstance(item, tuple):
                keeping.add(item[0])
        keeping.settle()
