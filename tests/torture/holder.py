"""A process that holds a task, or wants it, and does what it is told on standard input: one order a line, one answer a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointManager, Lease
from agentos.errors import CheckpointError, NotSafeToResumeError
from tests.support import exited
from tests.torture.planted_recovery import plant

TASK = "t"


class Holder:
    """One process, and the lease that it has or had."""

    def __init__(self, manager: CheckpointManager, directory: Path) -> None:
        self.manager = manager
        self.called = directory / "called"
        self.lease: Lease | None = None
        self.steps: list[str] = []

    def clocks(self) -> list[float]:
        """The wall clock and the one that counts from the boot."""
        return [time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)]

    def claim(self, ttl: float | None = None) -> int:
        """Take the task."""
        self.lease = self.manager.claim_task(TASK, ttl=ttl)
        return self.lease.token

    def begin(self) -> str:
        """Begin a step under the lease."""
        self.steps.append(self.manager.begin_step(TASK, "tool_executed", {}, lease=self.lease))
        return self.steps[-1]

    def begin_without(self) -> str:
        """Begin a step without the lease."""
        return self.manager.begin_step(TASK, "tool_executed", {})

    def commit(self) -> str:
        """Commit the first step under the lease."""
        return self.manager.commit_step(self.steps[0], exited(), lease=self.lease).checkpoint_id

    def commit_without(self) -> str:
        """Commit it without."""
        return self.manager.commit_step(self.steps[0], exited()).checkpoint_id

    def resolve(self, outcome: str) -> None:
        """Say how the second step ended."""
        self.manager.resolve_step(self.steps[1], outcome, by="holder", reason="late", lease=self.lease)

    def abandon(self) -> bool:
        """Give the second step up."""
        return self.manager.abandon_step(self.steps[1], lease=self.lease)

    def once(self) -> Any:
        """Do something once."""
        return self.manager.once("key", {}, self.called.touch, task_id=TASK, lease=self.lease)

    def finish(self) -> None:
        """Finish the task."""
        self.manager.finish_task(TASK, lease=self.lease)

    def release(self) -> bool:
        """Let go of it."""
        assert self.lease is not None
        return self.manager.release_task(self.lease)

    def verdict(self) -> str:
        """What recover says."""
        return str(self.manager.recover(TASK).verdict.value)

    def resume(self) -> Any:
        """The state to go on with."""
        return self.manager.task(TASK).resume({"default": True})


def main() -> None:
    """Follow orders until there are no more."""
    logging.disable(logging.WARNING)
    directory, fault = Path(sys.argv[1]), sys.argv[2]
    plant(fault)
    with CheckpointManager(directory / "registry.sqlite", directory) as manager:
        holder = Holder(manager, directory)
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            order: Callable[..., Any] = getattr(holder, name)
            try:
                answer = ["ok", order(*arguments)]
            except NotSafeToResumeError as refusal:
                answer = ["error", f"NotSafeToResumeError {refusal.recovery.verdict.value}"]
            except CheckpointError as error:
                answer = ["error", type(error).__name__]
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
