"""Find a repository and read what lies in it, without asking git: what a repository says about itself can run programs.

`.git` is a folder, or a file that leads to one, as in linked worktrees; that one may share most of what it holds with its
siblings. Each is found as every other path of evidence is, so nothing leads out of the allowed roots; inside it names are
looked up below the open folder, and no link leads out of it. What is read means nothing here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from agentos._text import shown
from agentos.core.checkpoints.observing import Surroundings
from agentos.probes.artifact_exists import type_of
from agentos.probes.cannot_see import CannotSee, Deadline, Moved, unreadable
from agentos.probes.content import read_content
from agentos.probes.hashing import Take, still
from agentos.probes.paths import Place, place_of

_MOST = 1 << 16
_MOST_NAMES = 10_000
_LEADS_TO = b"gitdir: "


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of a repository, as it was found: another one in its place is noticed."""

    path: str
    identity: tuple[int, int]
    owner: int
    around: Surroundings
    deadline: Deadline

    def text(self, name: str, most: int = _MOST) -> bytes | None:
        """The content of a small file; None if nothing is there, or a folder.

        Raises:
            CannotSee: it is something else, too large for what it is, or did not hold still.
        """
        pieces = bytearray()
        return bytes(pieces) if self.read(name, pieces.extend, most) else None

    def read(self, name: str, take: Take, most: int) -> bool:
        """Hand on the content of a file; whether there is one."""
        with self.at(name) as place:
            if place.status is None or stat.S_ISDIR(place.status.st_mode):
                return False
            if not stat.S_ISREG(place.status.st_mode):
                raise damaged(place.path, f"expected a file, found a {type_of(place.status)}")
            if place.status.st_size > most:
                raise damaged(place.path, f"has {place.status.st_size:,} bytes, too many for what it is")
            read_content(place, self.deadline, take, most, cancel=self.around.cancel)
        return True

    def stamp(self, name: str) -> tuple[int, ...] | None:
        """What is another one once the file was replaced or written to; None if nothing is there."""
        with self.at(name) as place:
            return None if place.status is None else still(place.status)

    def names(self, name: str) -> list[str]:
        """What lies in a folder of it; nothing if there is none."""
        with self.at(name) as place:
            if place.status is None or not stat.S_ISDIR(place.status.st_mode):
                return []
            try:
                descriptor = place.open(os.O_RDONLY | os.O_DIRECTORY)
                try:
                    return os.listdir(descriptor)[:_MOST_NAMES]
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise unreadable(place.path, error) from error

    @contextmanager
    def at(self, name: str) -> Iterator[Place]:
        """The place of a name in it; a link as its last part is not followed."""
        inside = replace(self.around, base_path=self.path, allowed_roots=())
        with place_of(name, inside, follow=False) as place:
            if place.walk is None or _identity(os.fstat(place.walk.start)) != self.identity:
                raise Moved(self.path, "was replaced")
            yield replace(place, path=os.path.join(self.path, name))


@dataclass(frozen=True, slots=True)
class Repository:
    """`own` is what belongs to this worktree, such as HEAD and the index; `shared` what all of them share."""

    # As the evidence names it.
    path: str
    # Where its files are checked out; None if they are not.
    root: Folder | None
    # Who owns that, and what lies at `.git` in it.
    owners: frozenset[int]
    own: Folder
    shared: Folder


def repository_at(path: str, around: Surroundings, deadline: Deadline) -> Repository | None:
    """The repository in this folder; None if there is none.

    Raises:
        CannotSee: it cannot be looked at from here, or leads to where nobody may look.
    """
    top = _folder(path, around, deadline)
    if top is None:
        return None
    entry = f"{path.rstrip('/')}/.git"
    with place_of(entry, around) as place:
        status = place.status
        if status is None:
            return _bare(path, top)
        if stat.S_ISDIR(status.st_mode):
            own: Folder | None = _found(place, around, deadline)
        else:
            own = _led_to(_leads_to(place, top), entry, around, deadline)
    assert own is not None
    owners = frozenset({top.owner, status.st_uid, own.owner})
    return Repository(path, top, owners, own, _shared(own, around, deadline))


def damaged(path: str, how: str) -> CannotSee:
    """What git keeps there is not what git writes."""
    said = f"{shown(path)}: {how}"
    return CannotSee("DAMAGED_REPO", said, "look at it with `git fsck`; an interrupted write leaves such things behind")


def unsupported(repository: Repository, what: str, hint: str) -> CannotSee:
    """It may be sound, but cannot be read here."""
    return CannotSee("UNSUPPORTED_REPO", f"{shown(repository.path)}: {what}", hint)


def _bare(path: str, top: Folder) -> Repository | None:
    with top.at("HEAD") as head, top.at("objects") as objects:
        if head.status is None or objects.status is None or not stat.S_ISDIR(objects.status.st_mode):
            return None
    return Repository(path, None, frozenset({top.owner}), top, top)


def _leads_to(place: Place, top: Folder) -> str:
    """Where a `.git` that is a file says the repository is."""
    assert place.status is not None
    if not stat.S_ISREG(place.status.st_mode):
        raise damaged(place.path, f"expected a folder or a file, found a {type_of(place.status)}")
    if place.status.st_size > _MOST:
        raise damaged(place.path, f"has {place.status.st_size:,} bytes, too many for what it is")
    said = bytearray()
    read_content(place, top.deadline, said.extend, _MOST, cancel=top.around.cancel)
    target = bytes(said).removeprefix(_LEADS_TO).rstrip(b"\r\n")
    if not said.startswith(_LEADS_TO) or not target or b"\0" in target:
        raise damaged(place.path, "does not say where the repository is")
    return os.path.join(top.path, os.fsdecode(target))


def _shared(own: Folder, around: Surroundings, deadline: Deadline) -> Folder:
    said = own.text("commondir")
    if said is None:
        return own
    target = said.rstrip(b"\r\n")
    if not target or b"\0" in target:
        raise damaged(f"{own.path}/commondir", "does not say where the repository is")
    return _led_to(os.path.join(own.path, os.fsdecode(target)), f"{own.path}/commondir", around, deadline)


def _led_to(target: str, by: str, around: Surroundings, deadline: Deadline) -> Folder:
    # What is allowed to a path of evidence is allowed to a file that leads on; the base is, whatever roots there are.
    roots = (*around.allowed_roots, around.base_path) if around.allowed_roots else ()
    found = _folder(os.path.normpath(target), replace(around, allowed_roots=roots), deadline)
    if found is None:
        said = f"{shown(by)}: leads to {shown(target)}, where there is no folder"
        raise CannotSee("REPO_OUT_OF_SIGHT", said, "mount it, or mend the worktree with `git worktree repair`")
    return replace(found, around=around)


def _folder(path: str, around: Surroundings, deadline: Deadline) -> Folder | None:
    with place_of(path, around) as place:
        if place.status is None or not stat.S_ISDIR(place.status.st_mode):
            return None
        return _found(place, around, deadline)


def _found(place: Place, around: Surroundings, deadline: Deadline) -> Folder:
    assert place.status is not None
    path = os.path.normpath(place.without_links())
    return Folder(path, _identity(place.status), place.status.st_uid, around, deadline)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
