"""A run store in plain files: a folder a run, a file a node.

    <path>/<SHA-256 of the run's id>/<SHA-256 of the node's id>.node

Names are digests, so ids may hold anything and may differ in case alone, on every file system. Each file carries a SHA-256
over run, node, sequence and data, or with a key an HMAC (nodefile.py). One process writes to a run at a time (_folders.py);
reading a node needs no lock. Files of a crash are removed by the next writer, and never while somebody writes.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from agentos import _disk as disk
from agentos import _folders as folders
from agentos import _fork
from agentos._text import shown
from agentos.core.checkpoints.verifier import absolute
from agentos.errors import InvalidInputError, StoreBusyError
from agentos.store.runs.contract import CheckpointInfo, Data, Infos, Names
from agentos.store.runs.inputs import (
    LOCK_TIMEOUT,
    checked_data,
    checked_items,
    checked_node,
    checked_run,
    checked_timeout,
    closed,
    not_found,
)
from agentos.store.runs.nodefile import Sealer, folder_name
from agentos.store.runs.runfolder import TEMPORARY, RunFolder
from agentos.store.runs.times import moment
from agentos.store.runs.twins import AsyncTwins

_TRASH = "deleted-"
_RUN_NAME_LENGTH = 64
_log = logging.getLogger("agentos.store")


class FileStore(AsyncTwins):
    """Keeps runs in the folder at `path`, which is created if it is not there.

    Args:
        key: seals each file with an HMAC; a file that was changed, cut or swapped without the key is refused.
        lock_timeout: seconds to wait for another process that writes to the same run before StoreBusyError.
    """

    def __init__(self, path: str | Path, *, key: bytes | None = None, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self._base = absolute(path if path is not None else "", "path")
        self._sealer = Sealer(_checked_key(key))
        self._lock_timeout = checked_timeout(lock_timeout)
        self._lock = threading.RLock()
        self._closed = False
        self._cleaned = False
        with self._explained("create it"):
            folders.make_folder(self._base)
        _fork.close_on_fork(self)

    @property
    def path(self) -> str:
        """The folder."""
        return self._base

    def save(self, run_id: str, node_id: str, data: Data) -> None:
        self._save(checked_run(run_id), [(checked_node(node_id), checked_data(data))])

    def save_many(self, run_id: str, items: Iterable[tuple[str, Data]]) -> None:
        self._save(checked_run(run_id), checked_items(items))

    def load(self, run_id: str, node_id: str) -> bytes:
        path, node = self._path_of(run_id), checked_node(node_id)
        self._refuse_closed()
        with self._explained("read"):
            try:
                with folders.opened_folder(path) as folder:
                    return RunFolder(folder, path, self._sealer).load(run_id, node)
            except FileNotFoundError:
                raise not_found(run_id, node) from None

    def list(self, run_id: str) -> Infos:
        path = self._path_of(run_id)
        infos: Infos = []
        # Locked, because a name that is replaced while a folder is read may be seen twice or not at all.
        with (
            self._exclusively(),
            self._explained("read"),
            suppress(FileNotFoundError),
            self._locked_run(path, shared=True) as run,
        ):
            for each in run.headers():
                infos.append(CheckpointInfo(run_id, each.node_id, each.sequence, moment(each.saved_at), each.size))
        infos.sort(key=lambda info: info.sequence)
        return infos

    def delete(self, run_id: str, node_id: str) -> None:
        path, node = self._path_of(run_id), checked_node(node_id)
        with self._exclusively(), self._explained("delete"):
            try:
                with self._locked_run(path) as run:
                    run.delete(node)
            except FileNotFoundError:
                # Whoever deleted the run may have been killed before that was durable.
                folders.sync_path(self._base)

    def delete_run(self, run_id: str) -> None:
        path = self._path_of(run_id)
        trash = os.path.join(self._base, _TRASH + os.urandom(8).hex())
        with self._exclusively(), self._explained("delete"):
            with suppress(FileNotFoundError), self._locked_run(path):
                # In one move, so that a crash leaves all of the run or nothing.
                os.rename(path, trash)
            folders.sync_path(self._base)
            self._remove(trash)

    def list_runs(self) -> Names:
        with self._exclusively(), self._explained("read"):
            found = (self._run_at(os.path.join(self._base, name)) for name in self._run_names())
            return sorted(run_id for run_id in found if run_id is not None)

    def close(self) -> None:
        with self._lock:
            self._closed = True

    # Called by agentos._fork: a child forked in the middle of a write would inherit its locks.

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self) -> None:
        self._lock.release()

    def _save(self, run_id: str, items: Sequence[tuple[str, bytes]]) -> None:
        path = self._path_of(run_id)
        with self._exclusively(), self._explained("write"):
            self._clean_once()
            if items:
                with self._locked_run(path, create=True) as run:
                    run.save(run_id, items)

    @contextmanager
    def _locked_run(
        self, path: str, *, create: bool = False, shared: bool = False, timeout: float | None = None
    ) -> Iterator[RunFolder]:
        """The run's folder with its lock held. Raises FileNotFoundError if it is not there and not to be created."""
        limit = self._lock_timeout if timeout is None else timeout
        with folders.locked_folder(path, limit, create=create, shared=shared) as (folder, inode):
            yield RunFolder(folder, path, self._sealer, inode)

    def _run_at(self, path: str) -> str | None:
        """The id of the run in this folder, from any of its files; None if it has none."""
        with suppress(FileNotFoundError), folders.opened_folder(path) as folder:
            return next((header.run_id for header in RunFolder(folder, path, self._sealer).headers()), None)
        return None

    def _run_names(self) -> Names:
        return [name for name in os.listdir(self._base) if len(name) == _RUN_NAME_LENGTH and name.isalnum()]

    def _clean_once(self) -> None:
        """Remove what crashes left behind, when this store first writes. A run that is being written to is left alone."""
        if self._cleaned:
            return
        for name in os.listdir(self._base):
            if name.startswith(_TRASH):
                self._remove(os.path.join(self._base, name))
        for name in self._run_names():
            path = os.path.join(self._base, name)
            if os.path.lexists(os.path.join(path, TEMPORARY)):
                with suppress(StoreBusyError, FileNotFoundError), self._locked_run(path, timeout=0) as run:
                    run.clean()
        self._cleaned = True

    def _remove(self, path: str) -> None:
        try:
            folders.remove_folder(path)
        except OSError as error:
            # What was asked for is done; only the space is not free yet, and the next store that writes tries again.
            _log.warning("%s could not be removed: %s", shown(path), error.strerror)

    def _path_of(self, run_id: str) -> str:
        return os.path.join(self._base, folder_name(checked_run(run_id)))

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._lock_timeout):
            raise StoreBusyError(f"{shown(self._base)}: another thread has used this store for {self._lock_timeout:g} s")
        try:
            self._refuse_closed()
            yield
        finally:
            self._lock.release()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise closed()

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk.unavailable(error, self._base, doing) from error


def _checked_key(key: bytes | None) -> bytes | None:
    if key is not None and (not isinstance(key, bytes) or not key):
        raise InvalidInputError(
            f"key must be bytes, at least one, found {type(key).__name__}", hint="32 random bytes are a good key"
        )
    return key
