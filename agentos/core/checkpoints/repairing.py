"""Put a world back: say whether that can be done, plan it, do it under the task's claim, and measure again.

What is to be where is read off the claims in putting_back.py; hands plan and do. Here is what belongs to the task: whose claims
protect what, what an interrupted step said it would change, and which restores died with their process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from agentos._text import listed, shown
from agentos._ways import Way, undo
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.hands import Hands
from agentos.core.checkpoints.judging import Finding, Judged
from agentos.core.checkpoints.models import EvidenceType
from agentos.core.checkpoints.ports import Registry, StoredStep
from agentos.core.checkpoints.putting_back import Stands, Wishes, manifest_of
from agentos.core.checkpoints.restores import NOTHING, Cannot, Kind, RestorePlan, Thing, operations_from
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.stored import StoredTask

_PATHS = ("file:", "tree:")


class PuttingBack:
    """What hands can do for one task."""

    def __init__(self, registry: Registry, hands: Callable[[], Hands], task_id: str) -> None:
        self._registry = registry
        self._hands = hands
        self._task_id = task_id

    def may(self, finding: Finding) -> bool:
        """Whether it is worth planning: quick, and wrong only in what hands will notice."""
        evidence = finding.evidence
        if finding.result.outcome is not Outcome.FAILED:
            # What could not be checked does not differ.
            return True
        if evidence.evidence_type == EvidenceType.FILE_SHA256:
            return self._hands().has(evidence.expected["sha256"].lower())
        if evidence.evidence_type == EvidenceType.DIRECTORY_TREE:
            return manifest_of(evidence, finding.claimed.around) is not None
        return evidence.evidence_type in (EvidenceType.ARTIFACT_ABSENT, EvidenceType.ARTIFACT_EXISTS)

    def plan(
        self,
        candidate: StoredStep,
        base: str,
        claims: Iterable[Stands],
        judged: Judged,
        *,
        retried: Sequence[StoredStep] = (),
        only_needed: bool = False,
    ) -> RestorePlan:
        """What would make the world of this checkpoint hold; what cannot be put back is in it, with the reason.

        Args:
            only_needed: say nothing of what cannot be put back and need not be.
            retried: interrupted steps that will run again, and find what they said they would change as it was.
        """
        wishes = Wishes(base)
        wishes.add(claims, judged.findings)
        for step in retried:
            if step.base_path == base or base != candidate.base_path:
                wishes.add_unclaimed(touched_things(self._registry.touched(step.step_id)))
        planned = self._planned(wishes, candidate)
        return planned.needing(wishes.spare) if only_needed else planned

    def plan_again(
        self, candidate: StoredStep | None, base: str, claims: Iterable[Stands], step: StoredStep
    ) -> RestorePlan | None:
        """What would have a step that runs again find what it said it would change as it was, where no claim speaks for it."""
        touched = list(touched_things(self._registry.touched(step.step_id)))
        if not touched:
            return None
        claimed = Wishes(base)
        claimed.add(claims, ())
        return self._planned(Wishes(base, {path: thing for path, thing in touched if path not in claimed.targets}), candidate)

    def plan_removal(self, candidate: StoredStep, base: str, paths: Iterable[str]) -> RestorePlan:
        """What would take away what was left behind at these paths."""
        return self._planned(Wishes(base, dict.fromkeys(paths, NOTHING)), candidate)

    def undoing(self, restore_id: str, moved_to: str | None) -> RestorePlan:
        """What would put back what a restore overwrote, wherever its folder is by now."""
        return self._hands().plan_undo(restore_id, lambda path, _: self._protected(path), moved_to)

    def _planned(self, wishes: Wishes, candidate: StoredStep | None) -> RestorePlan:
        left_out = wishes.left_out(self._excluded_now(wishes.base))
        checkpoint_id = "" if candidate is None else candidate.checkpoint_id or ""

        real = self._hands().real(wishes.base)

        def protected(path: str, is_there: bool) -> str:  # noqa: FBT001 - as hands ask
            return self._protected(path) or (left_out(os.path.relpath(path, real)) if is_there else "")

        plan = self._hands().plan(wishes.base, wishes.targets, self._task_id, checkpoint_id, protected)
        cannot = tuple(Cannot(subject, why) for subject, why in wishes.cannot.items())
        return replace(plan, cannot=plan.cannot + cannot)

    def _excluded_now(self, base: str) -> tuple[str, ...]:
        """What the task leaves out of its workspace by now, whatever it left out when something was committed."""
        mine = (each for each, _ in self._registry.workspaces() if (each.task_id, each.path) == (self._task_id, base))
        return next((each.exclude for each in mine), ())

    def _protected(self, path: str) -> str:
        """Which other task's live world claims what is at this real path; nothing if none does."""
        for place in (path, *_above(path)):
            task_id = self._claimed_elsewhere.get(place)
            if task_id is not None and (place == path or place in self._trees_elsewhere):
                return f"task {shown(task_id, 80)} claims it"
        return ""

    @cached_property
    def _claimed_elsewhere(self) -> dict[str, str]:
        claims = self._registry.claimed_elsewhere(self._task_id)
        return {place: task_id for task_id, subject, base in claims for place in self._places(subject, base)}

    @cached_property
    def _trees_elsewhere(self) -> set[str]:
        # Two tasks that share a folder both claim all of it: of that only what is claimed by name is another's.
        shared = {self._hands().real(workspace.path) for workspace, _ in self._registry.workspaces() if workspace.shared}
        claims = self._registry.claimed_elsewhere(self._task_id)
        trees = ((subject, base) for _, subject, base in claims if subject.startswith("tree:"))
        return {place for subject, base in trees for place in self._places(subject, base)} - shared

    def _places(self, subject: str, base: str) -> set[str]:
        """Where a thing really lies; of a link both its own place and that to which it leads."""
        path = os.path.normpath(os.path.join(base, subject.partition(":")[2]))
        folder, name = os.path.split(path)
        return {os.path.join(self._hands().real(folder), name), self._hands().real(path)}


def settle_restores(registry: Registry, hands: Callable[[], Hands], task_id: str, moved_to: str | None) -> list[str]:
    """End the restores of this task whose processes died: what was not wholly done is taken back. Says what was settled."""
    return [
        f"restore {stored.restore_id} was interrupted: {hands().settle(stored.restore_id, moved_to)}"
        for stored in registry.restores(task_id)
        if stored.ended_at is None
    ]


def earlier_restores(registry: Registry, task: StoredTask, told: Container[str]) -> list[str]:
    """How to get back what earlier restores overwrote. Whoever made them may have died before anybody read of it.

    Told until a step is committed that was begun after them: then somebody went on.

    Args:
        told: restores of which the reader hears anyway.
    """
    stored = [each for each in registry.restores(task.task_id) if each.state == "done"]
    newest = registry.numbered(task.task_id, [task.head]) if stored and task.head else []
    since = max((step.begun_at for step in newest), default="")
    undone = {each.undoes for each in stored}
    return [
        Way(undo(each.restore_id), f" brings back what a restore of {each.begun_at} overwrote: {listed(gone)}")
        for each in stored
        if each.undoes is None and each.begun_at > since and each.restore_id not in undone and each.restore_id not in told
        if (gone := [operation.path for operation in operations_from(each.operations) if operation.overwrites])
    ]


# What a step is about to change.


def touched_bytes(things: Iterable[tuple[str, Thing]]) -> bytes:
    """What a step said it would change, as it was then, for the registry."""
    plain = [
        {"path": path, "kind": thing.kind.value, "sha256": thing.sha256, "size": thing.size, "target": thing.target}
        for path, thing in things
    ]
    return codec.encode({"things": plain})


def touched_things(stored: bytes | None) -> Iterator[tuple[str, Thing]]:
    """The same, read back; nothing if the step said nothing."""
    for each in [] if stored is None else codec.decode(stored)["things"]:
        yield each["path"], Thing(Kind(each["kind"]), each["sha256"], each["size"], target=each["target"])


def _above(path: str) -> Iterator[str]:
    while path not in ("", "/"):
        path = os.path.dirname(path)
        yield path
