"""One task into an archive, and out of one into another store.

What comes in is believed last: it is taken into a store of its own that nobody looks at, which is looked at in depth, and only
what is sound there is taken over, contents first and then all rows in one transaction. A crash leaves nothing that can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from agentos._text import shown
from agentos.core.checkpoints import checkup
from agentos.core.checkpoints.archived import Moved, Take
from agentos.core.checkpoints.checkup import Examined, Progress
from agentos.core.checkpoints.hands import Hands
from agentos.core.checkpoints.ports import Registry
from agentos.errors import (
    ArchiveRefusedError,
    CheckpointIdTakenError,
    RestoreInterruptedError,
    TaskTakenError,
    WorkspaceTakenError,
)

# Its staging folder is in the workspace and not in the archive; and whoever follows its journal changes files.
_SETTLE = "resume the task where the restore was begun: that ends it; then export it"


class Store(NamedTuple):
    """A registry, and hands over the vault beside it."""

    registry: Registry
    hands: Hands


def export_task(store: Store, task_id: str, target: str, *, replace: bool, progress: Progress) -> Moved:
    """Write the archive. What is needed and cannot be read of its contents is named in it, and in the answer."""
    if any(stored.ended_at is None for stored in store.registry.restores(task_id)):
        raise RestoreInterruptedError(f"task {shown(task_id, 80)}: a restore of it has not ended", hint=_SETTLE)
    examined: list[Examined] = []

    def copy_rows(take: Take) -> None:
        examined[:] = [store.registry.export_task(task_id, take)]

    def needed() -> list[str]:
        return sorted(checkup.needed(examined[0], store.hands))

    told = store.hands.write_archive(target, task_id, copy_rows, needed, replace=replace, progress=progress)
    return Moved(task_id, target, examined[0].rows, told["contents"], told["bytes"], tuple(told["missing"]))


def import_task(store: Store, path: str, scratch: Callable[[str], AbstractContextManager[Any]], *, progress: Progress) -> Moved:
    """Take the task of an archive over.

    Args:
        scratch: makes a manager in a folder.

    Raises:
        ArchiveRefusedError: it is not whole, or not what was exported.
        TaskTakenError: something of it is here already.
    """
    with store.hands.scratch() as folder, scratch(folder) as manager:
        apart: Store = manager.store()
        told = _read(apart, path)
        task_id, missing = told["task_id"], frozenset(told["missing"])
        looked = apart.registry.examine(deep=True, progress=progress)
        needed = checkup.needed(looked, apart.hands)
        apart.hands.examine(needed, looked.findings, deep=True, progress=progress)
        kept = apart.hands.sizes()
        _refuse_unsound(looked, needed.keys(), kept.keys(), missing)

        def hand_on(take: Take) -> None:
            apart.registry.export_task(task_id, take)

        store.hands.take_over(apart.hands, sorted(kept), lambda: store.registry.import_task(hand_on))
        return Moved(task_id, path, looked.rows, len(kept), told["bytes"], tuple(sorted(missing)))


def _read(apart: Store, path: str) -> dict[str, Any]:
    try:
        return apart.hands.read_archive(path, apart.registry.import_task)
    except (TaskTakenError, CheckpointIdTakenError, WorkspaceTakenError) as error:
        # Nothing was there before it: so it holds the same thing twice.
        raise ArchiveRefusedError(f"the archive is at odds with itself: {error.message}") from None


def _refuse_unsound(looked: Examined, needed: AbstractSet[str], kept: AbstractSet[str], missing: AbstractSet[str]) -> None:
    for each in looked.findings.told:
        if each.kind != "content missing":
            raise ArchiveRefusedError(f"the archive is not sound: {each.where}: {each.what}", hint="export it again")
    for digest in sorted(needed - kept - missing):
        raise ArchiveRefusedError(f"content {digest} is needed and is not in the archive", hint="export it again")
    for digest in sorted(kept - needed):
        raise ArchiveRefusedError(f"content {digest} is in the archive, and nothing of the task needs it")
    if any(stored.ended_at is None for stored in looked.restores):
        raise ArchiveRefusedError("a restore of the task has not ended", hint=_SETTLE)
