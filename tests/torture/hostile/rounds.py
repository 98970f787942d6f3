"""One round: a workspace is committed, an enemy changes it, and while he goes on somebody resumes, restores, undoes or commits.

Afterwards nothing outside was opened, read, changed or deleted; every byte that was inside is in place or in a vault that was
collected; whatever was raised is one of our errors; and what failed left the workspace as it was. When the enemy is gone the
same is tried again. `str(round)` rebuilds it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from agentos.core.checkpoints import CheckpointError, CheckpointManager
from agentos.errors import RestoreFailedError, VaultError
from agentos.vault.vault import Vault
from tests.faults.powers import without_powers
from tests.torture.hostile.outside import Outside
from tests.torture.hostile.plots import PLOTS, Ground, NotHereError
from tests.torture.hostile.swapping import Swap, racing, swaps

FILES = ["a", "b", "sub/a", "sub/b", "sub/deep/c", "other/a", "other/run", "empty/x", "link-to/x"]
ENEMIES = ("swaps", "swaps", "races", "nobody")
ACTS = ("resume", "restore", "undo", "commit", "resume")
# A restore of such a workspace makes some hundreds of the calls that are told of.
_MOST_CALLS = 600


@dataclass
class Round:
    """What happens in it, by seed and number."""

    seed: int
    number: int
    folder: Path
    plots: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    act: str = ""
    enemy: str = ""
    ended: str = ""

    def __str__(self) -> str:
        return f"seed {self.seed}, round {self.number}: {self.act} against {self.enemy}, {self.plots} -> {self.ended}"

    def play(self) -> list[str]:
        """What is not as it should be."""
        rng = Random(f"{self.seed}:{self.number}")
        self.folder.mkdir()
        root = self.folder / "work"
        outside = Outside(self.folder / "outside", FILES, rng)
        with CheckpointManager(self.folder / "registry.sqlite", verify_timeout=20) as manager, ExitStack() as stack:
            ground = Ground(root, outside, rng)
            stack.callback(_undo, ground)
            _work(manager, root, rng)
            self.act, self.enemy = rng.choice(ACTS), rng.choice(ENEMIES)
            done = self._prepared(manager, ground)
            for plot in rng.sample(PLOTS, rng.randint(1, 4)):
                try:
                    self.plots.append(plot(ground))
                except (NotHereError, OSError) as why:
                    self.skipped.append(f"{plot.__name__}: {why}")
            return [*self._judged(manager, ground, done)]

    def _prepared(self, manager: CheckpointManager, ground: Ground) -> str:
        """A restore that can be undone, if that is what this round is about."""
        if self.act != "undo":
            return ""
        (ground.root / "a").write_bytes(b"overwritten")
        (ground.root / "sub" / "b").unlink()
        (ground.root / "sub" / "more").write_bytes(b"more")
        manager.resume("t", {}, repair=True)
        return manager.restores("t")[-1].restore_id

    def _judged(self, manager: CheckpointManager, ground: Ground, done: str) -> Iterator[str]:
        enemy = self._enemy(ground)
        for place in (ground.outside, *ground.mounts):
            place.look()
        before = tree(ground.root)
        inside = {each: path for each, path in contents(ground.root).items() if ground.is_ours(f"{ground.root}/{path}")}
        with ground.outside.watched() as told, without_powers(), enemy:
            self.ended, wrong = ended(lambda: self._go(manager, ground.root, done))
        yield from filter(None, [wrong, *told])
        if self.enemy == "nobody" and self.ended == RestoreFailedError.__name__ and tree(ground.root) != before:
            yield f"half: it failed, and the workspace is not as it was: {_differs(before, tree(ground.root))}"
        # Twice more, with nobody in the way: as it was left, and without what cannot be tidied up.
        for powers in (without_powers(), nullcontext()):
            with ground.outside.watched() as told, powers:
                _, wrong = ended(lambda: manager.resume("t", {}, repair=True))
            yield from filter(None, [wrong, *told])
            _undo(ground)
        for place in (ground.outside, *ground.mounts):
            yield from place.changes()
        yield from lost(manager, ground.root, inside)

    def _enemy(self, ground: Ground) -> AbstractContextManager[object]:
        rng = ground.rng
        if self.enemy == "nobody" or not ground.folders():
            self.enemy = "nobody"
            return nullcontext()
        path = ground.folder()
        swap = Swap(path, ground.theirs(path))
        if self.enemy == "races":
            return racing(swap)
        # Close together at times: a link that is gone again when it is looked for.
        firsts = rng.sample(range(_MOST_CALLS), rng.randint(1, 40))
        return swaps(swap, {first + step for first in firsts for step in range(rng.randint(1, 3))})

    def _go(self, manager: CheckpointManager, root: Path, done: str) -> None:
        if self.act == "resume":
            manager.resume("t", {}, repair=True)
        elif self.act == "restore":
            manager.restore(manager.plan_restore(manager.list_checkpoints("t")[-1].checkpoint_id))
        elif self.act == "undo":
            manager.undo_restore(done)
        else:
            with manager.task("t", workspace=root).step("tool_executed", {"n": 9}, touches=["a", "sub/a"]) as step:
                step.proves_file("sub/b")


def _work(manager: CheckpointManager, root: Path, rng: Random) -> None:
    """A workspace with a past: three checkpoints, with links, empty folders and executable files."""
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"inside " + rng.randbytes(rng.choice([8, 300, 5000])))
    (root / "other" / "run").chmod(0o755)
    (root / "to-a").symlink_to("sub/a")
    (root / "nothing").mkdir()
    with manager.task("t", workspace=root) as task:
        task.resume({"n": 0})
        for number in (1, 2):
            with task.step("tool_executed", {"n": number}) as step:
                (root / rng.choice(FILES)).write_bytes(b"step " + rng.randbytes(100))
                step.proves_file(rng.choice(FILES))


def ended(what: Callable[[], object]) -> tuple[str, str]:
    """How it ended: with which of our errors, if any; and what is wrong with how it ended."""
    try:
        what()
    except CheckpointError as error:
        return type(error).__name__, ""
    except Exception as error:  # noqa: BLE001 - this is what must never happen, whatever it is
        return type(error).__name__, f"bare: {type(error).__name__}: {error} at {_where(error)}"
    return "done", ""


def _where(error: Exception) -> list[str]:
    lines, trace = [], error.__traceback__
    while trace is not None:
        lines.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return lines[-6:]


def _undo(ground: Ground) -> None:
    while ground.undo:
        ground.undo.pop()()


def lost(manager: CheckpointManager, root: Path, inside: dict[str, str]) -> Iterator[str]:
    """What is neither in place nor kept for somebody."""
    manager.collect()
    now, vault = contents(root), Vault(str(Path(manager.db_path).with_name("vault")))
    for sha256, path in inside.items():
        if sha256 in now:
            continue
        try:
            vault.check(sha256)
        except VaultError:
            yield f"lost: what was in {path!r}"


def contents(root: Path) -> dict[str, str]:
    """The digest of every file, and where it is; what was left of restores too."""
    return {hashlib.sha256(item).hexdigest(): path for path, item in tree(root).items() if isinstance(item, bytes)}


def tree(root: Path) -> dict[str, bytes | str]:
    """Everything, no link followed: files by content, all else in words."""
    found: dict[str, bytes | str] = {}
    for at, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(at, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                found[os.path.relpath(path, root)] = Path(path).read_bytes()
            else:
                told = f"-> {os.readlink(path)}" if stat.S_ISLNK(status.st_mode) else f"{stat.S_IFMT(status.st_mode):o}"
                found[os.path.relpath(path, root)] = told
    return found


def _differs(before: dict[str, bytes | str], now: dict[str, bytes | str]) -> list[str]:
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
