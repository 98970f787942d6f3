"""The vault: content under its SHA-256, one copy of what is equal, checked whenever it is read.

    vault/objects/ab/cdef…   one content each, private to this user (see objects.py for the bytes); of 1970 once it is durable
    vault/drafts/…           being written; garbage once nobody holds the vault's lock
    vault/collections        changes whenever something was removed

Whoever keeps content holds the vault's lock, shared, until what names it is committed (keeping.py); whoever removes content
holds it alone (collecting.py). Reading (contents.py) needs no lock. Which content is needed is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from agentos._disk import unavailable
from agentos._folders import locked_folder, make_folder, sync_path
from agentos.vault.contents import OBJECTS, Contents, missing
from agentos.vault.keeping import Keeping

DRAFTS, COLLECTIONS = "drafts", "collections"
# Other processes keep things too: after so many rounds it is counted again.
_ROUNDS = 64
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The time of modification of what is known to be durable: no clock that writes says this.
_DURABLE = 0


class Vault(Contents):
    """The vault in one folder, which is made when something is first kept.

    Args:
        limit: bytes that everything in it may take; None for no limit.
        synced: what is kept survives a power cut; if not, what is left of it then is whole all the same.
        lock_timeout: seconds to wait for whoever removes content.
    """

    def __init__(self, root: str, *, limit: int | None = None, synced: bool = True, lock_timeout: float = 30.0) -> None:
        super().__init__(root)
        self.limit = limit
        self.synced = synced
        self.lock_timeout = lock_timeout
        # Digests that this process knows to be there, as long as nothing was removed.
        self.known: set[str] = set()
        # And trees of which everything is there, by the digests of those.
        self.whole: set[str] = set()
        # Folders that this process knows to be durable: whoever made one may have died before it was.
        self._durable: set[str] = set()
        self._collections: tuple[int, ...] | None = None
        # What everything takes, as far as this process knows, and for how many rounds that may be believed.
        self._held, self._believed = 0, 0

    @contextmanager
    def keeping(self, *, synced: bool | None = None) -> Iterator[Keeping]:
        """Keep content in this block: `settle` it, commit what names it, and only then leave.

        Args:
            synced: what is kept survives a power cut, whatever is promised otherwise.

        Raises:
            StoreBusyError: content was being removed all the time.
            StoreUnavailableError: the vault cannot be written.
        """
        try:
            for folder in (self.root, os.path.join(self.root, OBJECTS), self.draft().rstrip("/")):
                if not os.path.isdir(folder):
                    self._durable.clear()
                if folder not in self._durable:
                    make_folder(folder)
                    self._durable.add(folder)
            with suppress(FileExistsError):
                # Tells this vault from one that was here before.
                os.close(os.open(os.path.join(self.root, COLLECTIONS), _CREATE, 0o600))
        except OSError as error:
            raise unavailable(error, self.root, "keep content") from error
        with ExitStack() as stack:
            try:
                stack.enter_context(locked_folder(self.root, self.lock_timeout, create=True, shared=True))
                self._notice_collections()
            except OSError as error:
                raise unavailable(error, self.root, "keep content") from error
            session = Keeping(self, synced=self.synced if synced is None else synced)
            try:
                yield session
            finally:
                session.discard()

    def have_folders(self, folders: Iterable[str], *, synced: bool) -> None:
        """Have these folders for objects, as durable as what is in them."""
        known = self._durable if synced == self.synced else ()
        news = {folder for folder in folders if folder not in known or not os.path.isdir(folder)}
        for folder in news:
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        if news and synced:
            sync_path(os.path.join(self.root, OBJECTS))
        self._durable |= news

    def is_marked(self, digest: str) -> bool:
        """Whether whoever kept it saw it durable. Asking each disk block again costs more than looking at all of a workspace.

        Raises:
            ContentMissingError: it is not there.
        """
        try:
            return os.stat(self.path_of(digest)).st_mtime_ns == _DURABLE
        except FileNotFoundError:
            raise missing(digest) from None

    def mark(self, digests: Iterable[str]) -> None:
        """Say of content that is durable that it is: by its time, which goes as soon as anybody writes to it."""
        for digest in digests:
            # Without its mark it is made durable once more by whoever meets it.
            with suppress(OSError):
                os.utime(self.path_of(digest), ns=(_DURABLE, _DURABLE))

    def held(self, added: int) -> int:
        """Bytes that everything takes, before and without what is about to be added. Counted anew where it matters."""
        if self._believed <= 0 or self.limit is None or self._held + added > self.limit:
            self._held, self._believed = sum(map(self.size, self.digests())), _ROUNDS
        self._believed -= 1
        held = self._held
        self._held += added
        return held

    def draft(self, name: str = "") -> str:
        """A file that is being written."""
        return os.path.join(self.root, DRAFTS, name)

    def _notice_collections(self) -> None:
        """Believe nothing that was known before something was removed, or before the whole vault was another one."""
        status = os.stat(os.path.join(self.root, COLLECTIONS))
        found = (status.st_dev, status.st_ino, status.st_mtime_ns)
        if found != self._collections:
            self.known.clear()
            self.whole.clear()
            self._collections = found
