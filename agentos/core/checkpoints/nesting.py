"""Claims beneath a tree: which of them a later tree replaces, and what of a tree later claims speak for.

A later tree replaces what was claimed beneath it, but for what its own rules leave out: a file proven by name is never ignored.
A later claim or release beneath a tree overlays that entry of it, and the tree stands for the rest. Claims of one step stand
together. Pure, as world.py is; what a tree leaves out is asked, because the index knows of its rules no more than their name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from agentos.core.checkpoints.kinds.kind import RELEASE

_TREE, _NESTED = "tree:", ("file:", "tree:", "repo:", "worktree:")
# The end of a claim that a tree made, and that no step ever wrote.
MADE_UP = -1


class Entry(NamedTuple):
    """One claim or release as the index keeps it. `item` is its place in the pack of the step with this sequence number.

    `rules` names what a tree leaves out: equal names, equal rules; empty if it leaves out nothing.
    """

    subject: str
    sequence: int
    item: int
    lifetime: str
    base: str
    rules: str = ""


# Whether this tree speaks for what has this path. Asked only of trees that have rules.
Covers = Callable[[Entry, str], bool]


def endings(history: Mapping[Hashable, Sequence[Entry]], covers: Covers) -> Iterator[tuple[Hashable, Entry]]:
    """For each subject, the ends that later trees made of its claims, as releases. `history` is in order of sequence."""
    trees = _trees(history)
    if not trees:
        return
    for identity, entries in history.items():
        if not entries[0].subject.startswith(_NESTED):
            continue
        own = sorted({entry.sequence for entry in entries})
        for number, sequence in enumerate(own):
            spoken_again = own[number + 1] if number + 1 < len(own) else None
            end = _end(identity, entries[0], sequence, trees, covers)
            if end is not None and (spoken_again is None or end < spoken_again):
                yield identity, Entry(entries[0].subject, end, MADE_UP, RELEASE, entries[0].base)


def _trees(history: Mapping[Hashable, Sequence[Entry]]) -> dict[Hashable, list[Entry]]:
    """The claims of each tree, by the identity of its subject."""
    return {
        identity: [entry for entry in entries if entry.lifetime != RELEASE]
        for identity, entries in history.items()
        if entries[0].subject.startswith(_TREE)
    }


def _end(
    identity: Hashable, entry: Entry, sequence: int, trees: Mapping[Hashable, Sequence[Entry]], covers: Covers
) -> int | None:
    """The first later step with a tree that speaks for this path."""
    path, soonest = _path(entry.subject), None
    for above in _above(path):
        claims = trees.get(_as(identity, f"{_TREE}{above}"), ())
        for claim in claims[bisect_right(claims, sequence, key=itemgetter(1)) :]:
            if soonest is not None and claim.sequence >= soonest:
                break
            if not claim.rules or covers(claim, path):
                soonest = claim.sequence
                break
    return soonest


def _as(identity: Hashable, subject: str) -> Hashable:
    """The identity that another subject has where this one lies."""
    return (identity[0], subject) if isinstance(identity, tuple) else subject


def _above(path: str) -> Iterator[str]:
    """Every folder that the path is beneath, the nearest first."""
    while True:
        folder, slash, _ = path.rpartition("/")
        if not slash:
            if path not in (".", ""):
                yield "."
            return
        yield folder or "/"
        if not folder:
            return
        path = folder


def _path(subject: str) -> str:
    return subject.partition(":")[2]


class Overlays:
    """Every claim and release that may lie beneath a tree, to be asked what of one later steps speak for."""

    def __init__(self, history: Mapping[Hashable, Iterable[Entry]]) -> None:
        self._spoken = [
            (entry.sequence, _place(identity), _path(entry.subject))
            for identity, entries in history.items()
            for entry in entries
            if entry.subject.startswith(_NESTED) and entry.item != MADE_UP
        ]
        self._spoken.sort(key=itemgetter(0))

    def aside(self, identity: Hashable, tree: Entry, until: int) -> frozenset[str]:
        """Names beneath the tree, from it on, of which a step after its own and up to this one speaks."""
        first = bisect_right(self._spoken, tree.sequence, key=itemgetter(0))
        last = bisect_right(self._spoken, until, key=itemgetter(0))
        place, root = _place(identity), _path(tree.subject)
        names = (beneath(root, path) for _, there, path in self._spoken[first:last] if there == place)
        return frozenset(name for name in names if name)


def overlaying(standing: Iterable[Entry], entries: Iterable[Entry], until: int) -> Iterator[Entry]:
    """Every claim and release that takes something out of a tree that stands, under whatever base; too many do no harm."""
    trees = [entry for entry in standing if entry.subject.startswith(_TREE)]
    for entry in entries if trees else ():
        if entry.subject.startswith(_NESTED) and entry.sequence <= until:
            path = _path(entry.subject)
            if any(entry.sequence > tree.sequence and beneath(_path(tree.subject), path) for tree in trees):
                yield entry


def _place(identity: Hashable) -> Hashable:
    return identity[0] if isinstance(identity, tuple) else None


def beneath(root: str, path: str) -> str:
    """The path seen from the folder, if it lies beneath it; else nothing."""
    if root == ".":
        return "" if path.startswith("/") or path == "." else path
    above = root if root.endswith("/") else f"{root}/"
    return path.removeprefix(above) if path.startswith(above) else ""
