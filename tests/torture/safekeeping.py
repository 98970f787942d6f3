"""Hold a registry, its vault and a workspace to what the agent of keepsakes.py was told: `violations` names what is not so.

Everything that is needed is in the vault, whole: what the acknowledged checkpoints hold, what restores overwrote. Every byte
that a stranger wrote is in place, or in a safety copy that the journal names. The next `resume(repair=True)` ends what was
interrupted and leaves exactly the tree of the checkpoint that it goes on from. The newest restore can be undone, byte for byte.
Collecting takes nothing of that, and the task can be gone on with. A violation starts with a word that says which.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointError, CheckpointManager
from agentos.core.checkpoints.needs import Needs
from agentos.core.checkpoints.restores import operations_from
from agentos.errors import VaultError
from agentos.vault.journal import DONE
from agentos.vault.staging import STAGING
from agentos.vault.vault import Vault
from tests.torture.keepsakes import TASK, WORK, Tree, digest, edit, open_manager, tree_of


@dataclass
class Stand:
    """A checkpoint that was acknowledged, with the tree it was committed over."""

    checkpoint: str
    n: int
    tree: Tree


@dataclass
class Promised:
    """What may be relied on, by what was acknowledged."""

    live: list[Stand] = field(default_factory=list)
    strangers: list[tuple[str, str]] = field(default_factory=list)
    restores: list[str] = field(default_factory=list)
    # Where the task may stand besides its newest checkpoint.
    also: list[Stand] = field(default_factory=list)
    kept: int = 10**6
    # What a restore put in place that returned just now.
    wrote: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """One more line."""
        verb, facts = line.split(" ", 1)
        self.also = [] if verb == "committed" else self.also
        self.wrote = {}
        getattr(self, f"_{verb}")(json.loads(facts))

    def _committed(self, facts: Any) -> None:
        before = [each.checkpoint for each in self.live]
        if facts["checkpoint"] in before:
            del self.live[before.index(facts["checkpoint"]) + 1 :]
            if self.live[-1].tree != facts["tree"]:
                self.wrong.append(f"tree: the worker itself saw another one at {facts['n']}")
        else:
            self.live.append(Stand(facts["checkpoint"], facts["n"], facts["tree"]))

    def _stranger(self, facts: Any) -> None:
        self.strangers.append((facts["path"], facts["sha256"]))

    def _restored(self, facts: Any) -> None:
        self.restores.append(facts["restore"])
        self.wrote = facts["wrote"]

    def _collected(self, facts: Any) -> None:
        self.wrong += [f"collected: {each} is missing" for each in facts["missing"]]

    def _superseding(self, facts: Any) -> None:
        self.also = [each for each in self.live if each.n == facts["n"]]

    def _pruning(self, facts: Any) -> None:
        self.kept = facts["keep"]

    def _restoring(self, _: Any) -> None:
        """Nothing is promised yet."""


def violations(directory: Path, acks: Iterable[str], *, undo: bool = True) -> list[str]:
    """What is not as it was promised."""
    promised = Promised()
    for line in acks:
        promised.take(line)
    found = promised.wrong
    try:
        with open_manager(directory) as manager:
            audit = _Audit(manager, directory / WORK, promised)
            found.extend(audit.before())
            found.extend(audit.after(undo=undo))
    except (CheckpointError, sqlite3.Error, OSError) as problem:
        found.append(f"closed: {type(problem).__name__}: {problem}")
    return found


class _Audit:
    """One directory, held to one promise."""

    def __init__(self, manager: CheckpointManager, work: Path, promised: Promised) -> None:
        self.manager, self.work, self.promised = manager, work, promised
        self.vault = Vault(str(Path(manager.db_path).with_name("vault")))

    def before(self) -> Iterator[str]:
        """What must hold as it was found."""
        with closing(sqlite3.connect(self.manager.db_path)) as database:
            sound = database.execute("pragma integrity_check").fetchone()[0]
        if sound != "ok":
            yield f"damaged: {sound}"
        yield from self._contents()
        yield from self._strangers("found")
        for path, sha256 in self.promised.wrote.items():
            if not (self.work / path).is_file() or digest((self.work / path).read_bytes()) != sha256:
                yield f"restored: {path} is not what was put there"
        known = {each.restore_id: each for each in self.manager.restores(TASK)}
        for restore_id in self.promised.restores:
            if restore_id not in known or known[restore_id].state != DONE:
                yield f"lost: {restore_id}"

    def after(self, *, undo: bool) -> Iterator[str]:
        """What must hold once the task was resumed."""
        yield from self._resumed("resumed")
        if undo:
            yield from self._undone()
        if missing := self.manager.collect().missing:
            yield f"collected: {missing} is needed, and is not there"
        yield from self._contents()
        yield from self._strangers("collected")
        yield from self._resumed("resumed again")
        yield from self._further()

    def _contents(self) -> Iterator[str]:
        wanted = dict.fromkeys(Needs(self.manager._registry, self.manager._hands())(), "something")
        for stand in self.promised.live[-self.promised.kept :]:
            if self.manager.get_checkpoint(stand.checkpoint) is None:
                yield f"lost: checkpoint {stand.n}"
            leaves = ((path, leaf) for path, leaf in stand.tree.items() if leaf is not None)
            for path, leaf in leaves:
                sha256 = digest(leaf.removeprefix("-> ").encode()) if leaf.startswith("-> ") else leaf
                wanted[sha256] = f"{path} of checkpoint {stand.n}"
        for sha256, what in wanted.items():
            try:
                self.vault.check(sha256)
            except VaultError as problem:
                yield f"content: {what}: {problem}"

    def _strangers(self, when: str) -> Iterator[str]:
        for path, sha256 in self.promised.strangers:
            place = self.work / path
            if place.is_file() and digest(place.read_bytes()) == sha256:
                continue
            named = any(
                sha256 == operation.before.sha256
                for stored in self.manager.restores(TASK)
                for operation in operations_from(stored.operations)
            )
            if not named:
                yield f"stranger: {path} is neither in place nor in a safety copy ({when})"
                continue
            try:
                self.vault.check(sha256)
            except VaultError as problem:
                yield f"stranger: {path} ({when}): {problem}"

    def _resumed(self, when: str) -> Iterator[str]:
        with self.manager.task(TASK, workspace=self.work) as task:
            state = task.resume({"n": 0}, repair=True)
            [newest] = task.checkpoints(1)
        stands = [*self.promised.live[-1:], *self.promised.also]
        known = next((each for each in stands if each.checkpoint == newest.checkpoint_id), None)
        told = next((each.n for each in self.promised.live[::-1]), -1)
        if known is None and state["n"] != told + 1:
            yield f"answer: {when} at {state}, promised was {told}"
        if known is not None and (state["n"], tree_of(self.work)) != (known.n, known.tree):
            yield f"tree: {when} at {state}: {_differs(tree_of(self.work), known.tree)}"
        if not self.manager.verify_checkpoint(newest.checkpoint_id):
            yield f"tree: {when} at {state}: it does not hold"
        if left := [path.name for path in self.work.iterdir() if path.name.startswith(STAGING)]:
            yield f"left: {when}: {left}"
        for stored in self.manager.restores(TASK):
            if stored.ended_at is None:
                yield f"left: {when}: {stored.restore_id} is {stored.state}"
        yield from self._strangers(when)

    def _undone(self) -> Iterator[str]:
        done = [each for each in self.manager.restores(TASK) if each.state == DONE]
        [newest] = self.manager.list_checkpoints(TASK, 1)
        # What a step that went on from there left, also one that nobody heard of, is not to go.
        if not done or done[-1].restore_id < f"restore_{newest.checkpoint_id}":
            return
        plan = self.manager.plan_undo(done[-1].restore_id)
        if plan.cannot:
            yield f"undo: {[*plan.cannot]}"
        self.manager.restore(plan)
        for operation in operations_from(done[-1].operations):
            place = self.work / operation.path
            found = digest(place.read_bytes()) if place.is_file() and not place.is_symlink() else ""
            if found != operation.before.sha256:
                yield f"undo: {operation.path} is not what it was before"

    def _further(self) -> Iterator[str]:
        with self.manager.task(TASK, workspace=self.work) as task:
            number = task.resume({"n": 0}, repair=True)["n"] + 1
            with task.step("tool_executed", {"n": number}, touches=["log"]) as step:
                edit(self.work, number)
            if step.checkpoint is None or not step.checkpoint.verified:
                yield "further: a step was not verified"
        yield from self._contents()


def _differs(found: Tree, wanted: Tree) -> str:
    paths = sorted(path for path in found.keys() | wanted.keys() if found.get(path, "") != wanted.get(path, ""))
    return ", ".join(f"{path}: {found.get(path, 'absent')}, not {wanted.get(path, 'absent')}" for path in paths)


def put_away(directory: Path) -> None:
    """Remove what was recorded: what a state says of that place must not be looked for there."""
    shutil.rmtree(directory)
