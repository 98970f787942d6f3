"""What the rules need of hands, as one small port: keep content, give it back.

Hands know files and nothing of claims; which content is worth keeping is decided in keeping.py, and what is to be put where in
putting_back.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.restores import Collected, Copied, Restored, RestorePlan, Thing

if TYPE_CHECKING:
    from agentos.core.checkpoints.archived import BackedUp, Take
    from agentos.core.checkpoints.checkup import Checkup, Content, Findings, Progress

# Why what is at this absolute path must stay as it is, in words; nothing if it need not. Told whether anything is there.
Protected = Callable[[str, bool], str]


class Kept(StrEnum):
    """What became of something that was to be kept."""

    KEPT = "kept"
    TOO_LARGE = "too large"
    # It is not, or not any more, what was measured; or it cannot be read.
    CHANGED = "changed"


class Round(Protocol):
    """One round of keeping. Nothing of it counts before `settle`."""

    def has(self, digest: str) -> bool:
        """Whether this content is kept already, or will be with this round."""

    def bytes(self, data: bytes, *, like: str | None = None) -> str:
        """Keep these bytes; their digest. `like` is that of an earlier version."""

    def file(self, path: str, around: Surroundings, digest: str, most: int | None, *, like: str | None = None) -> Kept:
        """Keep the content of the file at this path, if it has this digest and no more than so many bytes."""

    def link(self, path: str, around: Surroundings, digest: str) -> Kept:
        """Keep the text of the link at this path, if it has this digest."""

    def lacking(self, digests: set[str]) -> set[str]:
        """Those of these that are not kept yet, nor will be with this round."""

    def is_whole(self, tree: str) -> bool:
        """Whether all that is in the tree of this digest is known to be kept."""

    def note_whole(self, tree: str) -> None:
        """All that is in the tree of this digest is kept already, or will be with this round."""

    def settle(self) -> None:
        """Make all of it durable."""


class Hands(Protocol):
    """Hands over one vault."""

    def keeping(self) -> AbstractContextManager[Round]:
        """Keep content in this block: settle it, commit what names it, and only then leave."""

    @property
    def place(self) -> str:
        """Where everything is kept."""

    @property
    def limit(self) -> int | None:
        """Bytes that everything may take."""

    def has(self, digest: str) -> bool:
        """Whether something is kept under this digest."""

    def sizes(self) -> dict[str, int]:
        """What everything takes, by digest."""

    def collect(self, needed: Callable[[], Iterable[str]], *, dry_run: bool) -> Collected:
        """Remove what is not needed; asked again while nobody can keep anything, for what became needed since."""

    def content(self, digest: str) -> bytes | None:
        """What is kept under this digest, checked; None if nothing is, or not what was kept."""

    def examine(self, needed: Mapping[str, Content], findings: Findings, *, deep: bool, progress: Progress) -> tuple[int, int]:
        """Look at everything that is kept: is what is needed there, and is all of it what was kept? How many, how large.

        Args:
            deep: read it all; else only what is said of it on the outside.
        """

    def back_up(
        self,
        target: str,
        *,
        copy_registry: Callable[[str], None],
        look: Callable[[str], Checkup],
        replace: bool,
        damaged: bool,
        progress: Progress,
    ) -> BackedUp:
        """A copy of registry and vault in one file, which was looked at before it got its name."""

    def write_archive(
        self,
        target: str,
        task_id: str,
        copy_rows: Callable[[Take], None],
        needed: Callable[[], list[str]],
        *,
        replace: bool,
        progress: Progress,
    ) -> dict[str, Any]:
        """The archive of a task: its rows, then the contents that it needs; what its manifest says."""

    def read_archive(self, path: str, import_rows: Callable[[Callable[[Take], None]], str]) -> dict[str, Any]:
        """Take the rows and contents of an archive in; what its manifest says.

        Raises:
            ArchiveRefusedError: it is not what was written, or not any more.
        """

    def scratch(self) -> AbstractContextManager[str]:
        """A private folder, for as long as the block lasts."""

    def take_over(self, source: Hands, digests: list[str], commit: Callable[[], object]) -> None:
        """Keep what others hold, durably, then commit what names it."""

    def make_folder(self, path: str) -> None:
        """Make this folder and those above it, where there is none."""

    def real(self, path: str) -> str:
        """The path with no link in it: two names of one place become one."""

    def link(self, path: str) -> str | None:
        """The text of the link at this path; None if there is none."""

    def copy_out(self, folder: str, targets: Mapping[str, Thing]) -> Copied:
        """Write each of these things at its path beneath a folder that is not there, or is empty; wholly or not at all.

        Raises:
            InvalidInputError: there is something already, or no folder to make it in.
        """

    def plan(
        self, base: str, targets: Mapping[str, Thing], task_id: str, checkpoint_id: str, protected: Protected
    ) -> RestorePlan:
        """What would make each path below the base what it is to be, measured now; changes nothing.

        Args:
            protected: asked with real paths.
        """

    def plan_undo(self, restore_id: str, protected: Protected, moved_to: str | None) -> RestorePlan:
        """What would put back what a restore overwrote and deleted; in that folder, if the one it worked in is gone.

        Raises:
            RestoreRefusedError: there is no such restore, or it changed nothing.
        """

    def restore(self, plan: RestorePlan) -> Restored:
        """Do what the plan says, wholly or not at all.

        Raises:
            RestoreRefusedError: the world moved since the plan was made; nothing was begun.
            RestoreFailedError: it failed, and everything is as it was before.
        """

    def settle(self, restore_id: str, moved_to: str | None) -> str:
        """End a restore whose process died, in that folder if the one it worked in is gone; in words, what became of it."""
