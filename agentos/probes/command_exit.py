"""Look up how a command ended, where it was recorded when it ran.

Nothing is ever run. The first place that says anything counts: the evidence itself, with the record that was written when the
command ran before a bare number, then the pointer it gives into the snapshot, then `exit_code` at the top of the snapshot.
"""

from __future__ import annotations

from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.commands import RECORDED
from agentos.core.checkpoints.kinds.pointers import resolve
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.errors import AgentosError


class CommandExit:
    """Facts: `source` (None when nothing was recorded anywhere), `recorded`, `exit_code`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look it up."""
        if "record" in evidence.metadata:
            record = evidence.metadata["record"]
            return _seen(RECORDED, record.get("exit_code") if isinstance(record, dict) else record)
        if "actual_exit_code" in evidence.metadata:
            return _seen("metadata['actual_exit_code']", evidence.metadata["actual_exit_code"])
        try:
            snapshot = around.snapshot()
        except AgentosError as error:
            return Unseen("NO_SNAPSHOT", error.message, error.hint)
        pointer = evidence.metadata.get("snapshot_key")
        if pointer is not None:
            return _pointed_at(pointer, snapshot)
        if snapshot is None or "exit_code" not in snapshot:
            return Seen({"source": None, "recorded": False, "exit_code": None})
        return _seen("snapshot['exit_code']", snapshot["exit_code"])


def _pointed_at(pointer: str, snapshot: dict[str, Any] | None) -> Observation:
    if snapshot is None:
        return Unseen(
            "NO_SNAPSHOT",
            f"metadata['snapshot_key'] {shown(pointer, 120)} points into a snapshot, and there is none here",
            "verify it through its checkpoint, or give metadata['actual_exit_code']",
        )
    found = resolve(pointer, snapshot)
    if not found.exists:
        return Seen({"source": f"snapshot{pointer}", "recorded": False, "exit_code": None})
    return _seen(f"snapshot{pointer}", found.value)


def _seen(source: str, value: Any) -> Seen:
    # A whole subtree is no exit code; a few of its words are enough to see that.
    plain = shown(value, 120) if isinstance(value, (dict, list)) else value
    return Seen({"source": source, "recorded": True, "exit_code": plain})
