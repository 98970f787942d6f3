"""What a restore writes down before it changes anything, and how far it came.

`begun`: nothing was changed. `applying`: it may have been. `done`: everything is as planned. `undone`: as before. A restore
that has not ended still has its staging folder to be cleared, whatever its state; see settling.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol

from agentos._ids import new_ulid
from agentos.core.checkpoints.restores import Kind, Operation, RestorePlan, Thing
from agentos.core.checkpoints.stored import StoredRestore
from agentos.vault.staging import STAGING

BEGUN, APPLYING, DONE, UNDONE = "begun", "applying", "done", "undone"
_PREFIX = "restore_"


class Journal(Protocol):
    """The part of the registry that a restore needs. Each write is durable when it returns."""

    def begin_restore(self, stored: StoredRestore) -> None:
        """Write down what is about to be changed."""

    def update_restore(self, stored: StoredRestore) -> None:
        """Write down how far it came."""

    def restore(self, restore_id: str) -> StoredRestore | None:
        """What was written down, or None."""


def entry_of(plan: RestorePlan) -> StoredRestore:
    """The journal's entry for a plan that is about to be followed."""
    ulid = new_ulid()
    return StoredRestore(
        _PREFIX + ulid, plan.task_id, plan.checkpoint_id, plan.base_path, STAGING + ulid.lower(), packed(plan.operations),
        BEGUN, plan.undoes, _now(),
    )  # fmt: skip


def ended(entry: StoredRestore, state: str) -> StoredRestore:
    """The same entry, over and done with."""
    entry.state, entry.ended_at = state, _now()
    return entry


def packed(operations: tuple[Operation, ...] | list[Operation]) -> bytes:
    """Operations as the journal keeps them. Names of any bytes: what is no text is escaped."""
    return json.dumps([_plain(each) for each in operations], separators=(",", ":")).encode()


def operations_of(entry: StoredRestore) -> list[Operation]:
    """What the entry says is to be done, or was."""
    return [Operation.from_dict(each) for each in json.loads(entry.operations)]


def needed_by(entry: StoredRestore) -> Iterator[str]:
    """The digests of what it overwrote and deleted, and of what it puts there: content that must stay kept."""
    for operation in operations_of(entry):
        for thing in (operation.before, operation.after):
            if thing.kind is Kind.FILE:
                yield thing.sha256


def _plain(operation: Operation) -> dict[str, object]:
    sides = {"before": _thing(operation.before), "after": _thing(operation.after)}
    return {"path": operation.path, "action": operation.action.value, **sides}


def _thing(thing: Thing) -> dict[str, object]:
    return {
        "kind": thing.kind.value, "sha256": thing.sha256, "size": thing.size, "executable": thing.executable,
        "target": thing.target, "mode": thing.mode,
    }  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat()
