"""The rules for a type of evidence that nobody here knows.

A registry may hold evidence of types that this process never registered. It is shown, it is not checkable, and nothing follows
from that; a definition of such a type is refused before it is stored.
"""

from __future__ import annotations

import json
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.kind import Kind, Lifetime, Verdict
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.results import Outcome
from agentos.errors import EvidenceDefinitionError


class _Unknown(Kind):
    def refuse_malformed(self, evidence: Evidence) -> None:
        types = [each.value for each in EvidenceType]
        raise EvidenceDefinitionError(
            f"evidence_type is {shown(evidence.evidence_type, 60)}",
            hint=f"one of: {listed(types, len(types))}, or one that you registered with evidence_type()",
        )

    refuse_misfit = refuse_malformed


def named_by_all(evidence: Evidence, base_path: str) -> str:  # noqa: ARG001 - every kind's subject takes the base
    """The subject of a type that says nothing better: everything that is expected."""
    return f"custom:{evidence.evidence_type}:{json.dumps(evidence.expected, sort_keys=True, ensure_ascii=False)}"


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:  # noqa: ARG001 - as every judge
    return Verdict(Outcome.ERROR, "NO_PROBE", f"nothing here can judge {shown(evidence.evidence_type, 60)}", assurance=None)


UNKNOWN = _Unknown({}, frozenset(), Lifetime.LASTING, lambda _: None, named_by_all, _judge)
