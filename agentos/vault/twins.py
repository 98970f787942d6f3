"""Paths that a file system takes for one: they differ in case only, or in how the same letters are spelled."""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

from agentos.errors import RestoreRefusedError
from agentos.vault.beneath import Root, above_of


def twins_among(root: Root, paths: Iterable[str]) -> dict[str, str]:
    """For each path that cannot be told from another one of these, that other one."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        groups[unicodedata.normalize("NFC", path).casefold()].append(path)
    found: dict[str, str] = {}
    for group in groups.values():
        if len(group) > 1 and _is_one_name(root, group[0]):
            found |= {path: next(each for each in group if each != path) for path in group}
    return found


def _is_one_name(root: Root, path: str) -> bool:
    """Shown by what is in the nearest folder that has anything with letters; if nothing has, moving refuses to replace one."""
    for folder in (*reversed(list(above_of(path))), ""):
        with suppress(OSError, RestoreRefusedError):
            told = _tells_case(root, f"{folder}/x".lstrip("/"))
            if told is not None:
                return not told
    return False


def _tells_case(root: Root, inside: str) -> bool | None:
    with root.folder_of(inside) as (folder, _):
        names = set(os.listdir(folder))
        for name in names:
            if name.isascii() and name.swapcase() not in names:
                try:
                    os.stat(name.swapcase(), dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    return True
                return False
    return None
