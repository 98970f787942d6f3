"""Look at the beginning of a file: the SHA-256 of its first bytes.

It may grow while it is looked at, and what is behind those bytes is not read. One whose first bytes did not hold still has no
digest: see hashing.py.
"""

from __future__ import annotations

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.artifact_exists import bare_facts
from agentos.probes.cannot_see import Deadline, looked_at
from agentos.probes.content import answered, modified_at
from agentos.probes.elsewhere import measure_prefix_elsewhere
from agentos.probes.hashing import measure_prefix
from agentos.probes.paths import place_of


class FilePrefixSha256:
    """Facts: `exists`, `type`, and for a regular file `bytes`, `sha256`, `modified_at`; `near` when nothing is there.

    `bytes` is how many of the bytes asked for there are; where none are asked for, how many there are by now.
    """

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look, and never past the deadline."""
        return looked_at(lambda deadline: _look(evidence, around, deadline), around.timeout)


def _look(evidence: Evidence, around: Surroundings, deadline: Deadline) -> Observation:
    most = evidence.expected.get("bytes")
    with place_of(evidence.expected["path"], around) as place:
        facts = bare_facts(place)
        if facts["type"] != "file":
            return Seen(facts)
        measured = answered(
            place,
            lambda descriptor: measure_prefix(descriptor, deadline.at, most),
            lambda: measure_prefix_elsewhere(place, deadline, around.cancel, most),
            growing=True,
        )
    moment = modified_at(measured["mtime_ns"])
    return Seen({**facts, "bytes": measured["bytes"], "sha256": measured["sha256"], "modified_at": moment})
