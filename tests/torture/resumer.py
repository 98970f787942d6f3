"""One of several processes that resume the same task: it waits for its turn, goes on where the last one died, and finishes.

What it does is made to be interrupted anywhere. Files are replaced whole; a thing that must happen once is one line appended to
a file of its own by one write, so that it happened or did not, and can be counted. Some steps say what they will leave behind,
one changes a file back without saying so (whoever resumes has to walk back), one must not run twice and says nothing (somebody
has to look, and give his word). Every act is also written, with its token, to a journal that agentos does not know of.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointManager, EvidencePack, Task
from agentos.errors import (
    LeaseLostError,
    NotInterruptedError,
    NotSafeToResumeError,
    StepAlreadyCommittedError,
    TaskHeldError,
)
from tests.support import content
from tests.torture.planted_recovery import plant

TASK = "shared"
# Seconds that a process waits for its turn before it asks anew: the longer it waits the rarer it looks, and here all are eager.
IMPATIENCE = 0.3
EFFECTS = (1, 3, 4, 5)
# Steps whose effect the whole task must show exactly once.
STEPS = 7


@dataclass(frozen=True, slots=True)
class Turn:
    """What one process is sent to do."""

    directory: str
    # A name of planted_recovery.FAULTS, or nothing.
    fault: str = ""
    # The line right after which it kills itself, 0 for never: a moment that no kill from outside can aim at.
    last_line: int = 0

    @property
    def argv(self) -> list[str]:
        """The command line of a process of its own."""
        return [sys.executable, "-m", "tests.torture.resumer", json.dumps(asdict(self))]


def registry_of(directory: str | Path) -> Path:
    """Where the task's registry is."""
    return Path(directory, "registry.sqlite")


def open_manager(directory: str | Path) -> CheckpointManager:
    """The manager of this directory; its own files are elsewhere."""
    return CheckpointManager(registry_of(directory), Path(directory, "work"))


def prepare(directory: Path) -> None:
    """What is there before anybody comes: an empty file for each effect, so that one write makes it."""
    directory.joinpath("work").mkdir(parents=True)
    for number in EFFECTS:
        directory.joinpath("work", f"effect-{number}").touch()


def main() -> None:
    """Take the turn of the command line."""
    # Several processes on an old SQLite are warned about; here that is the point.
    logging.disable(logging.WARNING)
    turn = Turn(**json.loads(sys.argv[1]))
    plant(turn.fault)
    with open_manager(turn.directory) as manager:
        say("ready")
        # All start together; whoever comes later finds the word waiting.
        sys.stdin.readline()
        Resumer(turn, manager).run()


def say(line: str) -> None:
    """One line, in one write: it is there whole or not at all."""
    os.write(1, f"{line}\n".encode())


class Resumer:
    """One process at work on the task."""

    def __init__(self, turn: Turn, manager: CheckpointManager) -> None:
        self.lines_left = turn.last_line
        self.work = Path(turn.directory, "work")
        self.manager = manager
        self.task: Task = manager.task(TASK)
        self.journal = os.open(Path(turn.directory, "journal"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def run(self) -> None:
        """Resume until the task is finished, by this process or by another."""
        while True:
            try:
                state = self.task.resume({"n": 0}, wait=IMPATIENCE)
            except NotSafeToResumeError as refusal:
                if refusal.recovery.verdict != "held":
                    self.give_word(refusal)
                continue
            assert self.task.recovery is not None
            if self.task.recovery.verdict == "finished":
                say("finished")
                return
            self.note(f"resumed at {state['n']}")
            for number in range(state["n"], STEPS):
                WORK[number](self, number)
            self.note("finish")
            self.task.finish()

    def note(self, what: str) -> None:
        """To the journal and to the harness: what is done, and under which token."""
        assert self.task.lease is not None, "resume gave a state without a claim"
        os.write(self.journal, f"{self.task.lease.token} {what}\n".encode())
        say(f"{what} under {self.task.lease.token}")
        self.lines_left -= 1
        if self.lines_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def give_word(self, refusal: NotSafeToResumeError) -> None:
        """Look at the one effect that only a person can look at, and say whether it happened."""
        uncertain = [each.step_id for each in refusal.recovery.interrupted if each.verdict == "uncertain"]
        if refusal.recovery.verdict != "uncertain" or not uncertain:
            raise refusal
        landed = "landed" if self.work.joinpath("effect-5").read_text() else "not_landed"
        try:
            self.manager.resolve_step(uncertain[0], landed, by="a person", reason="looked at the file")
        except (TaskHeldError, LeaseLostError, NotInterruptedError, StepAlreadyCommittedError):
            # Others look too, and one of them was quicker.
            return
        say(f"word {uncertain[0]} {landed}")

    # What a step is made of.

    def replaced(self, name: str, text: str) -> None:
        partial = self.work / f"{name}.{os.getpid()}.partial"
        partial.write_text(text)
        partial.replace(self.work / name)

    def effect(self, number: int) -> None:
        """The thing itself: whoever does it twice leaves two lines."""
        handle = os.open(self.work / f"effect-{number}", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, f"{number}\n".encode())
            self.note(f"effect {number}")
            os.fsync(handle)
        finally:
            os.close(handle)

    def once(self, number: int) -> None:
        """The effect under a key, settled by looking if it was interrupted."""

        def perform() -> int:
            self.effect(number)
            return number

        expects = content(f"effect-{number}", f"{number}\n")
        request = {"effect": number}
        lease = self.task.lease
        manager = self.task.manager
        result = manager.once(f"effect-{number}", request, perform, task_id=TASK, expects=expects, lease=lease)
        # What was settled by looking is done, and nobody knows what came of it.
        assert result in (number, None)

    def step(self, number: int, *claims: EvidencePack, work: Callable[[], None], **begin: Any) -> None:
        """A step that is begun with the state it will end in: an adopted one has that."""
        with self.task.step("tool_executed", {"n": number + 1}, **begin) as step:
            self.note(f"begun {number}")
            work()
            self.note(f"worked {number}")
            for pack in claims:
                for claim in pack.evidence_list:
                    step.proves(claim)
        assert step.checkpoint is not None
        self.note(f"committed {number} {step.checkpoint.checkpoint_id}")


def _says_what_it_leaves(self: Resumer, number: int) -> None:
    there = content("mode", "B")
    self.step(number, there, work=lambda: self.replaced("mode", "B"), expects=there)


def _has_an_effect_first(self: Resumer, number: int) -> None:
    there = content("mode", "A")

    def work() -> None:
        self.once(number)
        self.replaced("mode", "A")

    self.step(number, there, work=work, expects=there)


def _changes_back(self: Resumer, number: int) -> None:
    """Without a word: interrupted after its write, the world is that of step 0 again, and step 1 is rolled back past."""
    self.step(number, content("mode", "B"), work=lambda: self.replaced("mode", "B"))


def _once(self: Resumer, number: int) -> None:
    self.step(number, content(f"effect-{number}", f"{number}\n"), work=lambda: self.once(number))


def _must_not_run_twice(self: Resumer, number: int) -> None:
    there = content(f"effect-{number}", f"{number}\n")
    self.step(number, there, work=lambda: self.effect(number), expects=there, rerunnable=False)


def _must_not_run_twice_and_says_nothing(self: Resumer, number: int) -> None:
    there = content(f"effect-{number}", f"{number}\n")
    self.step(number, there, work=lambda: self.effect(number), rerunnable=False)


def _ends(self: Resumer, number: int) -> None:
    self.step(number, content("end", "done"), work=lambda: self.replaced("end", "done"))


WORK: tuple[Callable[[Resumer, int], None], ...] = (
    _says_what_it_leaves,
    _has_an_effect_first,
    _changes_back,
    _once,
    _must_not_run_twice,
    _must_not_run_twice_and_says_nothing,
    _ends,
)


if __name__ == "__main__":
    main()
