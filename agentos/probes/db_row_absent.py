"""Look whether no row of a SQLite database is the one that a claim names.

The look ends at the first row that is. That none was found says something only of a table that is there: that is judged in
`kinds/rows.py`.
"""

from __future__ import annotations

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Surroundings
from agentos.probes.tables import Table, look_into


class DbRowAbsent:
    """Facts: those of `look_into`, with `present`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        columns = list(evidence.expected["where"])

        def first(table: Table) -> dict[str, bool]:
            return {"present": any(True for _ in table.rows(columns))}

        return look_into(evidence, around, (), first)
