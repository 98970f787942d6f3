"""Make files that a step wrote durable before they are observed.

Without it a checkpoint can survive a power cut while the file it vouches for comes back empty. Synced are the file, and each
directory on the way whose entry for it changed since the step began: an entry is new only if both the directory and what it
leads to changed. What did not change costs a look. Of what is claimed to be absent the directory it was taken from is synced,
or deleting it could be forgotten.

A sync that failed is reported and never repeated: the second one would succeed without the data being there. Whether the file
is the right one is not asked here, and a path that cannot be looked at is left to its probe.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

from agentos._descriptors import held, is_on, reading
from agentos._text import shown
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.observing import Surroundings, Unseen
from agentos.probes.artifact_absent import bare
from agentos.probes.cannot_see import ABSENT, CannotSee
from agentos.probes.paths import Place, place_of

_FILES = (
    EvidenceType.ARTIFACT_EXISTS,
    EvidenceType.ARTIFACT_ABSENT,
    EvidenceType.FILE_SHA256,
    EvidenceType.FILE_PREFIX_SHA256,
    EvidenceType.FILE_CONTAINS,
    EvidenceType.JSON_VALUE,
)
# The kernel stamps files with a coarser clock than ours, and some file systems keep whole or even seconds only.
_MARGIN = 2.0
# What is on no disk cannot be synced; that is no failure.
_NOTHING_TO_SYNC = (errno.EINVAL, errno.ENOTSUP)
# Files whose sync failed in this process, with the time of the content that may be lost: asked again, the system says yes.
_condemned: dict[tuple[int, int], int] = {}
_MOST_CONDEMNED = 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def sync_recent(evidence: Iterable[Evidence], around: Surroundings, since: datetime) -> Unseen | None:
    """Sync what file evidence names and what changed after `since`; the reason if that failed."""
    settling = _Settling(since)
    try:
        for item in evidence:
            path = item.expected.get("path") if item.evidence_type in _FILES else None
            if type(path) is str:
                settling.settle(path, around, gone=item.evidence_type == EvidenceType.ARTIFACT_ABSENT)
    except CannotSee as reason:
        return reason.unseen
    return None


class _Settling:
    """One round; nothing is synced twice."""

    def __init__(self, since: datetime) -> None:
        begun = since.timestamp()
        # A clock that was set back meanwhile dates the newest files before the step: then everything counts as new.
        self._line = 0 if time.time() < begun else int((begun - _MARGIN) * 1e9)
        self._done: set[tuple[int, int]] = set()

    def settle(self, path: str, around: Surroundings, *, gone: bool) -> None:
        if not _condemned and not self._may_be_recent(path, around):
            return
        # Walked even where the system could follow the path itself: the directories on the way are wanted.
        around = replace(around, allowed_roots=around.allowed_roots or ("/",))
        with ExitStack() as stack:
            try:
                place = stack.enter_context(place_of(bare(path) if gone else path, around, follow=not gone))
            except CannotSee:
                return
            if (place.status is None) is not gone or place.walk is None:
                return
            if place.status is None:
                self._sync_directory(place, place.walk.directory)  # (1) the nearest one that is left
            else:
                self._sync_thing(place, place.status)  # (1) content before the names that lead to it
            for directory, child in reversed(place.walk.lookups):  # (2)
                if self._is_recent(os.fstat(child) if isinstance(child, int) else child):
                    self._sync_directory(place, directory)

    def _may_be_recent(self, path: str, around: Surroundings) -> bool:
        """Whether the walk could find something to sync. A no is sure: a name is new only if what it leads to changed."""
        so_far = "" if path.startswith("/") else around.base_path
        for name in path.split("/"):
            if not name:
                continue
            so_far = f"{so_far}/{name}"
            try:
                status = os.lstat(so_far)
            except (OSError, ValueError):
                return True
            if stat.S_ISLNK(status.st_mode) or self._is_recent(status):
                return True
        return False

    def _sync_thing(self, place: Place, status: os.stat_result) -> None:
        _refuse_condemned(place, status)
        if not self._is_due(status):
            return
        if stat.S_ISDIR(status.st_mode):
            _sync_opened(place, lambda: place.open(_FOLDER))
        elif stat.S_ISREG(status.st_mode):
            _sync_file(place, status)

    def _sync_directory(self, place: Place, directory: int) -> None:
        if self._is_due(os.fstat(directory)):
            _sync_opened(place, lambda: os.open(".", _FOLDER, dir_fd=directory), directory)

    def _is_recent(self, status: os.stat_result) -> bool:
        return max(status.st_mtime_ns, status.st_ctime_ns) >= self._line

    def _is_due(self, status: os.stat_result) -> bool:
        identity = (status.st_dev, status.st_ino)
        due = self._is_recent(status) and identity not in self._done
        if due:
            self._done.add(identity)
        return due


def _sync_file(place: Place, status: os.stat_result) -> None:
    for descriptor in held(status):
        # Opening and closing it once more would drop the locks this process has on it.
        if _fsync(place, descriptor) and is_on(descriptor, status):
            return
    try:
        with reading(place.open) as descriptor:
            _fsync(place, descriptor)
    except OSError as error:
        _refuse_unless_gone(place, error)


def _sync_opened(place: Place, opened: Callable[[], int], seen_through: int | None = None) -> None:
    try:
        descriptor = opened()
    except OSError as error:
        # Whoever may neither list nor write a directory did not change it.
        if seen_through is None or not isinstance(error, PermissionError) or os.access(".", os.W_OK, dir_fd=seen_through):
            _refuse_unless_gone(place, error)
        return
    try:
        _fsync(place, descriptor)
    finally:
        os.close(descriptor)


def _fsync(place: Place, descriptor: int) -> bool:
    """Whether the descriptor was still open to be synced through."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno == errno.EBADF:
            return False
        if error.errno not in _NOTHING_TO_SYNC:
            _condemn(descriptor)
            raise _failed(place, error) from error
    return True


def _condemn(descriptor: int) -> None:
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        while len(_condemned) >= _MOST_CONDEMNED:
            del _condemned[next(iter(_condemned))]
        _condemned[status.st_dev, status.st_ino] = status.st_mtime_ns


def _refuse_condemned(place: Place, status: os.stat_result) -> None:
    if _condemned.get((status.st_dev, status.st_ino)) == status.st_mtime_ns:
        raise _failed(place, OSError(errno.EIO, "an earlier sync of this content failed"))


def _refuse_unless_gone(place: Place, error: OSError) -> None:
    # What vanished since it was looked at is for the probe to report.
    if error.errno not in (*ABSENT, errno.ELOOP):
        raise _failed(place, error) from error


def _failed(place: Place, error: OSError) -> CannotSee:
    return CannotSee(
        "SYNC_FAILED",
        f"{shown(place.path)}: could not be made durable: {error.strerror or 'the sync failed'}",
        "what was written may be lost; write it again on a disk that works, as a new file",
    )
