"""Look at everything beneath a folder: names, what they are, executable bits and contents.

Links in it are read and never followed. What was seen is handed on as the bytes of the tree (see `trees.py`), so that one look
can be judged against many claims.
"""

from __future__ import annotations

import os

from agentos.core.checkpoints.ignoring import bytes_of
from agentos.core.checkpoints.kinds.trees import LIMITS, limit_of, rules_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.core.checkpoints.trees import WORDS, Entry, digest_of, serialised
from agentos.probes.artifact_exists import bare_facts
from agentos.probes.cannot_see import Deadline, Moved, looked_at, unreadable
from agentos.probes.paths import Place, place_of
from agentos.probes.tree_walk import TreeWalk

# Trees whose size nobody said are taken for large.
_UNKNOWN = 1 << 40


class DirectoryTree:
    """Facts: `exists`, `type`; of a folder also `digest`, `bytes`, how many of what, `aside`, `manifest`, `hiding`, `kept`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look, and never past the deadline."""
        return looked_at(lambda deadline: _look(evidence, around, deadline), around.timeout)

    def size(self, evidence: Evidence, around: Surroundings) -> int:  # noqa: ARG002 - the claim says it
        """How much there is to read, by what the claim says."""
        found: int = evidence.expected.get("bytes", _UNKNOWN)
        return found


def _look(evidence: Evidence, around: Surroundings, deadline: Deadline) -> Observation:
    with place_of(evidence.expected["path"], around) as place:
        facts = bare_facts(place)
        if facts["type"] != "directory":
            return Seen(facts)
        walk = TreeWalk(
            place.path,
            rules_of(evidence),
            frozenset(map(bytes_of, around.aside)),
            {name: limit_of(evidence, name) for name in LIMITS},
            deadline,
            around.cancel,
        )
        entries = _entries(place, walk)
    manifest = serialised(rules_of(evidence), entries)
    kinds = [kind for _, kind, *_ in entries]
    counts = {f"{word.replace('executable file', 'executable')}s": kinds.count(kind) for kind, word in WORDS.items()}
    counts["files"] += counts["executables"]
    seen = {**facts, "digest": digest_of(manifest), "bytes": walk.size, **counts, "aside": sorted(around.aside)}
    return Seen({**seen, "manifest": manifest, "hiding": walk.hiding, "kept": around.kept})


def _entries(place: Place, walk: TreeWalk) -> list[Entry]:
    try:
        descriptor = place.open(os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise unreadable(place.path, error) from error
    try:
        _refuse_replaced(place, os.fstat(descriptor))
        entries = walk.entries(descriptor)
        _refuse_replaced(place, place.status_by_name())
    except OSError as error:
        raise unreadable(place.path, error) from error
    finally:
        os.close(descriptor)
    return entries


def _refuse_replaced(place: Place, status: os.stat_result) -> None:
    assert place.status is not None
    if (status.st_dev, status.st_ino) != (place.status.st_dev, place.status.st_ino):
        raise Moved(place.path, "was replaced")
