"""Which kept content is needed, by whom, and what it takes.

Needed is what a checkpoint says that it kept, unless it was rolled back past; what a step that has not ended said it would
change; and what a restore overwrote, until that is pruned. A tree needs its manifest and all that is in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from agentos._text import shown
from agentos.core.checkpoints import records
from agentos.core.checkpoints.hands import Hands
from agentos.core.checkpoints.keeping import MOST_NAMED
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.packing import UnfitManifestError, claimed_tree
from agentos.core.checkpoints.ports import Registry
from agentos.core.checkpoints.repairing import touched_things
from agentos.core.checkpoints.restores import Collected, Kind, VaultReport, operations_from
from agentos.core.checkpoints.stored import Needing, StoredRestore
from agentos.core.checkpoints.trees import FOLDER

# Keys begin with the clock of whoever began the step, in milliseconds above 15 bits: those of an hour are asked about again.
_OUT_OF_ORDER = 3_600_000 << 15


class Needs:
    """What is needed, asked for again and again: only what became needed since is looked up again."""

    def __init__(self, registry: Registry, hands: Hands) -> None:
        self._registry = registry
        self._hands = hands
        self._asked_to = 0
        # Steps that had not ended when they were asked about.
        self._open: set[int] = set()

    def __call__(self) -> Iterator[str]:
        """The digests that became needed since this was asked last."""
        for key in sorted(self._open):
            found = self._registry.needed_by(key)
            self._open.discard(key)
            if found is not None:
                yield from self._of_step(key, found)
        for key, found in self._registry.needing(max(0, self._asked_to - _OUT_OF_ORDER)):
            self._asked_to = max(self._asked_to, key)
            yield from self._of_step(key, found)
        for stored in self._registry.restores(None):
            yield from of_restore(stored)

    def _of_step(self, key: int, found: Needing) -> Iterator[str]:
        if found.pack is None:
            self._open.add(key)
        yield from of_step(found, self._hands)


# A digest, and how large the content is, where that is known.
Wanted = tuple[str, int | None]


def of_step(found: Needing, hands: Hands) -> Iterator[str]:
    """What one step needs."""
    return (digest for digest, _ in contents_of_step(found, hands))


def of_restore(stored: StoredRestore) -> Iterator[str]:
    """What taking a restore back needs, and finishing it."""
    return (digest for digest, _ in contents_of_restore(stored))


def contents_of_step(found: Needing, hands: Hands) -> Iterator[Wanted]:
    """What one step needs, and how large that is."""
    if found.pack is not None:
        for item in records.decode_pack(found.pack).evidence_list:
            yield from _of_claim(item, hands)
    for _, thing in touched_things(found.touched):
        if thing.kind is Kind.FILE:
            yield thing.sha256, thing.size


def contents_of_restore(stored: StoredRestore) -> Iterator[Wanted]:
    """The same of a restore."""
    for operation in operations_from(stored.operations):
        for thing in (operation.before, operation.after):
            if thing.kind is Kind.FILE:
                yield thing.sha256, thing.size


def _of_claim(item: Evidence, hands: Hands) -> Iterator[Wanted]:
    if not item.metadata.get("kept"):
        return
    if item.evidence_type == EvidenceType.FILE_SHA256:
        yield item.expected["sha256"].lower(), None
    elif item.evidence_type == EvidenceType.DIRECTORY_TREE:
        digest, beside = item.expected["digest"].lower(), item.metadata.get("manifest")
        if beside is None:
            yield digest, None
        try:
            tree = claimed_tree(digest, beside, hands.content)
        except UnfitManifestError:
            return
        left_out = _not_kept(item.metadata["kept"])
        for name, kind, content, size in [] if tree is None else tree.entries:
            # What was too large to be kept may still be there, for somebody else: then it is needed here too.
            if kind != FOLDER and (not left_out(name) or hands.has(content.hex())):
                yield content.hex(), size


def _not_kept(kept: bool | list[str]) -> Callable[[bytes], bool]:  # noqa: FBT001 - what the metadata of a claim says
    """Whether what has this name may have been left out when its tree was kept. Of many only the first are named."""
    if kept is True:
        return lambda _: False
    names = frozenset(kept or ())
    return lambda name: len(names) >= MOST_NAMED or shown(os.fsdecode(name)) in names


def collect(registry: Registry, hands: Hands, *, dry_run: bool) -> Collected:
    """Remove what nothing needs."""
    return hands.collect(Needs(registry, hands), dry_run=dry_run)


def report(registry: Registry, hands: Hands) -> VaultReport:
    """What takes the space: each content counts for the first that needs it, checkpoints before safety copies."""
    sizes = hands.sizes()
    left = dict(sizes)
    tasks: dict[str, int] = {}
    for _, found in registry.needing(0):
        tasks[found.task_id] = tasks.get(found.task_id, 0) + _taken(left, of_step(found, hands))
    safety = sum(_taken(left, of_restore(stored)) for stored in registry.restores(None))
    return VaultReport(
        hands.place, sum(sizes.values()), len(sizes), hands.limit, {name: size for name, size in tasks.items() if size}, safety,
        sum(left.values()),
    )  # fmt: skip


def _taken(left: dict[str, int], digests: Iterable[str]) -> int:
    return sum(left.pop(digest, 0) for digest in digests)
