"""Checkpoints as JSON for a report: everything, without what an item says is sensitive."""

from __future__ import annotations

from typing import Any

from agentos._text import MASKED
from agentos.core.checkpoints import Checkpoint


def reported(checkpoint: Checkpoint) -> dict[str, Any]:
    """The checkpoint's dictionary with the values of sensitive evidence masked."""
    data = checkpoint.to_dict()
    for item in data["evidence_pack"]["evidence_list"]:
        if item["metadata"].get("sensitive") is True:
            item["expected"] = MASKED
            item["metadata"] = {"sensitive": True}
    return data
