"""Liars about trees."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentos.core.checkpoints import Evidence
from agentos.core.checkpoints.trees import FILE, FOLDER, Entry, Rules, digest_of, serialised
from tests.torture.liars.liar import Liar

_BETWEEN = 300


class FilesApart(Liar):
    """Of two files in two folders one is right at times and the other at others, and never both; between them lie many."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.tree = self.folder / "tree"
        for name in "abc":
            (self.tree / name).mkdir(parents=True)
        self.right = {f"b/{number}": b"" for number in range(_BETWEEN)} | {"a/x": b"first" * 100, "c/x": b"last" * 100}
        for name, content in self.right.items():
            (self.tree / name).write_bytes(content)
        self.pair = [self.tree / "a" / "x", self.tree / "c" / "x"]
        self.wrong(self.pair[0])

    def claim(self) -> Evidence:
        folders = sorted({name.partition("/")[0] for name in self.right})
        entries: list[Entry] = [(name.encode(), FOLDER, b"", 0) for name in folders]
        for name, content in self.right.items():
            entries.append((name.encode(), FILE, hashlib.sha256(content).digest(), len(content)))
        return Evidence("directory_tree", "tree", {"path": "tree", "digest": digest_of(serialised(Rules(), entries))})

    def change(self) -> None:
        # The one that is right goes first, and only then the other one comes.
        self.wrong(self.pair[1])
        self.put_right(self.pair[0])
        self.pair.reverse()

    def wrong(self, path: Path) -> None:
        """In place: no folder knows of it."""
        path.write_bytes(b"?")

    def put_right(self, path: Path) -> None:
        path.write_bytes(self.right[str(path.relative_to(self.tree))])

    def tell_the_truth(self) -> None:
        for path in self.pair:
            self.put_right(path)


class NamesApart(FilesApart):
    """Each of the two is there at times, and never both."""

    def wrong(self, path: Path) -> None:
        path.unlink()


class AlwaysOneAway(FilesApart):
    """The next file is taken out of the tree before the one that was away returns: they are all there, and never together."""

    folders = 40

    def __init__(self, *given) -> None:
        super(FilesApart, self).__init__(*given)
        self.tree, self.aside = self.folder / "tree", self.folder / "away"
        self.aside.mkdir()
        self.right = {f"{number:02}/x": b"%d" % number for number in range(self.folders)}
        for name, content in self.right.items():
            (self.tree / name).parent.mkdir(parents=True)
            (self.tree / name).write_bytes(content)
        self.away = "00/x"
        self.take(self.away)

    def change(self) -> None:
        before, self.away = self.away, self.rng.choice([name for name in self.right if name != self.away])
        self.take(self.away)
        self.give_back(before)

    def take(self, name: str) -> None:
        (self.tree / name).rename(self.aside / name.replace("/", " "))

    def give_back(self, name: str) -> None:
        (self.aside / name.replace("/", " ")).rename(self.tree / name)

    def tell_the_truth(self) -> None:
        self.give_back(self.away)
