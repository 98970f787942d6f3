"""Read which commit a repository stands at: HEAD, the ref it names, and the file of packed ones.

Refs that name refs are followed a few times and no further; a name that could lead elsewhere is refused before it is looked up.
What is there but is no ref is damage, and never read as "no commit yet".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentos._text import shown
from agentos.probes.cannot_see import Moved
from agentos.probes.git_repository import Repository, damaged, unsupported

_COMMIT = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\s*")
_REF = b"ref:"
# What `git check-ref-format` forbids: `..`, hidden parts, empty parts, lock files, and what globs or means something.
_NO_NAME = re.compile(rb"\.\.|/\.|//|/$|\.$|\.lock(/|$)|@\{|[\x00-\x20\x7f~^:?*\[\\]")
_OWN = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")
_MOST_REFS = 5
_LONGEST_NAME = 4096
_MOST_PACKED = 1 << 40
_REFTABLE = b"refs/heads/.invalid"


@dataclass(frozen=True, slots=True)
class Head:
    """`commit`: None if the branch has none yet. `branch`: None if HEAD is on none."""

    commit: str | None
    branch: str | None
    ref: str | None


def head_of(repository: Repository) -> Head:
    """Where the repository stands.

    Raises:
        CannotSee: it is damaged, kept in a way that is not read here, or moved meanwhile.
    """
    before = repository.own.stamp("HEAD")
    found = _resolved(repository, _head(repository))
    # Its stamp, and not what it says: a branch that was switched away and back is no answer made of two either.
    if repository.own.stamp("HEAD") != before:
        raise Moved(repository.path, "another branch was checked out")
    return found


def _head(repository: Repository) -> bytes:
    said = repository.own.text("HEAD")
    if said is None:
        raise damaged(f"{repository.own.path}/HEAD", "is not there")
    return said


def _resolved(repository: Repository, said: bytes) -> Head:
    detached = _COMMIT.fullmatch(said)
    if detached:
        return Head(detached[1].decode(), None, None)
    first = name = _named(repository, f"{repository.own.path}/HEAD", said)
    for _ in range(_MOST_REFS):
        text = _said_of(repository, name)
        if text is None:
            return Head(None, _short(first), _shown(first))
        commit = _COMMIT.fullmatch(text)
        if commit:
            return Head(commit[1].decode(), _short(first), _shown(first))
        name = _named(repository, _path(repository, name), text)
    raise damaged(f"{repository.own.path}/HEAD", "names a ref that names another, too often")


def _named(repository: Repository, path: str, said: bytes) -> bytes:
    """The ref that this text names."""
    if not said.startswith(_REF):
        raise damaged(path, f"expected a commit or a ref, found {shown(repr(said[:60]), 80)}")
    name = said.removeprefix(_REF).strip()
    if name == _REFTABLE:
        hint = "`git refs migrate --ref-format=files` keeps them in files"
        raise unsupported(repository, "its refs are kept in tables, which are not read here", hint)
    if not name.startswith(b"refs/") or _NO_NAME.search(name) or len(name) > _LONGEST_NAME:
        raise damaged(path, f"names {shown(repr(name[:60]), 80)}, which no ref can be called")
    return name


def _said_of(repository: Repository, name: bytes) -> bytes | None:
    """What a ref says: its own file speaks before the packed ones, as a ref is packed before its file goes."""
    own = repository.own if name.startswith(_OWN) else repository.shared
    loose = own.text(_decoded(name))
    return _packed(repository, name) if loose is None else loose


def _packed(repository: Repository, name: bytes) -> bytes | None:
    search = _Search(f"{repository.shared.path}/packed-refs", name)
    if repository.shared.read("packed-refs", search.take, _MOST_PACKED):
        search.take(memoryview(b"\n"))
    return search.found


class _Search:
    """Finds one ref in the file of packed ones, piece by piece: it may be as large as it likes."""

    def __init__(self, path: str, name: bytes) -> None:
        self.found: bytes | None = None
        self._path = path
        self._line = re.compile(rb"\n([^\n]{0,200}) " + re.escape(name) + rb"(?=\n)")
        self._overlap = len(name) + 256
        self._rest = b"\n"

    def take(self, piece: memoryview) -> None:
        text = self._rest + bytes(piece)
        if b"\0" in text:
            raise damaged(self._path, "holds NUL bytes")
        line = self._line.search(text)
        if line and self.found is None:
            self.found = line[1]
            if not _COMMIT.fullmatch(line[1]):
                raise damaged(self._path, f"expected a commit, found {shown(repr(line[1][:60]), 80)}")
        self._rest = text[-self._overlap :]


def _path(repository: Repository, name: bytes) -> str:
    return f"{repository.shared.path}/{_shown(name)}"


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _shown(name: bytes) -> str:
    # No ref has a backslash in its name, so this is still one name for one ref.
    return name.decode("utf-8", "backslashreplace")


def _short(name: bytes) -> str:
    return _shown(name.removeprefix(b"refs/heads/"))
