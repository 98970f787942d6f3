"""The step that a command is: what it is known by, what proves it, and its run.

A step is known by `--step NAME`, else by its words and the folder they are said in. The names of the steps that are done are in
the task's state under `agentos_run`, each with a digest of its words: a name that comes again with other words is refused, for
one of the two would be skipped wrongly.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from agentos._marked import VARIABLE
from agentos._process import sight_of
from agentos._text import shown, without_credentials
from agentos.core.checkpoints import Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.holders import RUN_MARK
from agentos.core.checkpoints.kinds.commands import command_line
from agentos.core.checkpoints.running import CommandRun, command_of
from agentos.errors import InvalidInputError

if TYPE_CHECKING:
    from agentos.core.checkpoints import Checkpoint, CheckpointManager, StepBlock, Task

_DIGITS = 12
_LONGEST = 200


class FailedError(Exception):
    """The command ran, and did not end with exit code 0, or not with what it was to leave."""

    def __init__(self, ran: CommandRun, otherwise: str = "") -> None:
        how = f"exit code {ran.exit_code}" if ran.exit_code is not None else f"it was ended by signal {ran.signal}"
        super().__init__(f"it ended well, and {otherwise}" if otherwise else how)
        self.ran = ran


class NotStartedError(Exception):
    """Nothing was run. Its cause says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed."""

    words: tuple[str, ...]
    name: str | None
    any_words: bool
    workspace: str | None
    exclude: tuple[str, ...]
    files: tuple[str, ...]
    trees: tuple[str, ...]
    gone: tuple[str, ...]
    not_rerunnable: bool
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """The command as a step of its task."""

    asked: Asked
    name: str
    digest: str
    # The folder that what it proves is named from; None for the one it is run in.
    base: str | None

    @classmethod
    def of(cls, asked: Asked) -> Step:
        """The step that these words mean.

        Raises:
            InvalidInputError: they mean none.
        """
        if asked.name is not None and not asked.name.strip():
            raise InvalidInputError("--step must say a name, found nothing")
        if asked.any_words and asked.name is None:
            raise InvalidInputError("--any-words needs --step: without a name, the words are what a step is known by")
        if not asked.words[0]:
            raise InvalidInputError("the command is an empty word, which names no program")
        base = None if asked.workspace is None else os.path.realpath(asked.workspace)
        digest = _digest_of(asked, _here(base))
        return cls(asked, asked.name or _named_by(asked.words, digest), digest, base)

    @property
    def shown(self) -> str:
        """The command for a message."""
        return shown(self.asked.name or without_credentials(command_line(list(self.asked.words))), 120)

    def task(self, manager: CheckpointManager, task_id: str) -> Task:
        """The handle to do it with."""
        asked = self.asked
        return manager.task(task_id, workspace=self.base, exclude=() if asked.workspace is None else asked.exclude)

    def refuse_left_out(self, manager: CheckpointManager, task_id: str) -> None:
        """Refuse to leave out the workspace of a task that has one: what is not proven would be taken back by the next step."""
        there = None if self.base is not None else manager.workspace_of(task_id)
        if there is not None:
            raise InvalidInputError(
                f"task {shown(task_id, 80)} works in {shown(there)}, and this step would not prove it",
                hint=f"say --workspace {shown(there)} in every step: what no step proves is taken back before the next one",
            )

    def is_done(self, state: dict[str, Any]) -> bool:
        """Whether the state stands on this step.

        Raises:
            InvalidInputError: one of this name is done, and its words were others.
        """
        done = _done_in(state)
        if self.name not in done:
            return False
        if self.asked.name is None or self.asked.any_words or done[self.name] == self.digest:
            return True
        raise InvalidInputError(
            f"step {self.shown} is done, and its words were others; nothing was run",
            hint="give another step another --step NAME; --any-words if the words of this one differ from run to run",
        )

    def may_be_another(self, stands: Checkpoint | None) -> bool:
        """Whether these words may be meant for a second step: the same script has done something since it said them first.

        Or it is done over in one shell, which looks the same: so this is a hint, and decides nothing.
        """
        mark = None if stands is None else stands.metadata.get(RUN_MARK)
        if self.asked.name is not None or type(mark) is not dict:
            return False
        return mark.get("step") != self.name and mark.get("caller") == _caller()

    def block(self, task: Task, state: dict[str, Any]) -> StepBlock:
        """The step, begun with the state that it leads to: so it is that state also if it is adopted after a crash."""
        after = {**state, RUN_MARK: {**_done_in(state), self.name: self.digest}}
        asked = self.asked
        expects = EvidencePack([self._presence(path) for path in asked.expected]) if asked.expected else None
        argv = [without_credentials(word) for word in asked.words]
        return task.step(
            "tool_executed",
            after,
            metadata={RUN_MARK: {"step": self.name, "argv": argv, "cwd": os.getcwd(), "caller": _caller()}},
            expects=expects,
            rerunnable=not asked.not_rerunnable,
            # The claim of a workspace has all of it; what is only named is kept as it is, for a command that is run again.
            touches=[self._place(path) for path in self._named] if self.base is None else None,
        )

    def run(self, block: StepBlock, task: Task, registry: str, stdout: IO[Any] | None) -> CommandRun:
        """Run the command, and claim what proves it.

        Raises:
            FailedError, NotStartedError: it is not done.
        """
        from agentos.probes.foreground import account_of, run_in_front  # noqa: PLC0415 - a step that is done runs nothing

        command = _command(self.asked.words, str(task.manager.base_path))
        told = {"AGENTOS_TASK": task.task_id, "AGENTOS_DB": registry, VARIABLE: block.step_id}
        try:
            ended = run_in_front(command.argv, told, stdout)
        except OSError as error:
            raise NotStartedError(f"{shown(self.asked.words[0], 120)}: {error.strerror}; nothing was run") from error
        ran = account_of(command, ended)
        if ran.exit_code != 0:
            raise FailedError(ran)
        self._prove(block, ran)
        return ran

    @property
    def _named(self) -> tuple[str, ...]:
        """The files that are said to be there, or gone, once it has run."""
        return (*self.asked.files, *self.asked.expected, *self.asked.gone)

    def _prove(self, block: StepBlock, ran: CommandRun) -> None:
        asked = self.asked
        for path in (*asked.files, *asked.expected, *asked.trees):
            if not os.path.exists(path):
                # Committed unverified, it would be a checkpoint that nothing can be resumed from; begun, it is run again.
                raise FailedError(ran, f"left no {shown(path, 120)}")
        for path in asked.gone:
            if os.path.lexists(path):
                raise FailedError(ran, f"{shown(path, 120)} is still there")
        if asked.workspace is None and not (self._named or asked.trees):
            # Nothing else would say that it is done.
            ran.evidence.metadata["lifetime"] = "lasting"
        block.proves(ran.evidence)
        for path in (*asked.files, *asked.expected):
            block.proves_file(self._place(path))
        for path in asked.gone:
            block.proves_absent(self._place(path))
        for path in asked.trees:
            block.proves_tree(self._place(path), asked.exclude)

    def _presence(self, path: str) -> Evidence:
        return Evidence(EvidenceType.ARTIFACT_EXISTS, f"{shown(path, 120)} is there", {"path": self._place(path)})

    def _place(self, path: str) -> str:
        """The path as it is claimed: from the workspace, if it lies there."""
        if self.base is None:
            return path
        folder, name = os.path.split(os.path.abspath(path))
        there = os.path.join(os.path.realpath(folder), name)
        return os.path.relpath(there, self.base) if there.startswith(f"{self.base}/") else there


def _caller() -> str:
    """The process that runs this one, such as the shell of a script."""
    parent = os.getppid()
    return f"{parent}/{sight_of(parent).start}"


def _here(base: str | None) -> str:
    """Where the words are said: from the workspace, which may move."""
    here = os.path.realpath(os.getcwd())
    return here if base is None else os.path.relpath(here, base)


def _digest_of(asked: Asked, here: str) -> str:
    said = json.dumps([list(asked.words), here if asked.name is None else None])
    return hashlib.sha256(said.encode()).hexdigest()[:_DIGITS]


def _named_by(words: tuple[str, ...], digest: str) -> str:
    line = without_credentials(command_line(list(words)))
    return f"{shown(line, _LONGEST)} #{digest}"


def _done_in(state: dict[str, Any]) -> dict[str, str]:
    done = state.get(RUN_MARK, {})
    if type(done) is not dict:
        raise InvalidInputError(f"the task's state has a {RUN_MARK!r} of another kind: {shown(repr(done), 80)}")
    return done


def _command(words: tuple[str, ...], base: str) -> Any:
    return command_of(
        words,
        cwd=os.getcwd(),
        env=None,
        timeout=1,
        products=(),
        base_path=base,
        description="",
        exit_code=0,
        max_output=0,
        sensitive=False,
    )
