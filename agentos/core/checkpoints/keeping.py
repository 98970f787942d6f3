"""Which content of a step is kept, so that what it claims can be made true again.

Claims of files and trees whose `metadata["keep"]` is true, or says nothing where whoever commits keeps by default. By default
files up to a limit are kept; asked for by name, of any size. What became of it is in `metadata["kept"]`: true, false, or of a
tree the names of what was not kept. Only what was measured is kept; what changed since is not what is claimed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentos._text import shown
from agentos.core.checkpoints.hands import Kept, Round
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.packing import UnfitManifestError, claimed_tree, packed
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.trees import FOLDER, LINK, contents_of
from agentos.errors import EvidenceUnavailableError

# Path, kind and digest of what is in a tree.
Content = tuple[bytes, int, bytes]
# Of a larger tree nothing is learned: that would take memory for as long as the keeper lives.
_MOST_LEARNED = 100_000
# How many names of a tree are listed that were not kept.
MOST_NAMED = 20


class Newest(NamedTuple):
    """A task, and what its newest checkpoint claimed, if it has one."""

    task_id: str
    pack: Callable[[], EvidencePack | None]


class ToKeep(NamedTuple):
    """A claim whose content is to be kept, and what was seen of it just now, if anything was looked at."""

    evidence: Evidence
    seen: Observation | None


def wants(evidence: Evidence, *, by_default: bool) -> bool:
    """Whether the content that this item claims is to be kept."""
    return evidence.metadata.get("keep", by_default) is True and evidence.evidence_type in _KEEPERS


@dataclass(slots=True)
class Keeper:
    """Keeps what the steps of one manager claim.

    Args:
        limit: bytes of a file up to which its content is kept, unless more is asked for.
        versions: the digest that each thing had when it was last kept, by base and path: the next one is like it.
    """

    limit: int
    versions: dict[tuple[str, str], str] = field(default_factory=dict)
    # Tasks whose newest checkpoint was asked for what was kept before this process was there.
    asked: set[str] = field(default_factory=set)

    def keep(self, wanted: Iterable[ToKeep], around: Surroundings, kept: Round, newest: Newest) -> None:
        """Keep the content, make it durable, and write down in each claim what became of it.

        Args:
            newest: the task, and its newest checkpoint; asked once, if something that this keeper does not know is to be kept.

        Raises:
            EvidenceUnavailableError: something changed between the look at it and this; nothing may be committed.
        """
        for item in wanted:
            most = None if item.evidence.metadata.get("keep") is True else self.limit
            one = _One(self, around, kept, most, newest)
            # What was seen to differ is not what is claimed, and what was not looked at may be.
            differs = isinstance(item.seen, Unseen) or (isinstance(item.seen, Seen) and not _holds(item.evidence, item.seen))
            keeper = _KEEPERS[EvidenceType(item.evidence.evidence_type)]
            item.evidence.metadata["kept"] = False if differs else keeper(one, item)
        kept.settle()

    def version(self, around: Surroundings, path: str, newest: Newest) -> str | None:
        """The digest of the version before, if one was kept."""
        if (around.base_path, path) not in self.versions and newest.task_id not in self.asked:
            self.asked.add(newest.task_id)
            for what, digest in _versions(newest.pack(), around):
                self.versions.setdefault(what, digest)
        return self.versions.get((around.base_path, path))


def _versions(pack: EvidencePack | None, around: Surroundings) -> Iterator[tuple[tuple[str, str], str]]:
    for claim in [] if pack is None else pack.evidence_list:
        base, path = around.base_path, claim.expected.get("path", "")
        if not claim.metadata.get("kept"):
            continue
        if claim.evidence_type == EvidenceType.FILE_SHA256:
            yield (base, path), claim.expected["sha256"].lower()
        elif claim.evidence_type == EvidenceType.DIRECTORY_TREE and claim.expected.get("files", 0) <= _MOST_LEARNED:
            digest = claim.expected["digest"].lower()
            yield (base, f"{path}/"), digest
            with suppress(UnfitManifestError):
                tree = claimed_tree(digest, claim.metadata.get("manifest"), around.kept)
                for name, kind, content, _ in [] if tree is None else tree.entries:
                    if kind != FOLDER:
                        yield (base, os.path.join(path, os.fsdecode(name))), content.hex()


def _holds(evidence: Evidence, seen: Seen) -> bool:
    return kind_of(evidence).judge(evidence, seen.facts).outcome is Outcome.VERIFIED


class _One:
    """The keeping of one claim."""

    __slots__ = ("_around", "_keeper", "_kept", "_most", "_newest")

    def __init__(self, keeper: Keeper, around: Surroundings, kept: Round, most: int | None, newest: Newest) -> None:
        self._keeper, self._around, self._kept, self._most, self._newest = keeper, around, kept, most, newest

    def file(self, item: ToKeep) -> bool:
        expected = item.evidence.expected
        return self._content(expected["path"], expected["sha256"].lower(), seen=isinstance(item.seen, Seen))

    def tree(self, item: ToKeep) -> Any:
        claim, seen = item.evidence, isinstance(item.seen, Seen)
        root, digest = claim.expected["path"], claim.expected["digest"].lower()
        if isinstance(item.seen, Seen) and item.seen.facts.get("digest") == digest:
            self._keep_manifest(claim, digest, item.seen.facts["manifest"])
        if self._kept.is_whole(digest):
            return True
        contents = self._contents(claim, digest, item.seen)
        if contents is None:
            return False
        lacking = set(map(bytes.fromhex, self._kept.lacking({content.hex() for _, _, content in contents})))
        not_kept = []
        # Most is kept already, and there may be a lot.
        for name, kind, content in [each for each in contents if each[2] in lacking]:
            path = os.path.join(root, os.fsdecode(name))
            if not self._content(path, content.hex(), seen=seen, link=kind == LINK):
                not_kept.append(shown(os.fsdecode(name)))
        if not_kept:
            return not_kept[:MOST_NAMED]
        self._kept.note_whole(digest)
        return True

    def _contents(self, claim: Evidence, digest: str, seen: Observation | None) -> list[Content] | None:
        """What is in the tree that is claimed."""
        if isinstance(seen, Seen) and seen.facts.get("digest") == digest:
            return contents_of(seen.facts["manifest"])
        try:
            tree = claimed_tree(digest, claim.metadata.get("manifest"), self._around.kept)
        except UnfitManifestError:
            return None
        return None if tree is None else [(path, kind, of) for path, kind, of, _ in tree.entries if kind != FOLDER]

    def _keep_manifest(self, claim: Evidence, digest: str, data: bytes) -> None:
        """Have what the tree holds in the vault, or beside the claim if it is small."""
        text = packed(data, kept=True)
        if text is not None:
            claim.metadata["manifest"] = text
            return
        name = f"{claim.expected['path']}/"
        if not self._kept.has(digest):
            self._kept.bytes(data, like=self._keeper.version(self._around, name, self._newest))
        self._keeper.versions[self._around.base_path, name] = digest
        claim.metadata.pop("manifest", None)

    def _content(self, path: str, digest: str, *, seen: bool, link: bool = False) -> bool:
        what = (self._around.base_path, path)
        became = Kept.KEPT
        if link:
            became = self._kept.link(path, self._around, digest)
        elif not self._kept.has(digest):
            like = self._keeper.version(self._around, path, self._newest)
            became = self._kept.file(path, self._around, digest, self._most, like=like)
        if became is Kept.KEPT:
            self._keeper.versions[what] = digest
        elif became is Kept.CHANGED and seen:
            raise EvidenceUnavailableError(
                f"{shown(path)}: changed after it was measured and before it was kept; nothing was stored",
                hint="wait until whoever writes it is done, then commit again",
            )
        return became is Kept.KEPT


_KEEPERS: Mapping[str, Callable[[_One, ToKeep], Any]] = {
    EvidenceType.FILE_SHA256: _One.file,
    EvidenceType.DIRECTORY_TREE: _One.tree,
}
