"""Look whether the files of a repository are those of its commit, and nothing else lies between them.

Git compares, through a view that lets it do nothing else. It looks at one file after the other: what is not the same file
before and after could have been clean in parts only, so then the look is worth nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.cannot_see import CannotSee, Deadline, Moved, looked_at, timed_out
from agentos.probes.git_config import settings_of
from agentos.probes.git_refs import head_of
from agentos.probes.git_repository import Folder, Repository, repository_at, unsupported
from agentos.probes.git_view import Tracked, View, view_of
from agentos.probes.hashing import still

_MOST_NAMES = 20
_CHANGED, _UNMERGED, _UNTRACKED, _IGNORED = b"1", b"u", b"?", b"!"
# Fields before the name.
_BEFORE = {_CHANGED: 8, _UNMERGED: 10, _UNTRACKED: 1, _IGNORED: 1}

Stamps = dict[bytes, tuple[int, ...] | None]


class GitClean:
    """Facts: `exists`; of a repository how many files are `changed` and `untracked`, and the first `names` of them.

    And the first that git was told to overlook: `overlooked`. They are looked at like all others.
    """

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once."""
        return looked_at(lambda deadline: _look(evidence.expected, around, deadline), around.timeout)


def _look(expected: dict[str, Any], around: Surroundings, deadline: Deadline) -> Observation:
    repository = repository_at(expected["repo"], around, deadline)
    if repository is None:
        return Seen({"exists": False})
    root = _root_of(repository)
    stamps = repository.own.stamp("HEAD"), repository.own.stamp("index")
    with view_of(repository, root.path, head_of(repository), settings_of(repository)) as view:
        tracked = view.tracked()
        without_submodules = expected.get("submodules", "none") == "none"
        if without_submodules:
            _refuse_submodules(repository, tracked)
        view.forget(tracked)
        compared = _Compared(view, root.path, tracked, deadline, all_files=expected.get("untracked", "all") == "all")
        facts = compared.facts(repository, "dirty" if without_submodules else "all")
    root.stamp(".")
    if (repository.own.stamp("HEAD"), repository.own.stamp("index")) != stamps:
        raise Moved(repository.path, "git changed it")
    return Seen(facts)


def _root_of(repository: Repository) -> Folder:
    if repository.root is None:
        raise unsupported(repository, "it has no files checked out", "claim the worktree where they are")
    if repository.owners != {os.geteuid()}:
        said = f"{shown(repository.path)}: it belongs to somebody else, and its owner decides what git does in it"
        raise CannotSee("FOREIGN_REPO", said, "look as its owner; git refuses it too, but for safe.directory")
    with repository.shared.at("objects") as place:
        if place.status is None or not stat.S_ISDIR(place.status.st_mode):
            raise unsupported(repository, "its objects are kept elsewhere", "put them back to where git keeps them")
    return repository.root


def _refuse_submodules(repository: Repository, tracked: Sequence[Tracked]) -> None:
    names = [_text(each.name) for each in tracked if each.is_submodule]
    if names:
        hint = "claim each by itself, and this one with submodules='ignore'"
        raise CannotSee("SUBMODULES", f"{shown(repository.path)}: has repositories inside: {listed(names)}", hint)


class _Compared:
    """One comparison of all files, by git, between two looks at their stamps."""

    def __init__(self, view: View, root: str, tracked: Sequence[Tracked], deadline: Deadline, *, all_files: bool) -> None:
        self._view, self._root, self._tracked, self._deadline = view, os.fsencode(root), tracked, deadline
        self._all = all_files
        self._counts = {_CHANGED: 0, _UNTRACKED: 0}
        self._names: list[bytes] = []
        self._ignored: list[bytes] = []

    def facts(self, repository: Repository, submodules: str) -> dict[str, Any]:
        """What git says, if nothing moved meanwhile."""
        before, folders = self._stamps(), self._folders()
        untracked = ("--untracked-files=all", "--ignored=matching") if self._all else ("--untracked-files=no",)
        self._view.status(self._take, *untracked, f"--ignore-submodules={submodules}")
        if self._stamps() != before or self._not_ignored(self._folders()) != self._not_ignored(folders):
            raise Moved(repository.path, "files in it changed")
        overlooked = [_text(each.name) for each in self._tracked if each.overlooked]
        return {
            "exists": True,
            "changed": self._counts[_CHANGED],
            "untracked": self._counts[_UNTRACKED],
            "names": [_text(name) for name in self._names],
            "overlooked": overlooked[:_MOST_NAMES],
        }

    def _take(self, record: bytes) -> None:
        kind = record[:1]
        name = record.split(b" ", _BEFORE[kind])[-1]
        if kind == _IGNORED:
            self._ignored.append(name)
            return
        self._counts[_UNTRACKED if kind == _UNTRACKED else _CHANGED] += 1
        if len(self._names) < _MOST_NAMES:
            self._names.append(name)

    def _stamps(self) -> Stamps:
        """Of every tracked file."""
        found: Stamps = {}
        for number, each in enumerate(self._tracked):
            found[each.name] = _stamp(self._root + b"/" + each.name)
            if number % 1024 == 0 and self._deadline.passed():
                raise timed_out(os.fsdecode(self._root))
        return found

    def _folders(self) -> Stamps:
        """Of every folder, if it counts what lies in them."""
        return {name: _stamp(self._root + b"/" + name) for name in self._walked()} if self._all else {}

    def _walked(self) -> Iterator[bytes]:
        todo = [b""]
        while todo:
            above = todo.pop()
            if self._deadline.passed():
                raise timed_out(os.fsdecode(self._root))
            yield above
            try:
                with os.scandir(self._root + b"/" + above) as entries:
                    below = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
            except OSError:
                # It went since, which its stamp tells, or may not be listed, which git tells.
                continue
            todo += [above + name + b"/" for name in below if name != b".git"]

    def _not_ignored(self, folders: Stamps) -> Stamps:
        """Without those in which nothing counts."""
        ignored = tuple(name for name in self._ignored if name.endswith(b"/"))
        return {name: stamp for name, stamp in folders.items() if not name.startswith(ignored)} if ignored else folders


def _stamp(path: bytes) -> tuple[int, ...] | None:
    try:
        return still(os.lstat(path))
    except OSError:
        return None


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
