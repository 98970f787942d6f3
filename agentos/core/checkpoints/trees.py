"""Trees as values: what lies beneath a folder, as bytes that say exactly that, their digest, and how two of them differ.

An entry is a tuple: the path below the folder in raw bytes, what it is, the SHA-256 of its content, its size. Folders have no
content; that of a link is its text. The bytes of a tree begin with the rules by which something was left out, so a digest
speaks for those too. Every byte is described in docs/specs/evidence/directory_tree.md. Pure: no disk is looked at here.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

ALGORITHM = "agentos-tree-v1"
FILE, EXECUTABLE, LINK, FOLDER = b"fxld"
WORDS = {FILE: "file", EXECUTABLE: "executable file", LINK: "link", FOLDER: "folder"}

# Path, kind, digest, size. A tuple, because there may be a million of them.
Entry = tuple[bytes, int, bytes, int]

MAGIC = b"agentos-tree-v1\0"
COUNTS = struct.Struct(">BIQ")
RULE = struct.Struct(">I")
HEAD = struct.Struct(">BIQ")
_DIGEST = 32


class Rules(NamedTuple):
    """What is left out: by these lines, and by the `.gitignore` files of the tree itself."""

    exclude: tuple[str, ...] = ()
    gitignore: bool = False


class Tree(NamedTuple):
    """What lies beneath a folder, but for what the rules leave out. The entries are sorted."""

    rules: Rules
    entries: list[Entry]


def serialised(rules: Rules, entries: list[Entry]) -> bytes:
    """The bytes of a tree; the entries are sorted for that."""
    entries.sort()
    parts = [MAGIC, COUNTS.pack(rules.gitignore, len(rules.exclude), len(entries))]
    for line in rules.exclude:
        data = line.encode()
        parts += (RULE.pack(len(data)), data)
    head = HEAD.pack
    for path, kind, digest, size in entries:
        parts += (head(kind, len(path), size), path, digest)
    return b"".join(parts)


def contents_of(data: bytes) -> list[tuple[bytes, int, bytes]]:
    """Path, kind and digest of everything in a tree that is no folder, from bytes that were made by `serialised` just now."""
    _, lines, count = COUNTS.unpack_from(data, len(MAGIC))
    at = len(MAGIC) + COUNTS.size
    for _ in range(lines):
        at += RULE.size + RULE.unpack_from(data, at)[0]
    head, size_of_head = HEAD.unpack_from, HEAD.size
    found = []
    for _ in range(count):
        kind, length, _ = head(data, at)
        start = at + size_of_head
        at = start + length
        if kind != FOLDER:
            found.append((data[start:at], kind, data[at : at + _DIGEST]))
            at += _DIGEST
    return found


def digest_of(data: bytes) -> str:
    """The digest of a tree, from its bytes."""
    return hashlib.sha256(data).hexdigest()


class Difference(NamedTuple):
    """How a tree differs from what it was: paths in order; of what changed also what it was and is."""

    changed: list[tuple[bytes, int, int]]
    missing: list[tuple[bytes, int]]
    extra: list[tuple[bytes, int]]

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.extra)


def difference(before: Iterable[Entry], now: Iterable[Entry]) -> Difference:
    """What became of the entries. A folder is named only if nothing in it is."""
    old, new = _by_path(before), _by_path(now)
    changed = [(path, old[path][0], new[path][0]) for path in old if path in new and old[path] != new[path]]
    return Difference(changed, _only_in(old, new), _only_in(new, old))


def without(entries: Iterable[Entry], aside: frozenset[bytes]) -> list[Entry]:
    """The entries but for these names, each with everything beneath it, and the folders that lead there and come with them."""
    leading = {folder for name in aside for folder in above(name)}
    return [each for each in entries if not (_is_aside(each[0], aside) or (each[1] == FOLDER and each[0] in leading))]


def above(path: bytes) -> Iterable[bytes]:
    """The folders that a path lies beneath, the nearest first."""
    while (end := path.rfind(b"/")) > 0:
        path = path[:end]
        yield path


def _is_aside(path: bytes, aside: frozenset[bytes]) -> bool:
    return path in aside or any(folder in aside for folder in above(path))


def _by_path(entries: Iterable[Entry]) -> dict[bytes, tuple[int, bytes, int]]:
    return {path: (kind, digest, size) for path, kind, digest, size in entries}


def _only_in(one: Mapping[bytes, tuple[int, bytes, int]], other: Mapping[bytes, object]) -> list[tuple[bytes, int]]:
    only = [(path, one[path][0]) for path in one if path not in other]
    spoken_for = {folder for path, _ in only for folder in above(path)}
    return [(path, kind) for path, kind in only if path not in spoken_for]
