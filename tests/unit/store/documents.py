"""Envelopes of checkpoints as other programs may have written them."""

import json
from typing import Any

PLACE: dict[str, Any] = {"run_id": "run-123", "node_id": "process", "sequence": 1}
FIELDS = [
    *("version", "run_id", "node_id", "sequence", "timestamp", "state"),
    *("attempt", "prev_node_id", "next_node", "compressed"),
]


def document(**changes: Any) -> dict[str, Any]:
    """The fields of one; `...` leaves one out."""
    plain = {"version": 1, **PLACE, "timestamp": "2025-01-19T10:00:00Z", "state": {"a": 1}, "attempt": 1, "prev_node_id": ""}
    return {name: value for name, value in {**plain, **changes}.items() if value is not ...}


def packed(**changes: Any) -> bytes:
    return json.dumps(document(**changes)).encode()
