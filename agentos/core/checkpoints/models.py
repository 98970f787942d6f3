"""The nouns a user holds: Evidence, EvidencePack, Checkpoint, and the result of looking.

They check their own shape when they are made; whether a definition can be checked at all is decided in `kinds/`, and whether
the world agrees is never decided here. `verified` on a loaded object is a memory, and no gate believes it.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from agentos._text import shown
from agentos.core.checkpoints.capturing import Captures
from agentos.core.checkpoints.dictionaries import from_dictionary, to_dictionary
from agentos.core.checkpoints.readable import CONFIG, readable
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome
from agentos.core.checkpoints.subjects import SUBJECT
from agentos.errors import InvalidInputError

T = TypeVar("T")


class EvidenceType(StrEnum):
    """What kind of thing is claimed. Types of your own are known by their name: see `evidence_type`."""

    ARTIFACT_EXISTS = "artifact_exists"
    ARTIFACT_ABSENT = "artifact_absent"
    FILE_SHA256 = "file_sha256"
    FILE_PREFIX_SHA256 = "file_prefix_sha256"
    FILE_CONTAINS = "file_contains"
    JSON_VALUE = "json_value"
    DIRECTORY_TREE = "directory_tree"
    COMMAND_EXIT = "command_exit"
    PROCESS_EXISTS = "process_exists"
    DB_ROW = "db_row"
    DB_ROW_ABSENT = "db_row_absent"
    DB_ROW_COUNT = "db_row_count"
    GIT_COMMIT = "git_commit"
    GIT_CLEAN = "git_clean"
    NETWORK_REACHABLE = "network_reachable"
    PORT_LISTENING = "port_listening"
    API_RESPONSE = "api_response"
    CONTAINER_RUNNING = "container_running"


class VerificationStatus(StrEnum):
    """What is known of one item. `error` (could not check) shows as failed here; `Evidence.result` has the difference."""

    PENDING = "pending"
    VERIFIED = "verified"
    FAILED = "failed"


def _as_type(given: object) -> object:
    """A type that comes with agentos as its enum, one that others brought as its name; the rest is pydantic's to refuse."""
    try:
        return EvidenceType(given)  # type: ignore[arg-type]
    except ValueError:
        from pydantic_core import PydanticCustomError  # noqa: PLC0415 - only for what is not ours

        from agentos.core.checkpoints.kinds import is_known  # noqa: PLC0415 - the kinds are about evidence and import this module

        if is_known(given):
            return given
        raise PydanticCustomError(
            "evidence_type", f"must be one of {', '.join(EvidenceType)}, or a type that was registered"
        ) from None


@readable
@dataclass(config=CONFIG)
class Evidence(Captures):
    """One claim about the world that can be checked and can fail."""

    evidence_type: Annotated[EvidenceType | str, BeforeValidator(_as_type)]
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


_Count = Annotated[int, Field(strict=True, ge=0)]
_Flag = Annotated[bool, Field(strict=True)]
_Subject = Annotated[str, Field(strict=True, pattern=SUBJECT)]


@readable
@dataclass(config=CONFIG)
class EvidencePack:
    """The evidence of one step, and how much of it must hold.

    Part of it is enough only with `require_all=False` and `allow_partial=True`: then at least `max(1, min_verified)` items
    must hold. In every other combination all must. An empty pack never verifies.

    `releases` names subjects, such as "file:out/x", that the task no longer vouches for: no earlier claim about them stands.
    `min_assurance` says how sure an item must be to count: "recorded" leaves out what is only declared.
    """

    evidence_list: list[Evidence] = field(default_factory=list)
    require_all: _Flag = True
    allow_partial: _Flag = False
    min_verified: _Count = 0
    releases: list[_Subject] = field(default_factory=list, kw_only=True)
    min_assurance: Assurance | None = field(default=None, kw_only=True)

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


@readable
@dataclass(config=CONFIG)
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
