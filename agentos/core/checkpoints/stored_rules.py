"""What a tree left out when it was claimed, by the lines of the claim and the `.gitignore` files that it held.

The files that are there now may say something else: whoever was killed in the middle of writing one must not have everything
taken away that it named. Pure: what the files held is asked of what was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentos._text import shown
from agentos.core.checkpoints.ignoring import Chain, excluded, gitignore_lines, is_left_out, text_of
from agentos.core.checkpoints.trees import EXECUTABLE, FILE, Entry, Rules

_NAME = b".gitignore"


class UnknownRulesError(ValueError):
    """What was left out is not known; says why."""


class StoredRules:
    """The rules of one tree, as they were."""

    def __init__(self, rules: Rules, entries: Iterable[Entry], kept: Callable[[str], bytes | None]) -> None:
        self._files = rules_in(entries)
        self._kept = kept
        self._claimed: Chain = ((0, excluded(rules.exclude)),) if rules.exclude else ()
        # Of each folder that was asked about: the lines that speak of what lies in it; None if it is left out itself.
        self._chains: dict[bytes, Chain | None] = {}

    def leave_out(self, path: bytes, *, folder: bool) -> bool:
        """Whether this path was left out, itself or by a folder above it.

        Raises:
            UnknownRulesError: what one of the files held was not kept.
        """
        names = path.split(b"/")
        chain = self._chain(b"", self._claimed)
        for end in range(1, len(names)):
            if chain is None:
                return True
            chain = self._chain(b"/".join(names[:end]), chain)
        return chain is None or is_left_out(text_of(path), chain, folder=folder)

    def _chain(self, folder: bytes, above: Chain) -> Chain | None:
        if folder not in self._chains:
            gone = bool(folder) and is_left_out(text_of(folder), above, folder=True)
            self._chains[folder] = None if gone else self._with_own(folder, above)
        return self._chains[folder]

    def _with_own(self, folder: bytes, above: Chain) -> Chain:
        beneath = folder + b"/" if folder else b""
        digest = self._files.get(beneath + _NAME)
        if digest is None:
            return above
        data = self._kept(digest.hex())
        if data is None:
            raise UnknownRulesError(
                f"what {shown(text_of(beneath + _NAME))} left out is not known: it was not kept, or is damaged"
            )
        # The lines of the claim come first, then those of the nearest folder.
        claimed = len(self._claimed)
        return (*above[:claimed], (len(text_of(beneath)), gitignore_lines(data)), *above[claimed:])


def rules_in(entries: Iterable[Entry]) -> dict[bytes, bytes]:
    """The digest of each `.gitignore` file among these."""
    files = ((path, digest) for path, kind, digest, _ in entries if kind in (FILE, EXECUTABLE))
    return {path: digest for path, digest in files if path == _NAME or path.endswith(b"/" + _NAME)}
