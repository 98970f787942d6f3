"""The folder that a task works in: each of its checkpoints proves and keeps all of it, whatever changed it.

Left out are the registry, the vault, what restores are in the middle of, repositories' own folders, what `.gitignore` files in
the folder name, and what the caller excludes. Those rules are part of each claim.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentos._text import shown
from agentos.core.checkpoints.kinds.places import from_base
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.stored import StoredWorkspace
from agentos.core.checkpoints.wanted import Wanted, directory_tree
from agentos.errors import EvidenceDefinitionError, InvalidInputError

# Nobody's work: what git keeps for itself, and what a restore has under way.
_NEVER = (".git", ".agentos-restore-*/")
_ALL = "the whole workspace"
_SPECIAL = re.compile(r"([\\*?\[\]! #])")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder, what is left out of it, and whether other tasks may work there too."""

    path: str
    exclude: tuple[str, ...]
    shared: bool

    def claim(self) -> Wanted:
        """All of it, as it is when it is looked at; kept."""
        expected = {"path": ".", "exclude": list(self.exclude), "gitignore": True}
        instead = Evidence(EvidenceType.ARTIFACT_EXISTS, _ALL, {"path": ".", "type": "directory"})
        return Wanted(Evidence(EvidenceType.DIRECTORY_TREE, _ALL, expected), instead, keeps=True)

    def entered(self, task_id: str, now: str) -> StoredWorkspace:
        """As the registry keeps it of a task that works there."""
        return StoredWorkspace(task_id, self.path, self.shared, self.exclude, now)


def workspace_at(
    path: str, exclude: object, shared: object, registry: str, vault: str, real: Callable[[str], str]
) -> Workspace:
    """The workspace in this folder.

    Args:
        real: gives a path with no link in it; what is ours may lie in the folder by another name.

    Raises:
        InvalidInputError: these are no lines as a `.gitignore` holds them.
    """
    if type(shared) is not bool:
        raise InvalidInputError(f"shared must be true or false, found {shown(shared, 60)}")
    if not isinstance(exclude, Sequence) or isinstance(exclude, (str, bytes)) or not all(type(each) is str for each in exclude):
        raise InvalidInputError(
            f"exclude must be a list of lines, found {shown(exclude, 80)}", hint='such as ["*.log", "/build/"]'
        )
    try:
        # What no claim may hold is refused before anything is written down.
        directory_tree(".", exclude)
    except EvidenceDefinitionError as error:
        raise InvalidInputError(f"exclude: {error.message}", hint=error.hint) from None
    return Workspace(path, (*_NEVER, *_own(path, registry, vault, real), *exclude), shared)


def _own(path: str, registry: str, vault: str, real: Callable[[str], str]) -> tuple[str, ...]:
    """The registry and its log, and the vault, where they lie in the workspace."""
    ours, there = ((registry, "*"), (vault, "/")), real(path)
    lines = [(from_base(each, path), end) for each, end in ours]
    # What is written to lies where links lead.
    lines += [line for each, end in ours if (line := (from_base(real(each), there), end)) not in lines]
    return tuple(f"/{_SPECIAL.sub(_escaped, name)}{end}" for name, end in lines if not posixpath.isabs(name))


def _escaped(match: re.Match[str]) -> str:
    return f"\\{match[0]}"
