"""Liars about repositories."""

from __future__ import annotations

from agentos.core.checkpoints import Evidence
from tests.torture.liars.liar import Liar
from tests.unit.probes.repositories import committed, git, repository


class BranchesApart(Liar):
    """HEAD is on the branch, or the branch is at the commit, and never both."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.wanted = repository(self.folder)
        git(self.folder, "branch", "side")
        self.other = committed(self.folder)
        self.on_main = True

    def claim(self) -> Evidence:
        return Evidence("git_commit", "main", {"repo": ".", "commit": self.wanted, "branch": "main"})

    def change(self) -> None:
        if self.on_main:
            self.put("HEAD", "ref: refs/heads/side")
            self.put("refs/heads/main", self.wanted)
        else:
            self.put("refs/heads/main", self.other)
            self.put("HEAD", "ref: refs/heads/main")
        self.on_main = not self.on_main

    def put(self, name: str, text: str) -> None:
        """As git does: beside it, and then in its place."""
        path = self.folder / ".git" / name
        new = path.with_name(f"{path.name}.lock")
        new.write_text(f"{text}\n")
        new.replace(path)

    def tell_the_truth(self) -> None:
        self.put("HEAD", "ref: refs/heads/main")
        self.put("refs/heads/main", self.wanted)
