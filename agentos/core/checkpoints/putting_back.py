"""What is to be at each path for a world to hold again, read off the claims that stand in it.

A file is to have its claimed content, what was claimed absent is to be gone, and a tree is to hold what its manifest says and
nothing else, but for what later claims speak for. Rows, services and whatever else has no content that was kept can only be
named. Pure: what is there now, and what can be had, is measured by hands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentos._text import shown
from agentos.core.checkpoints.ignoring import leaves_out, text_of
from agentos.core.checkpoints.judging import Finding
from agentos.core.checkpoints.kinds.trees import rules_of
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.nesting import Entry
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.core.checkpoints.packing import UnfitManifestError, claimed_tree, decoded
from agentos.core.checkpoints.restores import NOTHING, Kind, Thing
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.stored_rules import StoredRules, UnknownRulesError, rules_in
from agentos.core.checkpoints.trees import EXECUTABLE, FOLDER, LINK, above, without
from agentos.core.checkpoints.trees import Entry as Leaf

_NO_CONTENT = "only that it is there was claimed, and nothing of its content was kept"
_NO_THING = "it is no file: what was claimed of it can be seen, and not put back"
_NO_MANIFEST = "what the tree held was not kept"
_LEFT_OUT = "the rules that are there now leave it out, so it is not touched"
_WORKSPACE = "tree:."
_ELSEWHERE = "it lies outside {base}, where this is put back"


class Stands(NamedTuple):
    """A claim that stands in a world, from where it is looked at, and what is seen of it; asked only of trees."""

    entry: Entry
    evidence: Evidence
    around: Surroundings
    seen: Callable[[], Observation]


@dataclass(slots=True)
class Wishes:
    """What is to be at each path below the base, and which subjects cannot be put back, with the reason."""

    base: str
    targets: dict[str, Thing] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    # Paths in the workspace; what a look with the `.gitignore` files of now did not see; and what is claimed by name.
    by_workspace: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    by_name: set[str] = field(default_factory=set)
    # Paths without which the world can hold again: what is claimed of them holds, or need not.
    spare: set[str] = field(default_factory=set)

    def add(self, claims: Iterable[Stands], findings: Iterable[Finding]) -> None:
        """Everything that these claims say, oldest first; `findings` are those that the world fails by."""
        failed = [each for each in findings if each.result.outcome is Outcome.FAILED]
        needed = {(each.entry.sequence, each.entry.item) for each in failed}
        for claim in claims:
            differs = (claim.entry.sequence, claim.entry.item) in needed
            for path, thing in self._things(claim, differs=differs):
                self.targets[path] = thing
                (self.spare.discard if differs else self.spare.add)(path)
                if claim.entry.subject == _WORKSPACE:
                    self.by_workspace.add(path)
                elif not claim.entry.subject.startswith("tree:"):
                    self.by_name.add(path)
        for finding in failed:
            if why := self._why_not(finding):
                self.cannot[finding.entry.subject] = why

    def add_wholly(self, claims: Iterable[Stands]) -> None:
        """The same where nothing is there yet: whatever has no content is said, whether it differs or not."""
        claimed = []
        for claim in claims:
            self.targets.update(self._things(claim, differs=True))
            claimed.append(claim.entry.subject)
        for subject in claimed:
            # Another claim may say what is in it.
            if subject.startswith("file:") and subject.partition(":")[2] not in self.targets:
                self.cannot.setdefault(subject, _NO_CONTENT)

    def left_out(self, exclude: tuple[str, ...]) -> Callable[[str], str]:
        """Whether what is at a path is left out by the rules of now, so that it is not touched whatever was claimed; in words.

        Args:
            exclude: what the task leaves out of its workspace now.
        """

        def said(path: str) -> str:
            if path in self.by_name:
                return ""
            excluded = path in self.by_workspace and leaves_out(exclude, text_of(os.fsencode(path)))
            return _LEFT_OUT if excluded or path in self.unseen else ""

        return said

    def add_unclaimed(self, things: Iterable[tuple[str, Thing]]) -> None:
        """What is to be at paths of which no claim speaks."""
        for path, thing in things:
            self.targets.setdefault(path, thing)

    def _things(self, claim: Stands, *, differs: bool) -> Iterator[tuple[str, Thing]]:
        kind, _, path = claim.entry.subject.partition(":")
        wanted = _WANTED.get(claim.evidence.evidence_type)
        if wanted is None:
            return
        if claim.around.base_path != self.base or path.startswith("/"):
            if differs:
                self.cannot.setdefault(claim.entry.subject, _ELSEWHERE.format(base=self.base))
        elif kind == "tree":
            yield from self._leaves(claim, path, differs=differs)
        elif (thing := wanted(claim.evidence.expected)) is not None:
            yield path, thing

    def _leaves(self, claim: Stands, root: str, *, differs: bool) -> Iterator[tuple[str, Thing]]:
        tree = manifest_of(claim.evidence, claim.around)
        if tree is None:
            if differs:
                self.cannot[claim.entry.subject] = _NO_MANIFEST
            return
        aside = frozenset(map(os.fsencode, claim.around.aside))
        claimed = without(tree, aside)
        names = {path for path, *_ in claimed}
        for leaf in claimed:
            if (thing := thing_of(leaf, claim.around)) is None:
                if differs:
                    self.cannot[claim.entry.subject] = f"the text of the link {shown(os.fsdecode(leaf[0]), 80)} was not kept"
            else:
                yield _beneath(root, leaf[0]), thing
        seen = claim.seen()
        there = decoded(seen.facts["manifest"]).entries if isinstance(seen, Seen) and "manifest" in seen.facts else []
        extra = [(path, kind == FOLDER) for path, kind, *_ in without(there, aside) if path not in names]
        staying = set(seen.facts["hiding"]) if isinstance(seen, Seen) and there else set()
        if claim.evidence.expected.get("gitignore") and rules_in(tree) != rules_in(there):
            staying |= self._left_out_then(claim, tree, extra, root)
        # What stays keeps the folders that it lies in.
        staying |= {folder for path in staying for folder in above(path)}
        for path, _ in extra:
            if path not in staying:
                yield _beneath(root, path), NOTHING
        if isinstance(seen, Seen) and claim.evidence.expected.get("gitignore"):
            self.unseen |= {_beneath(root, path) for path in names - {path for path, *_ in there}}

    def _left_out_then(self, claim: Stands, tree: list[Leaf], extra: list[tuple[bytes, bool]], root: str) -> set[bytes]:
        """What was left out when the tree was claimed, and shows only because the `.gitignore` files are others now."""
        stored, found = StoredRules(rules_of(claim.evidence), tree, claim.around.kept), set()
        for path, is_folder in extra:
            try:
                if stored.leave_out(path, folder=is_folder):
                    found.add(path)
            except UnknownRulesError as why:
                found.add(path)
                self.cannot[_beneath(root, path)] = str(why)
        return found

    def _why_not(self, finding: Finding) -> str:
        kind = finding.evidence.evidence_type
        if kind not in _WANTED:
            return _NO_THING
        if kind == EvidenceType.ARTIFACT_EXISTS and finding.evidence.expected.get("type") != "directory":
            path = finding.entry.subject.partition(":")[2]
            # Another claim about the same path may say what is to be in it.
            return "" if path in self.targets else _NO_CONTENT
        return ""


def manifest_of(evidence: Evidence, around: Surroundings) -> list[Leaf] | None:
    """What the tree held when it was claimed; None if that was not kept."""
    digest, beside = evidence.expected["digest"].lower(), evidence.metadata.get("manifest")
    try:
        tree = claimed_tree(digest, beside, around.kept)
    except UnfitManifestError:
        return None
    return None if tree is None else tree.entries


def thing_of(leaf: Leaf, around: Surroundings) -> Thing | None:
    """One entry of a tree, as it is to be put back; None of a link whose text was not kept."""
    _, kind, digest, size = leaf
    if kind == FOLDER:
        return Thing(Kind.DIRECTORY)
    if kind == LINK:
        text = around.kept(digest.hex())
        return None if text is None else Thing(Kind.LINK, target=os.fsdecode(text))
    return Thing(Kind.FILE, digest.hex(), size, kind == EXECUTABLE)


def _beneath(root: str, path: bytes) -> str:
    name = os.fsdecode(path)
    return name if root == "." else f"{root}/{name}"


def _file(expected: dict[str, Any]) -> Thing:
    return Thing(Kind.FILE, expected["sha256"].lower(), expected.get("size", 0))


def _nothing(_: dict[str, Any]) -> Thing:
    return NOTHING


def _folder(expected: dict[str, Any]) -> Thing | None:
    return Thing(Kind.DIRECTORY) if expected.get("type") == "directory" else None


_WANTED: dict[str, Callable[[dict[str, Any]], Thing | None]] = {
    EvidenceType.FILE_SHA256: _file,
    EvidenceType.ARTIFACT_ABSENT: _nothing,
    EvidenceType.ARTIFACT_EXISTS: _folder,
    EvidenceType.DIRECTORY_TREE: _folder,
}
