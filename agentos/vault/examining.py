"""Look at everything in the vault: is what is needed there, and is all of it what was kept? Nothing is written or moved.

Quickly: each is there, begins as it must, is as large as it says and as who needs it says, and what it is a difference to is
there. In depth each is read, unpacked and hashed, as whoever restores it would.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentos.core.checkpoints.checkup import UNREADABLE, Content, Findings, Progress
from agentos.errors import ContentDamagedError, ContentMissingError, StoreUnavailableError
from agentos.vault.objects import DELTA, RAW
from agentos.vault.vault import Vault

_EVERY = 64
_MISSING, _DAMAGED = "content missing", "content damaged"


def examine(
    vault: Vault, needed: Mapping[str, Content], findings: Findings, *, deep: bool, progress: Progress
) -> tuple[int, int]:
    """How many contents were looked at, and the bytes that they take."""
    there = set(vault.digests())
    total = 0
    for number, digest in enumerate(sorted(there)):
        if number % _EVERY == 0:
            progress("vault", number, len(there))
        wanted = needed.get(digest)
        try:
            what = _unfit(vault, digest, wanted) or (deep and _unreadable(vault, digest))
            total += vault.size(digest)
        except ContentMissingError:
            # Collected while this looked; what is needed of it is told below.
            there.discard(digest)
            continue
        except ContentDamagedError:
            what = "it is no kept content, or its beginning is damaged"
        except StoreUnavailableError as error:
            findings.add(UNREADABLE, digest, error.message)
            continue
        if what:
            findings.add(_DAMAGED, digest, f"{what}; {_needed_by(wanted)}")
    progress("vault", len(there), len(there))
    for digest, wanted in needed.items():
        if digest not in there:
            findings.add(_MISSING, digest, _needed_by(wanted))
    return len(there), total


def _unfit(vault: Vault, digest: str, wanted: Content | None) -> str:
    header = vault.header(digest)
    if wanted is not None and wanted.size not in (None, header.size):
        return f"it says that it has {header.size:,} bytes, and was {wanted.size:,}"
    if header.kind == RAW and vault.size(digest) != header.length + header.size:
        return "it is not as large as it says"
    if header.kind == DELTA and not os.path.exists(vault.path_of(header.base.hex())):
        return f"what it is a difference to, {header.base.hex()}, is not there"
    return ""


def _unreadable(vault: Vault, digest: str) -> str:
    try:
        vault.check(digest)
    except ContentMissingError as error:
        if error.diagnostics().get("digest") == digest:
            raise
        return "what it is a difference to is not there"
    except ContentDamagedError:
        return "what can be read of it is not what was kept"
    return ""


def _needed_by(wanted: Content | None) -> str:
    return "nothing needs it: `agentos vault --collect` removes it" if wanted is None else f"needed by {wanted.whose}"
