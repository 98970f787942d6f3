"""Digests over what is stored, the same for every backend.

`digest` covers what never changes again, `seal` what may; both are SHA-256 over a JSON array of the fields in a fixed order, so
that any tool can recompute them. They find accidents, not malice: whoever can write the store can also seal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import orjson

Field = str | int | float | bytes | None


def sha256(data: bytes) -> bytes:
    """Of some bytes."""
    return hashlib.sha256(data).digest()


def seal(kind: str, fields: Sequence[Field]) -> bytes:
    """Of a row of fields; `kind` keeps a row of one table from passing as one of another."""
    # Bytes are JSON text or a digest; hexadecimal keeps both exact whatever they hold.
    return hashlib.sha256(orjson.dumps((kind, *fields), default=bytes.hex)).digest()
