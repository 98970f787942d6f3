"""An agent whose disk fails at one call of a step, and that insists: it makes the same call again until it has an answer.

Many trials in one process, each with its own folder, scene and fault. A trial is prepared, then the fault is armed and the
agent goes through its step twice, then the fault is gone and it goes through it once more. Calls that returned are
acknowledged; what was raised is left as a mark, and as `bare` if it is none of our errors.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from agentos.core.checkpoints import CheckpointError, CheckpointManager, EvidencePack
from agentos.errors import StepAlreadyCommittedError
from tests.faults.channel import Fault, ack, arm, disarm, mark
from tests.torture.agent import Errand, acknowledge, begin, do, open_manager, said, work
from tests.torture.planted import plant

# SQLite moves the log into the database when it has grown to 1,000 pages: this is most of that, and the step is the rest.
MOST_OF_A_LOG = 3_800_000
REST_OF_A_LOG = 400_000


@dataclass(frozen=True, slots=True)
class Trial:
    """One scene, and the fault that is met in it; without a fault everything goes well."""

    folder: str
    scene: str
    durability: str = "full"
    fault: str = ""
    # Whether the agent asks again through a new manager, as a process that was started anew would.
    anew: bool = False


def argv(trials: list[Trial], *, stop: str = "", fault: str = "") -> list[str]:
    """The command line; `stop` ends it before the faults are armed ('prepared') or disarmed ('stepped')."""
    told = {"trials": [asdict(trial) for trial in trials], "stop": stop, "fault": fault}
    return [sys.executable, "-m", "tests.torture.insisting", json.dumps(told)]


def main() -> None:
    """Go through the trials of the command line."""
    logging.disable(logging.WARNING)
    told = json.loads(sys.argv[1])
    plant(told["fault"])
    for number, facts in enumerate(told["trials"]):
        trial = Trial(**facts)
        mark(f"trial {number}")
        Insisting(number, trial).go_through(told["stop"])
        mark(f"end {number}")


class Insisting:
    """One trial: how far the agent got."""

    def __init__(self, number: int, trial: Trial) -> None:
        self.number = number
        self.trial = trial
        self.errand = Errand(trial.folder, durability=trial.durability, artifacts=True)
        self.manager: CheckpointManager | None = None
        self.neighbour: CheckpointManager | None = None
        self.step_id = ""
        self.state = {"body": "x" * (REST_OF_A_LOG if trial.scene == "full log" else 600)}
        self.pack = EvidencePack()
        self.committed = False
        self.troubles = 0

    def go_through(self, stop: str) -> None:
        SCENES[self.trial.scene](self)
        _leave_if(stop == "prepared")
        if self.trial.fault:
            arm(Fault.parse(self.trial.fault))
        self.go_on()
        if self.trial.scene in TIDY:
            self.close()
        _leave_if(stop == "stepped")
        self.go_on()
        disarm()
        if not self.committed:
            # What a failed sync had in its hands is to be written again, as a new file: the error says so.
            self.pack = EvidencePack()
        self.go_on()
        self.commit_again()
        self.close()
        if self.neighbour is not None:
            self.neighbour.close()

    def go_on(self) -> None:
        """From where the agent stands to the end of its step, or to the next trouble."""
        try:
            if self.manager is None:
                self.manager = open_manager(self.trial.folder, self.trial.durability)
            if not self.step_id:
                self.step_id = begin(self.manager, self.errand, self.state, 0)
            if not self.committed:
                self.pack = self.pack if self.pack.evidence_list else self.worked()
                acknowledge(self.manager.commit_step(self.step_id, self.pack), self.trial.durability)
                self.committed = True
        except StepAlreadyCommittedError:
            # An answer too: an earlier call, which raised, had landed. From here on it is promised.
            facts = {"task": self.errand.task, "step": self.step_id, "checkpoint": self.step_id.removeprefix("step_")}
            ack(said("commit", durability=self.trial.durability, **facts))
            self.committed = True
        except CheckpointError as error:
            self.note("raised", error)
            if self.trial.anew:
                self.close()
        except Exception as error:  # noqa: BLE001 - this is what must never happen, whatever it is
            self.note("bare", error)
            self.close()

    def worked(self) -> EvidencePack:
        """The agent's own writing meets the fault as well; then it proves what it can."""
        try:
            return work(self.errand, self.troubles + 1, "y" * 600)
        except OSError as error:
            self.note("own", error)
            return work(Errand(self.trial.folder), 0, "")

    def commit_again(self) -> None:
        """A step ends once."""
        try:
            assert self.manager is not None
            self.manager.commit_step(self.step_id, self.pack)
        except StepAlreadyCommittedError:
            return
        except Exception as error:  # noqa: BLE001 - as above
            self.note("bare", error)
        else:
            mark(f"twice {self.number}")

    def close(self) -> None:
        if self.manager is not None:
            self.manager.close()
        self.manager = None

    def note(self, kind: str, error: Exception) -> None:
        self.troubles += 1
        mark(f"{kind} {self.number} {self.troubles} {type(error).__name__}: {str(error)[:300]!r}")


def _leave_if(now: bool) -> None:
    if now:
        os._exit(0)


def _new(life: Insisting) -> None:
    """Nothing is there, not even the folder."""


def _known(life: Insisting) -> None:
    """A registry of an agent that ended well."""
    do(Errand(life.trial.folder, task="before", steps=2, durability=life.trial.durability))


def _warm(life: Insisting) -> None:
    """The agent is at work and has a step behind it."""
    _known(life)
    life.manager = open_manager(life.trial.folder, life.trial.durability)
    step_id = begin(life.manager, life.errand, {"first": True}, 0)
    acknowledge(life.manager.commit_step(step_id, work(Errand(life.trial.folder), 0, "")), life.trial.durability)


def _neighbour(life: Insisting) -> None:
    """As before, and another manager has the file open: closing ours does not tidy the log up."""
    _warm(life)
    life.neighbour = open_manager(life.trial.folder)


def _full_log(life: Insisting) -> None:
    """The log is so full that the step at hand moves it into the database."""
    _warm(life)
    assert life.manager is not None
    begin(life.manager, life.errand, {"bulk": "z" * MOST_OF_A_LOG}, 0)


SCENES: dict[str, Callable[[Insisting], None]] = {
    "new": _new,
    "known": _known,
    "warm": _warm,
    "neighbour": _neighbour,
    "full log": _full_log,
}
# Where the closing of the registry, with its tidying up, is part of what meets the fault.
TIDY = ("new", "known")


if __name__ == "__main__":
    main()
