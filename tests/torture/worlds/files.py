"""The files of a model world: a small pool of paths, ways to change them, and what they held after each checkpoint.

All of it is real: a temporary folder per scenario, with a workspace, a second one, and a file outside both.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

NAMES = ("a.txt", "b.txt", "c.bin", "deep/d.txt", "deep/er/e.txt")
Content = dict[str, bytes]


class Files:
    """The workspaces of one scenario."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.work = str(directory / "work")
        self.second = str(directory / "second")
        self.outside = str(directory / "outside" / "f.txt")
        self._random = random
        self._written = 0
        # The content of the first workspace and of the file outside, by sequence number.
        self.kept: dict[int, Content] = {0: {}}
        for folder in (self.work, self.second, os.path.dirname(self.outside)):
            os.makedirs(folder)

    def paths(self) -> tuple[str, ...]:
        """What a step may touch: relative to the workspace, and one absolute."""
        return (*NAMES, self.outside)

    def full(self, path: str, base: str) -> str:
        """Where that is."""
        return os.path.join(base, path)

    def text(self) -> bytes:
        """Content that was never there before."""
        self._written += 1
        return f"{self._written}:{self._random.getrandbits(64):x}\n".encode() * self._random.randrange(1, 40)

    def write(self, path: str, base: str, content: bytes | None = None) -> None:
        """Put a file there, whatever stood there before."""
        full = self.full(path, base)
        clear(full)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        Path(full).write_bytes(self.text() if content is None else content)

    def change(self, path: str, base: str) -> list[str]:
        """Write, append, edit in place, delete or rename, as drawn; the paths that were touched."""
        full = self.full(path, base)
        if not os.path.isfile(full):
            self.write(path, base)
            return [path]
        how = self._random.choices(("write", "append", "edit", "delete", "rename"), (4, 3, 3, 2, 2))[0]
        if how == "write":
            self.write(path, base)
        elif how == "append":
            with open(full, "ab") as file:
                file.write(self.text())
        elif how == "edit":
            with open(full, "r+b") as file:
                file.seek(os.path.getsize(full) // 2)
                file.write(self.text())
        elif how == "delete":
            clear(full)
        else:
            return self._rename(path, base)
        return [path]

    def _rename(self, path: str, base: str) -> list[str]:
        other = self._random.choice([name for name in NAMES if name != path])
        content = Path(self.full(path, base)).read_bytes()
        clear(self.full(path, base))
        self.write(other, base, content)
        return [path, other]

    def halve(self, path: str, base: str) -> None:
        """Leave what a writer leaves that died in the middle."""
        full = self.full(path, base)
        if os.path.isfile(full):
            os.truncate(full, os.path.getsize(full) // 2)
        else:
            self.write(path, base, b"hal")

    def content(self) -> Content:
        """What is in the first workspace and outside now."""
        fulls = {path: self.full(path, self.work) for path in self.paths()}
        return {path: Path(full).read_bytes() for path, full in fulls.items() if os.path.isfile(full)}

    def keep(self, sequence: int) -> None:
        """Remember all of it for this checkpoint."""
        self.kept[sequence] = self.content()

    def put_back(self, sequence: int, paths: tuple[str, ...] | None = None) -> None:
        """Make these paths (default: all) what they were then."""
        then = self.kept[sequence]
        for path in paths or self.paths():
            if path in then:
                self.write(path, self.work, then[path])
            else:
                clear(self.full(path, self.work))


def clear(full: str) -> None:
    """Nothing stands there afterwards, nor where a folder on the way has to be."""
    parent = os.path.dirname(full)
    if os.path.lexists(parent) and not os.path.isdir(parent):
        os.unlink(parent)
    if os.path.islink(full) or os.path.isfile(full):
        os.unlink(full)
    elif os.path.isdir(full):
        shutil.rmtree(full)
