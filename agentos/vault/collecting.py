"""Remove what nothing needs any more, while others go on keeping.

(1) Everything that is needed is marked, without any lock. (2) Under the vault's lock, which nobody who keeps content holds
then, what became needed since is marked too; whatever else is there goes, and with it what crashes left of drafts. What a
needed difference is to is needed as well. What is needed only whoever knows the checkpoints can say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from agentos._disk import replace_file
from agentos._folders import locked_folder, opened_folder, sync_path
from agentos._text import shown
from agentos.core.checkpoints.restores import Collected
from agentos.errors import ContentDamagedError, ContentMissingError, StoreUnavailableError
from agentos.vault.objects import DELTA
from agentos.vault.vault import COLLECTIONS, DRAFTS, Vault

# The digests that are needed; asked again under the lock, only for what became needed since.
Needed = Callable[[], Iterable[str]]


def collect(vault: Vault, needed: Needed, *, dry_run: bool) -> Collected:
    """Remove everything that is not needed.

    Raises:
        StoreBusyError: somebody was keeping content all the time.
        StoreUnavailableError: the vault cannot be read or changed.
    """
    if not os.path.isdir(vault.root):
        return Collected(0, 0, 0, 0, 0, (), dry_run)
    try:
        return _collected(vault, needed, dry_run=dry_run)
    except OSError as error:
        raise StoreUnavailableError(
            f"{shown(vault.root)}: not all that nothing needs could be removed: {error.strerror}; nothing else was",
            hint="look at the permissions, the disk and the system log, then collect again",
        ) from error


def _collected(vault: Vault, needed: Needed, *, dry_run: bool) -> Collected:
    marked = _with_bases(vault, needed(), set())  # (1)
    if dry_run:
        return _counted(vault, marked, remove=False)
    with locked_folder(vault.root, vault.lock_timeout):
        marked = _with_bases(vault, needed(), marked)  # (2)
        _announce(vault)
        return _counted(vault, marked, remove=True)


def _with_bases(vault: Vault, digests: Iterable[str], marked: set[str]) -> set[str]:
    for digest in digests:
        wanted = digest
        while wanted not in marked:
            marked.add(wanted)
            try:
                header = vault.header(wanted)
            except (ContentMissingError, ContentDamagedError):
                break
            if header.kind != DELTA:
                break
            wanted = header.base.hex()
    return marked


def _announce(vault: Vault) -> None:
    """Whoever knew what was there must look again. Before anything is removed: a crash in between only costs a look."""
    with opened_folder(vault.root) as folder:
        replace_file(folder, COLLECTIONS, f"{COLLECTIONS}.tmp", [os.urandom(8).hex().encode()])
    sync_path(vault.root)


def _counted(vault: Vault, marked: set[str], *, remove: bool) -> Collected:
    gone = gone_bytes = kept = kept_bytes = 0
    there = set()
    for digest in list(vault.digests()):
        there.add(digest)
        try:
            size = vault.size(digest)
        except ContentMissingError:
            continue
        if digest in marked:
            kept, kept_bytes = kept + 1, kept_bytes + size
            continue
        gone, gone_bytes = gone + 1, gone_bytes + size
        if remove:
            with suppress(FileNotFoundError):
                os.unlink(vault.path_of(digest))
    drafts = _drafts(vault, remove=remove)
    missing = tuple(sorted(marked - there))
    return Collected(gone, len(drafts), gone_bytes + sum(drafts), kept, kept_bytes, missing, not remove)


def _drafts(vault: Vault, *, remove: bool) -> list[int]:
    """The sizes of what crashes left; those of living writers are not touched, because the lock keeps both apart."""
    sizes = []
    with suppress(FileNotFoundError):
        for name in os.listdir(os.path.join(vault.root, DRAFTS)):
            path = vault.draft(name)
            with suppress(FileNotFoundError):
                sizes.append(os.lstat(path).st_size)
                if remove:
                    os.unlink(path)
    return sizes
