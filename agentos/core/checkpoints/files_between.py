"""What became of files between two checkpoints, by what was claimed of them and kept. No file is looked at.

A world says of a path that a file with this content is there, or that nothing is, or it says nothing. Only where both say
something is a file known to have been added or removed; elsewhere a claim began or ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentos.core.checkpoints.ignoring import leaves_out
from agentos.core.checkpoints.kinds.kind import is_sensitive
from agentos.core.checkpoints.kinds.trees import rules_of
from agentos.core.checkpoints.models import EvidenceType
from agentos.core.checkpoints.nesting import beneath
from agentos.core.checkpoints.putting_back import Stands, manifest_of
from agentos.core.checkpoints.trees import EXECUTABLE, FOLDER, LINK, without

ADDED, REMOVED, CHANGED, CLAIMED, UNCLAIMED = "added", "removed", "changed", "claimed", "unclaimed"


class Leaf(NamedTuple):
    """What is at a path: `file`, `link` or `folder`, or `something` of which only that was claimed. None is not known."""

    kind: str
    sha256: str | None = None
    size: int | None = None
    executable: bool | None = None

    def differs(self, other: Leaf) -> bool:
        """Whether it is known to be something else."""
        if "something" in (self.kind, other.kind):
            return False
        known = [(mine, theirs) for mine, theirs in zip(self, other, strict=True) if None not in (mine, theirs)]
        return any(mine != theirs for mine, theirs in known)

    def to_dict(self) -> dict[str, Any]:
        """What is known of it."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class FileChange(NamedTuple):
    """One path. `change` is `added`, `removed`, `changed`; or `claimed`, `unclaimed`: nothing is known of the other side."""

    path: str
    change: str
    before: Leaf | None
    after: Leaf | None

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        sides = {
            name: None if leaf is None else leaf.to_dict() for name, leaf in (("before", self.before), ("after", self.after))
        }
        return {"path": self.path, "change": self.change, **sides}


@dataclass(slots=True)
class Files:
    """What one world says of files, by paths below its base or absolute ones."""

    leaves: dict[str, Leaf] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    trees: list[tuple[str, Stands]] = field(default_factory=list)
    # Trees of which it is not known any more what they held.
    unknown: list[str] = field(default_factory=list)
    # Claims that are not told about.
    hidden: int = 0

    def says_nothing_is_at(self, path: str) -> bool:
        """Whether it says that there is nothing at this path."""
        if path in self.leaves:
            return False
        return path in self.absent or any(_holds_all(root, claim, path) for root, claim in self.trees)


def files_of(claims: Iterable[Stands], base: str) -> Files:
    """What these claims say, oldest first."""
    found = Files()
    for claim in claims:
        kind, _, name = claim.entry.subject.partition(":")
        if kind not in ("file", "tree"):
            continue
        if is_sensitive(claim.evidence):
            found.hidden += 1
            continue
        path = name if claim.around.base_path == base else os.path.normpath(os.path.join(claim.around.base_path, name))
        if claim.evidence.evidence_type == EvidenceType.DIRECTORY_TREE:
            _add_tree(found, path, claim)
        else:
            _add_file(found, path, claim)
    return found


def _add_file(found: Files, path: str, claim: Stands) -> None:
    expected = claim.evidence.expected
    match claim.evidence.evidence_type:
        case EvidenceType.ARTIFACT_ABSENT:
            found.absent.add(path)
        case EvidenceType.FILE_SHA256:
            found.leaves[path] = Leaf("file", expected["sha256"].lower(), expected.get("size"))
        case EvidenceType.ARTIFACT_EXISTS:
            kind = {"file": "file", "directory": "folder"}.get(expected.get("type", "any"), "something")
            found.leaves.setdefault(path, Leaf(kind))
        case _:
            found.leaves.setdefault(path, Leaf("file"))


def _add_tree(found: Files, root: str, claim: Stands) -> None:
    entries = manifest_of(claim.evidence, claim.around)
    if entries is None:
        found.unknown.append(root)
        return
    found.trees.append((root, claim))
    for name, kind, digest, size in without(entries, frozenset(map(os.fsencode, claim.around.aside))):
        path = os.fsdecode(name) if root == "." else f"{root}/{os.fsdecode(name)}"
        if kind == FOLDER:
            found.leaves[path] = Leaf("folder")
        elif kind == LINK:
            found.leaves[path] = Leaf("link", digest.hex(), size)
        else:
            found.leaves[path] = Leaf("file", digest.hex(), size, kind == EXECUTABLE)


def _holds_all(root: str, claim: Stands, path: str) -> bool:
    """Whether the tree speaks for this path. What its `.gitignore` files left out counts as not there: it is not known here."""
    name = beneath(root, path)
    if not name or any(name == each or beneath(each, name) for each in claim.around.aside):
        return False
    return not leaves_out(rules_of(claim.evidence).exclude, name)


def changes(before: Files, after: Files) -> Iterator[FileChange]:
    """What became of each path, in their order."""
    for path in sorted({*before.leaves, *after.leaves}):
        was, now = before.leaves.get(path), after.leaves.get(path)
        if was is None:
            yield FileChange(path, ADDED if before.says_nothing_is_at(path) else CLAIMED, None, now)
        elif now is None:
            yield FileChange(path, REMOVED if after.says_nothing_is_at(path) else UNCLAIMED, was, None)
        elif was.differs(now):
            yield FileChange(path, CHANGED, was, now)
