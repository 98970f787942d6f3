"""Count the rows of a SQLite database that a claim names, by one query.

Whether that many were claimed is judged in `kinds/rows.py`.
"""

from __future__ import annotations

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Surroundings
from agentos.probes.tables import look_into


class DbRowCount:
    """Facts: those of `look_into`, with `count`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        return look_into(evidence, around, (), lambda table: {"count": table.count()})
