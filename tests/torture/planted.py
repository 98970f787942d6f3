"""Faults to plant in a worker's process, each of which the torture must find.

They change agentos from outside, in memory, and only where a test asks for one by name. None of them is a switch of agentos.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentos import wiring
from agentos.core.checkpoints import CheckpointManager
from agentos.store import database, opening, schema
from agentos.store.registry.sqlite import tables
from tests.faults.channel import Fault, arm


def plant(fault: str, migrations: str = "") -> None:
    """Plant the fault of this name, if any; with `migrations`, be a later agentos that knows those."""
    if migrations:
        schema.migrations_folder = lambda: Path(migrations)
    if fault:
        FAULTS[fault]()


def _nothing() -> None:
    """The worker itself does it."""


def _normal_sync() -> None:
    database._FULL = database._NORMAL


def _no_folder_sync() -> None:
    opening._sync_folder = lambda folder: None


def _no_file_sync() -> None:
    wiring._sync_files = wiring._leave_files


def _number_outside() -> None:
    """The task's row is believed as it was read before the write lock, whoever has drawn a number since."""
    guarded = tables.SQL["update_task"]
    tables.SQL["update_task"] = guarded.replace("and seal = ?", "and ? is not null")
    assert guarded != tables.SQL["update_task"], "the guard against an outdated row has another form now"


def _unsynced_answer() -> None:
    """An unclear commit is looked up, and what is seen is believed: the log is not mended, and nothing is synced."""
    for name in ("_settle", "_mend_log", "_start_new_log"):
        setattr(database.Database, name, lambda self, connection: None)
    full = database.Database.write

    def write(self: database.Database, work: Callable[[sqlite3.Connection], Any], *, synced: bool) -> Any:
        return full(self, work, synced=synced and not self._unsettled)

    database.Database.write = write  # type: ignore[method-assign]


def _stop_after(name: str) -> Callable[[], None]:
    """Stand still after the first call of this name returned: no fault, but a process that was stopped there."""

    def plant_stop() -> None:
        call = getattr(CheckpointManager, name)

        def stopping(self: CheckpointManager, *args: Any, **kwargs: Any) -> Any:
            result = call(self, *args, **kwargs)
            setattr(CheckpointManager, name, call)
            os.kill(os.getpid(), signal.SIGSTOP)
            return result

        setattr(CheckpointManager, name, stopping)

    return plant_stop


def _stop_in_commit() -> None:
    """Stand still in the middle of the first commit's writes, with the write lock held. Needs the recorder."""
    call = CheckpointManager.commit_step

    def stopping(self: CheckpointManager, *args: Any, **kwargs: Any) -> Any:
        CheckpointManager.commit_step = call  # type: ignore[method-assign]
        arm(Fault("pwrite", 3, "SIGSTOP"))
        return call(self, *args, **kwargs)

    CheckpointManager.commit_step = stopping  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "ack-early": _nothing,
    "normal-sync": _normal_sync,
    "no-folder-sync": _no_folder_sync,
    "no-file-sync": _no_file_sync,
    "number-outside": _number_outside,
    "unsynced-answer": _unsynced_answer,
    "stop-after-begin": _stop_after("begin_step"),
    "stop-after-commit": _stop_after("commit_step"),
    "stop-in-commit": _stop_in_commit,
}
