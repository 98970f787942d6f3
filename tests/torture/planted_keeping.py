"""Faults to plant in a process that keeps and puts back; each must be found. Rules: planted.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from agentos.core.checkpoints import needs
from agentos.vault import hands, keeping, restoring, working
from agentos.vault.keeping import Keeping
from agentos.vault.vault import Vault


def plant(fault: str) -> None:
    """Plant the fault of this name, if any."""
    if fault:
        FAULTS[fault]()


def _no_file_sync() -> None:
    """Content is named and not synced."""
    Keeping._sync = lambda self, path: None  # type: ignore[method-assign]


def _no_folder_sync() -> None:
    """Content is synced, and its name is not."""
    setattr(keeping, "sync_path", lambda path: None)  # noqa: B010 - a name that it imported


def _rename_first() -> None:
    """Content is given its name, and only then synced: what a power cut leaves of it looks like content."""
    settle = Keeping.settle

    def settled(self: Keeping) -> None:
        self._vault.have_folders({os.path.dirname(self._vault.path_of(digest)) for digest in self._drafts}, synced=True)
        for digest, draft in self._drafts.items():
            os.rename(draft.path, self._vault.path_of(digest))
            self._drafts[digest] = keeping._Draft(self._vault.path_of(digest), draft.stored)
        settle(self)

    Keeping.settle = settled  # type: ignore[method-assign]


def _commit_first() -> None:
    """The checkpoint that names the content is committed, and then it is kept."""

    class Late(hands.KeepingRound):
        def __init__(self, session: Keeping, eyes: hands.Eyes) -> None:
            super().__init__(session, eyes)
            self.settle = lambda: None

    @contextmanager
    def kept(self: hands.VaultHands) -> Iterator[hands.KeepingRound]:
        with self.vault.keeping() as session:
            yield Late(session, self._eyes)
            session.settle()

    hands.VaultHands.keeping = kept  # type: ignore[method-assign]


def _trusts_folders() -> None:
    """A folder that is there is taken for durable, whoever made it."""
    have = Vault.have_folders

    def trusting(self: Vault, folders: Iterable[str], *, synced: bool) -> None:
        have(self, [folder for folder in folders if not os.path.isdir(folder)], synced=synced)

    Vault.have_folders = trusting  # type: ignore[method-assign]


def _no_safety_copy() -> None:
    """What a restore overwrites is not kept."""
    restoring.Restorer._keep = lambda self, root, operations, keeping: None  # type: ignore[method-assign]


def _forgets_restores() -> None:
    """What restores overwrote is not needed."""
    needs.of_restore = lambda stored: iter(())


def _restore_unsynced() -> None:
    """What a restore puts in place is not synced."""
    setattr(working, "sync", lambda descriptor: None)  # noqa: B010 - a name that it imported


FAULTS: dict[str, Callable[[], None]] = {
    "no-file-sync": _no_file_sync,
    "no-folder-sync": _no_folder_sync,
    "rename-first": _rename_first,
    "commit-first": _commit_first,
    "trusts-folders": _trusts_folders,
    "no-safety-copy": _no_safety_copy,
    "forgets-restores": _forgets_restores,
    "restore-unsynced": _restore_unsynced,
}
