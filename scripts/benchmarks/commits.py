"""A repository's history as steps of an agent: what each one writes and deletes.

Commits along the first parent, oldest first, each with whole contents. Where there are too few of them, or none because this is
no checkout, a commit is taken apart: a few files to a step, and larger text files written in part first and finished later, as
they were when somebody wrote them. Given the same repository, the same steps.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

ENOUGH = 200
_PER_STEP = 3
_FINISHED_LATER = 12
_LARGEST = 200_000


@dataclass(frozen=True, slots=True)
class Work:
    """One step: contents by path, None where the file is deleted."""

    files: dict[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Past:
    """Steps, and in words what they were made of."""

    steps: tuple[Work, ...]
    told: str


def past_of(root: Path) -> Past:
    """The history of the repository at `root`; of a plain folder, one commit with all its files."""
    commits = _commits(root) or [_as_one_commit(root)]
    if len(commits) >= ENOUGH:
        return Past(tuple(commits), f"{len(commits):,} commits")
    steps = tuple(_taken_apart(commits))
    return Past(steps, f"{len(steps):,} steps, made of {len(commits):,} commits")


def _commits(root: Path) -> list[Work]:
    # With a folder above that happens to be a repository this would be somebody else's history.
    if not (root / ".git").exists():
        return []
    command = ["log", "--reverse", "--first-parent", "-m", "--no-renames", "--raw", "--no-abbrev", "-z", "--format=%x01%H"]
    try:
        said = _git(root, *command)
    except (OSError, subprocess.CalledProcessError):
        return []
    changes = [[*_changes(part)] for part in said.split(b"\x01")[1:]]
    blobs = _blobs(root, {blob for commit in changes for _, blob in commit if blob is not None})
    works = (Work({path: blobs[blob] if blob else None for path, blob in commit}) for commit in changes)
    return [work for work in works if work.files]


def _changes(commit: bytes) -> Iterator[tuple[str, str | None]]:
    """Path and blob of each regular file that a commit changed; None for one that it deleted."""
    words = iter(commit.replace(b"\n", b"\0").split(b"\0"))
    for word in words:
        if word.startswith(b":"):
            _, mode, _, blob, status = word.decode().split(" ")
            path = os.fsdecode(next(words))
            if status == "D" or mode in ("100644", "100755"):
                yield path, None if status == "D" else blob


def _blobs(root: Path, names: set[str]) -> dict[str, bytes]:
    command = ["git", "-C", str(root), "cat-file", "--batch"]
    asked = "".join(f"{name}\n" for name in sorted(names)).encode()
    said = subprocess.run(command, input=asked, capture_output=True, check=True).stdout
    contents, place = {}, 0
    for name in sorted(names):
        end = said.index(b"\n", place)
        size = int(said[place:end].split()[2])
        contents[name] = said[end + 1 : end + 1 + min(size, _LARGEST)]
        place = end + 1 + size + 1
    return contents


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=True).stdout


def _as_one_commit(root: Path) -> Work:
    names = [name for folder in ("agentos", "docs", "scripts", "tests") for name in sorted((root / folder).rglob("*"))]
    there = [name for name in names if name.is_file() and "__pycache__" not in name.parts]
    return Work({str(name.relative_to(root)): name.read_bytes()[:_LARGEST] for name in there})


def _taken_apart(commits: list[Work]) -> Iterator[Work]:
    random = Random("replay")  # noqa: S311 - the same steps every time, no secret
    for commit in commits:
        pieces = [piece for path, content in commit.files.items() for piece in _pieces(path, content)]
        # Near to how they were written: one file after another, and what is finished later soon after it was begun.
        places = [number + (_FINISHED_LATER * random.random() if part else 0) for number, (part, _, _) in enumerate(pieces)]
        ordered = [pieces[number] for number in sorted(range(len(pieces)), key=places.__getitem__)]
        while ordered:
            size = random.randrange(1, _PER_STEP + 1)
            taken, ordered = ordered[:size], ordered[size:]
            yield Work({path: content for _, path, content in taken})


def _pieces(path: str, content: bytes | None) -> list[tuple[int, str, bytes | None]]:
    """A file as it is written: at once, or a part of its lines and then all."""
    lines = (content or b"").splitlines(keepends=True)
    if len(lines) < 40:  # noqa: PLR2004 - written at one sitting
        return [(0, path, content)]
    return [(0, path, b"".join(lines[: len(lines) * 2 // 3])), (1, path, content)]
