"""The record of a command that was run: what it holds, and whether one can be what was written when the command ended.

Its digest finds what was changed afterwards by accident or in passing. It is no seal: who can write the registry can write
another digest too. What a record says of the claim is judged in commands.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.kind import Schema

HIGHEST_EXIT_CODE = 255
_NOTHING = type(None)
_SHA256 = re.compile("[0-9a-f]{64}")

_TEXT: Schema = {"type": "string"}
_DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
# None of one that went past whoever ran the command, straight to where the user reads it.
_STREAM: Schema = {
    "type": ["object", "null"],
    "properties": {"sha256": _DIGEST, "bytes": _COUNT, "tail": _TEXT},
    "required": ["sha256", "bytes", "tail"],
    "additionalProperties": False,
}
# One that was not there, or could not be measured, has a problem instead of a digest.
_PRODUCT: Schema = {
    "type": "object",
    "properties": {"path": _TEXT, "sha256": _DIGEST, "size": _COUNT, "problem": _TEXT},
    "required": ["path"],
    "additionalProperties": False,
}
_HOLDS: dict[str, tuple[Schema, tuple[type, ...]]] = {
    "argv": ({"type": "array", "items": _TEXT, "minItems": 1}, (list,)),
    "cwd": (_TEXT, (str,)),
    "env": ({"type": "array", "items": _TEXT}, (list,)),
    "host": (_TEXT, (str,)),
    "started_at": ({"type": "string", "format": "date-time"}, (str,)),
    "ended_at": ({"type": "string", "format": "date-time"}, (str,)),
    "duration_ms": ({"type": "number", "minimum": 0}, (int, float)),
    "exit_code": ({"type": ["integer", "null"], "minimum": 0, "maximum": HIGHEST_EXIT_CODE}, (int, _NOTHING)),
    "signal": ({"type": ["integer", "null"], "minimum": 1}, (int, _NOTHING)),
    "timed_out": ({"type": "boolean"}, (bool,)),
    "stdout": (_STREAM, (dict, _NOTHING)),
    "stderr": (_STREAM, (dict, _NOTHING)),
    "products": ({"type": "array", "items": _PRODUCT}, (list,)),
    "digest": (_DIGEST, (str,)),
}
RECORD: Schema = {
    "type": "object",
    "properties": {name: schema for name, (schema, _) in _HOLDS.items()},
    "required": [*_HOLDS],
    "additionalProperties": False,
}


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its digest."""
    return {**record, "digest": _digest_of(record)}


def problem_of(record: Any) -> str:
    """Why this cannot be what was written when the command ended; an empty text if it can."""
    if type(record) is not dict:
        return f"must be an object, found {shown(repr(record), 60)}"
    keys = record.keys()
    if keys != _HOLDS.keys():
        missing, unknown = sorted(_HOLDS.keys() - keys), sorted(map(str, keys - _HOLDS.keys()))
        return f"lacks {listed(missing)}" if missing else f"has an unknown key: {listed(unknown)}"
    for name, (_, types) in _HOLDS.items():
        if type(record[name]) not in types:
            return f"holds no usable {name}: {shown(repr(record[name]), 60)}"
    return _problem_inside(record)


def _problem_inside(record: dict[str, Any]) -> str:
    if not record["argv"] or not all(type(word) is str for word in [*record["argv"], *record["env"]]):
        return "holds no usable argv"
    if not (_is_stream(record["stdout"]) and _is_stream(record["stderr"])):
        return "holds no usable account of the output"
    if not all(_is_product(each) for each in record["products"]):
        return "holds no usable account of the products"
    code, signal = record["exit_code"], record["signal"]
    # It ended in exactly one way.
    if [code is not None, signal is not None, record["timed_out"]].count(True) != 1:
        return f"contradicts itself: exit code {code}, signal {signal}, timed out {record['timed_out']}"
    if not 0 <= (code or 0) <= HIGHEST_EXIT_CODE or (signal is not None and signal < 1) or record["duration_ms"] < 0:
        return "holds a number that no command ends with"
    rest = {name: value for name, value in record.items() if name != "digest"}
    return "" if record["digest"] == _digest_of(rest) else "is not what was written: its digest differs"


def _is_stream(stream: dict[str, Any] | None) -> bool:
    if stream is None:
        return True
    if stream.keys() != {"sha256", "bytes", "tail"} or type(stream["tail"]) is not str:
        return False
    return _is_sha256(stream["sha256"]) and _is_count(stream["bytes"])


def _is_product(product: Any) -> bool:
    if type(product) is not dict or type(product.get("path")) is not str:
        return False
    if "problem" in product:
        return product.keys() == {"path", "problem"} and type(product["problem"]) is str
    measured: bool = product.keys() == {"path", "sha256", "size"}
    return measured and _is_sha256(product["sha256"]) and _is_count(product["size"])


def _is_sha256(value: Any) -> bool:
    return type(value) is str and _SHA256.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _digest_of(record: dict[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
