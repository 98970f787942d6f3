"""The vault: content under its SHA-256, one copy of what is equal, checked whenever it is read.

    vault/objects/ab/cdef…   one content each, private to this user (see objects.py for the bytes); of 1970 once it is durable
    vault/drafts/…           being written; garbage once nobody holds the vault's lock
    vault/collections        changes whenever something was removed

Whoever keeps content holds the vault's lock, shared, until what names it is committed (keeping.py); whoever removes content
holds it alone (collecting.py). Reading needs no lock. Which content is needed is not known here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from agentos._disk import unavailable
from agentos._folders import locked_folder, make_folder, sync_path
from agentos._text import shown
from agentos.errors import ContentDamagedError, ContentMissingError
from agentos.vault.keeping import Keeping
from agentos.vault.objects import (
    DELTA,
    LONGEST_HEADER,
    MOST_IN_MEMORY,
    RUN,
    Base,
    Header,
    MalformedError,
    decoded,
    header_of,
    stands_on,
)
from agentos.vault.streams import unpacked

OBJECTS, DRAFTS, COLLECTIONS = "objects", "drafts", "collections"
_HEX = frozenset("0123456789abcdef")
_DIGEST = 64
# Other processes keep things too: after so many rounds it is counted again.
_ROUNDS = 64
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The time of modification of what is known to be durable: no clock that writes says this.
_DURABLE = 0


class Vault:
    """The vault in one folder, which is made when something is first kept.

    Args:
        limit: bytes that everything in it may take; None for no limit.
        synced: what is kept survives a power cut; if not, what is left of it then is whole all the same.
        lock_timeout: seconds to wait for whoever removes content.
    """

    def __init__(self, root: str, *, limit: int | None = None, synced: bool = True, lock_timeout: float = 30.0) -> None:
        self.root = root
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

    def has(self, digest: str) -> bool:
        """Whether something is kept under this digest; whether it is whole shows when it is read."""
        return os.path.exists(self.path_of(digest))

    def read(self, digest: str, most: int | None = None) -> bytes:
        """The content, checked.

        Raises:
            ContentMissingError, ContentDamagedError: it is not there, or is not what was kept.
        """
        data = self._content(bytes.fromhex(_checked(digest)))
        return data if most is None else data[:most]

    def copy(self, digest: str, descriptor: int) -> int:
        """Write the content to an open file, checked as it goes; how many bytes that were. Of any size, in little memory.

        Raises:
            ContentMissingError, ContentDamagedError: nothing that was written may be used.
            OSError: the open file does not take it.
        """
        try:
            return self._copied(digest, descriptor)
        except _UnwrittenError as error:
            # Not a word about the vault: it was the other file.
            raise error.reason from None

    def _copied(self, digest: str, descriptor: int) -> int:
        with self._opened(digest) as (source, header):
            if header.kind == DELTA or header.size <= MOST_IN_MEMORY:
                data = self.read(digest)
                _write(descriptor, data)
                return len(data)
            sha256, count = hashlib.sha256(), 0
            try:
                for piece in unpacked(source, header):
                    sha256.update(piece)
                    count += len(piece)
                    _write(descriptor, piece)
            except MalformedError:
                raise _damaged(digest) from None
        if sha256.hexdigest() != digest or count != header.size:
            raise _damaged(digest)
        return count

    def check(self, digest: str) -> int:
        """Read the content only to see that it is whole; how large it is.

        Raises:
            ContentMissingError, ContentDamagedError: it is not there, or is not what was kept.
        """
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            return self.copy(digest, nowhere)
        finally:
            os.close(nowhere)

    def header(self, digest: str) -> Header:
        """What is said of the content before it is read: how large it is, and what it is a difference to."""
        with self._opened(digest) as (_, header):
            return header

    def base_for_next(self, digest: str) -> Base | None:
        """What the next version of this content can be a difference to; None if it had better be whole.

        Raises:
            ContentMissingError, ContentDamagedError: what it would stand on is not there, or is not what was kept.
        """
        header = self.header(digest)
        place = header.place + 1
        if place >= RUN or header.size > MOST_IN_MEMORY:
            return None
        while header.place > stands_on(place):
            digest, expected = header.base.hex(), stands_on(header.place)
            header = self.header(digest)
            if header.place != expected:
                raise _damaged(digest)
        return Base(bytes.fromhex(digest), self.read(digest), place)

    def is_marked(self, digest: str) -> bool:
        """Whether whoever kept it saw it durable. Asking each disk block again costs more than looking at all of a workspace.

        Raises:
            ContentMissingError: it is not there.
        """
        try:
            return os.stat(self.path_of(digest)).st_mtime_ns == _DURABLE
        except FileNotFoundError:
            raise _missing(digest) from None

    def mark(self, digests: Iterable[str]) -> None:
        """Say of content that is durable that it is: by its time, which goes as soon as anybody writes to it."""
        for digest in digests:
            # Without its mark it is made durable once more by whoever meets it.
            with suppress(OSError):
                os.utime(self.path_of(digest), ns=(_DURABLE, _DURABLE))

    def chain(self, digest: str) -> list[str]:
        """This content, and everything that reading it needs beneath it.

        Raises:
            ContentMissingError, ContentDamagedError: something of that is not there, or says what cannot be.
        """
        chain, header = [digest], self.header(digest)
        while header.kind == DELTA:
            digest, expected = header.base.hex(), stands_on(header.place)
            chain.append(digest)
            header = self.header(digest)
            if header.place != expected:
                raise _damaged(digest)
        return chain

    def size(self, digest: str) -> int:
        """Bytes that it takes on the disk."""
        try:
            return os.stat(self.path_of(digest)).st_size
        except OSError:
            raise _missing(digest) from None

    def digests(self) -> Iterator[str]:
        """Everything that is kept, in no order."""
        folder = os.path.join(self.root, OBJECTS)
        for first in _names(folder):
            for rest in _names(os.path.join(folder, first)):
                if len(first) + len(rest) == _DIGEST and _HEX.issuperset(first + rest):
                    yield first + rest

    def held(self, added: int) -> int:
        """Bytes that everything takes, before and without what is about to be added. Counted anew where it matters."""
        if self._believed <= 0 or self.limit is None or self._held + added > self.limit:
            self._held, self._believed = sum(map(self.size, self.digests())), _ROUNDS
        self._believed -= 1
        held = self._held
        self._held += added
        return held

    def path_of(self, digest: str) -> str:
        """The file that holds it."""
        return os.path.join(self.root, OBJECTS, digest[:2], digest[2:])

    def draft(self, name: str = "") -> str:
        """A file that is being written."""
        return os.path.join(self.root, DRAFTS, name)

    def _content(self, digest: bytes, place: int | None = None) -> bytes:
        name = digest.hex()
        with self._opened(name) as (source, header):
            # Places only fall on the way down, so no circle is followed.
            if place is not None and header.place != place:
                raise _damaged(name)
            stored = header.packed() + _rest(source)
        try:
            data = decoded(stored, lambda base: self._content(base, stands_on(header.place)))
        except MalformedError:
            raise _damaged(name) from None
        if hashlib.sha256(data).digest() != digest:
            raise _damaged(name)
        return data

    @contextmanager
    def _opened(self, digest: str) -> Iterator[tuple[int, Header]]:
        try:
            source = os.open(self.path_of(_checked(digest)), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _missing(digest) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise _damaged(digest) from None
            raise unavailable(error, self.path_of(digest), "be read") from error
        try:
            _refuse_other(source)
            header = header_of(os.pread(source, LONGEST_HEADER, 0))
            os.lseek(source, header.length, os.SEEK_SET)
            yield source, header
        except MalformedError:
            raise _damaged(digest) from None
        except OSError as error:
            raise unavailable(error, self.path_of(digest), "be read") from error
        finally:
            os.close(source)

    def _notice_collections(self) -> None:
        """Believe nothing that was known before something was removed, or before the whole vault was another one."""
        status = os.stat(os.path.join(self.root, COLLECTIONS))
        found = (status.st_dev, status.st_ino, status.st_mtime_ns)
        if found != self._collections:
            self.known.clear()
            self.whole.clear()
            self._collections = found


class _UnwrittenError(Exception):
    """What content is copied to could not be written."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _refuse_other(source: int) -> None:
    if not stat.S_ISREG(os.fstat(source).st_mode):
        raise MalformedError


def _checked(digest: str) -> str:
    if len(digest) != _DIGEST or not _HEX.issuperset(digest):
        raise ContentMissingError(f"{shown(digest, 80)}: no digest, so nothing is kept under it")
    return digest


def _rest(source: int) -> bytes:
    # As much as there is: what the header says of it may be damaged.
    with open(source, "rb", buffering=0, closefd=False) as file:
        return file.readall()


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        raise _UnwrittenError(error) from error


def _missing(digest: str) -> ContentMissingError:
    return ContentMissingError(
        f"content {shown(digest, 80)}: it is not in the vault",
        hint="it was never kept, or was removed from the disk; what it is needed for cannot be put back",
        digest=digest,
    )


def _damaged(digest: str) -> ContentDamagedError:
    return ContentDamagedError(
        f"content {shown(digest, 80)}: what the vault holds is not what was kept; it is not served",
        hint="the disk is failing, or somebody changed it; restore a backup of the vault",
        digest=digest,
    )
