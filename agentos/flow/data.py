"""What a workflow keeps at a checkpoint, and its JSON.

What was accepted comes back equal; what cannot is refused when it is encoded. Where it is kept is not known here.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from agentos._strict_json import parse
from agentos._text import listed, shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.identifiers import check_id
from agentos.errors import InvalidInputError
from agentos.flow.errors import CorruptCheckpointError

_HASH_LENGTH = 16


def compute_inputs_hash(inputs: dict[str, Any]) -> str:
    """16 hexadecimal digits of SHA-256 over the inputs; the order of their keys does not matter.

    Raises:
        SnapshotError: an input is not JSON; names its path.
    """
    codec.encode(inputs, "inputs")
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]


def _now() -> str:
    return datetime.now(UTC).isoformat()


@dataclass(frozen=True, slots=True)
class CheckpointData:
    """A workflow at one of its checkpoints.

    Args:
        step_results: one JSON object for each step that is done, in order.
        saved_at: ISO 8601; without an offset it is taken for UTC.
    """

    checkpoint_id: str
    workflow_name: str
    inputs_hash: str
    step_results: tuple[dict[str, Any], ...]
    saved_at: str = field(default_factory=_now)

    def __post_init__(self) -> None:
        check_id("checkpoint_id", self.checkpoint_id)
        for name in ("workflow_name", "inputs_hash", "saved_at"):
            if type(getattr(self, name)) is not str:
                raise InvalidInputError(f"{name} must be text, found {type(getattr(self, name)).__name__}")
        results = self.step_results
        if type(results) not in (list, tuple) or any(type(each) is not dict for each in results):
            raise InvalidInputError(f"step_results must be a list of objects, found {shown(results, 60)}")
        object.__setattr__(self, "step_results", tuple(results))
        _ = self.moment

    @property
    def moment(self) -> datetime:
        """`saved_at` as a time that can be compared."""
        try:
            found = datetime.fromisoformat(self.saved_at)
        except ValueError:
            raise InvalidInputError(f"saved_at must be an ISO 8601 time, found {shown(self.saved_at, 60)}") from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that `from_dict` makes an equal checkpoint of."""
        return {
            "checkpoint_id": self.checkpoint_id,
            "workflow_name": self.workflow_name,
            "inputs_hash": self.inputs_hash,
            "step_results": list(self.step_results),
            "saved_at": self.saved_at,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CheckpointData:
        """The inverse of `to_dict`.

        Raises:
            InvalidInputError: a key is missing, unknown or holds something else. It is a ValueError.
        """
        names = {each.name for each in fields(cls)}
        if type(data) is not dict or data.keys() != names:
            found = listed(sorted(map(str, data))) if isinstance(data, dict) else type(data).__name__
            raise InvalidInputError(f"a checkpoint has the keys {listed(sorted(names))}; found {found}")
        return cls(**data)


def encoded(data: CheckpointData) -> bytes:
    """The checkpoint as JSON for people to read.

    Raises:
        SnapshotError: a step's result would not come back equal; names its path.
    """
    if not isinstance(data, CheckpointData):
        raise InvalidInputError(f"data must be CheckpointData, found {type(data).__name__}")
    plain = data.to_dict()
    codec.encode(plain, "checkpoint")
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def decoded(content: bytes, checkpoint_id: str, where: str) -> CheckpointData:
    """The checkpoint of this id in what was stored for it.

    Raises:
        CorruptCheckpointError: it is not there; `where` says what was read. It is a ValueError.
    """
    try:
        data = CheckpointData.from_dict(parse(content, codec.MAX_DEPTH))
    except ValueError as error:
        reason = error.message if isinstance(error, InvalidInputError) else str(error)
        raise CorruptCheckpointError(
            f"{shown(where)}: no checkpoint: {reason}", hint="restore it, or clear() the run"
        ) from None
    if data.checkpoint_id != checkpoint_id:
        raise CorruptCheckpointError(
            f"{shown(where)}: expected checkpoint {shown(checkpoint_id, 80)}, found {shown(data.checkpoint_id, 80)}",
            hint="the file was renamed or copied; give it back its name",
        )
    return data


def latest(checkpoints: list[CheckpointData]) -> CheckpointData | None:
    """The one saved last by its own account; of several at one moment, the last by name, so that every store says the same."""
    return max(checkpoints, key=lambda each: (each.moment, each.checkpoint_id), default=None)
