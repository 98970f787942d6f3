"""The oracle's own eyes: what is really at a path, and what that says of a claim.

Written against the system, not against agentos: a base that is no readable folder hides everything beneath it, what the system
refuses to show is unseen, and only ENOENT and ENOTDIR below the base say that nothing is there.
"""

from __future__ import annotations

import hashlib
import os
import stat

from tests.torture.worlds.model import Claim, Pack

ABSENT, UNSEEN, FOLDER, FILE, LINK = "absent", "unseen", "folder", "file", "link"


def seen(claim: Claim, base: str) -> str:
    """`absent`, `unseen`, `folder`, `file`, `link`, or for a claim about content the digest of the file."""
    root = "" if claim.path.startswith("/") else base
    if root and not _is_folder(root):
        return UNSEEN
    path = os.path.join(root, claim.path)
    if claim.kind == "absent" and os.path.islink(path):
        # Wherever it leads: something is there.
        return LINK
    found = _kind(path)
    if found != ABSENT and root and not _inside(path, root):
        return UNSEEN
    return _content(path) if (found, claim.kind) == (FILE, "sha256") else found


def outcome(claim: Claim, base: str) -> str:
    """`verified`, `failed` or `error`."""
    found = seen(claim, base)
    if found == UNSEEN:
        return "error"
    holds = {"sha256": found == claim.digest, "exists": found != ABSENT, "absent": found == ABSENT}
    return "verified" if holds[claim.kind] else "failed"


def can_be_removed(claim: Claim, base: str) -> bool:
    """Whether what is at a relative path is a file, a link or an empty folder, in folders that are no links."""
    path = os.path.join(base, claim.path)
    if claim.path.startswith("/") or os.path.realpath(os.path.dirname(path)) != os.path.dirname(
        os.path.join(os.path.realpath(base), claim.path)
    ):
        return False
    return os.path.islink(path) or os.path.isfile(path) or not os.listdir(path)


def verdict(pack: Pack, outcomes: list[str]) -> str:
    """What these outcomes of a pack's claims, or of what is left of them, say of the whole."""
    needed = pack.needed(len(outcomes))
    if outcomes.count("verified") >= needed:
        return "verified"
    return "error" if outcomes.count("verified") + outcomes.count("error") >= needed and outcomes else "failed"


def digest(content: bytes) -> str:
    """As claims carry it."""
    return hashlib.sha256(content).hexdigest()


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return False


def _kind(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError:
        return UNSEEN
    return FOLDER if stat.S_ISDIR(mode) else FILE


def _inside(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(root) + "/")


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return digest(file.read())
    except OSError:
        return UNSEEN
