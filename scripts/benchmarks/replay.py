"""How recovery answers after crashes in a real history: this project's own.

Each commit is one step of an agent that proves what it wrote and what it deleted. At many places the agent dies inside the
next step, after part of its files, the last of them perhaps half-written; then `recover` is asked. The right answer is known
from the contents alone: the newest step whose files, with all that stood before, are exactly what is there (or the step itself,
if it had said what it would leave and all of that is there), else none. A wrong resume is one to a state that is not what is
there; a needless walk-back refuses, or goes further back than the right answer. Beside it stands what a gate would do that
looks at the newest step's own files only.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from benchmarks.commits import Past, Work, past_of
from benchmarks.place import ROOT, Bench
from benchmarks.results import Bar, Row

TASK = "replay"
# What stands at each path after a step; None: a file that was deleted.
Tree = dict[str, bytes | None]
# The number of the step that is resumed from, or None for a refusal.
Place = int | None


@dataclass(slots=True)
class Replayed:
    """What the answers were, over all crashes."""

    told: str
    crashes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, right: Place, found: Place, *, true_there: bool, own_pack_holds: bool, newest: int) -> None:
        """Write down one crash."""
        self.crashes += 1
        self.counts["right"] += right == found
        self.counts["needless"] += right is not None and (found is None or found < right)
        self.counts["at the newest"] += right == newest
        self.counts["further back"] += right is not None and right < newest
        self.counts["adopting"] += right == newest + 1
        self.counts["naive wrong"] += own_pack_holds and right != newest
        if found is not None and not true_there:
            self.wrong.append(f"after step {newest}: resumed from {found}, right was {right}")


def rows(bench: Bench) -> Iterator[Row]:
    """Wrong resumes, right answers, needless walk-backs."""
    with bench.folder("replay") as folder:
        replayed = replay(past_of(ROOT), folder, crashes=bench.counts.lookups)
    against = f"{replayed.crashes} crashes in {replayed.told}"
    naive = 100 * replayed.counts["naive wrong"] / replayed.crashes
    yield Row(
        "wrong resumes",
        against,
        len(replayed.wrong),
        "",
        bar=Bar("exactly", 0),
        detail=f"a gate on the newest step's own files: {naive:.0f} %",
        raw={"crashes": replayed.crashes, "naive_percent": round(naive, 1)},
    )
    for name, key in (("right answers", "right"), ("needless walk-backs", "needless")):
        share = 100 * replayed.counts[key] / replayed.crashes
        places = {place: replayed.counts[place] for place in ("at the newest", "adopting", "further back")}
        told = ", ".join(f"{place} {count}" for place, count in places.items())
        nowhere = replayed.crashes - sum(places.values())
        yield Row(name, against, round(share, 1), "%", detail=f"right was: {told}, nowhere {nowhere}" if key == "right" else "")


def replay(past: Past, folder: Path, crashes: int, seed: int = 0) -> Replayed:
    """Replay, and crash at so many places (or at every one, if there are fewer)."""
    random = Random(f"replay:{seed}")  # noqa: S311 - which places, no secret
    places = {*random.sample(range(1, len(past.steps)), min(crashes, len(past.steps) - 1))}
    run = _Run(folder, random, Replayed(past.told))
    try:
        for number, work in enumerate(past.steps[: max(places, default=0) + 1]):
            if number in places:
                run.crash(work)
            run.step(work)
    finally:
        run.manager.close()
    return run.replayed


class _Run:
    """One workspace, one registry, and what is known of both."""

    def __init__(self, folder: Path, random: Random, replayed: Replayed) -> None:
        self._workspace, self._registry = folder / "workspace", folder / "registry.sqlite"
        self._workspace.mkdir()
        self._random, self.replayed = random, replayed
        self._trees: list[Tree] = [{}]
        self._newest = Work()
        # What was read since the last write.
        self._read: Tree = {}
        self.manager = self._opened()

    def step(self, work: Work) -> None:
        """Do all of a step, and prove it."""
        step_id = self.manager.begin_step(TASK, "tool_executed", {"step": len(self._trees)})
        self._write(work.files)
        assert self.manager.commit_step(step_id, self._proof(work)).verified
        self._newest = work
        self._trees.append({**self._trees[-1], **work.files})

    def crash(self, work: Work) -> None:
        """Die inside a step, ask, and put everything back as it was."""
        expects = _expected(work) if self._random.random() < 1 / 2 else None
        step_id = self.manager.begin_step(TASK, "tool_executed", {"step": len(self._trees)}, expects=expects)
        self._write(self._part_of(work))
        self.manager.close()
        self.manager = self._opened()
        self._judge(work, self.manager.recover(TASK), expected=expects is not None)
        self.manager.abandon_step(step_id)
        self._write({path: self._trees[-1].get(path) for path in work.files})

    def _judge(self, work: Work, recovery: Any, *, expected: bool) -> None:
        newest, found = len(self._trees) - 1, None
        landed = {**self._trees[-1], **work.files}
        trees = [*self._trees, landed] if expected and landed != self._trees[-1] else self._trees
        if recovery.verdict == "resume":
            adopts = any(each.verdict == "adopt" for each in recovery.interrupted)
            found = newest + 1 if adopts else recovery.checkpoint.sequence_number
        true = [number for number in range(len(trees) - 1, 0, -1) if self._is_there(trees[number])]
        self.replayed.note(
            true[0] if true else None,
            found,
            true_there=found in true,
            own_pack_holds=self._is_there(self._newest.files),
            newest=newest,
        )

    def _part_of(self, work: Work) -> Tree:
        """What a crash leaves: some of the files, in any order, the last of them perhaps in part."""
        paths = self._random.sample([*work.files], len(work.files))
        done = {path: work.files[path] for path in paths[: self._random.randrange(1, len(paths) + 1)]}
        last, content = list(done.items())[-1]
        if content and self._random.random() < 2 / 3:
            done[last] = content[: self._random.randrange(len(content))]
        return done

    def _write(self, files: Tree) -> None:
        self._read.clear()
        for path, content in files.items():
            full = self._workspace / path
            if content is None:
                full.unlink(missing_ok=True)
            else:
                if full.is_dir():  # a folder became a file; its files went in the same commit
                    shutil.rmtree(full)
                full.parent.mkdir(parents=True, exist_ok=True)
                full.write_bytes(content)

    def _is_there(self, tree: Tree) -> bool:
        return all(self._content(path) == content for path, content in tree.items())

    def _content(self, path: str) -> bytes | None:
        if path not in self._read:
            full = self._workspace / path
            self._read[path] = full.read_bytes() if full.is_file() else None
        return self._read[path]

    def _proof(self, work: Work) -> EvidencePack:
        written = [path for path, content in work.files.items() if content is not None]
        items = [Evidence.capture_file(path, base_path=self._workspace) for path in written]
        return EvidencePack([*items, *(_absent(path) for path, content in work.files.items() if content is None)])

    def _opened(self) -> CheckpointManager:
        return CheckpointManager(self._registry, self._workspace, durability="relaxed")


def _expected(work: Work) -> EvidencePack:
    return EvidencePack([_absent(path) if content is None else _content(path, content) for path, content in work.files.items()])


def _content(path: str, content: bytes) -> Evidence:
    digest = hashlib.sha256(content).hexdigest()
    return Evidence(EvidenceType.FILE_SHA256, f"content of {path}", {"path": path, "sha256": digest})


def _absent(path: str) -> Evidence:
    return Evidence(EvidenceType.ARTIFACT_ABSENT, f"{path} is gone", {"path": path})
