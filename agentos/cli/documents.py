"""What verbs say as JSON: everything, without what an item says is sensitive. Keys may be added; none changes its meaning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentos._text import MASKED, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentos.core.checkpoints import Checkpoint, Recovery


def checkpoint_document(checkpoint: Checkpoint) -> dict[str, Any]:
    """The checkpoint's dictionary with the values of sensitive evidence masked."""
    return _masked(checkpoint.to_dict())


def pack_document(pack: dict[str, Any]) -> dict[str, Any]:
    """A pack's dictionary with the values of sensitive evidence masked, and the passwords in addresses."""
    for item in pack["evidence_list"]:
        if item["metadata"].get("sensitive") is True:
            item["expected"] = MASKED
            item["metadata"] = {"sensitive": True}
    return {**pack, "evidence_list": plain(pack["evidence_list"])}


def recovery_document(recovery: Recovery, say: Callable[[str], str]) -> dict[str, Any]:
    """The same of what a recovery found; what can be done also as it is typed."""
    return _recovery(recovery.to_dict(), say)


def refusal(told: dict[str, Any], code: int, say: Callable[[str], str]) -> str:
    """An error."""
    if told.get("recovery") is not None:
        told = {**told, "recovery": _recovery(told["recovery"], say)}
    return json.dumps({"error": told, "exit_code": int(code)}, default=str)


def _recovery(data: dict[str, Any], say: Callable[[str], str]) -> dict[str, Any]:
    if data["checkpoint"] is not None:
        data["checkpoint"] = _masked(data["checkpoint"])
    return {**data, "commands": [say(option) for option in data["options"]]}


def _masked(data: dict[str, Any]) -> dict[str, Any]:
    data["evidence_pack"] = pack_document(data["evidence_pack"])
    return data
