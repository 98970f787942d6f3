"""Look for a row of a SQLite database.

`where` is compared by the database, `values` here, by type; rows stream, and the look ends at the first match (at the second,
if there may be only one). A look that is taken to claim what it finds names `columns` instead of values.

Whether the row is the one that was claimed is judged in `kinds/rows.py`.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from agentos.core.checkpoints.kinds.rows import same
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Surroundings
from agentos.probes.tables import Table, look_into

_LONGEST_TEXT = 1_000
_FEW = 32


class DbRow:
    """Facts: those of `look_into`, with `candidates`, `matching` and `row`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        expected = evidence.expected
        if "columns" in expected:
            return look_into(evidence, around, expected["columns"] or (), lambda table: _found(table, expected))
        return look_into(evidence, around, expected.get("values", {}), lambda table: _matches(table, expected))


def _found(table: Table, expected: dict[str, Any]) -> dict[str, Any]:
    """What the row holds, and whether there is another one."""
    columns = expected["columns"] or table.columns()
    rows = list(islice(table.rows(columns), 2))
    values = rows[0] if rows else ()
    row = {name: _plain(value, value) for name, value in zip(columns, values, strict=False)}
    return {"candidates": len(rows), "matching": len(rows), "row": row}


def _matches(table: Table, expected: dict[str, Any]) -> dict[str, Any]:
    where, values = expected["where"], expected.get("values", {})
    columns = list(values) or list(where)
    enough = 2 if expected.get("unique", False) else 1
    candidates = matching = 0
    row: dict[str, Any] = {}
    for stored in table.rows(columns):
        found = dict(zip(columns, stored, strict=True))
        candidates += 1
        if all(same(value, found[name]) for name, value in values.items()):
            matching += 1
        if candidates == 1 or matching == 1:
            row = {name: _plain(value, values.get(name)) for name, value in found.items()}
        if matching == enough:
            break
    return {"candidates": candidates, "matching": matching, "row": row}


def _plain(value: Any, expected: Any) -> Any:
    """The value as JSON can carry it; what it cannot, and what is long and not expected, is described."""
    if isinstance(value, bytes):
        kind = "blob" if type(value) is bytes else "text that is no UTF-8"
        return {"type": kind, "bytes": len(value), "starts": value[:_FEW].hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "real", "value": repr(value)}
    if isinstance(value, str) and len(value) > _LONGEST_TEXT and not same(expected, value):
        return {"type": "text", "characters": len(value), "starts": value[:_FEW]}
    return value
