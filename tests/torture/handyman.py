"""One life of an agent that works in a folder through a handle: it resumes with repair, takes its steps, and says where it is.

A life is a process forked from a warm one, in a group of its own with every command that it runs. It says when it enters and
leaves a place (a step, a commit, a restore, a collection …), so that whoever kills it knows where it fell. It may also die by
its own hand, before a call to the system that was counted out beforehand: a moment that the seed draws again.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import IOBase
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from agentos.core.checkpoints import CheckpointManager, Task
from agentos.vault.hands import VaultHands
from agentos.vault.moving import move
from tests.support import content
from tests.torture.forking import Aim
from tests.torture.workshop import MEMORY, SCRATCH, Step, Tree, differences, shell, tree_of

TASK = "handyman"
# Before one of these a life may end: each leaves something behind, or is about to.
_CALLS = {"open", "write", "pwrite", "rename", "replace", "unlink", "remove", "rmdir", "mkdir", "symlink", "chmod", "fchmod"}
_CALLS |= {"fsync", "fdatasync", "ftruncate", "flock"}


@dataclass(frozen=True, slots=True)
class Job:
    """What all lives of one round have in common. `trees` is what the folder holds before each step, and after the last."""

    directory: Path
    seed: str
    trees: list[Tree]
    durability: str = "relaxed"
    # The registry and the vault lie in the workspace.
    within: bool = False

    @property
    def work(self) -> Path:
        """The workspace."""
        return self.directory / "work"

    @property
    def registry(self) -> Path:
        """Its registry; the vault is beside it."""
        return (self.work / MEMORY if self.within else self.directory) / "registry.sqlite"

    def manager(self) -> CheckpointManager:
        """A manager of its registry."""
        return CheckpointManager(self.registry, durability=self.durability)

    def task(self, manager: CheckpointManager) -> Task:
        """The handle."""
        return manager.task(TASK, workspace=self.work, exclude=[f"/{SCRATCH}/"])


@dataclass(slots=True)
class Life:
    """One process, and what it says to `pipe`."""

    job: Job
    pipe: int
    aim: Aim | None = None
    # Only resume, say what was found, and let go.
    looks: bool = False
    _places: list[str] = field(default_factory=list)
    _entries: int = 0
    _left: int = 0

    def live(self) -> None:
        """To its end."""
        self.watch()
        with self.job.manager() as manager, self.job.task(manager) as task:
            self._watched(task.manager, "commit", "commit_block")
            with self.at("resume"):
                state = task.resume({"n": 0}, repair=True)
            assert task.recovery is not None
            number = int(state["n"])
            self.say("resumed", number, differences(self.job.trees[number], tree_of(self.job.work)))
            self.say("restored", len(task.recovery.restored), task.recovery.explain())
            if self.looks:
                return
            if self.aim is not None and self.aim.place in ("restore", "resume"):
                # Nothing had to be put back: then it dies at work.
                self.aim = replace(self.aim, place="step")
            while number < len(self.job.trees) - 1:
                number = self.take_step(task, state)
                self._tidy(manager, number)
            task.finish()
        self.say("finished", number)

    def take_step(self, task: Task, state: dict[str, Any]) -> int:
        """The step that comes after this state; its number."""
        number = int(state["n"])
        step = Step(self.job.work, self.job.seed, number, self._shell)
        if step.foretold is None:
            more: dict[str, Any] = {"touches": step.touches or None}
        else:
            # One that is found done goes on from the state it began with.
            more = {"expects": content(*step.foretold)}
            state["n"] = number + 1
        with self.at("begin"):
            block = task.step("tool_executed", state, **more)
            block.__enter__()
        with self.at("step"):
            with (self.job.work / SCRATCH / "journal").open("a") as journal:
                journal.write(f"{number}\n")
            step.work()
            state["n"] = number + 1
        block.__exit__(None, None, None)
        self.say("committed", number + 1)
        return number + 1

    def _tidy(self, manager: CheckpointManager, number: int) -> None:
        rng = Random(f"{self.job.seed}:tidy:{number}")
        aimed = self.aim is not None and self.aim.place == "collect"
        if not aimed and rng.random() > 0.15:
            return
        if rng.random() < 0.4:
            with self.at("prune"):
                manager.prune(TASK, keep_verified=rng.randint(1, 5))
        with self.at("collect"):
            found = manager.collect()
        self.say("collected", found.contents, found.drafts, list(found.missing))

    def _shell(self, script: str, *arguments: str) -> None:
        # Whoever waits for the end of this life waits for that of its commands too: they hold the pipe.
        shell(script, *arguments, pass_fds=(self.pipe,))

    # Where it is, and where it ends.

    def say(self, *words: Any) -> None:
        """One line."""
        os.write(self.pipe, json.dumps(words).encode() + b"\n")

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Be in this place."""
        self.say("in", place)
        self._places.append(place)
        if self.aim is not None and self.aim.calls and self.aim.place == place:
            self._entries += 1
            if self._entries >= self.aim.entry:
                self._left = self._left or self.aim.calls
                sys.setprofile(self._count)
        try:
            yield
        finally:
            if self.aim is not None and self.aim.place == place:
                sys.setprofile(None)
            self._places.pop()
            self.say("out", place)

    def _count(self, frame: FrameType, event: str, called: Any) -> None:
        if self._places[-1:] != [self.aim and self.aim.place] or not _is_call(frame, event, called):
            return
        self._left -= 1
        if self._left == 0:
            os.killpg(0, signal.SIGKILL)

    def watch(self) -> None:
        """Be in that place while a restore goes on, whoever began it."""
        for name in ("restore", "settle"):
            self._watched(VaultHands, "restore", name)

    def _watched(self, owner: Any, place: str, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            with self.at(place):
                return real(*args, **kwargs)

        setattr(owner, name, watched)


def _is_call(frame: FrameType, event: str, called: Any) -> bool:
    if event == "call":
        # It renames through the C library, of which a profile sees nothing.
        return frame.f_code is move.__code__
    if event != "c_call":
        return False
    mine = getattr(called, "__self__", None)
    return called.__name__ in _CALLS if not isinstance(mine, (sqlite3.Connection, sqlite3.Cursor, IOBase)) else True
