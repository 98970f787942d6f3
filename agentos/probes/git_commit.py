"""Look which commit a repository stands at, on which branch, and whether that commit is there.

No git is run: nothing in a repository can make this look do more than read.
"""

from __future__ import annotations

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.cannot_see import Deadline, looked_at
from agentos.probes.git_objects import object_in
from agentos.probes.git_refs import head_of
from agentos.probes.git_repository import repository_at


class GitCommit:
    """Facts: `exists`; of a repository `commit` (None before the first), `branch` (None if on none) and `object`."""

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        return looked_at(lambda deadline: _look(evidence.expected["repo"], around, deadline), around.timeout)


def _look(path: str, around: Surroundings, deadline: Deadline) -> Observation:
    repository = repository_at(path, around, deadline)
    if repository is None:
        return Seen({"exists": False})
    head = head_of(repository)
    where = None if head.commit is None else object_in(repository.shared, head.commit)
    return Seen({"exists": True, "commit": head.commit, "branch": head.branch, "object": where})
