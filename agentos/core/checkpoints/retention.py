"""What `prune` removed, or would remove."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pruned:
    """Counts. `emptied` checkpoints lost their snapshots only: a kept world stands on what they claim."""

    tasks: int
    checkpoints: int
    emptied: int
    abandoned: int
    verifications: int
    bytes_freed: int
    dry_run: bool
