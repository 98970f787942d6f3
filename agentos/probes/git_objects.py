"""Look whether a commit is in a repository, and whole: a ref survives a power cut that its newest object does not.

A loose object is read and hashed; of a packed one the index of its pack is asked. Where a repository borrows objects from
others nothing is said.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib

from agentos._descriptors import reading
from agentos.probes.cannot_see import unreadable
from agentos.probes.git_repository import Folder

LOOSE, PACKED, MISSING, DAMAGED = "loose", "packed", "missing", "damaged"
_MOST = 16 << 20
_INDEX = b"\377tOc\0\0\0\2"
_FANOUT = len(_INDEX)
_NAMES = _FANOUT + 256 * 4


def object_in(shared: Folder, commit: str) -> str | None:
    """Where the commit is, or what is wrong with it; None if that cannot be told from here."""
    pieces = bytearray()
    if shared.read(f"objects/{commit[:2]}/{commit[2:]}", pieces.extend, _MOST):
        return LOOSE if _is_whole(bytes(pieces), commit) else DAMAGED
    packs = [name for name in shared.names("objects/pack") if name.endswith(".idx")]
    if any(_holds(shared, f"objects/pack/{name}", bytes.fromhex(commit)) for name in packs):
        return PACKED
    borrows = shared.text("objects/info/alternates", _MOST) or any(not _known(shared, name) for name in packs)
    return None if borrows else MISSING


def _is_whole(data: bytes, commit: str) -> bool:
    opened = zlib.decompressobj()
    try:
        content = opened.decompress(data, _MOST)
    except zlib.error:
        return False
    digest = hashlib.new("sha1" if len(commit) == 40 else "sha256", content, usedforsecurity=False)  # noqa: PLR2004
    return opened.eof and content.startswith(b"commit ") and digest.hexdigest() == commit


def _known(shared: Folder, name: str) -> bool:
    return _holds(shared, f"objects/pack/{name}", b"") is not None


def _holds(shared: Folder, name: str, wanted: bytes) -> bool | None:
    """Whether this index of a pack lists the object; None if it is none that can be read here."""
    with shared.at(name) as place:
        if place.status is None or not stat.S_ISREG(place.status.st_mode):
            return None
        try:
            with reading(place.open) as descriptor:
                if os.pread(descriptor, len(_INDEX), 0) != _INDEX:
                    return None
                fanout = os.pread(descriptor, _NAMES - _FANOUT, _FANOUT)
                if len(fanout) < _NAMES - _FANOUT:
                    return None
                return bool(wanted) and _listed(descriptor, fanout, wanted)
        except OSError as error:
            raise unreadable(place.path, error) from error


def _listed(descriptor: int, fanout: bytes, wanted: bytes) -> bool:
    counts = [int.from_bytes(fanout[at : at + 4], "big") for at in range(0, len(fanout), 4)]
    low, high = (counts[wanted[0] - 1] if wanted[0] else 0), counts[wanted[0]]
    while low < high:
        middle = (low + high) // 2
        found = os.pread(descriptor, len(wanted), _NAMES + middle * len(wanted))
        if found == wanted:
            return True
        low, high = (middle + 1, high) if found < wanted else (low, middle)
    return False
