"""What a step is about to change, measured and kept before it begins: after a crash it finds these as they were.

A path may lead through links. What is written through one lies elsewhere, and there it is put back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentos._text import shown
from agentos.core.checkpoints import wanted
from agentos.core.checkpoints.hands import Hands, Kept
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.places import from_base
from agentos.core.checkpoints.observing import Seen, Surroundings
from agentos.core.checkpoints.repairing import touched_bytes
from agentos.core.checkpoints.restores import NOTHING, Kind, Thing
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceUnavailableError, InvalidInputError

_ANY = "0" * 64


@contextmanager
def kept_before(paths: object, around: Surroundings, verifier: EvidenceVerifier, hands: Hands) -> Iterator[bytes]:
    """While this lasts, what is at these paths is in the vault; what that is, for the registry.

    Raises:
        InvalidInputError: these are no paths of files.
        EvidenceUnavailableError: something could not be looked at, or changed while it was kept.
    """
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)):
        raise InvalidInputError(f"touches must be a list of paths, found {shown(paths, 80)}")
    things = []
    with hands.keeping() as kept:
        for path in paths:
            name = from_base(wanted.path_text(path), around.base_path)
            thing = _seen(name, around, verifier)
            places = _places(name, around.base_path, hands)
            if thing.kind is Kind.FILE and kept.file(name, around, thing.sha256, None) is not Kept.KEPT:
                raise EvidenceUnavailableError(
                    f"touches: {shown(name)}: changed while it was kept; nothing was begun",
                    hint="wait until whoever writes it is done",
                )
            things += [(place, thing if target is None else Thing(Kind.LINK, target=target)) for place, target in places]
        kept.settle()
        yield touched_bytes(things)


def _places(name: str, base: str, hands: Hands) -> Iterator[tuple[str, str | None]]:
    """Where the thing lies; of a link to it also where that lies, and its text. A restore goes through no link."""
    root, path = hands.real(base), os.path.join(base, name)
    folder, last = os.path.split(path)
    target = hands.link(path)
    places = {os.path.join(hands.real(folder), last): target} if last else {}
    for place, text in {hands.real(path): None, **places}.items():
        yield from_base(place, root), text


def _seen(name: str, around: Surroundings, verifier: EvidenceVerifier) -> Thing:
    asked = wanted.file_content(name).evidence
    asked.expected["sha256"] = _ANY
    kind_of(asked).refuse_malformed(asked)
    seen = verifier.observe(asked, around)
    if not isinstance(seen, Seen):
        raise EvidenceUnavailableError(f"touches: {seen.message}; nothing was begun", hint=seen.hint)
    facts = seen.facts
    if not facts["exists"]:
        return NOTHING
    if "sha256" in facts:
        return Thing(Kind.FILE, facts["sha256"], facts["size"])
    if facts["type"] == "directory":
        return Thing(Kind.DIRECTORY)
    raise InvalidInputError(f"touches: {shown(name)}: expected a file, found a {facts['type']}")
