"""What an agent under torture does to a shared folder, step after step, and what the folder holds then.

A step is drawn from the seed, its number and what is there when it begins: whoever begins it on another world ends in another
one. It edits, creates, deletes, renames and changes bits of files, folders and links, in place and piece by piece, in part
through a shell. agentos is not known here: the same steps without it are what every agent is held to.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

# Nobody's claim: what is excluded must be left alone by everybody.
SCRATCH = "scratch"
# But for this: excluded, claimed by nobody, and said beforehand by each step that changes it.
LEDGER = f"{SCRATCH}/ledger"
# Where the registry is, in the rounds in which it lies in the workspace.
MEMORY = "memory"
_ASIDE = (os.fsencode(SCRATCH), os.fsencode(MEMORY))
_NAMES = [
    "a",
    "A",
    "notes.txt",
    "data.json",
    "Read me",
    "über",
    "new\nline",
    "-dash",
    ".hidden",
    "'\"$x`",
    os.fsdecode(b"caf\xe9"),
]
_MODES = (0o644, 0o755, 0o600, 0o700, 0o744, 0o640)
_MANY = 24
LOG = "log.txt"


class Leaf(NamedTuple):
    """What is at a path: what it is, whether it is executable, its bytes or where it leads."""

    kind: str
    executable: bool
    content: bytes


Tree = dict[bytes, Leaf]
# The commands of a step go through this, so that their processes can be waited for.
Shell = Callable[..., object]


def shell(script: str, *arguments: str, **options: object) -> None:
    """Run a script with these arguments, and nothing of ours around it."""
    subprocess.run(["sh", "-ec", script, "sh", *arguments], check=True, **options)  # type: ignore[call-overload]


def tree_of(folder: Path) -> Tree:
    """Everything in the folder that steps change."""
    tree = dict(_leaves(os.fsencode(folder), b""))
    with suppress(FileNotFoundError):  # taken away by a restore that was killed
        tree[os.fsencode(LEDGER)] = Leaf("file", False, (folder / LEDGER).read_bytes())
    return tree


def _leaves(root: bytes, beneath: bytes) -> Iterator[tuple[bytes, Leaf]]:
    with os.scandir(os.path.join(root, beneath)) as entries:
        for entry in entries:
            path = os.path.join(beneath, entry.name)
            if path in _ASIDE:
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                yield path, Leaf("link", False, os.readlink(entry.path))
            elif stat.S_ISDIR(mode):
                yield path, Leaf("folder", False, b"")
                yield from _leaves(root, path)
            else:
                yield path, Leaf("file", bool(mode & stat.S_IXUSR), Path(os.fsdecode(entry.path)).read_bytes())


def differences(expected: Tree, found: Tree) -> list[str]:
    """Where two trees differ, for people."""
    return [
        f"{path!r}: expected {_said(expected.get(path))}, found {_said(found.get(path))}"
        for path in sorted(expected.keys() | found.keys())
        if expected.get(path) != found.get(path)
    ]


def _said(leaf: Leaf | None) -> str:
    return "nothing" if leaf is None else f"{leaf.kind} {leaf.executable} {leaf.content[:40]!r} ({len(leaf.content)} bytes)"


def furnish(folder: Path, seed: str) -> None:
    """What is there before the first agent comes."""
    rng = Random(f"{seed}:furnish")
    folder.mkdir(parents=True)
    (folder / "src/deep").mkdir(parents=True)
    for name in (*_NAMES[:5], "src/main.py", "src/deep/er"):
        (folder / name).write_bytes(_text(rng))
    (folder / LOG).write_text("".join(f"line {number}\n" for number in range(rng.choice([10, 3000]))))
    (folder / "latest").symlink_to("src/main.py")
    (folder / SCRATCH).mkdir()
    (folder / LEDGER).write_text("opened\n")


def reference(folder: Path, seed: str, steps: int) -> list[Tree]:
    """The same work without agentos and without interruption: what there is before each step, and after the last."""
    furnish(folder, seed)
    trees = [tree_of(folder)]
    for number in range(steps):
        Step(folder, seed, number).work()
        trees.append(tree_of(folder))
    return trees


class Step:
    """One step, on the folder as it is now."""

    def __init__(self, folder: Path, seed: str, number: int, run: Shell = shell) -> None:
        self.folder = folder
        self.rng = Random(f"{seed}:{number}")
        self.run = run
        # Some say beforehand what one file will hold, and do nothing else; some say which files they may change.
        self.foretold = ("told.txt", _text(self.rng).hex()) if self.rng.random() < 0.15 else None
        self.touches: list[str] = []
        if self.foretold is None and self.rng.random() < 0.5:
            named = [path for path in self._found()[0] if _is_text(path)]
            self.touches = [LEDGER, *map(str, self.rng.sample(named, min(len(named), 2)))]

    def work(self) -> None:
        """Do it."""
        if self.foretold is not None:
            name, text = self.foretold
            _write(self.folder / name, text.encode())
            return
        self._append(self.folder / LOG)
        if self.touches:
            self._append(self.folder / LEDGER)
        for _ in range(self.rng.randint(1, 4)):
            files, folders, links = self._found()
            many = len(files) + len(folders) + len(links) > _MANY
            act = self.rng.choice(_FEWER if many else _ACTS)
            act(self, files, folders, links)

    # What there is, and where something could be.

    def _found(self) -> tuple[list[Path], list[Path], list[Path]]:
        found: dict[str, list[Path]] = {"file": [], "folder": [], "link": []}
        for path, leaf in sorted(tree_of(self.folder).items()):
            if path not in (os.fsencode(LOG), os.fsencode(LEDGER), b"told.txt"):
                found[leaf.kind].append(self.folder / os.fsdecode(path))
        return found["file"], found["folder"], found["link"]

    def _pick(self, paths: list[Path]) -> Path | None:
        return self.rng.choice(paths) if paths else None

    def _free(self, folders: list[Path]) -> Path:
        folder = self.rng.choice([self.folder, *folders])
        return next(
            (folder / name for name in self.rng.sample(_NAMES, len(_NAMES)) if not os.path.lexists(folder / name)),
            folder / f"more {self.rng.getrandbits(40)}",
        )

    # What can be done. Nothing of it is done whole.

    def _append(self, path: Path) -> None:
        with path.open("a") as file:
            file.write(f"one more: {self.rng.getrandbits(64)}\n")

    def _edit(self, files: list[Path], *_: list[Path]) -> None:
        if path := self._pick(files):
            _write(path, _text(self.rng))

    def _replace(self, files: list[Path], *_: list[Path]) -> None:
        if path := self._pick(files):
            partial = path.with_name(f"{path.name}.partial")
            _write(partial, _text(self.rng))
            partial.chmod(path.stat().st_mode & 0o777)
            partial.replace(path)

    def _create(self, _: list[Path], folders: list[Path], *__: list[Path]) -> None:
        _write(self._free(folders), _text(self.rng))

    def _delete(self, files: list[Path], _: list[Path], links: list[Path]) -> None:
        if path := self._pick([*files, *links]):
            path.unlink()

    def _rename(self, files: list[Path], folders: list[Path], links: list[Path]) -> None:
        if path := self._pick([*files, *links]):
            path.rename(self._free(folders))

    def _rename_folder(self, _: list[Path], folders: list[Path], *__: list[Path]) -> None:
        if path := self._pick(folders):
            path.rename(self._free([each for each in folders if path not in (each, *each.parents)]))

    def _chmod(self, files: list[Path], *_: list[Path]) -> None:
        if path := self._pick(files):
            path.chmod(self.rng.choice(_MODES))

    def _link(self, files: list[Path], folders: list[Path], *_: list[Path]) -> None:
        target = self.rng.choice(["/nowhere/outside", "nowhere", "..", *(str(each.relative_to(self.folder)) for each in files)])
        self._free(folders).symlink_to(target)

    def _make_folder(self, _: list[Path], folders: list[Path], *__: list[Path]) -> None:
        path = self._free(folders)
        path.mkdir()
        if self.rng.random() < 0.7:
            _write(path / "inside", _text(self.rng))

    def _remove_folder(self, _: list[Path], folders: list[Path], *__: list[Path]) -> None:
        if path := self._pick(folders):
            shutil.rmtree(path)

    def _become_folder(self, files: list[Path], *_: list[Path]) -> None:
        if path := self._pick(files):
            path.unlink()
            path.mkdir()
            _write(path / "was a file", _text(self.rng))

    def _become_file(self, _: list[Path], folders: list[Path], links: list[Path]) -> None:
        if path := self._pick([*folders, *links]):
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
            _write(path, _text(self.rng))

    # The same through a shell, of which whoever watches only this process sees nothing.

    def _shell_edit(self, files: list[Path], *_: list[Path]) -> None:
        if path := self._pick(files):
            self.run('printf "%s\\n" "$2" >> "$1"; printf "%s\\n" again >> "$1"', path, f"{self.rng.getrandbits(64)}")

    def _shell_sed(self, *_: list[Path]) -> None:
        self.run('sed -i "1s/^/$2 /" "$1"', self.folder / LOG, f"{self.rng.getrandbits(32)}")

    def _shell_move(self, files: list[Path], folders: list[Path], links: list[Path]) -> None:
        if path := self._pick([*files, *links]):
            self.run('cp -P "$1" "$2"; [ -L "$2" ] || chmod +x "$2"; rm "$1"', path, self._free(folders))

    def _shell_tree(self, _: list[Path], folders: list[Path], *__: list[Path]) -> None:
        if path := self._pick(folders):
            self.run('cp -RP "$1" "$2"; rm -rf "$1"', path, self._free([self.folder]))

    def _shell_link(self, files: list[Path], _: list[Path], links: list[Path]) -> None:
        if path := self._pick(links):
            self.run('ln -sfn -- "$2" "$1"', path, self.rng.choice(["else", *(each.name for each in files)]))

    def _shell_make(self, _: list[Path], folders: list[Path], *__: list[Path]) -> None:
        self.run('mkdir -p "$1/made/here"; echo made > "$1/made/here/x"; chmod +x "$1/made/here/x"', self._free(folders))


def _write(path: Path, content: bytes) -> None:
    """In two pieces: between them it is neither what it was nor what it will be."""
    with path.open("wb", buffering=0) as file:
        file.write(content[: len(content) // 2])
        file.write(content[len(content) // 2 :])


def _is_text(path: Path) -> bool:
    """Whether it can be said what is there: a name of any bytes can be part of a tree, and not of a claim of its own."""
    try:
        return bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def _text(rng: Random) -> bytes:
    size = rng.choice([0, 1, 40, 300, 300, 5000, 40_000])
    return rng.randbytes(size) if rng.random() < 0.3 else (b"%d " % rng.getrandbits(20)) * (size // 8)


_FEWER = (Step._delete, Step._remove_folder, Step._become_file, Step._shell_edit, Step._edit)
_ACTS = (
    *(Step._edit, Step._edit, Step._replace, Step._create, Step._create, Step._delete, Step._rename, Step._rename_folder),
    *(Step._chmod, Step._link, Step._make_folder, Step._remove_folder, Step._become_folder, Step._become_file),
    *(Step._shell_edit, Step._shell_sed, Step._shell_move, Step._shell_tree, Step._shell_link, Step._shell_make),
)
