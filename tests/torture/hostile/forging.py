"""Claims and manifests that name what no workspace holds, as an enemy stores them who can write packs, vault and journal.

One checkpoint is committed without looking: its tree has a forged manifest, or its claims name files by paths that lead out. Or
a content of the vault is changed or swapped for another one; or the journal has an entry of a restore that never was. Then
somebody plans, restores and resumes. Nothing outside may be opened, read, changed or deleted, and nothing inside may be lost.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.packing import packed
from agentos.core.checkpoints.restores import NOTHING, Action, Kind, Operation, RestorePlan, Thing
from agentos.core.checkpoints.trees import EXECUTABLE, FILE, FOLDER, LINK, Rules, serialised
from agentos.vault.journal import entry_of
from agentos.vault.vault import Vault
from tests.torture.hostile.outside import Outside
from tests.torture.hostile.rounds import contents, ended, lost

WANTED = b"what the forger wants to be written"
SHA = hashlib.sha256(WANTED).hexdigest()


@dataclass
class Forgery:
    """One forgery, by seed and number."""

    seed: int
    number: int
    folder: Path
    kind: str = ""
    ended: str = ""

    def __str__(self) -> str:
        return f"seed {self.seed}, forgery {self.number}: {self.kind} -> {self.ended}"

    def play(self) -> list[str]:
        """What is not as it should be."""
        rng = Random(f"{self.seed}:{self.number}")
        self.folder.mkdir()
        root, outside = self.folder / "work", Outside(self.folder / "outside", ["x", "a", "sub/a"], rng)
        for name in ("a", "sub/a", "sub/b"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(b"inside " + rng.randbytes(300))
        with CheckpointManager(self.folder / "registry.sqlite", root, auto_verify=False) as manager:
            with manager.task("t", workspace=root) as task:
                task.resume({"n": 0})
            vault = Vault(str(self.folder / "vault"))
            with vault.keeping() as keeping:
                keeping.add(WANTED)
                keeping.settle()
            self.kind = rng.choice(list(KINDS))
            outside.look()
            inside = contents(root)
            with outside.watched() as told:
                wrong = [ended(lambda: KINDS[self.kind](manager, vault, rng))[1]]
                if rng.random() < 0.5:
                    (root / "sub" / "a").write_bytes(b"edited " + rng.randbytes(9))
                    inside = contents(root)
                checkpoints = manager.list_checkpoints("t")
                for act in (
                    lambda: manager.restore(manager.plan_restore(checkpoints[0].checkpoint_id)),
                    lambda: manager.resume("t", {}, repair=True),
                    lambda: manager.undo_restore(manager.restores("t")[-1].restore_id),
                ):
                    with suppress(IndexError):
                        how, problem = ended(act)
                        self.ended = f"{self.ended} {how}".strip()
                        wrong.append(problem)
            return [*filter(None, wrong), *told, *outside.changes(), *lost(manager, root, inside)]


def _ways(rng: Random) -> str:
    """A path that no folder holds, or only one that was tampered with."""
    return rng.choice(
        [
            "../outside/x", "sub/../../outside/x", "/etc/agentos-canary", "a/./b", "sub//a", "./a", "..", ".", "", "sub/..",
            "to-outside/x", "a/b", "a\0b", "../work/a", "sub/../a", ".agentos-restore-x/in-0", "../registry.sqlite", "sub/",
            "\udcff/../x",
        ]
    )  # fmt: skip


def _tree(manager: CheckpointManager, _: Vault, rng: Random) -> None:
    """A manifest with forged entries, whose digest is the one that is claimed."""
    entries = [
        (os.fsencode(_ways(rng)), rng.choice([FILE, EXECUTABLE]), bytes.fromhex(SHA), len(WANTED))
        for _ in range(rng.randint(1, 3))
    ]
    if rng.random() < 0.4:
        entries += [(b"to-outside", LINK, hashlib.sha256(b"../outside").digest(), 10)]
        entries += [(b"to-outside/x", FILE, bytes.fromhex(SHA), len(WANTED))]
    if rng.random() < 0.3:
        entries += [(b"sub", FOLDER, b"", 0), (b"sub", FILE, bytes.fromhex(SHA), len(WANTED))]
    if rng.random() < 0.3:
        entries += [entries[0]]
    data = serialised(Rules(), entries)
    expected = {"path": rng.choice([".", "sub", "..", "../outside"]), "digest": hashlib.sha256(data).hexdigest()}
    beside = {"manifest": packed(data)} if rng.random() < 0.7 else {}
    _commit(manager, [Evidence(EvidenceType.DIRECTORY_TREE, "forged", expected, {"keep": True, **beside})])


def _file(manager: CheckpointManager, _: Vault, rng: Random) -> None:
    claims = [
        Evidence(EvidenceType.FILE_SHA256, "forged", {"path": _ways(rng), "sha256": SHA}, {"keep": True})
        for _ in range(rng.randint(1, 3))
    ]
    _commit(manager, claims)


def _absent(manager: CheckpointManager, _: Vault, rng: Random) -> None:
    """That something is not there, which is made true by deleting it."""
    paths = [_ways(rng), rng.choice(["../outside/secret", "../outside", "sub/../../outside/deep", "/"])]
    _commit(manager, [Evidence(EvidenceType.ARTIFACT_ABSENT, "forged", {"path": path}) for path in paths])


def _swapped(_: CheckpointManager, vault: Vault, rng: Random) -> None:
    """Contents of the vault are exchanged, cut, or links to what lies outside."""
    held = sorted(vault.digests())
    one, other = (Path(vault.path_of(digest)) for digest in rng.sample(held, 2))
    how = rng.choice(["swap", "cut", "link", "pipe"])
    if how == "swap":
        data = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(data)
    elif how == "cut":
        os.truncate(one, rng.randrange(one.stat().st_size))
    else:
        one.unlink()
        if how == "link":
            one.symlink_to(vault.root + "/../outside/secret")
        else:
            os.mkfifo(one)


def _journal(manager: CheckpointManager, _: Vault, rng: Random) -> None:
    """A restore that never was: what it says that it did leads out, and so does the folder that it worked in."""
    there = Thing(Kind.FILE, SHA, len(WANTED), executable=False, mode=0o644)
    moves = [(NOTHING, there, Action.CREATE), (there, NOTHING, Action.DELETE), (there, there, Action.SET_EXECUTABLE)]
    before, after, action = rng.choice(moves)
    path = rng.choice(["../outside/x", "../outside/secret", "/etc/agentos-canary", "..", "sub/../../outside/x"])
    [newest] = manager.list_checkpoints("t", 1)
    operation = Operation(path, action, before, after)
    entry = entry_of(RestorePlan("t", newest.checkpoint_id, str(manager.base_path), (operation,), (), 0))
    entry.state = rng.choice(["begun", "applying", "done", "undone"])
    if rng.random() < 0.6:
        entry.staging = rng.choice(
            ["../outside", "..", "sub", ".", "../outside/deep", str(manager.base_path.with_name("outside"))]
        )
    manager._registry.begin_restore(entry)


def _commit(manager: CheckpointManager, claims: list[Evidence]) -> None:
    step_id = manager.begin_step("t", "tool_executed", {"n": 1})
    manager.commit_step(step_id, EvidencePack(claims))


KINDS: dict[str, Callable[[CheckpointManager, Vault, Random], None]] = {
    "tree": _tree, "file": _file, "absent": _absent, "swapped": _swapped, "journal": _journal,
}  # fmt: skip
