"""What recovery, the human's word and `once` need of a manager, in one bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.hands import Hands
from agentos.core.checkpoints.judging import Judge
from agentos.core.checkpoints.looking import Looking
from agentos.core.checkpoints.models import EvidencePack
from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.ports import Registry, StoredStep
from agentos.core.checkpoints.recovery import Survey
from agentos.core.checkpoints.repairing import PuttingBack
from agentos.core.checkpoints.stored import StoredTask
from agentos.core.checkpoints.verifier import EvidenceVerifier


@dataclass(frozen=True, slots=True)
class Parts:
    """What recovery needs of a manager."""

    registry: Registry
    verifier: EvidenceVerifier
    around: Callable[[str | None, Callable[[], dict[str, Any] | None]], Surroundings]
    moved: bool
    db_path: str
    created: bool
    hands: Callable[[], Hands]
    # Makes what file evidence names durable, if it changed since then and that is promised.
    sync_files: Callable[[EvidencePack, Surroundings, datetime], None]
    # Nothing can be recorded.
    readonly: bool = False

    @property
    def moved_to(self) -> str | None:
        """The base that takes the place of those that are stored, if one does."""
        return self.verifier.around.base_path if self.moved else None

    def around_step(self, stored: StoredStep) -> Surroundings:
        """From where what a step claims is looked at."""

        def snapshot() -> dict[str, Any] | None:
            found = self.registry.step(stored.step_id) if stored.checkpoint_id is None else None
            found = found or self.registry.checkpoint(stored.checkpoint_id or "")
            return None if found is None else codec.decode(found.snapshot)

        return self.around(None if self.moved else stored.base_path, snapshot)

    def putting_back(self, task_id: str) -> PuttingBack:
        """What hands can do for this task."""
        return PuttingBack(self.registry, self.hands, task_id)

    def survey(self, task: StoredTask, checkpoint_type: str | None = None, deadline: float | None = None) -> Survey:
        """One look at a task, with eyes that see each thing once."""
        judge = Judge(self.registry, task.task_id, Looking(self.verifier, deadline), self.around_step)
        return Survey(
            self.registry,
            judge,
            self.around_step,
            task,
            moved=self.moved,
            checkpoint_type=checkpoint_type,
            putting_back=self.putting_back(task.task_id),
        )
