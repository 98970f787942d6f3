"""Hands over one vault, as the rules know them. How a file that a claim names is read is handed in: eyes know that."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from agentos._disk import unavailable
from agentos._fork import importing
from agentos.core.checkpoints.hands import Kept, Protected
from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.restores import Collected, Copied, Restored, RestorePlan, Thing
from agentos.errors import ContentDamagedError, ContentMissingError
from agentos.vault.journal import DONE, Journal
from agentos.vault.keeping import Keeping
from agentos.vault.planning import About, below, plan
from agentos.vault.receiving import ChangedError, Receiver
from agentos.vault.restoring import Restorer
from agentos.vault.vault import Vault

if TYPE_CHECKING:
    from agentos.core.checkpoints.archived import BackedUp, Take
    from agentos.core.checkpoints.checkup import Content, Findings, Progress
    from agentos.core.checkpoints.hands import Hands

TakePiece = Callable[[memoryview], object]


class Eyes(Protocol):
    """How what a claim names is read."""

    def read_file(self, path: str, around: Surroundings, begin: Callable[[int], TakePiece | None]) -> bool:
        """Hand on the content of a file; `begin` is told about how much that is, and says what takes it."""

    def read_link(self, path: str, around: Surroundings) -> bytes | None:
        """The text of a link; None if there is none."""


class VaultHands:
    """Keeps content in a vault and gives it back."""

    def __init__(self, vault: Vault, eyes: Eyes, journal: Journal) -> None:
        self.vault = vault
        self._eyes = eyes
        self._restorer = Restorer(vault, journal)

    @contextmanager
    def keeping(self) -> Iterator[KeepingRound]:
        with self.vault.keeping() as session:
            yield KeepingRound(session, self._eyes)

    @property
    def place(self) -> str:
        return self.vault.root

    @property
    def limit(self) -> int | None:
        return self.vault.limit

    def has(self, digest: str) -> bool:
        return self.vault.has(digest)

    def sizes(self) -> dict[str, int]:
        return {digest: self.vault.size(digest) for digest in self.vault.digests()}

    def collect(self, needed: Callable[[], Iterable[str]], *, dry_run: bool) -> Collected:
        with importing:
            from agentos.vault.collecting import collect  # noqa: PLC0415 - who keeps seldom collects

        return collect(self.vault, needed, dry_run=dry_run)

    def examine(self, needed: Mapping[str, Content], findings: Findings, *, deep: bool, progress: Progress) -> tuple[int, int]:
        with importing:
            from agentos.vault.examining import examine  # noqa: PLC0415 - as above

        return examine(self.vault, needed, findings, deep=deep, progress=progress)

    def back_up(self, target: str, **given: Any) -> BackedUp:
        with importing:
            from agentos.vault.backups import back_up  # noqa: PLC0415 - as above

        return back_up(self.vault, target, **given)

    def write_archive(self, target: str, *given: Any, **named: Any) -> dict[str, Any]:
        told: dict[str, Any] = _portable().write_archive(self.vault, target, *given, **named)
        return told

    def read_archive(self, path: str, import_rows: Callable[[Callable[[Take], None]], str]) -> dict[str, Any]:
        told: dict[str, Any] = _portable().read_archive(path, self.vault, import_rows)
        return told

    def scratch(self) -> AbstractContextManager[str]:
        folder: AbstractContextManager[str] = _portable().scratch_folder()
        return folder

    def take_over(self, source: Hands, digests: list[str], commit: Callable[[], object]) -> None:
        assert isinstance(source, VaultHands), "archives are read into vaults"
        _portable().take_over(self.vault, source.vault, digests, commit)

    def content(self, digest: str) -> bytes | None:
        try:
            return self.vault.read(digest)
        except (ContentMissingError, ContentDamagedError):
            return None

    def make_folder(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise unavailable(error, path, "be made") from error

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def link(self, path: str) -> str | None:
        try:
            return os.readlink(path)
        except OSError:
            return None

    def copy_out(self, folder: str, targets: Mapping[str, Thing]) -> Copied:
        with importing:
            from agentos.vault.copying import copy_out  # noqa: PLC0415 - who keeps seldom copies

        return copy_out(self.vault, folder, targets)

    def plan(
        self, base: str, targets: Mapping[str, Thing], task_id: str, checkpoint_id: str, protected: Protected
    ) -> RestorePlan:
        wanted: dict[str | bytes, Thing] = dict(targets.items())
        return plan(base, wanted, self.vault, About(task_id, checkpoint_id), protected=below(base, protected))

    def plan_undo(self, restore_id: str, protected: Protected, moved_to: str | None) -> RestorePlan:
        return self._restorer.plan_undo(restore_id, protected=protected, moved_to=moved_to)

    def restore(self, plan: RestorePlan) -> Restored:
        return self._restorer.apply(plan)

    def settle(self, restore_id: str, moved_to: str | None) -> str:
        settled = self._restorer.settle(restore_id, moved_to)
        return "all of it was done" if settled.state == DONE else "everything is as it was before"


def _portable() -> Any:
    with importing:
        from agentos.vault import portable  # noqa: PLC0415 - tasks seldom move

    return portable


class KeepingRound:
    """One round, with eyes for files."""

    def __init__(self, session: Keeping, eyes: Eyes) -> None:
        self._session = session
        self._eyes = eyes
        self.has = session.has
        self.lacking = session.lacking
        self.is_whole = session.is_whole
        self.note_whole = session.note_whole
        self.settle = session.settle

    def bytes(self, data: bytes, *, like: str | None = None) -> str:
        return self._session.add(data, like=like)

    def file(self, path: str, around: Surroundings, digest: str, most: int | None, *, like: str | None = None) -> Kept:
        with ExitStack() as stack:
            receivers: list[Receiver] = []
            too_large = False

            def begin(size: int) -> TakePiece | None:
                nonlocal too_large
                too_large = most is not None and size > most
                if too_large:
                    return None
                receivers.append(stack.enter_context(self._session.receive(size, expected=digest, like=like)))
                return receivers[0].take

            if not self._eyes.read_file(path, around, begin):
                return Kept.TOO_LARGE if too_large else Kept.CHANGED
            try:
                receivers[0].done()
            except ChangedError:
                return Kept.CHANGED
        return Kept.KEPT

    def link(self, path: str, around: Surroundings, digest: str) -> Kept:
        text = self._eyes.read_link(path, around)
        if text is None or hashlib.sha256(text).hexdigest() != digest:
            return Kept.CHANGED
        self._session.add(text)
        return Kept.KEPT
