"""The manifest of a tree, packed to be stored beside its claim, and read back as if an enemy had written it.

The manifest is the very bytes that the tree's digest is the SHA-256 of, so a manifest that is not that of the claim gives
itself away. Refused is also what no folder can hold: absolute paths, `..`, a name that is there twice or out of order,
something beneath what is no folder.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from agentos._compression import zstd
from agentos.core.checkpoints.trees import (
    COUNTS,
    FOLDER,
    HEAD,
    MAGIC,
    RULE,
    WORDS,
    Entry,
    Rules,
    Tree,
    digest_of,
)

# What may lie beside a claim, as text; and what that may become when it is unpacked.
MOST_TEXT = 256 << 10
_MOST_PLAIN = 64 << 20
# The same where contents are kept, and a larger manifest with them: a row takes it better than a file of its own.
_SMALL_TEXT, _SMALL_PLAIN = 1 << 10, 8 << 10
_DIGEST = 32
_UNUSABLE = (b"", b".", b"..")


class UnfitManifestError(ValueError):
    """These bytes are no manifest of any folder, or of another one; says why."""


def packed(data: bytes, *, kept: bool = False) -> str | None:
    """The bytes of a tree as text for a claim's metadata; None if that would be too much.

    Args:
        kept: what is too much for that will be kept.
    """
    if len(data) > (_SMALL_PLAIN if kept else _MOST_PLAIN):
        return None
    text = base64.b64encode(zstd().compress(data)).decode()
    return text if len(text) <= (_SMALL_TEXT if kept else MOST_TEXT) else None


def unpacked(text: str) -> bytes:
    """What `packed` packed.

    Raises:
        UnfitManifestError: it did not pack that.
    """
    module = zstd()
    decompressor = module.ZstdDecompressor()
    try:
        data = bytes(decompressor.decompress(base64.b64decode(text.encode(), validate=True), max_length=_MOST_PLAIN + 1))
    except (binascii.Error, UnicodeEncodeError, module.ZstdError) as error:
        raise UnfitManifestError("it is not packed as manifests are") from error
    if len(data) > _MOST_PLAIN or not decompressor.eof or decompressor.unused_data:
        raise UnfitManifestError("it is cut off, too large, or has something behind it")
    return data


def tree_from(data: bytes, digest: str) -> Tree:
    """The tree whose bytes these are.

    Raises:
        UnfitManifestError: they are not those of the tree with this digest, or of any.
    """
    if digest_of(data) != digest:
        raise UnfitManifestError("it does not have the claimed digest")
    return decoded(data)


def claimed_tree(digest: str, text: str | None, kept: Callable[[str], bytes | None]) -> Tree | None:
    """The tree of this digest: from the text beside its claim, else from what was kept; None if it is in neither.

    Raises:
        UnfitManifestError: what is there is the manifest of something else.
    """
    data = kept(digest) if text is None else unpacked(text)
    return None if data is None else tree_from(data, digest)


def decoded(data: bytes) -> Tree:
    """The tree whose bytes these are, whatever its digest.

    Raises:
        UnfitManifestError: no folder holds that.
    """
    return _Reader(data).tree()


class _Reader:
    """One pass over the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._folders: set[bytes] = set()

    def tree(self) -> Tree:
        if self._take(len(MAGIC)) != MAGIC:
            raise UnfitManifestError("it does not begin as a manifest")
        gitignore, lines, count = COUNTS.unpack(self._take(COUNTS.size))
        if gitignore > 1:
            raise UnfitManifestError("its rules are not known here")
        # What is promised must fit into what is there, before anything is made of it.
        if lines * RULE.size + count * HEAD.size > len(self._data):
            raise UnfitManifestError("it promises more than it holds")
        rules = Rules(tuple(self._line() for _ in range(lines)), bool(gitignore))
        entries: list[Entry] = []
        last = b""
        for _ in range(count):
            entry = self._entry()
            if entry[0] <= last:
                raise UnfitManifestError("its names are not in order, or one is there twice")
            last = entry[0]
            entries.append(entry)
        if self._at != len(self._data):
            raise UnfitManifestError("something lies behind it")
        return Tree(rules, entries)

    def _line(self) -> str:
        (length,) = RULE.unpack(self._take(RULE.size))
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise UnfitManifestError("a rule of it is no text") from None

    def _entry(self) -> Entry:
        kind, length, size = HEAD.unpack(self._take(HEAD.size))
        path = self._take(length)
        if kind not in WORDS:
            raise UnfitManifestError("it holds what is neither file, link nor folder")
        self._check_path(path)
        if kind != FOLDER:
            return path, kind, self._take(_DIGEST), size
        if size:
            raise UnfitManifestError("a folder of it has a size")
        self._folders.add(path)
        return path, kind, b"", 0

    def _check_path(self, path: bytes) -> None:
        folder, slash, name = path.rpartition(b"/")
        if name in _UNUSABLE or b"\0" in name:
            raise UnfitManifestError("it holds a path that no folder can")
        # The folders above were checked when they came, and an absolute path lies beneath none.
        if slash and folder not in self._folders:
            raise UnfitManifestError("something in it lies beneath what is no folder")

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise UnfitManifestError("it is cut off")
        taken, self._at = self._data[self._at : end], end
        return taken
