"""Reports of verifications: one set of facts, shown as a table, a JSON document, JUnit XML or Markdown."""

from __future__ import annotations

from agentos.core.checkpoints.reports.report import ReportedItem, VerificationReport

__all__ = ["ReportedItem", "VerificationReport"]
