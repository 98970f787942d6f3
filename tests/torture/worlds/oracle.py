"""What recovery must answer, by brute force from the notes of a history and the files as they are now.

Straight from the design: fold the world of each candidate anew, look at every claim anew, and take the first rule that fits.
No index, no memory between candidates, and nothing of agentos.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.torture.worlds.model import Begun, Claim, History, Mark, Pack
from tests.torture.worlds.seeing import UNSEEN, can_be_removed, outcome, seen, verdict

ADOPT, RETRY, UNCERTAIN = "adopt", "retry", "uncertain"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict; where it stands (0: on nothing), the step adopted on top, and the state that `resume` must return."""

    verdict: str
    sequence: int | None = None
    adopts: str | None = None
    state: dict[str, Any] | None = None
    settled: dict[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one step adds to a world."""

    number: int
    pack: Pack
    base: str


class Oracle:
    """Answers for one task. `base` is where the workspace is now, if the one who recovers says so."""

    def __init__(self, history: History, base: str | None = None) -> None:
        self._history = history
        self._base = base

    def answer(self) -> Answer:
        """The one right answer."""
        history = self._history
        candidates = sorted((mark for mark in history.marks if mark.is_candidate), key=lambda mark: -mark.sequence)
        if history.finished:
            return self._finished()
        if len(history.marks) == history.restarted_at:
            return self._at(None) or Answer("fresh", settled=self._settled(0))
        for mark in candidates:
            found = self._at(mark)
            if found is not None:
                return found
        settled, crossed = self._settled(None), self._crossed(0)
        return Answer("uncertain" if crossed or UNCERTAIN in settled.values() else "diverged", settled=settled, why=crossed)

    def _finished(self) -> Answer:
        """The final state is that of the newest checkpoint, whether it holds or not."""
        last = next((mark for mark in reversed(self._history.marks) if mark.is_live), None)
        return Answer("finished", last.sequence, state=last.state) if last else Answer("finished")

    def holds(self, mark: Mark | None, adopted: Begun | None = None) -> str:
        """Whether a world is as it was claimed: `holds`, `differs`, `unseen`, or `task` when a claim of the task differs."""
        groups = [*self._groups(mark, adopted)]
        verdicts = []
        for pack, claims, base in groups:
            outcomes = [outcome(claim, base) for claim in claims]
            verdicts.append(verdict(pack, outcomes))
            lost = [claim for claim, each in zip(claims, outcomes, strict=True) if each == "failed"]
            if verdicts[-1] == "failed" and any(claim.lifetime == "task" for claim in lost):
                return "task"
        if not verdicts or "failed" in verdicts:
            return "differs"
        return "unseen" if "error" in verdicts else "holds"

    def unseen(self) -> set[str]:
        """The subjects, as agentos names them, of which nothing can be known now, wherever they were claimed from."""
        layers = [Layer(mark.sequence, mark.pack, mark.base) for mark in self._history.marks]
        looked = [(claim.path, seen(claim, self._base or layer.base)) for layer in layers for claim in layer.pack.claims]
        known = {path for path, found in looked if found != UNSEEN}
        return {f"file:{path}" for path, _ in looked if path not in known}

    def worlds_of(self, state: dict[str, Any]) -> Iterator[tuple[Mark | None, Begun | None]]:
        """Every checkpoint, or step to adopt, that carries this state."""
        marks: dict[int, Mark | None] = {mark.sequence: mark for mark in self._history.marks if mark.is_live} | {0: None}
        for mark in marks.values():
            if mark and mark.state == state:
                yield mark, None
        for begun in self._history.begun:
            if begun.state == state and begun.parent in marks:
                yield marks[begun.parent], begun

    def _at(self, mark: Mark | None) -> Answer | None:
        """The answer if it is found at this candidate; None sends one on to the next."""
        place = mark.sequence if mark else 0
        crossed = self._crossed(place)
        settled = self._settled(place)
        if crossed or UNCERTAIN in settled.values():
            return Answer("uncertain", settled=settled, why=crossed)
        steps = {begun.step_id: begun for begun in self._history.begun}
        for step_id in [each for each, how in settled.items() if how == ADOPT]:
            found = self._judged(mark, steps[step_id], settled)
            if found is not None:
                return found
            if not steps[step_id].rerunnable:
                settled[step_id] = UNCERTAIN
                return Answer("uncertain", settled=settled, why=f"{step_id} landed, and cannot be adopted")
            settled[step_id] = RETRY
        return self._judged(mark, None, settled) if mark else None

    def _judged(self, mark: Mark | None, adopted: Begun | None, settled: dict[str, str]) -> Answer | None:
        found = self.holds(mark, adopted)
        if found == "differs":
            back = mark is not None and adopted is None and self._can_be_put_back(mark)
            return Answer("repair", mark.sequence, settled=settled) if back else None
        if found != "holds":
            return Answer("blocked", settled=settled, why=found)
        state = adopted.state if adopted else mark.state
        return Answer("resume", mark.sequence if mark else 0, adopted.step_id if adopted else None, state, settled)

    def _can_be_put_back(self, mark: Mark) -> bool:
        """Whether everything that it fails by can be undone. No content is kept here, so that is what was to be gone."""
        base, removable = self._base or mark.base, False
        for pack, claims, around in self._groups(mark, None):
            outcomes = [outcome(claim, around) for claim in claims]
            if verdict(pack, outcomes) == "verified":
                continue
            for claim, found in zip(claims, outcomes, strict=True):
                if found != "failed":
                    continue
                if claim.kind != "absent" or around != base or not can_be_removed(claim, around):
                    return False
                removable = True
        return removable

    def _crossed(self, place: int) -> str:
        """A step beyond this place that must not run again; nothing if there is none."""
        for mark in self._history.marks:
            if mark.sequence > place and not mark.rerunnable and not mark.superseded:
                return f"checkpoint {mark.sequence} must not run twice"
        dead = {mark.sequence for mark in self._history.marks if mark.superseded}
        for begun in self._history.begun:
            if begun.parent > place and begun.parent not in dead and not begun.rerunnable:
                return f"{begun.step_id} must not run twice"
        return ""

    def _settled(self, place: int | None) -> dict[str, str]:
        """What becomes of each interrupted step, standing here. Of several that landed only one can be next."""
        settled: dict[str, str] = {}
        for begun in self._history.begun:
            settled[begun.step_id] = self._settle(begun, place, taken=ADOPT in settled.values())
        return settled

    def _settle(self, begun: Begun, place: int | None, *, taken: bool) -> str:
        claims = begun.expects.claims if begun.expects else ()
        base = self._base or begun.base
        now = tuple(seen(claim, base) for claim in claims)
        as_expected = bool(claims) and all(outcome(claim, base) == "verified" for claim in claims)
        if as_expected and now != begun.baseline and begun.parent == place and not taken:
            return ADOPT
        if begun.rerunnable:
            return RETRY
        untouched = bool(claims) and now == begun.baseline and UNSEEN not in now
        return RETRY if untouched and not as_expected else UNCERTAIN

    def _groups(self, mark: Mark | None, adopted: Begun | None) -> Iterator[tuple[Pack, list[Claim], str]]:
        """What is left of each pack, oldest first, with the base it is seen from."""
        layers = [*self._layers(mark, adopted)]
        newest = {key: layer.number for layer in layers for key in self._named(layer)}
        for layer in layers:
            freed = {self._key(path, layer.base) for path in layer.pack.released}
            left = []
            for claim in layer.pack.claims:
                key = self._key(claim.path, layer.base)
                if newest[key] == layer.number and key not in freed and claim.lifetime != "step":
                    left.append(claim)
            if left:
                yield layer.pack, left, self._base or layer.base

    def _layers(self, mark: Mark | None, adopted: Begun | None) -> Iterator[Layer]:
        place = mark.sequence if mark else 0
        last = place if adopted is None else place + 1
        for each in self._history.marks:
            itself = each.sequence == place and adopted is None
            if itself or (each.sequence < last and each.proven and not each.superseded):
                yield Layer(each.sequence, each.pack, each.base)
        if adopted is not None and adopted.expects is not None:
            yield Layer(last, adopted.expects, adopted.base)

    def _named(self, layer: Layer) -> Iterator[Key]:
        for path in (*(claim.path for claim in layer.pack.claims), *layer.pack.released):
            yield self._key(path, layer.base)

    def _key(self, path: str, base: str) -> Key:
        """The thing that is claimed: the same relative path from another base is another thing, unless all of them moved."""
        return ("" if path.startswith("/") else self._base or base, path)
