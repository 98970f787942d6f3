"""The moves of a restore, one operation at a time: take away what is there, put in place what is to be.

First goes, deepest first, what is deleted and what changes between a folder and something else; then, topmost first, everything
is put in place. What is taken away is measured again where nobody reaches it by its name: if it is not what was planned,
somebody was faster, and the restore fails and gives it back. Nothing is replaced: a place must be empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from agentos._side_by_side import side_by_side
from agentos._text import shown
from agentos.core.checkpoints.restores import Action, Kind, Operation, Thing
from agentos.errors import RestoreError, RestoreFailedError, RestoreRefusedError, StoreError
from agentos.vault.beneath import Root, above_of, measured, opened, sync, with_bit
from agentos.vault.staging import BATCH, Staging
from agentos.vault.vault import Vault

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Work:
    """A restore under way: where, and what. An operation's number names what belongs to it in the staging folder."""

    root: Root
    staging: Staging
    vault: Vault
    operations: list[Operation]

    def prepare(self) -> None:
        """Have everything new in the staging folder, durable, while nothing was changed yet."""
        files = [(number, each) for number, each in self.topmost_first() if _is_written(each)]
        for start in range(0, len(files), BATCH):
            self._write(files[start : start + BATCH])
        for number, each in self.topmost_first():
            if each.after.kind is Kind.LINK:
                with at(each.path):
                    self.staging.link(f"in-{number}", each.after.target)
        self.staging.sync()

    def _write(self, files: Iterable[tuple[int, Operation]]) -> None:
        # All are written before the first is waited for: the disk takes them together.
        written: list[tuple[int, str]] = []
        try:
            for number, each in files:
                with at(each.path):
                    written.append((self.staging.write(f"in-{number}", each.after, self._status(each), self.vault), each.path))
            side_by_side(_settle, written)
        finally:
            for descriptor, _ in written:
                os.close(descriptor)

    def _status(self, operation: Operation) -> os.stat_result | None:
        """Of the file that is there now: who owns it, and what they may do with it."""
        if operation.before.kind is not Kind.FILE:
            return None
        with self.root.folder_of(operation.path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def move(self) -> None:
        """Do it."""
        for number, each in self.deepest_first():
            if _clears_the_way(each):
                self._take(number, each)
        for number, each in self.topmost_first():
            if each.action is Action.SET_EXECUTABLE:
                with at(each.path):
                    self.set_executable(each.path, each.before, each.after)
                continue
            if each.before.kind is not Kind.NOTHING and not _clears_the_way(each):
                self._take(number, each)
            if each.after.kind is not Kind.NOTHING:
                self._place(number, each)

    def _take(self, number: int, operation: Operation) -> None:
        with at(operation.path), self.root.folder_of(operation.path) as (folder, name):
            if operation.before.kind is Kind.DIRECTORY:
                # Refused by the system as soon as anything is in it.
                os.rmdir(name, dir_fd=folder)
            elif not self.staging.take(folder, name, f"out-{number}", operation.before):
                raise moved(operation.path)

    def _place(self, number: int, operation: Operation) -> None:
        with at(operation.path), self.root.folder_of(operation.path) as (folder, name):
            if operation.after.kind is Kind.DIRECTORY:
                make_folder(folder, name, operation.after)
            else:
                self.staging.give(f"in-{number}", folder, name)

    def set_executable(self, path: str, before: Thing, after: Thing) -> None:
        """Change the bit of a file that has no other name."""
        with self.root.folder_of(path) as (folder, name), opened(folder, name) as descriptor:
            if measured(descriptor, path) != before or os.fstat(descriptor).st_nlink > 1:
                raise moved(path)
            mode = os.fstat(descriptor).st_mode & 0o7777 if after.mode is None else after.mode
            os.fchmod(descriptor, with_bit(mode, after))
            sync(descriptor)

    def settle_names(self) -> None:
        """Make durable what has which name."""
        for path in {each.path.rpartition("/")[0]: each.path for each in self.operations}.values():
            # Whoever took a folder away meanwhile, or put a link in its place, took its names with it.
            with suppress(FileNotFoundError, NotADirectoryError, RestoreRefusedError), self.root.folder_of(path) as (folder, _):
                sync(folder)
        self.staging.sync()

    def is_done(self) -> bool:
        """Whether everything is as it is to be."""
        # Beneath what is no folder there is nothing.
        shut = {each.path for each in self.operations if each.after.kind is not Kind.DIRECTORY}
        looked_at = [each for each in self.operations if not shut.intersection(above_of(each.path))]
        try:
            return all(self.root.look(each.path).fits(each.after) for each in looked_at)
        except RestoreError:
            return False

    def topmost_first(self) -> list[tuple[int, Operation]]:
        """Each with its number."""
        return sorted(enumerate(self.operations), key=lambda each: each[1].path.split("/"))

    def deepest_first(self) -> list[tuple[int, Operation]]:
        """The other way round."""
        return self.topmost_first()[::-1]


def _settle(written: tuple[int, str]) -> None:
    descriptor, path = written
    with at(path):
        sync(descriptor)


def make_folder(folder: int, name: str, thing: Thing) -> None:
    """A folder, with the permissions it had if they are known."""
    os.mkdir(name, dir_fd=folder)
    if thing.mode is not None:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
        try:
            os.fchmod(descriptor, thing.mode)
        finally:
            os.close(descriptor)


@contextmanager
def at(path: str) -> Iterator[None]:
    """Name the path in whatever goes wrong there."""
    try:
        yield
    except OSError as error:
        raise RestoreFailedError(
            f"{shown(path)}: cannot be put back: {error.strerror}",
            hint="look at the permissions, the disk and who else works there",
        ) from error
    except RestoreFailedError:
        raise
    except (RestoreError, StoreError) as error:
        raise RestoreFailedError(f"{shown(path)}: cannot be put back: {error.message}", hint=error.hint) from error


def moved(path: str) -> RestoreFailedError:
    """Somebody else is at work there."""
    return RestoreFailedError(
        f"{shown(path)}: somebody changed it after the plan was made", hint="wait until they are done, and plan again"
    )


def _is_written(operation: Operation) -> bool:
    return operation.after.kind is Kind.FILE and operation.action is not Action.SET_EXECUTABLE


def _clears_the_way(operation: Operation) -> bool:
    kinds = (operation.before.kind, operation.after.kind)
    return kinds[0] is not Kind.NOTHING and (kinds[1] is Kind.NOTHING or Kind.DIRECTORY in kinds)
