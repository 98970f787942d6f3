"""A workflow store in plain files: a folder a run, in it nothing but `<checkpoint id>.json`.

    <base>/<workflow id>/<checkpoint id>.json
    <base>/.staging/        where files are written before they are moved into place

Files are written, synced and renamed as agentos/store/runs/ does it; names are the ids themselves, so ids that could
lead elsewhere are refused, and a link is never followed. What a crash leaves in the staging folder is removed when nobody
writes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentos import _disk as disk
from agentos import _folders as folders
from agentos._text import shown
from agentos.core.checkpoints.verifier import absolute
from agentos.errors import OutcomeUnknownError, StoreBusyError, StoreCorruptError
from agentos.flow.data import CheckpointData, decoded, latest
from agentos.flow.errors import CheckpointIOError, CorruptCheckpointError
from agentos.flow.stores import checked_checkpoint, checked_name
from agentos.store.runs.inputs import LOCK_TIMEOUT

DEFAULT_BASE = ".agentos/checkpoints"
_STAGING = ".staging"
_SUFFIX = ".json"


class FileCheckpointStore:
    """Keeps checkpoints below `base_path`, by default `.agentos/checkpoints` below the current directory.

    Nothing is created before the first save.
    """

    def __init__(self, base_path: Path | str | None = None) -> None:
        self._base = absolute(DEFAULT_BASE if base_path is None else base_path, "base_path")
        self._staging = os.path.join(self._base, _STAGING)
        self._cleaned = False

    async def save(self, workflow_id: str, data: CheckpointData) -> None:
        folder = self._folder(workflow_id)
        name, content = checked_checkpoint(data)
        await asyncio.to_thread(self._save, folder, name, content)

    async def load(self, workflow_id: str, checkpoint_id: str) -> CheckpointData | None:
        folder, name = self._folder(workflow_id), checked_name("checkpoint_id", checkpoint_id)
        return await asyncio.to_thread(self._load, folder, name)

    async def load_latest(self, workflow_id: str) -> CheckpointData | None:
        return await asyncio.to_thread(self._load_latest, self._folder(workflow_id))

    async def clear(self, workflow_id: str) -> None:
        await asyncio.to_thread(self._clear, self._folder(workflow_id))

    async def list_checkpoints(self, workflow_id: str) -> list[str]:
        return await asyncio.to_thread(self._names, self._folder(workflow_id))

    def _folder(self, workflow_id: str) -> str:
        return os.path.join(self._base, checked_name("workflow_id", workflow_id))

    def _save(self, path: str, name: str, content: bytes) -> None:
        with _spoken(path):
            if not os.path.isdir(self._staging):
                folders.make_folder(self._staging)
            self._clean_once()
            temporary = os.urandom(16).hex()
            with (
                folders.locked_folder(self._staging, LOCK_TIMEOUT, shared=True) as (staging, _),
                disk.written(staging, temporary, [content]),
                folders.locked_folder(path, LOCK_TIMEOUT, create=True) as (folder, _),
            ):
                os.rename(temporary, name + _SUFFIX, src_dir_fd=staging, dst_dir_fd=folder)
                folders.sync_folder(folder, path)
            # Whoever made the run's folder may have been killed before its name was durable.
            folders.sync_path(self._base)

    def _load(self, path: str, name: str) -> CheckpointData | None:
        with _spoken(path), suppress(FileNotFoundError), folders.opened_folder(path) as folder:
            where = os.path.join(path, name + _SUFFIX)
            return decoded(disk.read_file(folder, name + _SUFFIX, where), name, where)
        return None

    def _load_latest(self, path: str) -> CheckpointData | None:
        found = [self._load(path, name) for name in self._names(path)]
        return latest([each for each in found if each is not None])

    def _names(self, path: str) -> list[str]:
        with _spoken(path), suppress(FileNotFoundError), folders.locked_folder(path, LOCK_TIMEOUT, shared=True) as (folder, _):
            return sorted(name.removesuffix(_SUFFIX) for name in os.listdir(folder) if _is_ours(name))
        return []

    def _clear(self, path: str) -> None:
        with _spoken(path):
            with suppress(FileNotFoundError), folders.locked_folder(path, LOCK_TIMEOUT) as (folder, _):
                names = os.listdir(folder)
                if all(map(_is_ours, names)):
                    self._move_away(path)
                else:
                    # Somebody else keeps something here, which is not ours to remove.
                    for name in filter(_is_ours, names):
                        os.unlink(name, dir_fd=folder)
                    folders.sync_folder(folder, path)
            with suppress(FileNotFoundError):
                folders.sync_path(self._base)

    def _move_away(self, path: str) -> None:
        """In one move, so that a crash leaves all of the run or nothing."""
        folders.make_folder(self._staging)
        trash = os.path.join(self._staging, os.urandom(16).hex())
        os.rename(path, trash)
        folders.sync_path(self._base)
        with suppress(OSError):
            # The run is gone; the space is freed by whoever cleans next.
            folders.remove_folder(trash)

    def _clean_once(self) -> None:
        """Remove what crashes left behind; not now if somebody writes."""
        if self._cleaned:
            return
        with suppress(StoreBusyError), folders.locked_folder(self._staging, 0) as (staging, _):
            for name in os.listdir(staging):
                _remove(os.path.join(self._staging, name))
            self._cleaned = True


def _remove(path: str) -> None:
    if os.path.isdir(path):
        folders.remove_folder(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _is_ours(name: str) -> bool:
    return name.endswith(_SUFFIX) and not name.startswith(".")


@contextmanager
def _spoken(path: str) -> Iterator[None]:
    """Say what goes wrong in the terms of the contract: OSError, or ValueError for what is damaged."""
    try:
        yield
    except (CorruptCheckpointError, CheckpointIOError):
        raise
    except StoreCorruptError as error:
        raise CorruptCheckpointError(error.message, hint=error.hint) from error
    except (OutcomeUnknownError, StoreBusyError) as error:
        raise CheckpointIOError(error.message, hint=error.hint) from error
    except OSError as error:
        raise CheckpointIOError(
            f"{shown(path)}: {error.strerror or 'cannot be used'}", hint="look at the permissions, the disk and the system log"
        ) from error
