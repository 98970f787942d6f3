"""Look whether nothing is at a path.

Only the name is asked for: a link that leads nowhere is something. The way to it is walked as for everything else, so a base
that is not there says nothing; a folder on the way that is not there says that nothing is in it.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.artifact_exists import type_of
from agentos.probes.cannot_see import Deadline, looked_at
from agentos.probes.paths import place_of
from agentos.probes.walk import beneath


class ArtifactAbsent:
    """Facts: `exists`, `type`, and `size` of a regular file."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        path = evidence.expected["path"]

        def look(_: Deadline) -> Observation:
            with place_of(bare(path), around, follow=False) as place:
                status = place.status
            if status is None and path.startswith("/") and beneath(around.base_path, path) is not None:
                # The system followed this path by itself. With its base gone everything in it would look deleted.
                with place_of(".", around):
                    pass
            return Seen(_facts(status))

        return looked_at(look, around.timeout)


def bare(path: str) -> str:
    """The path without a slash or dot at its end: both would follow a link, and `x/` is not there where a file `x` is."""
    names = path.split("/")
    while len(names) > 1 and names[-1] in ("", "."):
        names.pop()
    return "/".join(names) or path


def _facts(status: os.stat_result | None) -> dict[str, Any]:
    if status is None:
        return {"exists": False, "type": None}
    facts = {"exists": True, "type": type_of(status)}
    return {**facts, "size": status.st_size} if stat.S_ISREG(status.st_mode) else facts
