"""Steps that this process began and has not ended: what commit needs, without reading it again.

A memory, bounded and optional: whatever is not here is read from the registry.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.ports import Intent, StoredStep

_MOST = 32
_LARGEST = 1_000_000


@dataclass(eq=False, repr=False, match_args=False)
class Begun:
    """The immutable part of a begun step. `state` is a copy that nobody else holds."""

    task_id: str
    base_path: str
    begun_at: str
    snapshot: bytes
    state: dict[str, Any]


class BegunSteps:
    """The newest few. Each operation is atomic, so threads may share it."""

    def __init__(self) -> None:
        self._steps: OrderedDict[str, Begun] = OrderedDict()

    def add(self, intent: Intent, state: dict[str, Any]) -> None:
        """Remember a step that was just begun."""
        if len(intent.snapshot) <= _LARGEST:
            self._steps[intent.step_id] = Begun(intent.task_id, intent.base_path, intent.begun_at, intent.snapshot, state)
        if len(self._steps) > _MOST:
            try:
                self._steps.popitem(last=False)
            except KeyError:
                # Another thread was quicker; the bound holds either way.
                return

    def get(self, step_id: str) -> Begun | None:
        """What is remembered of it."""
        return self._steps.get(step_id)

    def load(self, stored: StoredStep | None) -> Begun | None:
        """The same from the registry."""
        if stored is None:
            return None
        return Begun(stored.task_id, stored.base_path, stored.begun_at, stored.snapshot, codec.decode(stored.snapshot))

    def forget(self, step_id: str) -> None:
        """It has ended."""
        self._steps.pop(step_id, None)
