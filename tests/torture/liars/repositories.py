"""Liars about repositories."""

from __future__ import annotations

from pathlib import Path

from agentos.core.checkpoints import Evidence
from tests.torture.liars.liar import Liar
from tests.unit.probes.repositories import committed, git, repository


class _Repository(Liar):
    def put(self, path: Path, text: str) -> None:
        """As git does: beside it, where nobody looks, and then in its place."""
        new = self.folder / ".git" / "agentos.lock"
        new.write_text(f"{text}\n")
        new.replace(path)


class BranchesApart(_Repository):
    """HEAD is on the branch, or the branch is at the commit, and never both."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.wanted = repository(self.folder)
        git(self.folder, "branch", "side")
        self.other = committed(self.folder)
        self.head, self.main = self.folder / ".git/HEAD", self.folder / ".git/refs/heads/main"
        self.on_main = True

    def claim(self) -> Evidence:
        return Evidence("git_commit", "main", {"repo": ".", "commit": self.wanted, "branch": "main"})

    def change(self) -> None:
        if self.on_main:
            self.put(self.head, "ref: refs/heads/side")
            self.put(self.main, self.wanted)
        else:
            self.put(self.main, self.other)
            self.put(self.head, "ref: refs/heads/main")
        self.on_main = not self.on_main

    def tell_the_truth(self) -> None:
        self.put(self.head, "ref: refs/heads/main")
        self.put(self.main, self.wanted)


class _Files(_Repository):
    """Enough of them that a change fits in while git goes through them."""

    folders, length = 8, 1

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.names = [f"{number:03}/file" for number in range(self.folders)]
        repository(self.folder, *self.names)
        for name in self.names:
            self.mend(name)
        committed(self.folder)
        self.now = self.names[0]
        self.spoil(self.now)

    def claim(self) -> Evidence:
        return Evidence("git_clean", "repo", {"repo": "."})

    def change(self) -> None:
        before, self.now = self.now, self.rng.choice([name for name in self.names if name != self.now])
        self.spoil(self.now)
        self.mend(before)

    def spoil(self, name: str) -> None:
        raise NotImplementedError

    def mend(self, name: str) -> None:
        raise NotImplementedError

    def tell_the_truth(self) -> None:
        self.mend(self.now)


class NeverCleanAtOnce(_Files):
    """There is always a file that is changed, and soon it is another one; the size is always the same."""

    folders, length = 24, 1 << 18

    def spoil(self, name: str) -> None:
        self.put(self.folder / name, "x" * self.length)

    def mend(self, name: str) -> None:
        self.put(self.folder / name, "o" * self.length)


class AlwaysOneBeside(_Files):
    """There is always a file that is untracked, and soon it lies in another folder."""

    folders = 300

    def spoil(self, name: str) -> None:
        (self.folder / name).with_name("beside").write_text("")

    def mend(self, name: str) -> None:
        (self.folder / name).with_name("beside").unlink(missing_ok=True)
