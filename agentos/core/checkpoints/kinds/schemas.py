"""The JSON schema of a definition: for editors, and for whoever lets a program or a model write claims.

Whatever a schema refuses is refused when it is proved or committed. Almost all that is refused there is refused by the schema
too; what no schema can say is listed in docs/specs/evidence/README.md.
"""

from __future__ import annotations

from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds import KINDS
from agentos.core.checkpoints.kinds.kind import LONGEST_WAIT, Kind, Lifetime, Retries, Schema
from agentos.core.checkpoints.models import EvidenceType
from agentos.errors import InvalidInputError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SECONDS: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_WAIT}
_OF_ALL: dict[str, Schema] = {
    "lifetime": {"enum": [each.value for each in Lifetime]},
    "sensitive": {"type": "boolean"},
    "keep": {"type": "boolean"},
}


def evidence_schema(evidence_type: str) -> dict[str, Any]:
    """The JSON schema (2020-12) of what `Evidence` of this type is made of: type, description, expected and metadata.

    Raises:
        InvalidInputError: no such type comes with agentos, was registered, or is brought by an installed package.
    """
    kind = _kind_named(evidence_type)
    waits = {} if kind.retries is Retries.NEVER else dict.fromkeys(("timeout", "deadline"), _SECONDS)
    schema: dict[str, Any] = {
        "$schema": DIALECT,
        "title": str(evidence_type),
        "type": "object",
        "properties": {
            "evidence_type": {"const": str(evidence_type)},
            "description": {"type": "string"},
            "expected": {
                "type": "object",
                "properties": dict(kind.expected),
                "required": sorted(kind.required),
                "additionalProperties": False,
            },
            "metadata": {"type": "object", "properties": {**_OF_ALL, **waits, **kind.metadata}},
        },
        "required": ["evidence_type", "description", "expected"],
        "additionalProperties": False,
    }
    if kind.together:
        schema["allOf"] = list(kind.together)
    return schema


def _kind_named(name: str) -> Kind:
    from agentos.core.checkpoints.kinds.custom import kind_named  # noqa: PLC0415 - what others brought is seldom there

    found = KINDS.get(name) or (kind_named(name) if isinstance(name, str) else None)
    if found is None:
        types = [each.value for each in EvidenceType]
        raise InvalidInputError(
            f"evidence_type is {shown(name, 60)}",
            hint=f"one of: {listed(types, len(types))}, or one that you registered with evidence_type()",
        )
    return found
