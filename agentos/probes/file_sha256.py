"""Look at the content of a file: its SHA-256, its size, and when it was last modified.

Only regular files are opened. A file that did not hold still has no digest: see content.py.
"""

from __future__ import annotations

import os
import stat

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.artifact_exists import bare_facts
from agentos.probes.cannot_see import Deadline, looked_at
from agentos.probes.content import answered, modified_at
from agentos.probes.elsewhere import measure_elsewhere
from agentos.probes.hashing import measure
from agentos.probes.paths import place_of


class FileSha256:
    """Facts: `exists`, `type`, and for a regular file `sha256`, `size`, `modified_at`; `near` when nothing is there."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look, again if the file moved, and never past the deadline."""
        return looked_at(lambda deadline: _look(evidence.expected["path"], around, deadline), around.timeout)

    def size(self, evidence: Evidence, around: Surroundings) -> int:
        """How much there is to read: as the claim says, or by a glance."""
        said: int | None = evidence.expected.get("size")
        if said is not None:
            return said
        try:
            status = os.stat(os.path.join(around.base_path, evidence.expected["path"]))
        except (OSError, ValueError):
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _look(path: str, around: Surroundings, deadline: Deadline) -> Observation:
    with place_of(path, around) as place:
        facts = bare_facts(place)
        if facts["type"] != "file":
            return Seen(facts)
        measured = answered(
            place,
            lambda descriptor: measure(descriptor, deadline.at),
            lambda: measure_elsewhere(place, deadline, around.cancel),
        )
    moment = modified_at(measured["mtime_ns"])
    return Seen({**facts, "sha256": measured["sha256"], "size": measured["size"], "modified_at": moment})
