"""What `.gitignore` files leave out of a tree is what git leaves out."""

import os
import random
from collections.abc import Callable
from pathlib import Path

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen, Surroundings
from agentos.core.checkpoints.packing import decoded
from agentos.core.checkpoints.trees import FOLDER
from agentos.probes.directory_tree import DirectoryTree
from tests.unit.probes.repositories import git

NAMES = ("a", "b", "c", "x.o", "ab")
SEGMENTS = ("a", "b", "*", "a*", "*.o", "**", "?", "[ab]", "[!a]", "x.o")


def line(rng: random.Random) -> str:
    """One that both read alike; two stars right behind two others, and at the end before a slash, they do not."""
    while True:
        text = "/".join(rng.choice(SEGMENTS) for _ in range(rng.randint(1, 3)))
        text = f"{'!' * (rng.random() < 0.3)}{'/' * (rng.random() < 0.3)}{text}{'/' * (rng.random() < 0.3)}"
        if "**/**" not in text and not text.endswith("**/") and text.count("**") <= 2:
            return text


def grown(folder: Path, rng: random.Random) -> None:
    """Files in folders, and in some of those a `.gitignore`."""
    for _ in range(12):
        path = folder.joinpath(*(rng.choice(NAMES) for _ in range(rng.randint(1, 4))))
        if not any(above.is_file() for above in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
    for above, _, _ in list(os.walk(folder)):
        if above == str(folder) or (".git" not in above.split("/") and rng.random() < 0.2):
            Path(above, ".gitignore").write_text("".join(f"{line(rng)}\n" for _ in range(rng.randint(1, 4))))


def test_git_leaves_out_the_same(tmp_path: Path, seed: int, count: Callable[[int, int], int]):
    """20 folders with lines of every shape, 1,000 with --full; a `.gitignore` that leaves out itself is listed all the same."""
    rng = random.Random(seed)
    compared = 0
    for number in range(count(20, 1000)):
        folder = tmp_path / str(number)
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        grown(folder, rng)
        claim = Evidence("directory_tree", "x", {"path": ".", "gitignore": True})
        seen = DirectoryTree().observe(claim, Surroundings(base_path=str(folder)))
        assert isinstance(seen, Seen), seen
        ours = {path for path, kind, *_ in decoded(seen.facts["manifest"]).entries if kind != FOLDER}
        said = git(folder, "ls-files", "--others", "--exclude-standard")
        theirs = {name.encode() for name in said.splitlines()}
        rules = {path for path in ours if path.rpartition(b"/")[2] == b".gitignore"}
        assert theirs | rules == ours, {name: (folder / os.fsdecode(name)).read_text() for name in rules}
        compared += len(ours)
    assert compared > 0
