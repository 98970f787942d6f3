"""Which of what differs a person means by a path.

What is claimed there; or, of a folder that is claimed with everything in it, what differs at that path and beneath it. What is
left of such a folder still stands, and may still differ.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from agentos._text import listed
from agentos.core.checkpoints.judging import Finding
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.nesting import beneath
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.packing import decoded
from agentos.core.checkpoints.putting_back import Stands, manifest_of
from agentos.core.checkpoints.restores import is_at
from agentos.core.checkpoints.trees import without
from agentos.errors import InvalidInputError


def chosen(findings: Sequence[Finding], subjects: Iterable[str], stands: Iterable[Stands]) -> list[Finding]:
    """Those of the findings that are meant.

    Args:
        subjects: subjects as a recovery names them, or paths.
        stands: everything that stands where the findings were made.

    Raises:
        InvalidInputError: nothing differs at one of them.
    """
    trees = {(each.entry.sequence, each.entry.item): each for each in stands if each.entry.subject.startswith("tree:")}
    meant: dict[tuple[str, int, int], Finding] = {}
    unknown = []
    for subject in subjects:
        found = [each for each in findings if _is_named(each, subject)] or list(_beneath(findings, subject, trees))
        if not found:
            unknown.append(subject)
        meant.update({(each.entry.subject, each.entry.sequence, each.entry.item): each for each in found})
    if unknown:
        raise InvalidInputError(
            f"subjects: {listed(sorted(unknown))}: nothing differs there",
            hint=f"what differs: {listed(sorted({finding.entry.subject for finding in findings})) or 'nothing'}",
        )
    return list(meant.values())


def _is_named(finding: Finding, subject: str) -> bool:
    kind, _, path = finding.entry.subject.partition(":")
    return finding.entry.subject == subject or (kind in ("file", "tree") and path == _plain(subject))


def _beneath(findings: Sequence[Finding], subject: str, trees: dict[tuple[int, int], Stands]) -> Iterator[Finding]:
    path = _plain(subject.removeprefix("file:"))
    for finding in findings:
        tree = trees.get((finding.entry.sequence, finding.entry.item))
        root = finding.entry.subject.partition(":")[2]
        name = beneath(root, path)
        if tree is None or not name:
            continue
        for each in _differing(tree, name):
            yield _of_file(finding, each if root == "." else f"{root.rstrip('/')}/{each}")


def _differing(tree: Stands, name: str) -> list[str]:
    """What differs at this name of the tree, beneath it, and of the folders that it lies in."""
    claimed, seen = manifest_of(tree.evidence, tree.around), tree.seen()
    if claimed is None or not isinstance(seen, Seen) or "manifest" not in seen.facts:
        # Nobody knows what was there; what is there now can be measured all the same.
        return [name]
    aside = frozenset(map(os.fsencode, tree.around.aside))
    entries = set(without(claimed, aside)) ^ set(without(decoded(seen.facts["manifest"]).entries, aside))
    names = {os.fsdecode(path) for path, *_ in entries}
    if not any(is_at(each, [name]) for each in names):
        return []
    return sorted(each for each in names if is_at(each, [name]) or is_at(name, [each]))


def _of_file(finding: Finding, path: str) -> Finding:
    """The same as a claim about this one file."""
    shared = {key: value for key, value in finding.evidence.metadata.items() if key in ("lifetime", "sensitive", "kept")}
    evidence = Evidence(EvidenceType.FILE_SHA256, f"content of {path}", {"path": path}, shared)
    return replace(finding, entry=finding.entry._replace(subject=f"file:{path}", rules=""), evidence=evidence)


def _plain(path: str) -> str:
    return os.path.normpath(path) if path else path
