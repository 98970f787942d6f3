"""Faults to plant in a process whose hands keep, restore or collect; each must be found. Rules: planted.py."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from agentos.core.checkpoints.needs import Needs
from agentos.core.checkpoints.stored import Needing
from agentos.store.registry.sqlite.handed import HandedMethods
from agentos.vault.keeping import Keeping
from agentos.vault.restoring import Restorer


def plant(fault: str) -> None:
    """Plant the fault of this name, if any."""
    if fault:
        FAULTS[fault]()


def _keeps_nothing() -> None:
    """A restore overwrites what it did not keep."""
    assert callable(Restorer._keep), "what is about to go is kept elsewhere now"
    Restorer._keep = lambda *_: None  # type: ignore[method-assign]


def _commits_before_it_keeps() -> None:
    """What is kept gets its name only after what names it was committed."""
    settle, discard = Keeping.settle, Keeping.discard

    def late(self: Keeping) -> None:
        # Long enough for one kill in some to fall here, whether it was counted out in calls or in time.
        for _ in range(150):
            os.close(os.open(os.devnull, os.O_RDONLY))
        time.sleep(0.005)
        settle(self)
        discard(self)

    Keeping.settle, Keeping.discard = lambda self: None, late  # type: ignore[method-assign]


def _collects_what_open_steps_need() -> None:
    """What a step that has not ended said it would change is removed under it."""
    of_step = Needs._of_step

    def closed_only(self: Needs, key: int, found: Needing) -> Iterator[str]:
        return iter(()) if found.pack is None else of_step(self, key, found)

    Needs._of_step = closed_only  # type: ignore[method-assign]


def _collects_what_was_overwritten() -> None:
    """Safety copies are nobody's need: those of restores are not asked for."""
    restores = HandedMethods.restores
    HandedMethods.restores = lambda self, task_id: [] if task_id is None else restores(self, task_id)  # type: ignore[method-assign]


def _journal_afterwards() -> None:
    """A restore is written down when it is done, and not before it changes anything."""
    begin = HandedMethods.begin_restore

    def late(self: HandedMethods, stored: Any) -> None:
        if stored.state in ("done", "undone") and self.restore(stored.restore_id) is None:
            begin(self, stored)
        elif stored.ended_at is not None:
            update(self, stored)

    update = HandedMethods.update_restore
    HandedMethods.begin_restore = lambda self, stored: None  # type: ignore[method-assign]
    HandedMethods.update_restore = late  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "keeps-nothing": _keeps_nothing,
    "commits-before-it-keeps": _commits_before_it_keeps,
    "collects-what-open-steps-need": _collects_what_open_steps_need,
    "collects-what-was-overwritten": _collects_what_was_overwritten,
    "journal-afterwards": _journal_afterwards,
}
