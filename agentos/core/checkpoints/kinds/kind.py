"""What every evidence type has in common: a definition that is checked, a subject, a lifetime, and a judgement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentos._text import MASKED, listed, shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.models import Assurance, Evidence, EvidenceResult, Outcome, trusted
from agentos.core.checkpoints.observing import Observation, Unseen
from agentos.errors import EvidenceDefinitionError, SnapshotError


class Lifetime(StrEnum):
    """How long a claim stands: until a later claim about its subject, for its own step, or for the whole task."""

    LASTING = "lasting"
    STEP = "step"
    TASK = "task"


# In the index of claims beside the lifetimes: the end of what was claimed before, and itself no claim.
RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement on facts. `code` is stable: programs may depend on it."""

    outcome: Outcome
    code: str
    message: str = ""
    hint: str = ""
    assurance: Assurance | None = Assurance.OBSERVED


HOLDS = Verdict(Outcome.VERIFIED, "VERIFIED")


@dataclass(frozen=True, slots=True)
class Kind:
    """The rules of one evidence type."""

    required: frozenset[str]
    # What a definition may hold, the required keys included.
    known: frozenset[str]
    lifetime: Lifetime
    check: Callable[[Evidence], None]
    subject: Callable[[Evidence, str], str]
    judge: Callable[[Evidence, dict[str, Any]], Verdict]

    def refuse_malformed(self, evidence: Evidence) -> None:
        """Refuse a definition that could never be checked, before anything is stored.

        Raises:
            EvidenceDefinitionError: names the item, the key and what was found.
        """
        for name in ("metadata", "expected"):
            part = getattr(evidence, name)
            if type(part) is not dict:
                refuse(evidence, f"{name} must be a dict, found {told(evidence, part)}")
            try:
                codec.encode(part, name)
            except SnapshotError as error:
                refuse(evidence, f"{name} cannot be stored {MASKED}" if is_sensitive(evidence) else error.message, error.hint)
        self.refuse_misfit(evidence)

    def refuse_misfit(self, evidence: Evidence) -> None:
        """The same for a definition that is known to be JSON."""
        keys = evidence.expected.keys()
        if not self.required <= keys:
            refuse(evidence, f"Missing {listed([repr(key) for key in sorted(self.required - keys)])} in expected")
        if not keys <= self.known:
            unknown = listed(sorted(keys - self.known))
            refuse(evidence, f"unknown key in expected: {unknown}", f"known: {listed(sorted(self.known))}")
        if evidence.metadata:
            lifetime_of(evidence, self.lifetime)
            if type(evidence.metadata.get("sensitive", False)) is not bool:
                refuse(evidence, "metadata['sensitive'] must be true or false")
        self.check(evidence)

    def result(self, evidence: Evidence, observation: Observation, duration_ms: float) -> EvidenceResult:
        """What this observation says about this claim."""
        hidden = is_sensitive(evidence)
        if isinstance(observation, Unseen):
            why = f"{describe(evidence)}: could not be checked {MASKED}" if hidden else observation.message
            return EvidenceResult(Outcome.ERROR, observation.code, why, observation.hint, duration_ms=duration_ms)
        verdict = self.judge(evidence, observation.facts)
        return trusted(
            EvidenceResult,
            outcome=verdict.outcome,
            code=verdict.code,
            message=f"{describe(evidence)}: differs {MASKED}" if hidden and verdict.message else verdict.message,
            hint=verdict.hint,
            expected=MASKED if hidden else evidence.expected,
            found=MASKED if hidden else observation.facts,
            assurance=verdict.assurance,
            duration_ms=duration_ms,
        )


def lifetime_of(evidence: Evidence, default: Lifetime) -> Lifetime:
    """How long this item stands."""
    given = evidence.metadata.get("lifetime", default)
    try:
        return Lifetime(given)
    except ValueError:
        known = listed([each.value for each in Lifetime])
        raise EvidenceDefinitionError(
            f"{describe(evidence)}: metadata['lifetime'] is {shown(given, 60)}", hint=f"one of: {known}"
        ) from None


def is_sensitive(evidence: Evidence) -> bool:
    """Whether the values of this item must not be shown."""
    return type(evidence.metadata) is dict and evidence.metadata.get("sensitive") is True


def told(evidence: Evidence, value: Any, limit: int = 60) -> str:
    """A value of this item for a message, text in quotes; nothing of it if the item is sensitive."""
    return MASKED if is_sensitive(evidence) else shown(repr(value), limit)


def describe(evidence: Evidence) -> str:
    """The item in a few words, for messages."""
    return f"{evidence.evidence_type} ({shown(evidence.description, 80)})"


def refuse(evidence: Evidence, problem: str, hint: str = "") -> None:
    """Raise the definition error for this item."""
    raise EvidenceDefinitionError(f"{describe(evidence)}: {problem}", hint=hint)
