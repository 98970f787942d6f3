"""What every evidence type has in common: a definition that is checked, a subject, a lifetime, and a judgement.

A definition is what `expected` and `metadata` may hold, as a JSON schema for editors, and a check that says in words what is
wrong. How often is looked and for how long depends on what is looked at: see `Retries`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any

from agentos._text import MASKED, listed, shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.models import Evidence, trusted
from agentos.core.checkpoints.observing import Observation, Seen, Unseen
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome
from agentos.errors import EvidenceDefinitionError, SnapshotError

Schema = Mapping[str, Any]
Filled = tuple[dict[str, Any], dict[str, Any]]
LONGEST_WAIT = 86_400.0
FLAKY = "FLAKY"


class Lifetime(StrEnum):
    """How long a claim stands: until a later claim about its subject, for its own step, or for the whole task."""

    LASTING = "lasting"
    STEP = "step"
    TASK = "task"


# In the index of claims beside the lifetimes: the end of what was claimed before, and itself no claim.
RELEASE = "release"


class Retries(StrEnum):
    """When another look may say something else, and may be believed.

    Content that differs is never looked at again: retrying until it passes hides damage. A service may still be starting.
    """

    NEVER = "never"
    TRANSIENT = "transient"
    FAILURES = "failures"


class Effort(IntEnum):
    """What a look costs: those that cost least come first, so that a state that a glance refutes needs no gigabyte hashed."""

    GLANCE = 0
    LOOK = 1
    READ = 2
    WAIT = 3


@dataclass(frozen=True, match_args=False)
class Verdict:
    """A judgement on facts. `code` is stable: programs may depend on it."""

    outcome: Outcome
    code: str
    message: str = ""
    hint: str = ""
    assurance: Assurance | None = Assurance.OBSERVED
    # Looking again cannot help, whatever is looked at.
    final: bool = False
    notes: tuple[str, ...] = ()


HOLDS = Verdict(Outcome.VERIFIED, "VERIFIED")


# What a dataclass generates beyond its constructor is made anew at every import, and nobody compares or prints kinds.
@dataclass(frozen=True, eq=False, repr=False, match_args=False)
class Kind:
    """The rules of one evidence type."""

    # What `expected` and `metadata` may hold, key by key. `metadata` may hold anything else too.
    expected: Mapping[str, Schema]
    required: frozenset[str]
    lifetime: Lifetime
    check: Callable[[Evidence], None]
    subject: Callable[[Evidence, str], str]
    judge: Callable[[Evidence, dict[str, Any]], Verdict]
    metadata: Mapping[str, Schema] = field(default_factory=dict)
    # What must hold of several keys together, as schemas of the whole definition.
    together: tuple[Schema, ...] = ()
    retries: Retries = Retries.TRANSIENT
    effort: Effort = Effort.LOOK
    # Seconds one look, and all looks together, may take unless the evidence says otherwise; None: what whoever asks allows.
    timeout: float | None = None
    deadline: float | None = None
    # What can be claimed of what was seen, for evidence that is captured: `expected` and `metadata`; None if there is nothing.
    fill: Callable[[Evidence, Seen], Filled | None] | None = None
    # What of a claim says what is looked at: claims with equal keys are judged by the same facts, so one look serves all of
    # them. None: everything in it does.
    look_key: Callable[[Evidence], Hashable] | None = None
    # The facts as a result keeps them, where a claim is judged by more than anybody would read.
    brief: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    # What is expected as a report shows it, where it may hold secrets though nobody called it sensitive.
    shows: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    # Of what speaks for many things: the name of the rules by which it leaves some out, and whether it speaks for this
    # name beneath it, given what was kept.
    rules: Callable[[Evidence], str] | None = None
    covers: Callable[[Evidence, str, Callable[[str], bytes | None]], bool] | None = None
    # What it looks at is content: a pass after a failure is no pass.
    content: bool = True

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
        if not keys <= self.expected.keys():
            unknown = listed(sorted(keys - self.expected.keys()))
            refuse(evidence, f"unknown key in expected: {unknown}", f"known: {listed(sorted(self.expected))}")
        if evidence.metadata:
            self._check_metadata(evidence)
        self.check(evidence)

    def _check_metadata(self, evidence: Evidence) -> None:
        lifetime_of(evidence, self.lifetime)
        for name in ("sensitive", "keep"):
            if type(evidence.metadata.get(name, False)) is not bool:
                refuse(evidence, f"metadata['{name}'] must be true or false")
        if self.retries is Retries.NEVER:
            # Nothing is waited for: a `timeout` here is a remark about something else, such as the command that ran.
            return
        for name in ("timeout", "deadline"):
            seconds = evidence.metadata.get(name, 1)
            if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST_WAIT:
                said = f"metadata['{name}'] must be a number of seconds up to a day, found {told(evidence, seconds)}"
                refuse(evidence, said)

    def result(
        self, evidence: Evidence, observation: Observation, duration_ms: float = 0.0, *, least: Assurance | None = None
    ) -> EvidenceResult:
        """What this observation says about this claim.

        Args:
            least: how sure it must be to count.
        """
        hidden = is_sensitive(evidence)
        if isinstance(observation, Unseen):
            why = f"{describe(evidence)}: could not be checked {MASKED}" if hidden else observation.message
            return _tried(
                EvidenceResult(Outcome.ERROR, observation.code, why, observation.hint, duration_ms=duration_ms), observation
            )
        verdict = self.judge(evidence, observation.facts)
        if verdict.outcome is Outcome.VERIFIED and (observation.attempts or least is not None):
            verdict = self._counted(evidence, verdict, observation, least)
        found = trusted(
            EvidenceResult,
            outcome=verdict.outcome,
            code=verdict.code,
            message=f"{describe(evidence)}: differs {MASKED}" if hidden and verdict.message else verdict.message,
            hint=verdict.hint,
            expected=MASKED if hidden else evidence.expected,
            found=MASKED if hidden else observation.facts if self.brief is None else self.brief(observation.facts),
            assurance=verdict.assurance,
            duration_ms=duration_ms,
            flaky=False,
            attempts=[],
            notes=[] if hidden else list(verdict.notes),
        )
        return _tried(found, observation)

    def _counted(self, evidence: Evidence, verdict: Verdict, observation: Observation, least: Assurance | None) -> Verdict:
        """The verdict on a claim that holds, unless it holds in a way that does not count."""
        if self.content and _had_failed(observation):
            said = f"{describe(evidence)}: held only after an earlier look had failed, and content does not come and go"
            return Verdict(Outcome.FAILED, FLAKY, said, "find out what changes it, or the disk beneath it, then verify again")
        if least is None or verdict.assurance is None or verdict.assurance.reaches(least):
            return verdict
        return Verdict(
            Outcome.FAILED,
            "NOT_RECORDED" if verdict.assurance is Assurance.DECLARED else "ASSURANCE_TOO_LOW",
            f"{describe(evidence)}: holds, but is only {verdict.assurance.value}, and {least.value} is asked for",
            "record it when it happens, or look at what it left behind",
            verdict.assurance,
        )


def attempt_of(result: EvidenceResult, took_ms: float) -> dict[str, Any]:
    """One try, as the result of the last one keeps it; what they took together is said of the result."""
    return {"outcome": result.outcome.value, "code": result.code, "message": result.message, "duration_ms": took_ms}


def _tried(result: EvidenceResult, observation: Observation) -> EvidenceResult:
    """The result of the last try, with those before it."""
    if not observation.attempts:
        return result
    passed = result.outcome is Outcome.VERIFIED
    flaky = result.code == FLAKY or (passed and _had_failed(observation))
    return replace(result, flaky=flaky, attempts=[*observation.attempts, attempt_of(result, observation.last_ms)])


def _had_failed(observation: Observation) -> bool:
    return any(each["outcome"] == Outcome.FAILED.value for each in observation.attempts)


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
