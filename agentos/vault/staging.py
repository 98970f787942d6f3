"""The folder in which a restore keeps what is on its way in and out: in the root, so on one file system, for this user alone.

    .agentos-restore-<id>/in-<n>     what operation n is to put in place, whole and durable
    .agentos-restore-<id>/out-<n>    what it took away, as it was
    .agentos-restore-<id>/back-<n>   what it had put in place, while that is taken back

Whoever works in it holds its lock, which goes when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentos._text import shown
from agentos.core.checkpoints.restores import Thing
from agentos.errors import RestoreRefusedError
from agentos.vault.beneath import Root, sync, thing_at, with_bit
from agentos.vault.moving import move
from agentos.vault.vault import Vault

STAGING = ".agentos-restore-"
# More would take descriptors that the agent needs; fewer would wait for the disk file by file.
BATCH = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777
_OWN = re.compile(rf"{re.escape(STAGING)}[0-9a-z]+")


class Staging:
    """One such folder, open and locked."""

    def __init__(self, root: Root, name: str, descriptor: int) -> None:
        self.root = root
        self.name = name
        self.descriptor = descriptor
        # What a file looked like when it was measured last; one that looks otherwise was written to since.
        self.seen: dict[str, tuple[int, ...]] = {}

    def look(self, name: str) -> Thing:
        """What has this name in it."""
        return thing_at(self.descriptor, name, f"{self.name}/{name}")

    def take(self, folder: int, name: str, to: str, expected: Thing) -> bool:
        """Move something in from the root, measure it, and say whether it is what was expected. It is in here either way."""
        move(folder, name, self.descriptor, to)
        signature = self.signature(to)
        if not self.look(to).fits(expected):
            return False
        self.seen[to] = signature
        return True

    def give(self, name: str, folder: int, to: str) -> None:
        """Move something to its place, where nothing may be."""
        move(self.descriptor, name, folder, to)

    def signature(self, name: str) -> tuple[int, ...]:
        """What changes when somebody writes."""
        status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def link(self, name: str, target: str) -> None:
        """Have a link in it."""
        self.drop(name)
        os.symlink(target, name, dir_fd=self.descriptor)

    def write(self, name: str, thing: Thing, like: os.stat_result | None, vault: Vault) -> int:
        """Have a file in it, and its descriptor, to be synced.

        Raises:
            ContentMissingError, ContentDamagedError: the vault does not hold what it should.
        """
        self.drop(name)
        descriptor = os.open(name, _CREATE, 0o666, dir_fd=self.descriptor)
        try:
            vault.copy(thing.sha256, descriptor)
            _dress(descriptor, thing, like)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def drop(self, name: str) -> None:
        """Have nothing of this name. Only for what is our own, or is kept."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def names(self) -> list[str]:
        """Everything in it."""
        return sorted(os.listdir(self.descriptor))

    def sync(self) -> None:
        """Make the names in it durable, and its own."""
        sync(self.descriptor)
        sync(self.root.descriptor)

    def remove(self) -> bool:
        """Remove the folder; False if something is left in it, which then stays."""
        try:
            os.rmdir(self.name, dir_fd=self.root.descriptor)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        sync(self.root.descriptor)
        return True


@contextmanager
def made(root: Root, name: str) -> Iterator[Staging]:
    """A folder of this name, new."""
    _refuse_foreign(name)
    os.mkdir(name, 0o700, dir_fd=root.descriptor)
    with _locked(root, name) as staging:
        yield staging


@contextmanager
def found(root: Root, name: str) -> Iterator[Staging | None]:
    """The folder that a restore left behind, or None.

    Raises:
        RestoreRefusedError: a living process works in it, or something else has its name.
    """
    _refuse_foreign(name)
    try:
        os.stat(name, dir_fd=root.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        yield None
        return
    with _locked(root, name) as staging:
        yield staging


@contextmanager
def _locked(root: Root, name: str) -> Iterator[Staging]:
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=root.descriptor)
    except OSError as error:
        raise RestoreRefusedError(
            f"{shown(name)}: expected the folder of a restore, found what cannot be opened as one: {error.strerror}",
            hint="somebody put it there; move it away",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RestoreRefusedError(
                f"{shown(name)}: a living process is at work in it", hint="wait until its restore has ended"
            ) from None
        yield Staging(root, name, descriptor)
    finally:
        # Not left to the closing: a child forked meanwhile would keep the lock with its copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _refuse_foreign(name: str) -> None:
    if not _OWN.fullmatch(name):
        raise RestoreRefusedError(
            f"{shown(name)}: expected the name of a restore's folder", hint="the journal that says so is damaged or forged"
        )


def _dress(descriptor: int, thing: Thing, like: os.stat_result | None) -> None:
    """Permissions and owner: those it is to have, else those of what it replaces, else what this process gives to new files."""
    status = os.fstat(descriptor)
    mode = status.st_mode if like is None else like.st_mode
    mode = (mode if thing.mode is None else thing.mode) & _PERMISSIONS
    os.fchmod(descriptor, with_bit(mode, thing))
    if like is not None and (like.st_uid, like.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, like.st_uid, like.st_gid)
