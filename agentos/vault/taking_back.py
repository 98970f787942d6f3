"""Take a restore back that was begun and did not end, however far it came; and clear away what restores leave behind.

Each operation is decided by looking: what is in place, and what the staging folder still has of it. So it makes no difference
where a process was killed, how often, or which half of a rename a power cut took: what was taken away is in the staging folder
or in the vault. What somebody else put in place meanwhile stays there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from agentos.core.checkpoints.restores import Action, Kind, Operation, Thing
from agentos.errors import RestoreError, RestoreRefusedError
from agentos.vault.beneath import opened, sync
from agentos.vault.working import Work, make_folder

# Writes down that something else was taken away than was planned.
Note = Callable[[list[Operation]], None]


@dataclass(slots=True)
class TakingBack:
    """The way back of one restore. `left` are the paths at which somebody else's things were found, and stay."""

    work: Work
    note: Note
    left: list[str] = field(default_factory=list)
    _rescued: set[int] = field(default_factory=set)

    def take_back(self) -> None:
        """Make everything as it was before."""
        for number, each in self.work.deepest_first():
            self._try(each.path, partial(self._remove, number, each))
        for number, each in self.work.topmost_first():
            self._try(each.path, partial(self._return, number, each))
        self.work.settle_names()

    def _try(self, path: str, step: Callable[[], bool]) -> None:
        try:
            kept_out = not step()
        except (FileNotFoundError, FileExistsError, NotADirectoryError, RestoreError):
            # Somebody is at work here, or put a link in the way: what is ours stays in the vault, and theirs in place.
            kept_out = True
        if kept_out and path not in self.left:
            self.left.append(path)

    def _remove(self, number: int, operation: Operation) -> bool:
        """Take away what was put in place; False if something else is there."""
        if operation.after.kind is Kind.NOTHING:
            return True
        now = self.work.root.look(operation.path)
        if now.fits(operation.before) or now.kind is Kind.NOTHING:
            return True
        if not now.fits(operation.after):
            return False
        if operation.action is Action.SET_EXECUTABLE:
            self.work.set_executable(operation.path, now, operation.before)
            return True
        with self.work.root.folder_of(operation.path) as (folder, name):
            if operation.after.kind is Kind.DIRECTORY:
                return _removed_folder(folder, name)
            back = f"back-{number}"
            self._clear(back)
            if not self.work.staging.take(folder, name, back, operation.after):
                self.work.staging.give(back, folder, name)
                return False
        return True

    def _return(self, number: int, operation: Operation) -> bool:
        """Put back what was taken away; False if something else is there."""
        if operation.before.kind is Kind.NOTHING:
            return True
        now = self.work.root.look(operation.path)
        if now.kind is not Kind.NOTHING or operation.action is Action.SET_EXECUTABLE:
            return now.fits(operation.before)
        with self.work.root.folder_of(operation.path) as (folder, name):
            if operation.before.kind is Kind.DIRECTORY:
                make_folder(folder, name, operation.before)
                return True
            taken = f"out-{number}"
            if self.work.staging.look(taken).kind is Kind.NOTHING:
                # A power cut took it on its way between two folders.
                taken = f"in-{number}"
                self._rebuild(taken, operation.before)
            self.work.staging.give(taken, folder, name)
        return True

    def _rebuild(self, name: str, thing: Thing) -> None:
        staging = self.work.staging
        if thing.kind is Kind.LINK:
            staging.link(name, thing.target)
            return
        descriptor = staging.write(name, thing, None, self.work.vault)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)

    # What is left in the staging folder.

    def keep_what_changed(self) -> None:
        """Keep what somebody wrote into what was taken away, after it was measured, through a descriptor that was open."""
        for name in self.work.staging.names():
            if name.startswith("out-") and not self._is_as_seen(name):
                self._clear(name)

    def clear(self) -> bool:
        """Remove the staging folder; False if something is in it that belongs to nobody here, which then stays."""
        for name in self.work.staging.names():
            self._clear(name)
        return self.work.staging.remove()

    def _clear(self, name: str) -> None:
        kind, _, number = name.partition("-")
        if kind == "in":
            self.work.staging.drop(name)
        elif kind in ("out", "back") and number.isdecimal() and int(number) < len(self.work.operations):
            self._clear_kept(name, int(number), self.work.operations[int(number)], kind)

    def _clear_kept(self, name: str, number: int, operation: Operation, kind: str) -> None:
        with suppress(RestoreRefusedError):  # still being written: a later look will do
            wanted = operation.before if kind == "out" else operation.after
            found = wanted if self._is_as_seen(name) else self.work.staging.look(name)
            if found.fits(wanted) or self._rescue(name, number, found):
                self.work.staging.drop(name)

    def _is_as_seen(self, name: str) -> bool:
        seen = self.work.staging.seen.get(name)
        return seen is not None and self.work.staging.signature(name) == seen

    def _rescue(self, name: str, number: int, found: Thing) -> bool:
        """Keep what nobody kept, and write down that this is what was taken away."""
        if found.kind not in (Kind.FILE, Kind.LINK) or number in self._rescued:
            return found.kind is Kind.NOTHING
        if found.kind is Kind.FILE:
            with self.work.vault.keeping(synced=True) as keeping:
                with opened(self.work.staging.descriptor, name) as descriptor:
                    keeping.add_open(descriptor, expected=found.sha256, size=found.size)
                keeping.settle()
                self._note(number, found)
        else:
            self._note(number, found)
        self._rescued.add(number)
        return True

    def _note(self, number: int, found: Thing) -> None:
        self.work.operations[number] = replace(self.work.operations[number], before=found)
        self.note(self.work.operations)


def _removed_folder(folder: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError:
        return False  # somebody put something into it
    return True
