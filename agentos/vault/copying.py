"""Write kept content into a folder of its own: one that is not there, or is empty. Nothing that exists is changed.

All of it is written beside the folder first, and takes its name in one move: after a crash the folder is not there, or whole,
and one that nobody needs may lie beside it. Nothing is followed: no link on the way, no link that is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress

from agentos._disk import unavailable
from agentos._text import shown
from agentos.core.checkpoints.restores import Cannot, Copied, Kind, Thing
from agentos.errors import ContentDamagedError, ContentMissingError, InvalidInputError, RestoreRefusedError
from agentos.vault.beneath import Root, above_of, parts_of, sync
from agentos.vault.vault import Vault

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EXECUTABLE, _PLAIN = 0o777, 0o666


def copy_out(vault: Vault, folder: str, targets: Mapping[str, Thing]) -> Copied:
    """Write each of these things at its path beneath the folder.

    Raises:
        InvalidInputError: there is something already, or no folder to make it in.
        StoreUnavailableError: the disk does not take it; nothing is left of it.
    """
    folder = os.path.abspath(folder)
    mode = _free(folder)
    above, name = os.path.split(folder)
    draft = os.path.join(above, f".{name}.{os.urandom(6).hex()}")
    try:
        os.mkdir(draft)
        with Root(draft) as root:
            copy = _Copy(vault, root)
            copy.write(targets)
            sync(root.descriptor)
        if mode is not None:
            os.chmod(draft, mode)
        # Over an empty folder, and over nothing else: what came there meanwhile stays, and is said.
        os.rename(draft, folder)
    except OSError as error:
        _clear(draft)
        raise unavailable(error, folder, "be written") from error
    except BaseException:
        _clear(draft)
        raise
    return Copied(folder, copy.written, copy.bytes, tuple(Cannot(path, why) for path, why in copy.cannot.items()))


def _free(folder: str) -> int | None:
    """The permissions of the empty folder that is there; None if nothing is."""
    if not os.path.isdir(os.path.dirname(folder)):
        raise InvalidInputError(f"{shown(folder)}: the folder above it is not there", hint="make it first")
    if not os.path.lexists(folder):
        return None
    if os.path.islink(folder) or not os.path.isdir(folder):
        raise InvalidInputError(f"{shown(folder)}: is no folder", hint="name a new folder, or an empty one")
    with os.scandir(folder) as found:
        if any(found):
            raise InvalidInputError(f"{shown(folder)}: is not empty", hint="name a new folder, or an empty one")
    return os.stat(folder).st_mode & 0o7777


def _clear(draft: str) -> None:
    with suppress(OSError):
        shutil.rmtree(draft)


class _Copy:
    """One copy that is being written."""

    def __init__(self, vault: Vault, root: Root) -> None:
        self._vault = vault
        self._root = root
        self.written = 0
        self.bytes = 0
        self.cannot: dict[str, str] = {}

    def write(self, targets: Mapping[str, Thing]) -> None:
        for path in sorted(targets, key=lambda each: each.split("/")):
            try:
                self._write(path, targets[path])
            except (ContentMissingError, ContentDamagedError) as error:
                missing = isinstance(error, ContentMissingError)
                self.cannot[path] = "its content was not kept" if missing else "its content is damaged in the vault"
            except RestoreRefusedError:
                self.cannot[path] = "no path beneath a folder; what names it is damaged or forged"
            except (FileExistsError, NotADirectoryError):
                self.cannot[path] = "something else of the same copy has that name"

    def _write(self, path: str, thing: Thing) -> None:
        # Before anything is made of it.
        parts_of(path)
        for above in above_of(path):
            with suppress(FileExistsError):
                self._make_folder(above)
        if thing.kind is Kind.DIRECTORY:
            with suppress(FileExistsError):
                self._make_folder(path)
            return
        with self._root.folder_of(path) as (folder, name):
            if thing.kind is Kind.LINK:
                os.symlink(thing.target, name, dir_fd=folder)
            else:
                self._fill(folder, name, thing)
            sync(folder)
        self.written += 1

    def _fill(self, folder: int, name: str, thing: Thing) -> None:
        descriptor = os.open(name, _NEW, _EXECUTABLE if thing.executable else _PLAIN, dir_fd=folder)
        try:
            self.bytes += self._vault.copy(thing.sha256, descriptor)
            sync(descriptor)
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(descriptor)

    def _make_folder(self, path: str) -> None:
        with self._root.folder_of(path) as (folder, name):
            os.mkdir(name, dir_fd=folder)
