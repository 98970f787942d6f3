"""Look whether something is at a path, and what it is.

Only its status is asked for: nothing is opened, so neither a FIFO nor a device can hold the look up.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.cannot_see import Deadline, looked_at
from agentos.probes.neighbours import near
from agentos.probes.paths import Place, place_of

_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFLNK: "link",
}


class ArtifactExists:
    """Facts: `exists`, `type`, and `near` when nothing is there."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        status = _entry_of_base(evidence.expected["path"], around)
        if status is not None:
            return Seen({"exists": True, "type": type_of(status)})

        def look(_: Deadline) -> Observation:
            with place_of(evidence.expected["path"], around) as place:
                return Seen(bare_facts(place))

        return looked_at(look, around.timeout)


def bare_facts(place: Place) -> dict[str, Any]:
    """What is known without opening anything."""
    if place.status is None:
        return {"exists": False, "type": None, "near": near(place)}
    return {"exists": True, "type": type_of(place.status)}


def type_of(status: os.stat_result) -> str:
    """What it is, in a word."""
    return _TYPES.get(stat.S_IFMT(status.st_mode), "special file")


def _entry_of_base(path: str, around: Surroundings) -> os.stat_result | None:
    """What stands under a plain name right in the base: one lookup, which nothing can lead out of it.

    None says nothing: a link, a longer path or a problem is for the walk.
    """
    if "/" in path or path in ("", ".", ".."):
        return None
    try:
        status = os.lstat(f"{around.base_path}/{path}")
    except (OSError, ValueError):
        return None
    return None if stat.S_ISLNK(status.st_mode) else status
