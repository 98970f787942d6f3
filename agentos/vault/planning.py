"""Plan what would make a folder as it was: measured now, changing nothing.

What is wanted is named path by path; what is not named is left alone, and so is what cannot be put back, with the reason.
Folders that are missing on the way are made. A link, a file or anything else that stands on the way and is not itself to become
a folder stops what is wanted beneath it. A folder goes only if everything in it goes too.

A file with several names is put back by renaming another one over this name: what the other names lead to, inside the folder or
outside, is neither written nor made executable.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from agentos._text import shown
from agentos.core.checkpoints.restores import NOTHING, Action, Cannot, Kind, Operation, RestorePlan, Thing
from agentos.errors import ContentDamagedError, ContentMissingError, RestoreRefusedError, StoreUnavailableError
from agentos.vault.beneath import Root, above_of, parts_of
from agentos.vault.entering import enter
from agentos.vault.staging import STAGING
from agentos.vault.twins import twins_among
from agentos.vault.vault import Vault

# Why what lies at a path of the folder must stay as it is, in words; nothing if it is free. Told whether anything is there.
Protected = Callable[[str, bool], str]


class _StopError(Exception):
    """This path cannot be put back; the message says why."""


@dataclass(frozen=True, slots=True)
class About:
    """Whose restore it would be, and of what."""

    task_id: str
    checkpoint_id: str
    undoes: str | None = None


def below(base_path: str, protected: Protected) -> Protected:
    """The same, for those who know whole paths, with no link in them, and not where the folder is."""
    real = os.path.realpath(base_path)
    return lambda path, is_there: protected(os.path.join(real, path), is_there)


def nobody(_: str, __: bool) -> str:  # noqa: FBT001 - as it is called
    """Nothing is claimed by anybody."""
    return ""


def plan(
    base_path: str, targets: Mapping[str | bytes, Thing], vault: Vault, about: About, *, protected: Protected = nobody
) -> RestorePlan:
    """What would make each of these paths what it is to be.

    Args:
        targets: what is to be at each path of the folder; of a file its digest, and whether it is executable if that matters.
        protected: why a path must stay as it is.

    Raises:
        RestoreRefusedError: the folder itself cannot be opened.
    """
    with Root(base_path) as root:
        planner = _Planner(root, vault, protected)
        planner.consider({os.fsdecode(path): wanted for path, wanted in targets.items()})
        operations = tuple(planner.operations.values())
        cannot = tuple(Cannot(path, why) for path, why in planner.cannot.items())
    return RestorePlan(about.task_id, about.checkpoint_id, base_path, operations, cannot, planner.left_alone, about.undoes)


@dataclass(slots=True)
class _Planner:
    root: Root
    vault: Vault
    protected: Protected
    operations: dict[str, Operation] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    left_alone: int = 0
    # What will be at each path that was looked at.
    _becomes: dict[str, Thing] = field(default_factory=dict)
    # Content that was read from the vault, and its size.
    _readable: dict[str, int] = field(default_factory=dict)

    def consider(self, targets: Mapping[str, Thing]) -> None:
        twins = twins_among(self.root, targets)
        for path in sorted(targets, key=lambda each: each.split("/")):
            try:
                self._consider(path, targets[path], twins.get(path))
            except _StopError as why:
                self.cannot[path] = str(why)
            except OSError as error:
                self.cannot[path] = f"it cannot be looked at: {error.strerror}"
        self._keep_folders_that_hold_more()

    def _consider(self, path: str, wanted: Thing, twin: str | None) -> None:
        if twin is not None:
            raise _StopError(f"this file system does not tell it from {shown(twin)}")
        _refuse_name(path)
        fresh = self._is_way_clear(path) if wanted.kind is not Kind.NOTHING else self._is_way_replaced(path)
        now = NOTHING if fresh else self._look(path)
        if now.fits(wanted):
            self._becomes[path] = now
            self.left_alone += 1
            return
        self._refuse_change(path, now, wanted)
        action = _action(now, wanted)
        if action is Action.SET_EXECUTABLE and self._names(path) > 1:
            # Its other names would become executable with it.
            action = Action.OVERWRITE
        elif action is not Action.SET_EXECUTABLE and wanted.kind is Kind.FILE:
            wanted = replace(wanted, size=self._size_of_kept(wanted.sha256))
        self._add(path, action, now, wanted)

    def _add(self, path: str, action: Action, now: Thing, wanted: Thing) -> None:
        if action is Action.SET_EXECUTABLE or now.sha256 == wanted.sha256:
            wanted = replace(wanted, size=now.size)
        self.operations[path] = Operation(path, action, now, wanted)
        self._becomes[path] = wanted

    def _refuse_change(self, path: str, now: Thing, wanted: Thing) -> None:
        if Kind.SPECIAL in (now.kind, wanted.kind):
            raise _StopError("a special file is in the way" if now.kind is Kind.SPECIAL else "a special file is not put back")
        if why := self.protected(path, now.kind is not Kind.NOTHING):
            raise _StopError(why)
        if now.kind is Kind.DIRECTORY and self._is_mount(path):
            raise _StopError("something is mounted there")

    # The way to it.

    def _is_way_clear(self, path: str) -> bool:
        """Have every folder on the way; whether one of them will be new, so that nothing is at the path."""
        fresh = False
        for above in above_of(path):
            if above in self.cannot:
                raise _StopError(f"{shown(above)}, in which it lies, cannot be put back")
            if above not in self._becomes:
                self._look_on_the_way(above, fresh=fresh)
            if self._becomes[above].kind is not Kind.DIRECTORY:
                raise _StopError(f"{shown(above)} is to be {self._becomes[above].describe()}, not a folder")
            fresh = fresh or above in self.operations
        return fresh

    def _look_on_the_way(self, above: str, *, fresh: bool) -> None:
        now = NOTHING if fresh else self._look(above)
        if now.kind is Kind.DIRECTORY:
            self._becomes[above] = now
        elif now.kind is Kind.NOTHING:
            self._refuse_change(above, now, Thing(Kind.DIRECTORY))
            self._add(above, Action.CREATE, now, Thing(Kind.DIRECTORY))
        else:
            raise _StopError(f"{now.describe()} stands at {shown(above)}, where a folder is needed; nobody said that it may go")

    def _is_way_replaced(self, path: str) -> bool:
        """Whether what is on the way will be another thing, so that nothing is left at the path by then."""
        replaced = (self.operations[above] for above in above_of(path) if above in self.operations)
        return any(each.before.kind is not Kind.DIRECTORY for each in replaced)

    def _look(self, path: str) -> Thing:
        try:
            return self.root.look(path)
        except RestoreRefusedError as error:
            raise _StopError(error.message.removeprefix(f"{shown(path)}: ")) from error

    def _is_mount(self, path: str) -> bool:
        with self.root.folder_of(path) as (folder, name):
            try:
                os.close(enter(folder, name))
            except OSError as error:
                return error.errno == errno.EXDEV
        return False

    def _names(self, path: str) -> int:
        with self.root.folder_of(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False).st_nlink

    # What is to be written.

    def _size_of_kept(self, digest: str) -> int:
        if digest not in self._readable:
            try:
                self._readable[digest] = self.vault.check(digest)
            except ContentMissingError:
                raise _StopError("its content was not kept") from None
            except ContentDamagedError:
                raise _StopError("its content is damaged in the vault") from None
            except StoreUnavailableError as error:
                raise _StopError(f"its content cannot be read: {error.message}") from error
        return self._readable[digest]

    # Folders and names.

    def _keep_folders_that_hold_more(self) -> None:
        """Deepest first: a folder that stays is a reason for the one above it."""
        for path, operation in sorted(self.operations.items(), key=lambda each: each[0].count("/"), reverse=True):
            if operation.before.kind is not Kind.DIRECTORY or (more := self._more_in(path)) is None:
                continue
            del self.operations[path]
            self._becomes[path] = operation.before
            self.cannot[path] = f"the folder holds {shown(more)}, which is not to go"

    def _more_in(self, path: str) -> str | None:
        try:
            with self.root.folder_of(path) as (folder, name):
                descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                try:
                    names = os.listdir(descriptor)
                finally:
                    os.close(descriptor)
        except OSError as error:
            return f"what cannot be listed: {error.strerror}"
        goes = (self._becomes.get(f"{path}/{name}", Thing(Kind.SPECIAL)).kind is Kind.NOTHING for name in names)
        return next((name for name, gone in zip(names, goes, strict=True) if not gone), None)


def _refuse_name(path: str) -> None:
    try:
        parts = parts_of(path)
    except RestoreRefusedError as error:
        raise _StopError("no path beneath the folder; what names it is damaged or forged") from error
    if parts[0].startswith(STAGING):
        raise _StopError("it belongs to a restore that is under way")


def _action(now: Thing, wanted: Thing) -> Action:
    if now.kind is Kind.NOTHING:
        return Action.CREATE
    if wanted.kind is Kind.NOTHING:
        return Action.DELETE
    if now.kind is wanted.kind is Kind.FILE and now.sha256 == wanted.sha256:
        return Action.SET_EXECUTABLE
    return Action.OVERWRITE
