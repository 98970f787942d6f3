"""What an agent did and what it claimed, in plain Python: the history that a registry is held against.

Nothing here asks agentos anything. Whoever does something to the registry writes it down here as well (doing.py), and the
oracle answers from these notes and the real files alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing said about one path: its content (`sha256`), that something is there (`exists`), or nothing (`absent`)."""

    kind: str
    path: str
    digest: str = ""
    lifetime: str = "lasting"


@dataclass(frozen=True, slots=True)
class Pack:
    """The claims of one step, the paths it no longer answers for, and how many claims must hold: all, or `minimum`."""

    claims: tuple[Claim, ...]
    released: tuple[str, ...] = ()
    partial: bool = False
    minimum: int = 0

    def needed(self, left: int) -> int:
        """How many of `left` claims must hold; no claim at all is never enough."""
        return max(1, min(self.minimum, left)) if self.partial else max(1, left)


@dataclass(slots=True)
class Mark:
    """A checkpoint."""

    sequence: int
    step_id: str
    checkpoint_id: str
    pack: Pack
    base: str
    state: dict[str, Any]
    rerunnable: bool
    # Verified at least once; and whether a look ever gave a yes or a no.
    proven: bool = False
    judged: bool = False
    superseded: bool = False
    deleted: bool = False

    @property
    def is_live(self) -> bool:
        """Whether it stands on the timeline and has its state."""
        return not (self.superseded or self.deleted)

    @property
    def is_candidate(self) -> bool:
        """Whether the task may resume from it, if its world holds."""
        return self.is_live and (self.proven or not self.judged)


@dataclass(frozen=True, slots=True)
class Begun:
    """A step that was begun and never ended. `baseline` is what was seen of each expected claim when it began."""

    step_id: str
    parent: int
    base: str
    state: dict[str, Any]
    rerunnable: bool
    expects: Pack | None = None
    baseline: tuple[str, ...] = ()


@dataclass(slots=True)
class History:
    """One task, from its first step to the crash."""

    marks: list[Mark] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    finished: bool = False
    # How many checkpoints there were when the task was last started over.
    restarted_at: int = 0

    @property
    def head(self) -> int:
        """The number of the newest live checkpoint: what a step is begun on."""
        return max((mark.sequence for mark in self.marks if mark.is_live), default=0)

    def supersede_after(self, sequence: int) -> None:
        """End the timeline at this number."""
        for mark in self.marks:
            if mark.sequence > sequence:
                mark.superseded = True

    def judge(self, mark: Mark, outcome: str) -> None:
        """Write down what a look at its own pack gave. A later no takes nothing away."""
        mark.judged = mark.judged or outcome in ("verified", "failed")
        mark.proven = mark.proven or outcome == "verified"
