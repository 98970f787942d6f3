"""Faults to plant in a process that recovers, claims or does something once; each must be found. Rules: planted.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentos import _process
from agentos.core.checkpoints import CheckpointManager, claiming, holders, once, recovery
from agentos.core.checkpoints.claiming import Decision
from agentos.core.checkpoints.interrupted import Settling
from agentos.core.checkpoints.recovery import Settled
from agentos.store.registry.sqlite import holding


def plant(fault: str) -> None:
    """Plant the fault of this name, if any."""
    if fault:
        FAULTS[fault]()


def _anyone_takes() -> None:
    """A claim keeps nobody out, and a stale token is as good as any."""

    def take(*_: Any) -> Decision:
        return Decision.TAKE

    for module in (claiming, holders, holding):
        module.may_take = take  # type: ignore[attr-defined]
    _no_fence()


def _no_fence() -> None:
    """Tokens are not compared."""
    for name in ("fence_lease", "fence_step"):
        setattr(holding, name, lambda *_: None)


def _once_forgets() -> None:
    """What was begun under a key and never ended is done again."""
    once._seen = lambda *_: (Settling.RETRY, "")


def _runs_again() -> None:
    """A step that must not run twice is retried as if it could."""
    assert callable(recovery.Survey._settled), "interrupted steps are settled elsewhere now"
    recovery.Survey._settled = lambda self, step: Settled(step, Settling.RETRY, "")  # type: ignore[method-assign]


def _unsynced_recovery() -> None:
    """What recovery sees of files is believed as it is in memory."""
    parts = CheckpointManager._parts
    CheckpointManager._parts = lambda self: replace(parts(self), sync_files=lambda *_: None)  # type: ignore[method-assign]


def _wall_clock() -> None:
    """A claim's time is that of the wall clock."""
    _process.boottime = time.time


FAULTS: dict[str, Callable[[], None]] = {
    "anyone-takes": _anyone_takes,
    "no-fence": _no_fence,
    "once-forgets": _once_forgets,
    "runs-again": _runs_again,
    "unsynced-recovery": _unsynced_recovery,
    "wall-clock": _wall_clock,
}
