"""The nouns a user holds: Evidence, EvidencePack, Checkpoint, and the result of looking.

They check their own shape when they are made; whether a definition can be checked at all is decided in `kinds/`, and whether
the world agrees is never decided here. `verified` on a loaded object is a memory, and no gate believes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass, rebuild_dataclass

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.dictionaries import from_dictionary, to_dictionary
from agentos.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
# Building the validators takes as long as importing pydantic: a process that only reads never needs them.
_CONFIG = ConfigDict(extra="forbid", defer_build=True)


class EvidenceType(StrEnum):
    """What kind of thing is claimed."""

    ARTIFACT_EXISTS = "artifact_exists"
    ARTIFACT_ABSENT = "artifact_absent"
    FILE_SHA256 = "file_sha256"
    COMMAND_EXIT = "command_exit"
    DB_ROW = "db_row"


class VerificationStatus(StrEnum):
    """What is known of one item. `error` (could not check) shows as failed here; `Evidence.result` has the difference."""

    PENDING = "pending"
    VERIFIED = "verified"
    FAILED = "failed"


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


def _readable(cls: type[T]) -> type[T]:
    """Let the constructor raise our error, which names the field and what was found, in place of pydantic's."""
    validated: Callable[..., None] = cls.__init__

    @functools.wraps(validated)
    def __init__(self: T, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it takes the place of the class's own
        if not cls.__pydantic_complete__:  # type: ignore[attr-defined]
            _build_validators()
        try:
            validated(self, *args, **kwargs)
        except ValidationError as error:
            raise InvalidInputError(_sentence(cls, error)) from None

    _constructors[cls] = __init__
    cls.__init__ = __init__  # type: ignore[assignment, method-assign]
    return cls


_constructors: dict[type[Any], Callable[..., None]] = {}


def _build_validators() -> None:
    """Build what was deferred, once, and put our constructors back, which building replaces."""
    # Building imports parts of pydantic.
    with importing:
        for cls in _constructors:
            rebuild_dataclass(cls)
        for cls, constructor in _constructors.items():
            cls.__init__ = constructor


def _sentence(cls: type[Any], error: ValidationError) -> str:
    first, name = error.errors(include_url=False)[0], cls.__name__
    try:
        where = shown(".".join(str(part) for part in _named(cls, first["loc"])), 80)
        return f"{name}.{where}: {first['msg']}, found {shown(first.get('input'), 80)}"
    except Exception:  # noqa: BLE001 - Python refuses to spell out huge integers, and any object may refuse to describe itself
        return f"{name}: {first['msg']}"


def _named(cls: type[Any], where: tuple[int | str, ...]) -> tuple[int | str, ...]:
    # An argument given by position is known to pydantic by its number only.
    names = [each.name for each in fields(cls)]
    known = bool(where) and isinstance(where[0], int) and where[0] < len(names)
    return (names[int(where[0])], *where[1:]) if known else where


@plain_dataclass(frozen=True)
class EvidenceResult:
    """One look at one claim: what was expected, what was found, and how sure that is."""

    outcome: Outcome
    code: str
    message: str = ""
    hint: str = ""
    expected: Any = None
    found: Any = None
    assurance: Assurance | None = None
    duration_ms: float = 0.0

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "outcome", Outcome(self.outcome))
            object.__setattr__(self, "assurance", None if self.assurance is None else Assurance(self.assurance))
        except ValueError as error:
            where = "assurance" if isinstance(self.outcome, Outcome) else "outcome"
            raise InvalidInputError(f"EvidenceResult.{where}: {error}") from None
        for name in ("code", "message", "hint"):
            if type(getattr(self, name)) is not str:
                raise InvalidInputError(f"EvidenceResult.{name}: must be text, found {shown(getattr(self, name), 80)}")

    def to_dict(self) -> dict[str, Any]:
        """Every field, enums as values."""
        return to_dictionary(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EvidenceResult:
        """The exact inverse of `to_dict`."""
        return from_dictionary(cls, data, {})


@_readable
@dataclass(config=_CONFIG)
class Evidence:
    """One claim about the world that can be checked and can fail."""

    evidence_type: EvidenceType
    description: str
    expected: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    verified: bool = False
    verification_status: VerificationStatus = VerificationStatus.PENDING
    verification_error: str | None = None
    verified_at: datetime | None = None
    result: EvidenceResult | None = field(default=None, kw_only=True)

    def record(self, result: EvidenceResult, at: datetime) -> None:
        """Take over what a look at the world gave."""
        self.result = result
        self.verified = result.outcome is Outcome.VERIFIED
        self.verification_status = VerificationStatus.VERIFIED if self.verified else VerificationStatus.FAILED
        self.verification_error = None if self.verified else result.message
        self.verified_at = at

    def to_dict(self) -> dict[str, Any]:
        """Every field, enums as values, times as ISO 8601."""
        return to_dictionary(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Evidence:
        """The exact inverse of `to_dict`.

        Raises:
            InvalidInputError: a key is unknown or missing.
        """
        return from_dictionary(cls, data, {"result": EvidenceResult.from_dict})

    @classmethod
    def capture_file(cls, path: str | Path, *, base_path: str | Path | None = None, description: str = "") -> Evidence:
        """Measure the file now and claim what was measured: its SHA-256 and size.

        Raises:
            EvidenceUnavailableError: the file is not there or could not be read; says why.
        """
        from agentos.wiring import measured_file  # noqa: PLC0415 - looking at the world is wired in lazily

        return measured_file(path, base_path, description)


_Count = Annotated[int, Field(strict=True, ge=0)]
_Flag = Annotated[bool, Field(strict=True)]
# What a subject may be: a misspelled kind would release nothing, and nobody would notice.
SUBJECT_KINDS = ("file", "row", "command")
# pydantic's `.` and `$` know no lines, and neither does a path.
_Subject = Annotated[str, Field(strict=True, pattern=f"^(?:{'|'.join(SUBJECT_KINDS)}):[^\\x00]+$")]


@_readable
@dataclass(config=_CONFIG)
class EvidencePack:
    """The evidence of one step, and how much of it must hold.

    Part of it is enough only with `require_all=False` and `allow_partial=True`: then at least `max(1, min_verified)` items
    must hold. In every other combination all must. An empty pack never verifies.

    `releases` names subjects, such as "file:out/x", that the task no longer vouches for: no earlier claim about them stands.
    """

    evidence_list: list[Evidence] = field(default_factory=list)
    require_all: _Flag = True
    allow_partial: _Flag = False
    min_verified: _Count = 0
    releases: list[_Subject] = field(default_factory=list, kw_only=True)

    def add_evidence(self, evidence: Evidence) -> None:
        """Append one item.

        Raises:
            InvalidInputError: it is not Evidence.
        """
        if not isinstance(evidence, Evidence):
            raise InvalidInputError(f"EvidencePack.add_evidence: takes Evidence, found {shown(evidence, 80)}")
        self.evidence_list.append(evidence)

    def is_verified(self) -> bool:
        """Whether what is recorded on the items meets this pack's policy. Looks at nothing."""
        from agentos.core.checkpoints.policy import holds  # noqa: PLC0415 - policy is about packs and imports this module

        return holds(self, [_recorded_outcome(item) for item in self.evidence_list])

    def verification_summary(self) -> dict[str, Any]:
        """Counts with `total == verified + failed + error + pending`, `declared` (a part of verified), and `is_verified`."""
        outcomes = [_recorded_outcome(item) for item in self.evidence_list]
        return {
            "total": len(outcomes),
            "verified": outcomes.count(Outcome.VERIFIED),
            "failed": outcomes.count(Outcome.FAILED),
            "error": outcomes.count(Outcome.ERROR),
            "pending": outcomes.count(Outcome.NOT_RUN),
            "declared": sum(_only_declared(item) for item in self.evidence_list),
            "is_verified": self.is_verified(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Every field; the items as their dictionaries."""
        return to_dictionary(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EvidencePack:
        """The exact inverse of `to_dict`."""
        return from_dictionary(cls, data, {"evidence_list": _evidence_list})


def trusted(cls: type[T], **values: Any) -> T:
    """An instance made of values that were checked before they were stored; checking them again would only cost."""
    instance = object.__new__(cls)
    instance.__dict__.update(values)
    return instance


def _evidence_list(items: Any) -> Any:
    # What is no list is left for the constructor to refuse by name.
    return [Evidence.from_dict(item) for item in items] if isinstance(items, list) else items


def _recorded_outcome(item: Evidence) -> Outcome:
    if item.result is not None:
        return item.result.outcome
    if item.verification_status is VerificationStatus.PENDING:
        return Outcome.NOT_RUN
    return Outcome.VERIFIED if item.verified else Outcome.FAILED


def _only_declared(item: Evidence) -> bool:
    return item.verified and item.result is not None and item.result.assurance is Assurance.DECLARED


@_readable
@dataclass(config=_CONFIG)
class Checkpoint:
    """A step that was committed: the state to resume from, and the evidence that it was reached.

    What a user holds is a copy; changing it changes nothing that is stored.
    """

    checkpoint_id: str
    task_id: str
    work_item_id: str | None
    checkpoint_type: str
    sequence_number: int
    snapshot_data: dict[str, Any]
    evidence_pack: EvidencePack
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    verified: bool = False
    last_verified_at: datetime | None = None
    step_id: str = field(default="", kw_only=True)
    base_path: str | None = field(default=None, kw_only=True)
    superseded_by: str | None = field(default=None, kw_only=True)
    # Its step was interrupted, and recovery found its effect in place.
    adopted: bool = field(default=False, kw_only=True)

    def snapshot_as(self, model: type[T]) -> T:
        """The snapshot as the pydantic model or dataclass it was made from.

        Raises:
            SnapshotError: the stored state does not fit this type.
        """
        from agentos.core.checkpoints.snapshots import revive  # noqa: PLC0415 - only users of typed state pay for it

        return revive(self.snapshot_data, model)

    def to_dict(self) -> dict[str, Any]:
        """Every field, enums as values, times as ISO 8601."""
        return to_dictionary(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checkpoint:
        """The exact inverse of `to_dict`."""
        return from_dictionary(cls, data, {"evidence_pack": EvidencePack.from_dict})
