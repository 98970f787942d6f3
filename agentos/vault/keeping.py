"""One round of keeping: content is written beside the others, made durable all together, and only then has its name.

Until the round is settled nothing of it can be read, and what a crash leaves of it is garbage. The vault's lock is held by
whoever made this; see vault.py.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentos._disk import unavailable, write_all
from agentos._folders import sync_path
from agentos._side_by_side import side_by_side
from agentos.errors import ContentDamagedError, ContentMissingError, StoreError, VaultFullError
from agentos.vault.objects import MOST_IN_MEMORY, Base, encoded
from agentos.vault.receiving import CREATE, ChangedError, Receiver
from agentos.vault.streams import PIECE

if TYPE_CHECKING:
    from agentos.vault.vault import Vault

__all__ = ["ChangedError", "Keeping"]


@dataclass(frozen=True, slots=True)
class _Draft:
    path: str
    stored: int


class Keeping:
    """What is being kept. Nothing of it counts before `settle`."""

    def __init__(self, vault: Vault, *, synced: bool) -> None:
        self._vault = vault
        self._synced = synced
        # What this process knows to be there; of what was kept with a weaker promise it knows nothing.
        self._known = vault.known if synced == vault.synced else set()
        self._drafts: dict[str, _Draft] = {}
        # Found in the vault, and not yet known to be durable.
        self._met: set[str] = set()
        self._whole: set[str] = set()
        # In the vault, and not what it should be.
        self._distrusted: set[str] = set()
        self._mark = os.urandom(8).hex()

    def has(self, digest: str) -> bool:
        """Whether it is kept already, or will be with this round."""
        if digest in self._drafts or digest in self._known or digest in self._met:
            return True
        if digest in self._distrusted:
            return False
        try:
            self._meet(digest)
        except ContentMissingError:
            return False
        except ContentDamagedError:
            self.distrust(digest)
            return False
        return True

    def _meet(self, digest: str) -> None:
        """Have what is there made durable with this round, and what it is a difference to.

        Whoever wrote it may have died before it was durable, or promised less, or be about to see to it: it is relied upon now.
        What bears the mark was durable before it got it, with all that it stands on.

        Raises:
            ContentMissingError, ContentDamagedError: it is not there, or what it is a difference to is not.
        """
        if digest in self._known:
            return
        if self._vault.is_marked(digest):
            self._known.add(digest)
        else:
            self._met.update(self._vault.chain(digest))

    def lacking(self, digests: set[str]) -> set[str]:
        """Those of these that are not kept yet, nor will be with this round."""
        return {digest for digest in digests - self._known if not self.has(digest)}

    def is_whole(self, tree: str) -> bool:
        """Whether all that is in the tree of this digest is known to be kept, and was not removed since."""
        return (self._synced == self._vault.synced and tree in self._vault.whole) or tree in self._whole

    def note_whole(self, tree: str) -> None:
        """All that is in the tree of this digest was found to be kept, or is kept with this round."""
        self._whole.add(tree)

    def distrust(self, digest: str) -> None:
        """What is kept under this digest is damaged: it is replaced by what comes now."""
        self._vault.known.discard(digest)
        self._vault.whole.clear()
        self._known.discard(digest)
        self._met.discard(digest)
        self._distrusted.add(digest)

    def add(self, data: bytes, *, like: str | None = None) -> str:
        """Keep these bytes; their digest.

        Args:
            like: the digest of an earlier version, if that is kept.
        """
        digest = hashlib.sha256(data).hexdigest()
        if not self.has(digest):
            self._write(digest, encoded(data, self._base(like, len(data))))
        return digest

    def add_open(self, descriptor: int, *, like: str | None = None, expected: str | None = None, size: int = 0) -> str:
        """Keep what can be read from an open file, from where it stands to its end; its digest.

        Args:
            expected: the digest it must have.
            size: about how large it is.

        Raises:
            ChangedError: it has another one; nothing was kept.
        """
        if expected is not None and self.has(expected):
            return expected
        if size > MOST_IN_MEMORY:
            return self._stream(descriptor, expected)
        data = _read_all(descriptor)
        if expected is not None and hashlib.sha256(data).hexdigest() != expected:
            raise ChangedError
        return self.add(data, like=like)

    def settle(self) -> None:
        """Make all of it durable, and give it its names.

        Raises:
            VaultFullError: it would not fit into the budget; nothing was kept.
        """
        self._refuse_over_budget()
        named: list[str] = []
        try:
            # Before anything has its name, whatever is promised: nobody may ever meet a name without the content.
            met = self._met if self._synced else ()
            side_by_side(self._sync, [*(draft.path for draft in self._drafts.values()), *map(self._vault.path_of, met)])
            folders = {os.path.dirname(self._vault.path_of(digest)) for digest in (*self._drafts, *self._met)}
            self._vault.have_folders(folders, synced=self._synced)
            for digest, draft in self._drafts.items():
                os.rename(draft.path, self._vault.path_of(digest))
                named.append(digest)
            side_by_side(sync_path, sorted(folders) if self._synced else [])
        except (OSError, StoreError) as error:
            # A name that may not survive must not be met by somebody who believes in it.
            for digest in named:
                with suppress(OSError):
                    os.unlink(self._vault.path_of(digest))
            raise unavailable(error, self._vault.root, "keep content") if isinstance(error, OSError) else error from error
        if self._synced:
            self._vault.mark((*self._drafts, *self._met))
        self._vault.known.update(self._drafts, self._met)
        self._vault.whole |= self._whole
        self._known.update(self._drafts, self._met)
        self._drafts.clear()
        self._met.clear()
        self._whole.clear()

    def _sync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def discard(self) -> None:
        """Forget what was not settled."""
        for draft in self._drafts.values():
            with suppress(OSError):
                os.unlink(draft.path)
        self._drafts.clear()

    def _base(self, like: str | None, size: int) -> Base | None:
        """The earlier version to which a difference may be stored."""
        if like is None or size > MOST_IN_MEMORY or like in self._drafts:
            return None
        try:
            base = self._vault.base_for_next(like)
            if base is not None:
                self._meet(base.digest.hex())
        except (ContentMissingError, ContentDamagedError):
            return None
        return base

    def _write(self, digest: str, stored: bytes) -> None:
        path = self._vault.draft(f"{self._mark}-{len(self._drafts)}")
        try:
            descriptor = os.open(path, CREATE, 0o600)
            try:
                write_all(descriptor, [stored])
            finally:
                os.close(descriptor)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            raise unavailable(error, self._vault.root, "keep content") from error
        self._drafts[digest] = _Draft(path, len(stored))

    def _stream(self, source: int, expected: str | None) -> str:
        with self.receive(MOST_IN_MEMORY + 1, expected=expected) as receiver:
            try:
                while piece := os.read(source, PIECE):
                    receiver.take(piece)
            except OSError as error:
                raise unavailable(error, self._vault.root, "keep content") from error
            return receiver.done()

    def receive(self, size: int, *, expected: str | None = None, like: str | None = None) -> Receiver:
        """Take content that comes in pieces, about so many bytes of it; see `Receiver`."""
        if size <= MOST_IN_MEMORY:
            return Receiver(self, expected, like, None)
        return Receiver(self, expected, like, self._vault.draft(f"{self._mark}-{len(self._drafts)}"))

    def drafted(self, digest: str, path: str, stored: int) -> None:
        """A file that was written whole takes part in this round."""
        self._drafts[digest] = _Draft(path, stored)

    def _refuse_over_budget(self) -> None:
        limit = self._vault.limit
        added = sum(draft.stored for draft in self._drafts.values())
        if limit is None or not added:
            return
        held = self._vault.held(added)
        if held + added > limit:
            raise VaultFullError(
                f"{self._vault.root}: keeping {added:,} bytes more would take the vault to {held + added:,} of {limit:,} bytes",
                hint="collect() removes what nothing needs any more, prune() lets old checkpoints go; or raise the limit",
                held=held,
                added=added,
                limit=limit,
            )


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return file.readall()
