"""Fold the claims of a task into the world of one checkpoint: what must hold to stand there.

- The newest step that spoke about a subject decides about it: its claims stand together, and all earlier ones have ended.
- Where that step released the subject, or claimed it only for its own length, nothing stands.
- What is left of one step's pack is one group; how much of a group must hold is for policy.py.
- A later tree replaces what was claimed beneath it; a later claim beneath a tree overlays that entry of it: see nesting.py.
- A relative subject is a thing of its base, unless the workspace moved: then all of them are looked for where it is now.

Pure: nothing is read, observed or judged here. Which checkpoints contribute is decided by whoever brings the entries.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import copy
from operator import itemgetter

from agentos.core.checkpoints.kinds.kind import RELEASE, Lifetime
from agentos.core.checkpoints.nesting import MADE_UP, Covers, Entry, Overlays, endings
from agentos.core.checkpoints.subjects import WITHOUT_BASE

_STANDING = frozenset({Lifetime.LASTING.value, Lifetime.TASK.value})
_by_item = itemgetter(2)


def _covers_nothing(tree: Entry, path: str) -> bool:  # noqa: ARG001 - what a tree leaves out is not known here
    return False


class World:
    """The world of one checkpoint. It stays what it is, whatever is asked of its `Worlds` afterwards.

    A group is what stands of one step, in the order of its pack. One that is the same in two worlds is the same list, which
    nobody may change. `changed` holds the numbers of the groups that differ from the world asked for before, gone ones
    included: whoever walks down the timeline need not look at every group of every world again.
    """

    __slots__ = ("_groups", "_overlaid", "_own", "_turn", "_worlds", "changed", "sequence")

    def __init__(
        self, worlds: Worlds, sequence: int, own: Sequence[Entry], overlaid: dict[int, list[Entry]], changed: set[int]
    ) -> None:
        self.sequence = sequence
        self.changed = changed
        self._worlds = worlds
        self._own = own
        self._overlaid = overlaid
        self._turn = worlds.turn
        self._groups: dict[int, list[Entry]] | None = None

    @property
    def groups(self) -> dict[int, list[Entry]]:
        """Every group by the number of its step, oldest first."""
        if self._groups is None:
            if self._turn is self._worlds.turn:
                self._groups = self._worlds.merged(self._overlaid)
            else:
                self._groups = self._worlds.apart().at(self.sequence, self._own).groups
        return self._groups

    def group(self, number: int) -> list[Entry]:
        """What stands of this step, without putting together the rest; empty if nothing does."""
        if number in self._overlaid:
            return self._overlaid[number]
        if self._groups is None and self._turn is self._worlds.turn:
            return self._worlds.group(number)
        return self.groups.get(number, [])

    def entries(self) -> Iterator[Entry]:
        """Everything that stands, oldest step first."""
        for group in self.groups.values():
            yield from group

    def aside(self, tree: Entry) -> frozenset[str]:
        """Of a tree that stands: the names beneath it that later claims speak for, and so it does not."""
        return self._worlds.aside(tree, self.sequence)

    def subjects(self) -> set[str]:
        """Everything that something is claimed of."""
        return {entry.subject for entry in self.entries()}


class Worlds:
    """Every world of one task.

    Asked for newest first, all of them together cost one pass over the entries. Any other order is right too, and costs more.

    Args:
        entries: of all contributing checkpoints, in any order.
        moved: the workspace moved, and a subject is the same one whatever base it was claimed under.
        others: of checkpoints that contribute nothing; only `recorders` knows them.
        covers: whether a tree that leaves something out speaks for this path.
    """

    def __init__(
        self, entries: Iterable[Entry], *, moved: bool, others: Iterable[Entry] = (), covers: Covers = _covers_nothing
    ) -> None:
        self._moved = moved
        self._others = others
        self._covers = covers
        self._recorded: dict[Hashable, list[Entry]] | None = None
        self._overlays: Overlays | None = None
        # Per subject, oldest first: within one subject the natural order is that of sequence and item.
        self._history = self._by_subject(entries)
        for claims in self._history.values():
            claims.sort()
        for subject, end in list(endings(self._history, covers)):
            insort(self._history[subject], end)
        # Which world was asked for last; and which of its groups were made by claims of its own, and differ in the next one.
        self.turn = object()
        self._disturbed: set[int] = set()
        self._rewind()

    def at(self, sequence: int, own: Sequence[Entry] = ()) -> World:
        """The world of the checkpoint with this number.

        Args:
            own: its own claims, if it is not among those that contribute; they end earlier claims as if it were.
        """
        if own and (any(map(_is_tree, own)) or any(_is_tree(claims[0]) for claims in self._history.values())):
            # Rare: claims of its own among trees end and overlay each other as if all had contributed.
            before = [each for claims in self._history.values() for each in claims if _is_real(each, sequence)]
            world = Worlds([*before, *own], moved=self._moved, covers=self._covers).at(sequence)
            world.changed |= self._groups.keys() | self._disturbed
            self._disturbed = set(world.changed)
            return world
        self.turn = object()
        changed = self._go_to(sequence - 1 if own else sequence)
        overlaid = self._overlay(sequence, self._by_subject(own)) if own else {}
        changed.update(self._disturbed, overlaid)
        self._disturbed = set(overlaid)
        return World(self, sequence, own, overlaid, changed)

    def recorders(self, subject: str, base: str) -> list[Entry]:
        """Every claim and release ever made about this subject, newest first, whether it counts or not."""
        if self._recorded is None:
            everything = [entry for claims in self._history.values() for entry in claims if entry.item != MADE_UP]
            self._recorded = self._by_subject([*everything, *self._others])
        return sorted(self._recorded.get(self._identity(subject, base), ()), key=itemgetter(1, 2), reverse=True)

    def aside(self, tree: Entry, until: int) -> frozenset[str]:
        """The names beneath a tree of which later steps, up to this one, speak."""
        if self._overlays is None:
            self._overlays = Overlays(self._history)
        return self._overlays.aside(self._identity(tree.subject, tree.base), tree, until)

    def group(self, number: int) -> list[Entry]:
        """What stands of this step at the position, own claims aside."""
        return self._groups.get(number, [])

    def merged(self, overlaid: dict[int, list[Entry]]) -> dict[int, list[Entry]]:
        """Every group at the position, with these in place of those of the same number."""
        groups = {**self._groups, **overlaid} if overlaid else self._groups
        return {number: groups[number] for number in sorted(groups) if groups[number]}

    def apart(self) -> Worlds:
        """The same worlds with a position of its own."""
        twin = copy(self)
        twin._rewind()  # noqa: SLF001 - it is one of us
        return twin

    def _overlay(self, sequence: int, own: dict[Hashable, list[Entry]]) -> dict[int, list[Entry]]:
        """The groups that these claims change: what they leave of earlier ones, and their own."""
        ended = {self._history[subject][end - 1].sequence for subject in own if (end := self._ends.get(subject, 0))}
        overlaid = {
            number: [entry for entry in self._groups[number] if self._identity(entry.subject, entry.base) not in own]
            for number in ended & self._groups.keys()
        }
        overlaid[sequence] = sorted((entry for claims in own.values() for entry in _standing(claims)), key=_by_item)
        return overlaid

    def _rewind(self) -> None:
        """Stand after the newest entry."""
        # None: nobody asked for a world yet.
        self._position: int | None = None
        self._groups: dict[int, list[Entry]] = {}
        # How many entries of each subject are at or before the position.
        self._ends = {subject: len(claims) for subject, claims in self._history.items()}
        # Which subjects each step has the last word on, seen from the position; and the numbers of these steps, newest on top.
        self._deciding: dict[int, list[Hashable]] = {}
        for subject, claims in self._history.items():
            self._deciding.setdefault(claims[-1].sequence, []).append(subject)
        self._newest = [-number for number in self._deciding]
        heapq.heapify(self._newest)
        self._regroup(self._deciding)

    def _go_to(self, target: int) -> set[int]:
        """Move the position; the numbers of the groups that changed by it."""
        if self._position is not None and target <= self._position:
            return self._descend(target)
        before = set(self._groups)
        if self._position is not None:
            self._rewind()
        return before | self._groups.keys() | self._descend(target)

    def _descend(self, target: int) -> set[int]:
        """Move down: what later steps had ended stands again."""
        self._position = target
        returned: dict[int, list[Hashable]] = {}
        gone: set[int] = set()
        while self._newest and -self._newest[0] > target:
            number = -heapq.heappop(self._newest)
            gone.add(number)
            self._groups.pop(number, None)
            for subject in self._deciding.pop(number):
                self._step_back(subject, target, returned)
        self._regroup(returned)
        return gone | returned.keys()

    def _step_back(self, subject: Hashable, target: int, returned: dict[int, list[Hashable]]) -> None:
        claims, end = self._history[subject], self._ends[subject]
        while end and claims[end - 1].sequence > target:
            end -= 1
        self._ends[subject] = end
        if end:
            number = claims[end - 1].sequence
            if number not in self._deciding:
                self._deciding[number] = []
                heapq.heappush(self._newest, -number)
            self._deciding[number].append(subject)
            returned.setdefault(number, []).append(subject)

    def _regroup(self, returned: dict[int, list[Hashable]]) -> None:
        """Add what these steps say about these subjects. Lists were handed out: those that grow are made anew."""
        for number, subjects in returned.items():
            group = list(self._groups.get(number, ()))
            for subject in subjects:
                group += _standing(_last_word(self._history[subject], self._ends[subject]))
            if group:
                group.sort(key=_by_item)
                self._groups[number] = group

    def _by_subject(self, entries: Iterable[Entry]) -> dict[Hashable, list[Entry]]:
        found: dict[Hashable, list[Entry]] = {}
        for entry in entries:
            found.setdefault(self._identity(entry.subject, entry.base), []).append(entry)
        return found

    def _identity(self, subject: str, base: str) -> Hashable:
        return subject if self._moved or subject.startswith(WITHOUT_BASE) else (base, subject)


def _is_tree(entry: Entry) -> bool:
    return entry.subject.startswith("tree:")


def _is_real(entry: Entry, below: int) -> bool:
    return entry.sequence < below and entry.item != MADE_UP


def _last_word(claims: list[Entry], end: int) -> list[Entry]:
    """What the newest step among the first `end` claims says."""
    start = end - 1
    while start and claims[start - 1].sequence == claims[end - 1].sequence:
        start -= 1
    return claims[start:end]


def _standing(claims: list[Entry]) -> list[Entry]:
    """What stands of what one step says about one subject: nothing once it is released."""
    if any(entry.lifetime == RELEASE for entry in claims):
        return []
    return [entry for entry in claims if entry.lifetime in _STANDING]
