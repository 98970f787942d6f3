"""Claims that still lack what is to be claimed: they are completed by one look, which is then also their verification.

Used by `Evidence.capture_*`, which looks at once, and by the block of a step, which looks when it ends. Pure: nothing is looked
at here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.observing import Observation, Seen
from agentos.errors import InvalidInputError

# What git itself writes where there is none.
_NO_COMMIT = "0" * 40


@dataclass(frozen=True, eq=False, repr=False, match_args=False)
class Wanted:
    """What is to be looked at, and what is claimed instead where there is nothing to measure.

    The second keeps a step honest that promised a file and left none: the claim is committed, and fails.
    """

    evidence: Evidence
    otherwise: Evidence | None = None
    # Its content is kept, unless the claim says otherwise.
    keeps: bool = False

    def filled(self, seen: Observation) -> Evidence | None:
        """The claim with what was seen in it; None if nothing was seen, or nothing that could be claimed."""
        asked, fill = self.evidence, kind_of(self.evidence).fill
        if not isinstance(seen, Seen):
            # Claiming less instead would let a later look verify what was never measured.
            return None
        if self.keeps and asked.metadata.get("keep") is not False:
            seen = Seen({**seen.facts, "keeps": True})
        found = None if fill is None else fill(asked, seen)
        return self.otherwise if found is None else Evidence(asked.evidence_type, asked.description, *found)


def file_content(path: str | Path, description: str = "") -> Wanted:
    """The content of a file; that it is there at all, if there is none.

    Raises:
        InvalidInputError: this is no path.
    """
    name = path_text(path)
    about = description or f"content of {shown(name, 120)}"
    instead = Evidence(EvidenceType.ARTIFACT_EXISTS, about, {"path": name, "type": "file"})
    return Wanted(Evidence(EvidenceType.FILE_SHA256, about, {"path": name}), instead)


def git_commit(repo: str | Path, description: str = "") -> Wanted:
    """The commit that a repository stands at, and its branch; one that no repository can have, if it has none."""
    name = path_text(repo)
    about = description or f"commit of {shown(name, 120)}"
    instead = Evidence(EvidenceType.GIT_COMMIT, about, {"repo": name, "commit": _NO_COMMIT})
    return Wanted(Evidence(EvidenceType.GIT_COMMIT, about, {"repo": name}), instead)


def clean_worktree(repo: str | Path, description: str = "") -> Evidence:
    """Nothing uncommitted lies around in it: there is nothing to measure."""
    name = path_text(repo)
    return Evidence(EvidenceType.GIT_CLEAN, description or f"nothing uncommitted in {shown(name, 120)}", {"repo": name})


def file_beginning(path: str | Path, description: str = "") -> Wanted:
    """The bytes that a file has by now, whatever is written behind them later; that it is there at all, if it has none.

    Raises:
        InvalidInputError: this is no path.
    """
    name = path_text(path)
    about = description or f"beginning of {shown(name, 120)}"
    instead = Evidence(EvidenceType.ARTIFACT_EXISTS, about, {"path": name, "type": "file"})
    return Wanted(Evidence(EvidenceType.FILE_PREFIX_SHA256, about, {"path": name}), instead)


def directory_tree(path: str | Path, exclude: Sequence[str] = (), *, gitignore: bool = False, description: str = "") -> Wanted:
    """Everything beneath a folder, but for what these lines leave out; that the folder is there at all, if it is not.

    Raises:
        InvalidInputError: this is no path, or these are no lines.
        EvidenceDefinitionError: no tree could be claimed so.
    """
    name = path_text(path)
    about = description or f"tree of {shown(name, 120)}"
    if not isinstance(exclude, Sequence) or isinstance(exclude, (str, bytes)):
        raise InvalidInputError(f"exclude must be a list of lines, found {shown(exclude, 80)}")
    expected = {"path": name, "exclude": list(exclude), "gitignore": gitignore}
    kind = kind_of(Evidence(EvidenceType.DIRECTORY_TREE, about, {}))
    kind.refuse_malformed(Evidence(EvidenceType.DIRECTORY_TREE, about, {**expected, "digest": "0" * 64}))
    told = {key: value for key, value in expected.items() if value}
    instead = Evidence(EvidenceType.ARTIFACT_EXISTS, about, {"path": name, "type": "directory"})
    return Wanted(Evidence(EvidenceType.DIRECTORY_TREE, about, told), instead)


def row_values(
    table: str,
    where: dict[str, Any],
    columns: Sequence[str] | None = None,
    db_path: str | Path | None = None,
    description: str = "",
) -> Wanted:
    """The values of a row, in these columns or all; that there is exactly one such row, if there is not.

    Raises:
        InvalidInputError: these are no columns, or this is no path.
        EvidenceDefinitionError: no row could be told by this.
    """
    about = description or f"row of {shown(table, 80)}"
    metadata = {} if db_path is None else {"db_path": path_text(db_path)}
    # A copy: what was asked for is looked at later, whatever the caller does to his own meanwhile.
    named = {"table": table, "where": dict(where) if type(where) is dict else where}
    instead = Evidence(EvidenceType.DB_ROW, about, {**named, "unique": True}, metadata)
    kind_of(instead).refuse_malformed(instead)
    return Wanted(Evidence(EvidenceType.DB_ROW, about, {**named, "columns": _columns(columns)}, metadata), instead)


def _columns(names: object) -> list[str] | None:
    if names is None:
        return None
    found = list(names) if isinstance(names, Sequence) and not isinstance(names, (str, bytes)) else []
    if not found or not all(type(name) is str and name for name in found):
        raise InvalidInputError(
            f"columns must be a list of names, found {shown(names, 80)}", hint="leave it out to claim all columns"
        )
    return found


def json_value(path: str | Path, pointer: str, description: str = "") -> Wanted:
    """The value that a JSON file has at the pointer; that there is one at all, if there is none.

    Raises:
        InvalidInputError: this is no path, or no pointer.
    """
    expected = {"path": path_text(path), "pointer": pointer}
    about = description or f"{shown(pointer, 60)} in {shown(expected['path'], 120)}"
    instead = Evidence(EvidenceType.JSON_VALUE, about, {**expected, "exists": True})
    kind_of(instead).refuse_malformed(instead)
    return Wanted(Evidence(EvidenceType.JSON_VALUE, about, expected), instead)


def process(pid: int, description: str = "") -> Wanted:
    """The process that has this pid now.

    Raises:
        InvalidInputError: no process can have this pid.
    """
    if type(pid) is not int or pid < 1:
        raise InvalidInputError(f"a pid is needed, found {shown(pid, 80)}")
    return Wanted(Evidence(EvidenceType.PROCESS_EXISTS, description or f"process {pid}", {"pid": pid}))


def running_container(name: str, runtime: str = "docker", description: str = "") -> Wanted:
    """The very run of a container: its id, image and start; that it runs at all, if it does not.

    Raises:
        EvidenceDefinitionError: no container can have this name.
    """
    about = description or f"container {shown(name, 80)}"
    claim = Evidence(EvidenceType.CONTAINER_RUNNING, about, {"name": name}, {"runtime": runtime})
    kind_of(claim).refuse_malformed(claim)
    return Wanted(claim, claim)


def path_text(path: object) -> str:
    """The path as it is kept in a claim."""
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise InvalidInputError(f"a path is needed, found {shown(path, 80)}")
    return name
