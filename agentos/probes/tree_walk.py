"""Walk through everything beneath an open folder, and prove that no folder changed meanwhile.

Every folder is opened by its name in the one above it, and never through a link. Only the folders nearest to the walk are held
open; on its way back it climbs through `..`, and goes on only if that is the very folder it came from. In the end everything
must bear the stamps that it had before it was read: what was seen was all there at one moment, the one when the last was read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from agentos._text import shown
from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.ignoring import Chain, UnreadableRulesError, excluded, gitignore_lines, is_left_out, text_of
from agentos.core.checkpoints.trees import FOLDER, LINK, Entry, Rules
from agentos.probes.cannot_see import CannotSee, Deadline, Moved
from agentos.probes.hashing import wait_for_tick
from agentos.probes.tree_files import TreeFiles, crossing, too_large

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HELD_OPEN = 64
# No path may be longer for the system; a longer way is gone in parts.
_LONGEST_WAY = 2048
_OFTEN, _OFTEN_MATCHED = 1024, 64
# A name as the system gives it is what rules see of it.
_NAMES_ARE_TEXT = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()) == ("utf-8", "surrogateescape")
_GITIGNORE, _GIT = ".gitignore", ".git"


class _Folder:
    """A folder on the way down. Its descriptor is -1 while it is not held open."""

    __slots__ = ("above", "chain", "descriptor", "identity", "todo")

    def __init__(self, descriptor: int, above: bytes, chain: Chain) -> None:
        self.descriptor = descriptor
        # What the names in it begin with.
        self.above = above
        self.chain = chain
        self.identity = (0, 0)
        self.todo: list[str] = []


class TreeWalk:
    """One walk. `root` is how the tree is called in messages; `aside` are paths in it that are not looked at."""

    def __init__(
        self,
        root: str,
        rules: Rules,
        aside: frozenset[bytes],
        limits: dict[str, int],
        deadline: Deadline,
        cancel: Cancel | None,
    ) -> None:
        self._root, self._rules, self._aside, self._limits = root, rules, aside, limits
        self._deadline, self._cancel = deadline, cancel
        self._way: list[_Folder] = []
        self._others: list[Entry] = []
        self._hiding: set[bytes] = set()
        self._count = 0

    def entries(self, descriptor: int) -> list[Entry]:
        """Everything beneath the open folder, in no order.

        Raises:
            CannotSee: something in it cannot be read, or is nothing that a tree can hold, or it did not hold still.
        """
        device = os.fstat(descriptor).st_dev
        self._files = TreeFiles(self._root, device, self._limits["max_bytes"], self._deadline, self._cancel)
        self._device = device
        try:
            self._walk(descriptor)
            self._files.finish()
        except BaseException:
            self._files.give_up()
            raise
        finally:
            while self._way:
                self._close(self._way.pop())
        self._refuse_moved(descriptor)
        return self._others + self._files.entries

    @property
    def size(self) -> int:
        """How many bytes its files have."""
        return self._files.bytes

    @property
    def hiding(self) -> frozenset[bytes]:
        """The folders that hold something which the rules leave out."""
        return frozenset(self._hiding)

    def _walk(self, descriptor: int) -> None:
        chain: Chain = ((0, excluded(self._rules.exclude)),) if self._rules.exclude else ()
        self._enter(_Folder(os.dup(descriptor), b"", chain))
        while self._way:
            folder = self._way[-1]
            if folder.todo:
                self._enter(self._opened(folder, folder.todo.pop()))
            else:
                self._leave()

    def _enter(self, folder: _Folder) -> None:
        self._way.append(folder)
        depth = len(self._way)
        if depth > self._limits["max_depth"]:
            raise too_large(self._root, f"has more than {self._limits['max_depth']:,} folders within folders", "max_depth")
        if depth > _HELD_OPEN:
            self._close(self._way[-1 - _HELD_OPEN])
        status = os.fstat(folder.descriptor)
        if status.st_dev != self._device:
            raise crossing(self._name(folder.above))
        wait_for_tick(status)
        folder.identity = (status.st_dev, status.st_ino)
        path = folder.above[:-1]
        self._files.stamps += (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        self._files.in_time()
        self._list(folder)

    def _leave(self) -> None:
        left = self._way.pop()
        if self._way and self._way[-1].descriptor < 0:
            back = self._way[-1]
            try:
                back.descriptor = os.open("..", _OPEN, dir_fd=left.descriptor)
                status = os.fstat(back.descriptor)
            except OSError as error:
                self._close(left)
                raise self._files.lost(back.above, error) from error
            if (status.st_dev, status.st_ino) != back.identity:
                self._close(left)
                raise Moved(self._name(left.above), "was moved")
        self._close(left)

    def _close(self, folder: _Folder) -> None:
        if folder.descriptor >= 0:
            os.close(folder.descriptor)
            folder.descriptor = -1

    def _opened(self, folder: _Folder, name: str) -> _Folder:
        path = folder.above + os.fsencode(name)
        try:
            descriptor = os.open(name, _OPEN, dir_fd=folder.descriptor)
        except OSError as error:
            raise self._files.lost(path, error) from error
        return _Folder(descriptor, path + b"/", folder.chain)

    def _list(self, folder: _Folder) -> None:
        """Take in what lies in the folder; the folders in it are left to do."""
        files, held, odd = self._sorted_out(folder)
        for names in (files, held) if self._rules.gitignore else ():
            if _GITIGNORE in names:
                names.remove(_GITIGNORE)
                self._read_gitignore(folder)
        if folder.chain or self._aside or self._rules.gitignore:
            files, held = self._left(folder, files), self._left(folder, held)
            odd = [each for each in odd if self._left(folder, [each[0]])]
            folder.todo = self._left(folder, folder.todo, folders=True)
        self._others += [(folder.above + os.fsencode(name), FOLDER, b"", 0) for name in folder.todo]
        for name, is_link in odd:
            self._others.append(self._link(folder, name, is_link=is_link))
        self._files.read(files, folder.descriptor, folder.above)
        for name in held:
            self._files.read_held(name, folder.descriptor, folder.above)

    def _sorted_out(self, folder: _Folder) -> tuple[list[str], list[str], list[tuple[str, bool]]]:
        """Files; files that may be open in this process; and what is neither file nor folder, and whether it is a link."""
        files: list[str] = []
        held: list[str] = []
        odd: list[tuple[str, bool]] = []
        most, maybe_held = self._limits["max_files"], self._files.maybe_held
        with self._listing(folder) as found:
            for entry in found:
                self._count += 1
                if self._count > most:
                    raise too_large(self._root, f"holds more than {most:,} files and folders", "max_files")
                if entry.is_file(follow_symlinks=False):
                    (held if entry.inode() in maybe_held else files).append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    folder.todo.append(entry.name)
                else:
                    odd.append((entry.name, entry.is_symlink()))
        return files, held, odd

    @contextmanager
    def _listing(self, folder: _Folder) -> Iterator[Iterator[os.DirEntry[str]]]:
        try:
            with os.scandir(folder.descriptor) as found:
                yield found
        except OSError as error:
            raise self._files.lost(folder.above, error) from error

    def _read_gitignore(self, folder: _Folder) -> None:
        data = self._files.read_rules(_GITIGNORE, folder.descriptor, folder.above)
        try:
            lines = gitignore_lines(data)
        except UnreadableRulesError as error:
            said = f"{shown(self._name(folder.above))}{_GITIGNORE}: {error}"
            raise CannotSee("RULES_UNREADABLE", said, "mend that line, or claim the tree without gitignore") from None
        if lines:
            # The lines of the claim come first, then those of the nearest folder.
            claimed = 1 if self._rules.exclude else 0
            folder.chain = (*folder.chain[:claimed], (len(text_of(folder.above)), lines), *folder.chain[claimed:])

    def _left(self, folder: _Folder, names: list[str], *, folders: bool = False) -> list[str]:
        """What the tree speaks for of these names in the folder."""
        if self._aside:
            names = [name for name in names if folder.above + os.fsencode(name) not in self._aside]
        left = [name for name in names if name != _GIT] if self._rules.gitignore else names
        if folder.chain:
            left = self._matched(folder, left, folders=folders)
        if len(left) < len(names):
            self._hiding.add(folder.above[:-1])
        return left

    def _matched(self, folder: _Folder, names: list[str], *, folders: bool) -> list[str]:
        above, chain = text_of(folder.above), folder.chain
        left = []
        may_speak, end = [(start, lines.may_speak_of(folder=folders)) for start, lines in chain], "/" if folders else ""
        for number, name in enumerate(names):
            # Whoever wrote the lines may want to keep us here.
            if not number % _OFTEN_MATCHED:
                self._files.in_time()
            path = above + (name if _NAMES_ARE_TEXT else text_of(os.fsencode(name)))
            for start, speak in may_speak:
                # Of most nothing is said, and there are many.
                if speak(path[start:] + end) and is_left_out(path, chain, folder=folders):
                    break
            else:
                left.append(name)
        return left

    def _link(self, folder: _Folder, name: str, *, is_link: bool) -> Entry:
        path = folder.above + os.fsencode(name)
        if not is_link:
            raise CannotSee(
                "SPECIAL_FILE",
                f"{shown(self._name(path))}: is neither file, folder nor link, so no tree can hold it",
                "leave it out with exclude, or take it away",
            )
        try:
            target = os.fsencode(os.readlink(name, dir_fd=folder.descriptor))
        except OSError as error:
            raise Moved(self._name(path), "was replaced") from error
        return path, LINK, sha256(target).digest(), len(target)

    def _refuse_moved(self, root: int) -> None:
        """Everything must still be where it was, and as it was before it was read."""
        device, stamps, stat = self._device, iter(self._files.stamps), os.stat
        for number, (path, inode, size, modified, changed) in enumerate(zip(*[stamps] * 5, strict=True)):
            try:
                near = 0 < len(path) <= _LONGEST_WAY
                now = stat(path, dir_fd=root, follow_symlinks=False) if near else _status(root, path)
            except OSError as error:
                raise self._files.lost(path, error) from error
            if now.st_ctime_ns != changed or now.st_ino != inode or now.st_dev != device:
                raise Moved(self._name(path), "changed")
            if now.st_size != size or now.st_mtime_ns != modified:
                raise Moved(self._name(path), "changed")
            if not number % _OFTEN:
                self._files.in_time()

    def _name(self, path: bytes) -> str:
        return self._files.name(path)


def _status(root: int, path: bytes) -> os.stat_result:
    """What lies at this path below the open folder. A link on the way leads to another folder, and that would show."""
    if len(path) <= _LONGEST_WAY:
        return os.stat(path, dir_fd=root, follow_symlinks=False) if path else os.fstat(root)
    end = path.rfind(b"/", 0, _LONGEST_WAY)
    nearer = os.open(path[:end], _OPEN, dir_fd=root)
    try:
        return _status(nearer, path[end + 1 :])
    finally:
        os.close(nearer)
