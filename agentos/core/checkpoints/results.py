"""What one look at one claim gave: its outcome, how sure that is, and every attempt that it took.

Plain values: how an outcome follows from what was seen is decided in `kinds/`, what follows from it in policy.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.dictionaries import from_dictionary, to_dictionary
from agentos.errors import InvalidInputError


class Outcome(StrEnum):
    """What looking gave: the world agrees, differs, could not be seen, or was not looked at."""

    VERIFIED = "verified"
    FAILED = "failed"
    ERROR = "error"
    NOT_RUN = "not_run"


class Assurance(StrEnum):
    """How strong a verified claim is, weakest first."""

    DECLARED = "declared"
    RECORDED = "recorded"
    SEALED = "sealed"
    OBSERVED = "observed"

    def reaches(self, least: Assurance | None) -> bool:
        """Whether it is at least as strong."""
        return least is None or _STRENGTH[self] >= _STRENGTH[least]


_STRENGTH = {each: number for number, each in enumerate(Assurance)}


@dataclass(frozen=True)
class EvidenceResult:
    """One look at one claim: what was expected, what was found, and how sure that is.

    `attempts` lists every try, oldest first, where there was more than one; `flaky` says that one failed before the pass.
    `notes` are remarks that decide nothing.
    """

    outcome: Outcome
    code: str
    message: str = ""
    hint: str = ""
    expected: Any = None
    found: Any = None
    assurance: Assurance | None = None
    duration_ms: float = 0.0
    flaky: bool = False
    attempts: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "outcome", Outcome(self.outcome))
            object.__setattr__(self, "assurance", None if self.assurance is None else Assurance(self.assurance))
        except ValueError as error:
            where = "assurance" if isinstance(self.outcome, Outcome) else "outcome"
            raise InvalidInputError(f"EvidenceResult.{where}: {error}") from None
        for name, kind, what in _CHECKED:
            if type(getattr(self, name)) is not kind:
                raise InvalidInputError(f"EvidenceResult.{name}: must be {what}, found {shown(getattr(self, name), 80)}")

    def to_dict(self) -> dict[str, Any]:
        """Every field, enums as values."""
        return to_dictionary(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EvidenceResult:
        """The exact inverse of `to_dict`."""
        return from_dictionary(cls, data, {})


_CHECKED = (
    ("code", str, "text"),
    ("message", str, "text"),
    ("hint", str, "text"),
    ("flaky", bool, "true or false"),
    ("attempts", list, "a list"),
    ("notes", list, "a list"),
)
