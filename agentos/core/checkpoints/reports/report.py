"""What a verification found, item by item, for people and for programs.

Made of what a pack or a checkpoint carries; looks at nothing. Everything in it may be shown: text is escaped, secrets in
addresses are masked, and of an item that is sensitive no value is in it. How it is shown is in the files beside this one.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from agentos._text import MASKED, plain, shown
from agentos.core.checkpoints import policy
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.kind import is_sensitive
from agentos.core.checkpoints.models import Checkpoint, Evidence, EvidencePack
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.unkept import note_of
from agentos.errors import InvalidInputError

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class ReportedItem:
    """One item of evidence and what came of the last look at it."""

    number: int
    evidence_type: str
    description: str
    outcome: str
    code: str
    message: str
    hint: str
    expected: Any
    found: Any = None
    assurance: str | None = None
    duration_ms: float = 0.0
    flaky: bool = False
    attempts: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """One verification of one pack. `outcome` is that of the whole, by the pack's own policy."""

    outcome: str
    items: tuple[ReportedItem, ...]
    policy: dict[str, Any]
    checkpoint_id: str | None = None
    task_id: str | None = None
    checkpoint_type: str | None = None
    sequence_number: int | None = None
    verified_at: datetime | None = None
    # Milliseconds, all looks together: they may have been taken side by side.
    duration_ms: float = field(default=0.0)

    @classmethod
    def of_pack(cls, pack: EvidencePack) -> VerificationReport:
        """The report on a pack by the results its items carry."""
        if not isinstance(pack, EvidencePack):
            raise InvalidInputError(f"what is reported must be an EvidencePack, found {shown(pack, 80)}")
        return cls(policy.outcome_of(pack).value, _items(pack), _policy(pack), **_times(pack))

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint) -> VerificationReport:
        """The same for a checkpoint, by its newest look that is known."""
        if not isinstance(checkpoint, Checkpoint):
            raise InvalidInputError(f"what is reported must be a Checkpoint, found {shown(checkpoint, 80)}")
        pack = checkpoint.evidence_pack
        return cls(
            policy.outcome_of(pack).value,
            _items(pack),
            _policy(pack),
            shown(checkpoint.checkpoint_id, 120),
            shown(checkpoint.task_id, 120),
            shown(checkpoint.checkpoint_type, 120),
            checkpoint.sequence_number,
            **_times(pack),
        )

    @property
    def is_verified(self) -> bool:
        """Whether enough of the pack holds."""
        return self.outcome == Outcome.VERIFIED.value

    @property
    def summary(self) -> dict[str, Any]:
        """Counts by outcome, how many were flaky, and how sure the verified ones are."""
        outcomes = Counter(item.outcome for item in self.items)
        sure = Counter(item.assurance for item in self.items if item.outcome == Outcome.VERIFIED.value and item.assurance)
        return {
            "total": len(self.items),
            **{each.value: outcomes[each.value] for each in Outcome},
            "flaky": sum(item.flaky for item in self.items),
            "by_assurance": dict(sorted(sure.items())),
            "duration_ms": self.duration_ms,
            "verdict": self.outcome,
        }

    @property
    def title(self) -> str:
        """What was verified, in a line."""
        if self.checkpoint_id is None:
            return f"{len(self.items)} evidence · {describe_policy(self.policy)}"
        named = f"checkpoint {self.checkpoint_id} · task {self.task_id} · number {self.sequence_number}"
        return f"{named} · {len(self.items)} evidence · {describe_policy(self.policy)}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can carry it. Keys may be added; none is taken away or means something else later."""
        return {
            "schema_version": SCHEMA_VERSION,
            "checkpoint": {
                "checkpoint_id": self.checkpoint_id,
                "task_id": self.task_id,
                "checkpoint_type": self.checkpoint_type,
                "sequence_number": self.sequence_number,
            },
            "policy": self.policy,
            "verified_at": None if self.verified_at is None else self.verified_at.isoformat(),
            "summary": self.summary,
            "results": [asdict(item) for item in self.items],
        }

    def json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def table(self) -> str:
        """Lines for a terminal: one for each item, with the reason beneath those that did not verify."""
        from agentos.core.checkpoints.reports.table import table  # noqa: PLC0415 - each form is loaded when it is asked for

        return table(self)

    def junit(self) -> str:
        """JUnit XML, in which what could not be checked is an error and what differs is a failure."""
        from agentos.core.checkpoints.reports.junit import junit  # noqa: PLC0415

        return junit([self])

    def markdown(self) -> str:
        """A Markdown table, with the reasons beneath it."""
        from agentos.core.checkpoints.reports.markdown import markdown  # noqa: PLC0415

        return markdown([self])


def describe_policy(told: dict[str, Any]) -> str:
    """How much must hold, in a few words."""
    part = not told["require_all"] and told["allow_partial"]
    words = f"at least {max(1, told['min_verified'])}" if part else "require_all"
    return f"{words} · {told['min_assurance']}" if told["min_assurance"] else words


def _policy(pack: EvidencePack) -> dict[str, Any]:
    return {
        "require_all": pack.require_all,
        "allow_partial": pack.allow_partial,
        "min_verified": pack.min_verified,
        "min_assurance": None if pack.min_assurance is None else pack.min_assurance.value,
    }


def _times(pack: EvidencePack) -> dict[str, Any]:
    times = [item.verified_at for item in pack.evidence_list if item.verified_at is not None]
    took = sum(item.result.duration_ms for item in pack.evidence_list if item.result is not None)
    return {"verified_at": max(times, default=None), "duration_ms": round(took, 3)}


def _items(pack: EvidencePack) -> tuple[ReportedItem, ...]:
    return tuple(_item(number, item) for number, item in enumerate(pack.evidence_list, 1))


def _item(number: int, item: Evidence) -> ReportedItem:
    named = (number, shown(item.evidence_type, 80), shown(item.description, 120))
    result, unkept = item.result, note_of([item])
    if result is None:
        expected = MASKED if is_sensitive(item) else _shown_expected(item, item.expected)
        notes = [unkept] if unkept else []
        return ReportedItem(*named, Outcome.NOT_RUN.value, "NOT_RUN", "not looked at", "", expected, notes=notes)
    return ReportedItem(
        *named,
        result.outcome.value,
        result.code,
        shown(result.message, 2000),
        shown(result.hint, 2000),
        _shown_expected(item, item.expected if result.expected is None and not is_sensitive(item) else result.expected),
        plain(result.found),
        None if result.assurance is None else result.assurance.value,
        result.duration_ms,
        result.flaky,
        plain(result.attempts),
        [*(shown(note) for note in result.notes), *([unkept] if unkept else [])],
    )


def _shown_expected(item: Evidence, expected: Any) -> Any:
    shows = kind_of(item).shows
    return plain(expected if shows is None or type(expected) is not dict else shows(expected))
