"""Follow a plan, so that a folder is as it was: wholly, or not at all.

(1) Nothing moved since the plan was made, or it is refused. (2) What will be overwritten or deleted is kept, of whatever size.
(3) The journal says what is about to happen. (4) Everything new lies ready beside its place, durable. (5) The journal says that
it begins. (6) Things are moved, and (7) made durable. (8) What somebody wrote meanwhile into what was taken away is kept too.
(9) The journal says that it is done, (10) and the staging folder goes.

Whatever fails on the way, everything is taken back. A process that was killed left its entry in the journal, and `settle` takes
it back, or ends it if everything was in place already. Whose restore it is, and who may do it, is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from agentos._log import warn
from agentos._text import listed, shown
from agentos.core.checkpoints.restores import NOTHING, Action, Kind, Operation, Restored, RestorePlan, Thing
from agentos.core.checkpoints.stored import StoredRestore
from agentos.errors import (
    AgentosError,
    ContentDamagedError,
    ContentMissingError,
    RestoreError,
    RestoreFailedError,
    RestoreInterruptedError,
    RestoreRefusedError,
    StoreError,
)
from agentos.vault import journal as entries
from agentos.vault import staging as stagings
from agentos.vault.beneath import Root, above_of, opened, sync
from agentos.vault.journal import Journal
from agentos.vault.keeping import ChangedError, Keeping
from agentos.vault.planning import About, Protected, below, nobody, plan
from agentos.vault.taking_back import TakingBack
from agentos.vault.vault import Vault
from agentos.vault.working import Work


class Restorer:
    """Hands: a vault to take content from and keep it in, and a journal."""

    def __init__(self, vault: Vault, journal: Journal) -> None:
        self._vault = vault
        self._journal = journal

    def apply(self, chosen: RestorePlan) -> Restored:
        """Do what the plan says; what it says cannot be done stays as it is.

        Raises:
            RestoreRefusedError: the world moved since the plan was made; nothing was begun.
            VaultFullError: what would be overwritten does not fit into the vault's budget; nothing was begun.
            RestoreFailedError: it failed, and everything is as it was before.
            RestoreInterruptedError: it failed, and could not be taken back yet.
        """
        entry = entries.entry_of(chosen)
        with Root(chosen.base_path) as root:
            _refuse_if_moved(root, chosen.operations)  # (1)
            # The journal is synced whatever is promised, and so is what it names: a change cannot be taken back by a power cut.
            with self._vault.keeping(synced=True) as keeping:
                self._keep(root, chosen.operations, keeping)  # (2)
                self._journal.begin_restore(entry)  # (3)
            with self._staging(root, entry) as work:
                self._follow(entry, work)
                done = work.is_done() and chosen.is_complete
                # What was taken away may not be what the plan said, if somebody wrote to it until the end.
                followed = replace(chosen, operations=tuple(work.operations))
        return Restored(entry.restore_id, followed, verified=done)

    def plan_undo(self, restore_id: str, *, protected: Protected = nobody, moved_to: str | None = None) -> RestorePlan:
        """What would put back what a restore overwrote and deleted, and take away what it made.

        Args:
            protected: why what lies at a real path must stay as it is.
            moved_to: where the folder is now, if it is not there any more.

        Raises:
            RestoreRefusedError: there is no such restore, or it did not end by doing what it was to do.
        """
        entry = self._entry(restore_id)
        if entry.state != entries.DONE:
            raise RestoreRefusedError(
                f"restore {shown(restore_id, 80)}: expected one that was done, this one is {entry.state}",
                hint="one that was undone changed nothing" if entry.state == entries.UNDONE else "settle it first",
            )
        targets: dict[str | bytes, Thing] = {each.path: each.before for each in entries.operations_of(entry)}
        about, place = About(entry.task_id, entry.checkpoint_id, restore_id), _place_of(entry, moved_to)
        return plan(place, targets, self._vault, about, protected=below(place, protected))

    def undo(self, restore_id: str, *, protected: Protected = nobody) -> Restored:
        """Put back what a restore overwrote and deleted. This is a restore, which can be undone in its turn."""
        return self.apply(self.plan_undo(restore_id, protected=protected))

    def settle(self, restore_id: str, moved_to: str | None = None) -> StoredRestore:
        """End a restore whose process died, wherever that was: what is not wholly done is taken back. Again and again is fine.

        Args:
            moved_to: where the folder is now, if it is not there any more.

        Raises:
            RestoreRefusedError: there is no such restore, its folder is not there, or its process lives.
            RestoreInterruptedError: it could not be taken back yet.
        """
        entry = self._entry(restore_id)
        if entry.ended_at is not None:
            return entry
        try:
            self._settle_in(_place_of(entry, moved_to), entry)
        except OSError as error:
            raise _interrupted(entry, None, error) from error
        return entry

    def _settle_in(self, place: str, entry: StoredRestore) -> None:
        with Root(place) as root, stagings.found(root, entry.staging) as staging:
            if staging is not None:
                self._settle(entry, Work(root, staging, self._vault, entries.operations_of(entry)))
            elif entry.state == entries.APPLYING:
                with stagings.made(root, entry.staging) as anew:
                    self._settle(entry, Work(root, anew, self._vault, entries.operations_of(entry)))
            else:
                self._journal.update_restore(entries.ended(entry, _OVER[entry.state]))

    def _entry(self, restore_id: str) -> StoredRestore:
        entry = self._journal.restore(restore_id)
        if entry is None:
            raise RestoreRefusedError(f"restore {shown(restore_id, 80)}: there is none", hint="restores() lists them")
        return entry

    # What is about to go.

    def _keep(self, root: Root, operations: tuple[Operation, ...], keeping: Keeping) -> None:
        for each in operations:
            if each.before.kind is not Kind.FILE or each.action is Action.SET_EXECUTABLE:
                continue
            self._distrust_damaged(each.before.sha256, keeping)
            try:
                with root.folder_of(each.path) as (folder, name), opened(folder, name) as descriptor:
                    like = each.after.sha256 or None
                    keeping.add_open(descriptor, like=like, expected=each.before.sha256, size=each.before.size)
                    # A power cut on the way must find it whole: what was moved is given back, and not written again.
                    sync(descriptor)
            except (OSError, ChangedError) as error:
                raise _moved(each.path) from error
        keeping.settle()

    def _distrust_damaged(self, digest: str, keeping: Keeping) -> None:
        """A copy that was kept earlier and is not whole is none; what is in place may be the last of it."""
        if not self._vault.has(digest):
            return
        try:
            self._vault.check(digest)
        except (ContentDamagedError, ContentMissingError):
            keeping.distrust(digest)

    # From its beginning to its end.

    @contextmanager
    def _staging(self, root: Root, entry: StoredRestore) -> Iterator[Work]:
        with ExitStack() as stack:
            try:
                staging = stack.enter_context(stagings.made(root, entry.staging))
            except OSError as error:
                self._journal.update_restore(entries.ended(entry, entries.UNDONE))
                raise RestoreFailedError(
                    f"{shown(entry.base_path)}: nothing can be put there: {error.strerror}; everything is as it was before",
                    hint="look at the permissions and the disk",
                ) from error
            yield Work(root, staging, self._vault, entries.operations_of(entry))

    def _follow(self, entry: StoredRestore, work: Work) -> None:
        back = self._back(entry, work)
        try:
            work.prepare()  # (4)
            entry.state = entries.APPLYING
            self._journal.update_restore(entry)  # (5)
            work.move()  # (6)
            work.settle_names()  # (7)
            back.keep_what_changed()  # (8)
            self._end(entry, entries.DONE)  # (9)
        except BaseException as error:
            self._take_back(entry, back, error)
            if isinstance(error, (RestoreFailedError, OSError)):
                raise _failed(error, back.left) from error
            raise
        self._clear(entry, back)  # (10)

    def _settle(self, entry: StoredRestore, work: Work) -> None:
        back = self._back(entry, work)
        if entry.state == entries.APPLYING:
            if not work.is_done():
                self._take_back(entry, back, None)
                return
            work.settle_names()
            back.keep_what_changed()
        self._end(entry, _OVER[entry.state])
        self._clear(entry, back)

    def _end(self, entry: StoredRestore, state: str) -> None:
        entry.state = state
        self._journal.update_restore(entry)

    def _clear(self, entry: StoredRestore, back: TakingBack) -> None:
        """Clear away what is left of it; what cannot be cleared now whoever settles it later will."""
        try:
            if back.clear():
                self._journal.update_restore(entries.ended(entry, entry.state))
        except (OSError, StoreError) as error:
            entry.ended_at = None
            warn("vault", "restore %s is %s, but %s could not be cleared away yet: %s", entry.restore_id, entry.state,
                 entry.staging, error)  # fmt: skip

    def _take_back(self, entry: StoredRestore, back: TakingBack, cause: BaseException | None) -> None:
        try:
            if entry.state == entries.DONE:
                # Nobody knows whether that was written; whoever comes after a crash must not believe it.
                self._end(entry, entries.APPLYING)
            if entry.state == entries.APPLYING:
                back.take_back()
            self._end(entry, entries.UNDONE)
            self._clear(entry, back)
        except (OSError, AgentosError) as error:
            raise _interrupted(entry, cause, error) from error

    def _back(self, entry: StoredRestore, work: Work) -> TakingBack:
        def note(operations: list[Operation]) -> None:
            entry.operations = entries.packed(operations)
            self._journal.update_restore(entry)

        return TakingBack(work, note)


# What has become of a restore in this state, when nothing has to be moved any more.
_OVER = {
    entries.BEGUN: entries.UNDONE,
    entries.APPLYING: entries.DONE,
    entries.DONE: entries.DONE,
    entries.UNDONE: entries.UNDONE,
}


def _place_of(entry: StoredRestore, moved_to: str | None) -> str:
    """The folder that was restored in: the one that holds what is left of it, else the one at its old place, if any."""
    places = [entry.base_path] if moved_to is None else [entry.base_path, moved_to]
    left = next((place for place in places if os.path.lexists(os.path.join(place, entry.staging))), None)
    return left or next(filter(os.path.isdir, places), entry.base_path)


def _refuse_if_moved(root: Root, operations: tuple[Operation, ...]) -> None:
    # Beneath what is no folder yet there is nothing to look at.
    anew = {each.path for each in operations if Kind.DIRECTORY is each.after.kind}
    for each in operations:
        now = NOTHING if anew.intersection(above_of(each.path)) else root.look(each.path)
        if now != each.before:
            raise _moved(each.path)


def _moved(path: str) -> RestoreRefusedError:
    return RestoreRefusedError(
        f"{shown(path)}: it changed since the plan was made; nothing was done", hint="look at it, and make the plan again"
    )


def _interrupted(entry: StoredRestore, cause: BaseException | None, error: AgentosError | OSError) -> RestoreInterruptedError:
    why = f"{cause.message}; then " if isinstance(cause, AgentosError) else ""
    return RestoreInterruptedError(
        f"restore {entry.restore_id}: {why}what was changed could not be taken back yet: {_said(error)}",
        hint=f"nothing is lost: it is in {entry.staging} in that folder, or in the vault; mend that and settle it",
    )


def _said(error: AgentosError | OSError) -> str:
    return error.message if isinstance(error, AgentosError) else str(error.strerror)


def _failed(error: RestoreError | OSError, left: list[str]) -> RestoreFailedError:
    if isinstance(error, OSError):
        error = RestoreFailedError(f"the disk failed: {error.strerror}", hint="look at the disk and the system log")
    but = f", except what somebody else put there meanwhile: {listed(left)}" if left else ""
    return RestoreFailedError(f"{error.message}; everything is as it was before{but}", hint=error.hint)
