"""The file of one node: a seal, a line that says what the file is, and the bytes.

    agentos-node/1 sha256 <64 hexadecimal digits>
    {"run_id": …, "node_id": …, "sequence": …, "saved_at": …, "size": …, "sha256": …}
    <the bytes>

The seal is over the second line, which holds the digest of the bytes: it covers run, node, sequence and data, and a list can
check it without reading them. With a key the seal is an HMAC, so that nobody without the key can make one. A file whose name
is not that of its run and node is as good as a changed one. Where files stand and who may write them is not known here.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, NamedTuple

import orjson

from agentos._text import shown
from agentos.errors import StoreCorruptError

MAGIC = "agentos-node/1"
SUFFIX = ".node"
# What a list reads of a file at first, and what the longest header there can be takes.
USUAL_HEADER, LONGEST_HEADER = 512, 8192

_KINDS = {True: "hmac-sha256", False: "sha256"}
_FIELDS = {"run_id": str, "node_id": str, "sequence": int, "saved_at": int, "size": int, "sha256": str}


class Header(NamedTuple):
    """What the second line of a file says."""

    run_id: str
    node_id: str
    sequence: int
    saved_at: int
    size: int
    sha256: str


def folder_name(run_id: str) -> str:
    """The name of a run's folder: safe on every file system, whatever the id holds and however it treats case."""
    return hashlib.sha256(run_id.encode()).hexdigest()


def file_name(node_id: str) -> str:
    """The name of a node's file, likewise."""
    return hashlib.sha256(node_id.encode()).hexdigest() + SUFFIX


class Sealer:
    """Makes and checks seals, with a key or without."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    @property
    def kind(self) -> str:
        """How the seals are called in the files."""
        return _KINDS[self._key is not None]

    def seal(self, content: bytes) -> str:
        """The seal over some bytes."""
        if self._key is None:
            return hashlib.sha256(content).hexdigest()
        return hmac.new(self._key, content, "sha256").hexdigest()

    def packed(self, header: Header) -> bytes:
        """The first two lines of a file."""
        line = orjson.dumps(header._asdict())
        return f"{MAGIC} {self.kind} {self.seal(line)}\n".encode() + line + b"\n"

    def unpacked(self, content: bytes, where: str) -> tuple[Header, int]:
        """The header of a file and where its bytes begin.

        Raises:
            StoreCorruptError: not what was written; names the file.
        """
        first, _, rest = content.partition(b"\n")
        line, end, _ = rest.partition(b"\n")
        words = first.decode("ascii", "replace").split(" ")
        if len(words) != 3 or words[0] != MAGIC or not end:  # noqa: PLR2004 - magic, kind, seal
            raise damaged(where)
        if words[1] != self.kind and words[1] in _KINDS.values():
            raise damaged(where, f"expected a seal by {self.kind}, found {words[1]}: another key, or none, was used")
        if words[1] != self.kind or not hmac.compare_digest(words[2].encode(), self.seal(line).encode()):
            raise damaged(where)
        return _parsed(line, where), len(first) + len(line) + 2


def _parsed(line: bytes, where: str) -> Header:
    try:
        found: Any = orjson.loads(line)
    except ValueError:
        raise damaged(where) from None
    if type(found) is not dict or {name: type(value) for name, value in found.items()} != _FIELDS:
        raise damaged(where)
    return Header(**found)


def digest_of(data: bytes) -> str:
    """What stands under `sha256` in a header."""
    return hashlib.sha256(data).hexdigest()


def damaged(where: str, how: str = "what is stored is not what was saved") -> StoreCorruptError:
    """The error for a file that is not as it was written."""
    return StoreCorruptError(
        f"{shown(where)}: {how}",
        hint="nothing was served from it; restore this file from a backup, or delete() the node and save it again",
        file=where,
    )
