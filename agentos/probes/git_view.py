"""Let git compare files with a commit, through a view of the repository that cannot make it do anything else.

Git gets a folder of its own, private and made for one look: a HEAD that is the commit, an index without what it remembers of
files, and settings that were read and found harmless. From the repository itself it reads objects only. So between the reading
of its settings and their use nothing can be slipped in, no hook, filter, monitor or alias of it is known to git, nothing is
written to it, and every file is really read: what git once saw of a file, and which ones it was told to overlook, is not there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from agentos._fork import importing
from agentos._text import shown
from agentos.probes.cannot_see import CannotSee, timed_out, unreadable
from agentos.probes.git_config import Settings
from agentos.probes.git_refs import Head
from agentos.probes.git_repository import Repository, unsupported
from agentos.probes.walk import beneath

_HARDENED = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false")
_HARDENED_TOO = ("-c", "core.safecrlf=false", "-c", "core.preloadIndex=true")
_MOST_INDEX = 1 << 32
_MOST_INFO = 1 << 20
_MOST_SAID = 4096
_UNBORN = "ref: refs/heads/unborn"
_LINK = b"160000"


@dataclass(frozen=True, slots=True)
class Tracked:
    """One entry of an index."""

    # What git was told about it: lower case or `S` for "do not look".
    tag: bytes
    mode: bytes
    digest: bytes
    stage: int
    name: bytes

    @property
    def overlooked(self) -> bool:
        """Whether git was told not to look at it."""
        return self.tag.islower() or self.tag == b"S"

    @property
    def is_submodule(self) -> bool:
        """Whether it is another repository."""
        return self.mode == _LINK


class View:
    """A private folder through which git sees one repository."""

    def __init__(self, repository: Repository, root: str, folder: str) -> None:
        self._repository, self._root, self._folder = repository, root, folder
        self._program, self._path = _git()

    def tracked(self) -> list[Tracked]:
        """What the index of the repository lists, in its order."""
        if not self._copy("index", "copy", _MOST_INDEX):
            return []
        found: list[Tracked] = []
        self._records(("ls-files", "--stage", "-v", "-z"), "copy", lambda record: found.append(_tracked(record)))
        return found

    def forget(self, tracked: Sequence[Tracked]) -> None:
        """Write an index that lists the same and knows nothing of any file."""
        if not tracked:
            return
        data = b"".join((struct.pack(">4sII", b"DIRC", 2, len(tracked)), *map(_entry, tracked)))
        long = len(tracked[0].digest) > 20  # noqa: PLR2004 - bytes of a SHA-1
        digest = hashlib.new("sha256" if long else "sha1", data, usedforsecurity=False)
        self._write("index", data + digest.digest())

    def status(self, take: Callable[[bytes], None], *options: str) -> None:
        """Hand on each record of the second porcelain format."""
        self._records(("status", "--porcelain=v2", "-z", "--no-renames", "--no-ahead-behind", *options), "index", take)

    def make(self, head: Head, settings: Settings) -> None:
        """Fill the folder."""
        os.mkdir(f"{self._folder}/refs")
        os.mkdir(f"{self._folder}/info")
        self._write("HEAD", f"{head.commit or _UNBORN}\n".encode())
        self._write("config", _settings(settings).encode())
        for name in ("info/exclude", "info/attributes"):
            self._copy(name, name, _MOST_INFO, shared=True)

    def _copy(self, name: str, to: str, most: int, *, shared: bool = False) -> bool:
        source = self._repository.shared if shared else self._repository.own
        with open(f"{self._folder}/{to}", "wb") as file:
            return source.read(name, file.write, most)

    def _write(self, name: str, data: bytes) -> None:
        with open(f"{self._folder}/{name}", "wb") as file:
            file.write(data)

    def _records(self, arguments: Sequence[str], index: str, take: Callable[[bytes], None]) -> None:
        with importing:
            from agentos.probes.children import run_child  # noqa: PLC0415 - few looks need a child

        rest, trouble = bytearray(), bytearray()

        def sink(stream: str, piece: bytes) -> bool:
            if stream == "stderr":
                trouble.extend(piece)
                return len(trouble) <= _MOST_SAID
            *records, last = (bytes(rest) + piece).split(b"\0")
            rest[:] = last
            for record in records:
                take(record)
            return True

        path, deadline, around = self._repository.path, self._repository.own.deadline, self._repository.own.around
        argv = [self._program, "--no-optional-locks", *_HARDENED, *_HARDENED_TOO, *arguments]
        try:
            ended = run_child(argv, sink, until=deadline.at, cancel=around.cancel, cwd=self._root, env=self._environment(index))
        except OSError as error:
            raise unreadable(path, error) from error
        if ended.timed_out:
            raise timed_out(path)
        if ended.exit_code != 0 or trouble or rest:
            raise self._failed(bytes(trouble), ended.exit_code)

    def _failed(self, said: bytes, exit_code: int | None) -> CannotSee:
        repository = self._repository
        if any(name.startswith("sharedindex.") for name in repository.own.names(".")):
            return unsupported(repository, "its index is split", "`git update-index --no-split-index` puts it together")
        # A warning too says that something was not compared, such as a folder that may not be listed.
        first = said.decode("utf-8", "replace").strip().partition("\n")[0]
        why = first or (f"it ended with {exit_code}" if exit_code is not None else "it was ended")
        hint = "run `git status` there; what git cannot compare cannot be claimed"
        return CannotSee("GIT_FAILED", f"{shown(repository.path)}: git could not compare it: {shown(why, 200)}", hint)

    def _environment(self, index: str) -> dict[str, str]:
        """Nothing of ours but the way to programs: neither a variable nor a file of a user changes what git says."""
        return {
            "PATH": self._path,
            "LC_ALL": "C",
            "HOME": self._folder,
            "XDG_CONFIG_HOME": self._folder,
            "GIT_DIR": self._folder,
            "GIT_WORK_TREE": self._root,
            "GIT_INDEX_FILE": f"{self._folder}/{index}",
            "GIT_OBJECT_DIRECTORY": f"{self._repository.shared.path}/objects",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }


@contextmanager
def view_of(repository: Repository, root: str, head: Head, settings: Settings) -> Iterator[View]:
    """A view of the repository, gone at the end."""
    import tempfile  # noqa: PLC0415 - few looks need a folder of their own

    place = os.path.realpath(tempfile.gettempdir())
    if beneath(root, place) is not None:
        # Whatever is made there would be a new file in what is looked at.
        raise _no_folder(repository, f"temporary files lie in it, at {shown(place, 120)}")
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="agentos-", dir=place))
            view = View(repository, root, folder)
            view.make(head, settings)
        except OSError as error:
            raise _no_folder(repository, f"{shown(place, 120)}: {error.strerror}") from error
        yield view


def _no_folder(repository: Repository, why: str) -> CannotSee:
    said = f"{shown(repository.path)}: git needs a folder outside of it for a moment, and {why}"
    return CannotSee("NO_PRIVATE_FOLDER", said, "let TMPDIR name a folder elsewhere that can be written to")


def _git() -> tuple[str, str]:
    """The program, and where programs are. One in the folder that is looked at would be a trap."""
    path = os.pathsep.join(each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/"))
    program = shutil.which("git", path=path)
    if program is None:
        raise CannotSee("NO_GIT", "there is no git on the PATH, which compares files with a commit", "install git")
    return program, path


def _settings(settings: Settings) -> str:
    newer = any(name.startswith("extensions.") for name in settings)
    lines = ["[core]", f"\trepositoryformatversion = {int(newer)}", "\tbare = false"]
    for name, value in settings.items():
        section, _, key = name.partition(".")
        lines += [f"[{section}]", f"\t{key} = {value.lower()}"]
    return "\n".join([*lines, ""])


def _tracked(record: bytes) -> Tracked:
    about, _, name = record.partition(b"\t")
    tag, mode, digest, stage = about.split(b" ")
    return Tracked(tag, mode, bytes.fromhex(digest.decode()), int(stage), name)


def _entry(tracked: Tracked) -> bytes:
    """As `git update-index --index-info` would write it: with no status of any file, so that its content is compared."""
    flags = tracked.stage << 12 | min(len(tracked.name), 0xFFF)
    entry = struct.pack(">6I I 3I", *[0] * 6, int(tracked.mode, 8), 0, 0, 0) + tracked.digest + struct.pack(">H", flags)
    entry += tracked.name
    return entry + b"\0" * (8 - len(entry) % 8)
