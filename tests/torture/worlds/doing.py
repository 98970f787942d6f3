"""An agent that works through the real manager and keeps the notes that the oracle answers from.

It claims most of what it did, sometimes less, sometimes something that is not so, and now and then it dies in a step. Each call
that looks (commit, verify, rollback) must give what the notes say it gives: histories that agree are worth recovering from.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.errors import EvidenceMismatchError, EvidenceUnavailableError
from tests.torture.worlds import seeing
from tests.torture.worlds.files import Files, clear
from tests.torture.worlds.model import Begun, Claim, History, Mark, Pack

TASK = "model"
KINDS = {"sha256": "file_sha256", "exists": "artifact_exists", "absent": "artifact_absent"}


class Agent:
    """One task, worked on by several managers of one process, until `crash`."""

    def __init__(self, directory: Path, random: Random) -> None:
        self.files = Files(directory, random)
        self.history = History()
        self.registry = directory / "registry.sqlite"
        self._random = random
        self._managers: dict[tuple[str, bool], CheckpointManager] = {}
        self._open = ExitStack()

    def crash(self) -> None:
        """Nothing of this agent is left but what it stored."""
        self._open.close()

    def manager(self, base: str | None = None, *, auto_verify: bool = True) -> CheckpointManager:
        """A manager that looks from this base."""
        key = (base or self.files.work, auto_verify)
        if key not in self._managers:
            made = CheckpointManager(self.registry, key[0], auto_verify, durability="relaxed")
            self._managers[key] = self._open.enter_context(made)
        return self._managers[key]

    # A step, from begin to commit.

    def step(self, *, rerunnable: bool = True, auto_verify: bool = True, base: str | None = None) -> Mark:
        """Change some files, claim them, commit."""
        random, base = self._random, base or self.files.work
        state = self._state()
        options: dict[str, Any] = {} if rerunnable else {"rerunnable": False}
        step_id = self.manager(base).begin_step(TASK, "tool_executed", state, **options)
        paths = self.files.paths() if base == self.files.work else self.files.paths()[:-1]
        touched = [path for name in random.sample(paths, random.randrange(1, 4)) for path in self.files.change(name, base)]
        claimed = [path for path in touched if random.random() < 0.96]
        if random.random() < 0.2:
            claimed.append(random.choice(paths))
        after = {**state, "after": True} if random.random() < 0.5 else state
        return self._commit(step_id, self._pack(claimed, base), base, after, rerunnable=rerunnable, auto_verify=auto_verify)

    def _commit(
        self, step_id: str, pack: Pack, base: str, state: dict[str, Any], *, rerunnable: bool, auto_verify: bool
    ) -> Mark:
        manager, away = self.manager(base, auto_verify=auto_verify), base + ".away"
        hidden = self._random.random() < 0.03
        if hidden:
            os.rename(base, away)
        looked = seeing.verdict(pack, [seeing.outcome(claim, base) for claim in pack.claims]) if auto_verify else "not_run"
        checkpoint = manager.commit_step(step_id, evidence(pack), snapshot=state)
        if hidden:
            os.rename(away, base)
        sequence = len(self.history.marks) + 1
        assert (sequence, looked == "verified") == (checkpoint.sequence_number, checkpoint.verified), pack
        mark = Mark(sequence, step_id, checkpoint.checkpoint_id, pack, base, state, rerunnable)
        self.history.judge(mark, looked)
        self.history.marks.append(mark)
        self.files.keep(sequence)
        return mark

    def _state(self) -> dict[str, Any]:
        return {"number": len(self.history.marks) + 1, "token": self._random.getrandbits(32)}

    def _pack(self, paths: list[str], base: str) -> Pack:
        random = self._random
        paths = list(dict.fromkeys(paths))
        released = tuple(path for path in paths if random.random() < 0.1)
        claims = [claim for path in paths if path not in released for claim in self.claims(path, base)]
        if not random.random() < 0.15:
            return Pack(tuple(claims), released)
        return Pack(tuple(claims), released, partial=True, minimum=random.randrange(len(claims) + 1))

    def claims(self, path: str, base: str, *, honest: bool = False) -> list[Claim]:
        """What an agent says of a path; usually what is so."""
        random = self._random
        lifetime = "lasting" if honest else random.choices(("lasting", "step", "task"), (20, 2, 1))[0]
        found = seeing.seen(Claim("sha256", path), base)
        if not honest and random.random() < 0.03:
            return [Claim("sha256", path, seeing.digest(b"never there"), lifetime)]
        if found == seeing.ABSENT:
            return [Claim("absent", path, lifetime=lifetime)]
        said = [Claim("sha256", path, found, lifetime)]
        if random.random() < 0.15:
            said.append(Claim("exists", path, lifetime=lifetime))
        return said if random.random() < 0.85 else [Claim("exists", path, lifetime=lifetime)]

    def clear_away(self, path: str) -> None:
        """A step that takes a file away and says so."""
        base, state = self.files.work, self._state()
        step_id = self.manager(base).begin_step(TASK, "tool_executed", state)
        clear(self.files.full(path, base))
        self._commit(step_id, Pack((Claim("absent", path),)), base, state, rerunnable=True, auto_verify=True)

    # A step that is never committed.

    def die(self, *, effects: str, rerunnable: bool = True, expects: bool = True, base: str | None = None) -> Begun:
        """Begin a step, and stop after `none`, `some`, `half` (the last file half-written) or `all` of its effects."""
        random, base = self._random, base or self.files.work
        paths = random.sample(self.files.paths(), random.randrange(1, 4))
        todo = {path: self._planned(path, base) for path in paths}
        pack = self._expected(todo, base) if expects else None
        baseline = tuple(seeing.seen(claim, base) for claim in pack.claims) if pack else ()
        options: dict[str, Any] = {} if rerunnable else {"rerunnable": False}
        if pack:
            options["expects"] = evidence(pack)
        state = self._state()
        manager = self.manager(base)
        step_id = manager.begin_step(TASK, "llm_response", state, **options)
        begun = Begun(step_id, self.history.head, base, state, rerunnable, pack, baseline)
        self.history.begun.append(begun)
        done = {"none": 0, "some": random.randrange(len(todo)), "half": len(todo), "all": len(todo)}[effects]
        for path in paths[:done]:
            self.files.write(path, base, todo[path])
        if effects == "half":
            self.files.halve(paths[-1], base)
        if random.random() < 0.3:
            manager.note_error(step_id, RuntimeError("the tool died"))
        return begun

    def _planned(self, path: str, base: str) -> bytes:
        """What a step is to write there: now and then what is there already."""
        there = self.files.content().get(path) if base == self.files.work else None
        return there if there is not None and self._random.random() < 0.3 else self.files.text()

    def _expected(self, todo: dict[str, bytes], base: str) -> Pack:
        claims = [Claim("sha256", path, seeing.digest(content)) for path, content in todo.items()]
        claims += [Claim("exists", path) for path in todo if self._random.random() < 0.2]
        if self._random.random() < 0.2:
            unchanged = [path for path in self.files.paths() if path not in todo]
            claims += self.claims(self._random.choice(unchanged), base, honest=True)
        return Pack(tuple(claims))

    # What else happens to a history.

    def verify(self, mark: Mark) -> None:
        """Look again at a checkpoint's own pack."""
        looked = self._own(mark)
        assert (looked == "verified") == self.manager(mark.base).verify_checkpoint(mark.checkpoint_id), mark
        self.history.judge(mark, looked)

    def roll_back(self, mark: Mark) -> bool:
        """End the timeline at a checkpoint, if its own pack holds; whether it did."""
        looked = self._own(mark)
        self.history.judge(mark, looked)
        try:
            self.manager(mark.base).rollback_to_checkpoint(mark.checkpoint_id, supersede_later=True)
        except (EvidenceMismatchError, EvidenceUnavailableError):
            assert looked != "verified", mark
            return False
        assert looked == "verified", mark
        self.history.supersede_after(mark.sequence)
        return True

    def delete(self, mark: Mark) -> None:
        """Remove a checkpoint's state; what it claimed stays."""
        assert self.manager().delete_checkpoint(mark.checkpoint_id), mark
        mark.deleted = True

    def finish(self) -> None:
        """Say that the task is done."""
        self.manager().finish_task(TASK)
        self.history.finished = True

    def restart(self) -> None:
        """Start over, by a human's word."""
        self.manager().restart(TASK, by="tester", reason="another way")
        self.history.supersede_after(0)
        self.history.restarted_at = len(self.history.marks)

    def _own(self, mark: Mark) -> str:
        return seeing.verdict(mark.pack, [seeing.outcome(claim, mark.base) for claim in mark.pack.claims])


def evidence(pack: Pack) -> EvidencePack:
    """The pack as agentos takes it."""
    items = []
    for claim in pack.claims:
        expected = {"path": claim.path, **({"sha256": claim.digest} if claim.kind == "sha256" else {})}
        metadata = {} if claim.lifetime == "lasting" else {"lifetime": claim.lifetime}
        items.append(Evidence(EvidenceType(KINDS[claim.kind]), f"{claim.kind} {claim.path}", expected, metadata))
    options: dict[str, Any] = {"releases": [f"file:{path}" for path in pack.released]} if pack.released else {}
    if pack.partial:
        options |= {"require_all": False, "allow_partial": True, "min_verified": pack.minimum}
    return EvidencePack(items, **options)
