"""Claims in the real store against a model of who holds what, driven by a random machine.

Several managers on one SQLite file, holders with made-up names, and a clock, a process and a boot that the test holds: nothing
sleeps, and a process "ends" by this one being called another. A refusal must leave every row of the store as it was.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule, run_state_machine_as_test

from agentos import _process
from agentos._process import Process
from agentos.core.checkpoints import CheckpointManager, EvidencePack
from agentos.errors import CheckpointError, LeaseLostError, StepAlreadyCommittedError, TaskHeldError
from agentos.store.registry.sqlite import holding
from tests.support import dump, exists

TASKS = st.sampled_from(["t", "u"])
NAMES = st.sampled_from(["a", "b", "c"])
MANAGERS = st.integers(0, 2)
# Whole multiples of three: a claim is renewed by use once a third of its time is over, and floats stay exact.
TTLS = st.sampled_from([None, 3.0, 9.0])
# Seconds that pass, and what ends every holder: more seldom, or nobody would get anything done.
EVENTS = st.sampled_from([0.5, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 10.0, "the process ends", "the machine is restarted"])


@dataclass(frozen=True)
class Held:
    """The model of a task's claim."""

    name: str | None = None
    token: int = 0
    process: str = ""
    boot: str = ""
    expires: float | None = None


@dataclass(frozen=True)
class Paper:
    """A lease, and what the model knows of it."""

    lease: Any
    task: str
    name: str
    token: int
    process: str
    ttl: float | None


@dataclass(frozen=True)
class Begun:
    """A step that was begun, and the token that was the task's then."""

    step_id: str
    task: str
    token: int


class ClaimMachine(RuleBasedStateMachine):
    leases: Bundle[Paper] = Bundle("leases")
    steps: Bundle[Begun] = Bundle("steps")

    def __init__(self) -> None:
        super().__init__()
        self.after = ExitStack()
        self.now = 1000.0
        self.starts = 0
        self.boots = 0
        folder = Path(self.after.enter_context(tempfile.TemporaryDirectory()))
        (folder / "out.txt").write_text("here")
        self.path = folder / "registry.sqlite"
        self.after.enter_context(patch.object(_process, "boottime", lambda: self.now))
        self.after.enter_context(patch.object(_process, "_this", None))
        self.start_process()
        self.managers = [self.after.enter_context(CheckpointManager(self.path, folder, durability="relaxed")) for _ in range(3)]
        self.reader = self.after.enter_context(closing(sqlite3.connect(self.path, isolation_level=None)))
        self.held: dict[str, Held] = {"t": Held(), "u": Held()}
        self.committed: dict[str, list[str]] = {"t": [], "u": []}
        self.ended: set[str] = set()
        # The newest of each task, which random choice alone would rarely meet while it is good.
        self.paper: dict[str, Paper] = {}
        self.step: dict[str, Begun] = {}

    def teardown(self) -> None:
        self.after.close()

    # The world around.

    def start_process(self) -> None:
        """From now on this is another process, of a pid that nobody has: whoever was here before has ended."""
        self.starts += 1
        boot = f"{self.boots:08x}-0000-4000-8000-000000000000"
        _process._this = Process("host", 2**22 + self.starts, self.starts, boot, _process._namespace())

    @property
    def here(self) -> str:
        return _process.this_process().text

    @property
    def boot(self) -> str:
        return _process.this_process().boot

    @rule(event=EVENTS)
    def something_happens(self, event: float | str) -> None:
        if isinstance(event, float):
            self.now += event
            return
        if event == "the machine is restarted":
            self.boots += 1
            self.now = 1.0
        self.start_process()

    # What holders do.

    @initialize(target=leases, name=NAMES, task=TASKS)
    def somebody_has_a_lease(self, name: str, task: str) -> Any:
        return self.claim(0, task, name, 9.0)

    @rule(target=leases, number=MANAGERS, task=TASKS, name=NAMES, ttl=TTLS)
    def claim(self, number: int, task: str, name: str, ttl: float | None) -> Any:
        held = self.held[task]
        if not self.is_open(held) and held.name != name:
            self.refused(TaskHeldError, lambda: self.managers[number].claim_task(task, holder=name, ttl=ttl))
            return multiple()
        token = held.token if held.name == name and not self.is_gone(held) else held.token + 1
        expires = None if ttl is None else self.now + ttl
        lease = self.managers[number].claim_task(task, holder=name, ttl=ttl)
        assert (task, token, expires, ttl) == (lease.task_id, lease.token, lease.expires, lease.ttl)
        self.held[task] = Held(name, token, self.here, self.boot, expires)
        self.paper[task] = Paper(lease, task, name, token, self.here, ttl)
        return self.paper[task]

    @rule(number=MANAGERS, paper=leases)
    def release(self, number: int, paper: Paper) -> None:
        held = self.held[paper.task]
        if paper.process != self.here:
            self.refused(LeaseLostError, lambda: self.managers[number].release_task(paper.lease))
            return
        before = dump(self.path)
        current = self.is_current(paper, paper.task)
        assert current == self.managers[number].release_task(paper.lease)
        if current:
            self.held[paper.task] = Held(token=held.token)
        else:
            assert before == dump(self.path)

    @rule(target=steps, number=MANAGERS, task=TASKS)
    def begin(self, number: int, task: str) -> Any:
        held = self.held[task]
        if not self.is_open(held):
            self.refused(TaskHeldError, lambda: self.managers[number].begin_step(task, "tool_executed", {}))
            return multiple()
        if held.name is not None:
            self.held[task] = Held(token=held.token + 1)
        self.step[task] = Begun(self.managers[number].begin_step(task, "tool_executed", {}), task, self.held[task].token)
        return self.step[task]

    @rule(target=steps, number=MANAGERS, task=TASKS, paper=leases)
    def begin_with_a_lease(self, number: int, task: str, paper: Paper) -> Any:
        if not self.is_current(paper, task):
            lost = LeaseLostError if paper.task == task else CheckpointError
            self.refused(lost, lambda: self.managers[number].begin_step(task, "tool_executed", {}, lease=paper.lease))
            return multiple()
        step_id = self.managers[number].begin_step(task, "tool_executed", {}, lease=paper.lease)
        self.use(paper)
        self.step[task] = Begun(step_id, task, paper.token)
        return self.step[task]

    @rule(number=MANAGERS, step=steps)
    def commit(self, number: int, step: Begun) -> None:
        if step.step_id in self.ended:
            self.refused(StepAlreadyCommittedError, self.committing(number, step), LeaseLostError)
        elif step.token != self.held[step.task].token:
            self.refused(LeaseLostError, self.committing(number, step))
        else:
            self.lands(number, step)

    @rule(number=MANAGERS, step=steps, paper=leases)
    def commit_with_a_lease(self, number: int, step: Begun, paper: Paper) -> None:
        if step.step_id in self.ended:
            self.refused(StepAlreadyCommittedError, self.committing(number, step, paper), CheckpointError)
        elif not self.is_current(paper, step.task):
            lost = LeaseLostError if paper.task == step.task else CheckpointError
            self.refused(lost, self.committing(number, step, paper))
        elif step.token != self.held[step.task].token:
            self.refused(LeaseLostError, self.committing(number, step, paper))
        else:
            self.lands(number, step, paper)
            self.use(paper)

    @rule(target=steps, number=MANAGERS, task=TASKS)
    def begin_with_the_newest_lease(self, number: int, task: str) -> Any:
        return self.begin_with_a_lease(number, task, self.paper[task]) if task in self.paper else multiple()

    @rule(number=MANAGERS, task=TASKS, leased=st.booleans())
    def commit_the_newest_step(self, number: int, task: str, leased: bool) -> None:
        step, paper = self.step.get(task), self.paper.get(task)
        if step is None:
            return
        if leased and paper is not None:
            self.commit_with_a_lease(number, step, paper)
        else:
            self.commit(number, step)

    # The model.

    def is_gone(self, held: Held) -> bool:
        return held.name is not None and (held.boot != self.boot or held.process != self.here)

    def is_open(self, held: Held) -> bool:
        """Whether somebody else may come in."""
        return held.name is None or self.is_gone(held) or (held.expires is not None and self.now >= held.expires)

    def is_current(self, paper: Paper, task: str) -> bool:
        held = self.held[task]
        return (task, held.name, held.token, self.here) == (paper.task, paper.name, paper.token, paper.process)

    def use(self, paper: Paper) -> None:
        """A write under a claim renews it, once a third of its time is over."""
        held = self.held[paper.task]
        if paper.ttl is not None and held.expires is not None and self.now + paper.ttl - held.expires >= paper.ttl / 3:
            self.held[paper.task] = replace(held, expires=self.now + paper.ttl)

    def committing(self, number: int, step: Begun, paper: Paper | None = None) -> Callable[[], Any]:
        evidence: EvidencePack = exists("out.txt")
        lease = None if paper is None else paper.lease
        return lambda: self.managers[number].commit_step(step.step_id, evidence, lease=lease)

    def lands(self, number: int, step: Begun, paper: Paper | None = None) -> None:
        checkpoint = self.committing(number, step, paper)()
        self.committed[step.task].append(step.step_id)
        self.ended.add(step.step_id)
        assert len(self.committed[step.task]) == checkpoint.sequence_number

    def refused(self, error: type[CheckpointError], call: Callable[[], Any], *others: type[CheckpointError]) -> None:
        before = dump(self.path)
        with pytest.raises((error, *others)):
            call()
        assert before == dump(self.path)

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Token, holder and expiry of every task, and its checkpoints in the order in which they landed."""
        rows = self.reader.execute("select task_id, claim_holder is not null, claim_token, claim_expires from tasks").fetchall()
        stored = {task: tuple(rest) for task, *rest in rows}
        for task, held in self.held.items():
            assert (int(held.name is not None), held.token, held.expires) == stored.get(task, (0, 0, None))
        landed = "select step_id from steps where task_id = ? and state = 'committed' order by place"
        for task, expected in self.committed.items():
            assert expected == [step_id for (step_id,) in self.reader.execute(landed, (task,))]


def run_machine(**options: Any) -> None:
    run_state_machine_as_test(ClaimMachine, settings=settings(report_multiple_bugs=False, **options))


can_claim = pytest.mark.skipif(not hasattr(CheckpointManager, "claim_task"), reason="this manager cannot claim")


@can_claim
def test_claims_in_the_store_are_those_of_the_model(count):
    """Whatever holders, processes, clocks and restarts do: what the model refuses is refused, and changes nothing."""
    run_machine(max_examples=count(15, 600), stateful_step_count=count(30, 50))


@can_claim
@pytest.mark.parametrize("rule_name", ["fence_step", "fence_lease", "refuse_foreign", "renew"])
def test_a_store_that_forgets_a_rule_is_noticed(rule_name):
    """The machine finds what is planted, so its silence means something."""
    noticed = (AssertionError, CheckpointError, pytest.fail.Exception)
    with patch.object(holding, rule_name, lambda *_: None), pytest.raises(noticed):
        run_machine(max_examples=300, stateful_step_count=50, phases=[Phase.generate])
