"""A copy of registry and vault in one file, at one moment, that is known to be whole because it was unpacked and looked at.

The registry is copied first, then everything in the vault: what the copied registry needs was in the vault before its
checkpoint was committed, and cannot be removed meanwhile, because whoever collects waits for the lock that is held here, shared
with those who keep. They go on. How the registry is copied, and how a copy is looked at, is handed in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from agentos._folders import locked_folder
from agentos._text import shown
from agentos.core.checkpoints.archived import BackedUp
from agentos.core.checkpoints.checkup import Checkup, Progress
from agentos.errors import BackupUnsoundError, InvalidInputError
from agentos.vault.archives import Writer, members, pieces
from agentos.vault.contents import OBJECTS
from agentos.vault.drafting import drafted, put_in_place
from agentos.vault.vault import Vault

REGISTRY, README = "registry.sqlite", "README.txt"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EVERY = 64
_HOW = """A backup of an agentos registry and its vault, made {at}.

To go on from it:
  1. Stop the agents that use the registry.
  2. Move the damaged registry.sqlite, registry.sqlite-wal, registry.sqlite-shm and vault/ away. Keep them until all is well.
  3. Put registry.sqlite and vault/ of this folder in their place: both, and with nothing else of the old ones beside them.
  4. agentos doctor --deep --db PATH/registry.sqlite
  5. agentos recover TASK says from where each task may go on: the world is measured, and work since the backup shows as such.

To look first: agentos tasks --db {top}/registry.sqlite
"""


def back_up(
    vault: Vault,
    target: str,
    *,
    copy_registry: Callable[[str], None],
    look: Callable[[str], Checkup],
    replace: bool,
    damaged: bool,
    progress: Progress,
) -> BackedUp:
    """Make it, unpack it, look at it in depth, and only then give it its name.

    Args:
        replace: a file of that name may be replaced.
        damaged: what is damaged or missing does not keep the copy from getting its name.

    Raises:
        BackupUnsoundError: the copy is not sound, and nothing was put in place.
        StoreBusyError: content was being removed all the time.
    """
    refuse_inside(vault, target)
    with drafted(target, replace=replace) as folder:
        archive, top = os.path.join(folder, "archive"), f"agentos-backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        with nothing_collected(vault, lambda: copy_registry(os.path.join(folder, REGISTRY))):
            _write(vault, folder, archive, top, progress)
        os.unlink(os.path.join(folder, REGISTRY))
        unpacked = os.path.join(folder, "unpacked")
        _unpack(archive, unpacked)
        found = look(os.path.join(unpacked, top, REGISTRY))
        if not found.is_sound and not damaged:
            raise BackupUnsoundError(
                f"{shown(target)}: the copy was made, and is not sound: {found.in_words()}; it did not get its name",
                hint="`agentos doctor --deep` says what is wrong; --damaged keeps the copy of what is left",
            )
        size = os.stat(archive).st_size
        put_in_place(archive, target, replace=replace)
    return BackedUp(target, size, found)


@contextmanager
def nothing_collected(vault: Vault, copy_registry: Callable[[], None]) -> Iterator[None]:
    """Copy the registry, and let nobody remove content until the block is left."""
    while True:
        if not os.path.isdir(vault.root):
            copy_registry()
            if not os.path.isdir(vault.root):
                yield
                return
            # Made meanwhile, by whoever keeps something for the first time: now there is a lock to be held.
            continue
        with locked_folder(vault.root, vault.lock_timeout, shared=True):
            copy_registry()
            yield
            return


def _write(vault: Vault, folder: str, archive: str, top: str, progress: Progress) -> None:
    with os.fdopen(os.open(archive, _CREATE, 0o600), "wb") as file:
        writer = Writer(file)
        writer.folder(top)
        text = _HOW.format(at=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", top=top).encode()
        writer.file(f"{top}/{README}", len(text), iter([text]))
        _add(writer, f"{top}/{REGISTRY}", os.path.join(folder, REGISTRY))
        digests = sorted(vault.digests())
        for number, digest in enumerate(digests):
            if number % _EVERY == 0:
                progress("copying", number, len(digests))
            _add(writer, f"{top}/vault/{OBJECTS}/{digest[:2]}/{digest[2:]}", vault.path_of(digest))
        writer.end()


def _add(writer: Writer, name: str, path: str) -> None:
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        # Somebody's round of keeping failed, and took back what it had named. If anything needs it, the look says so.
        return
    try:
        writer.file(name, os.fstat(descriptor).st_size, pieces(descriptor))
    finally:
        os.close(descriptor)


def _unpack(archive: str, folder: str) -> None:
    os.mkdir(folder, 0o700)
    with open(archive, "rb") as file:
        for member in members(file):
            path = Path(folder, member.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, _CREATE, 0o600), "wb") as out:
                out.writelines(member.content)


def refuse_inside(vault: Vault, target: str) -> None:
    """Refuse a place in the vault, or one that a registry beside it would have."""
    store = os.path.realpath(os.path.dirname(vault.root))
    real = os.path.realpath(target)
    if os.path.commonpath([os.path.realpath(vault.root), real]) == os.path.realpath(vault.root):
        raise InvalidInputError(f"{shown(target)}: lies in the vault itself", hint="name a file on another disk")
    if os.path.dirname(real) == store and os.path.basename(real).endswith((".sqlite", "-wal", "-shm")):
        raise InvalidInputError(f"{shown(target)}: would stand in the place of a registry", hint="name another file")
