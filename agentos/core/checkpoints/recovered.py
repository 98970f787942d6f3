"""What a recovery found out, for people and for programs: frozen, complete, and nothing that can be acted on by itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from agentos.core.checkpoints.models import Checkpoint
from agentos.core.checkpoints.restores import Restored, RestorePlan

# What an interrupted step was changing was recorded by nobody; that step is named instead.
IN_FLIGHT = "in flight: "


class Verdict(StrEnum):
    """What may happen next."""

    FRESH = "fresh"
    RESUME = "resume"
    REPAIR = "repair"
    DIVERGED = "diverged"
    UNCERTAIN = "uncertain"
    BLOCKED = "blocked"
    HELD = "held"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Difference:
    """One claim that does not hold now (`failed`) or could not be checked (`error`), and who recorded what was found."""

    subject: str
    outcome: str
    expected: Any
    found: Any
    message: str
    code: str
    recorded_by: str | None
    restorable: bool
    checkpoint_id: str
    sequence: int

    @property
    def origin(self) -> str:
        """Where what was found comes from, in words."""
        return origin(self.recorded_by) or "recorded by nobody"


def origin(recorded_by: str | None) -> str:
    """The same of a `recorded_by`; nothing if nobody did."""
    if recorded_by is None:
        return ""
    return recorded_by if recorded_by.startswith(IN_FLIGHT) else f"recorded by {recorded_by}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A checkpoint that cannot be stood on now, and why."""

    checkpoint_id: str
    sequence: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that a step left behind which is no longer on the timeline, or will not be."""

    subject: str
    checkpoint_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A step that began and never ended. `verdict` is adopt, retry, uncertain or running."""

    step_id: str
    checkpoint_type: str
    verdict: str
    reason: str
    begun_at: datetime
    error: str | None
    rerunnable: bool


@dataclass(frozen=True, slots=True)
class Recovery:
    """The answer to "from where, and why". `snapshot` is there only if it was measured just now that it may be used."""

    task_id: str
    verdict: Verdict
    checkpoint: Checkpoint | None
    snapshot: dict[str, Any] | None
    differences: tuple[Difference, ...]
    rejected: tuple[Rejected, ...]
    leftovers: tuple[Leftover, ...]
    interrupted: tuple[Interrupted, ...]
    options: tuple[str, ...]
    registry: str
    created: bool
    holder: str | None
    notes: tuple[str, ...]
    # For the verdict `repair`: what would put back what differs.
    plan: RestorePlan | None = None
    # What a repairing `resume` put back and took away; each can be undone.
    restored: tuple[Restored, ...] = ()
    # False where the registry takes nothing now, be it read-only or the disk full: then `resume` could not act on this.
    recorded: bool = True

    def explain(self) -> str:
        """All of it in plain sentences."""
        from agentos.core.checkpoints.telling import explained  # noqa: PLC0415 - words are needed only when somebody reads

        return explained(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found["verdict"] = self.verdict.value
        found["checkpoint"] = None if self.checkpoint is None else self.checkpoint.to_dict()
        for name in ("differences", "rejected", "leftovers", "interrupted"):
            found[name] = [asdict(each) for each in found[name]]
        for step in found["interrupted"]:
            step["begun_at"] = step["begun_at"].isoformat()
        for rejected in found["rejected"]:
            rejected["reasons"] = list(rejected["reasons"])
        found["plan"] = None if self.plan is None else self.plan.to_dict()
        found["restored"] = [each.to_dict() for each in self.restored]
        return {**found, "options": list(self.options), "notes": list(self.notes)}
