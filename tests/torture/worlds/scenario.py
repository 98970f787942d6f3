"""One scenario from its seed and index: the history, the disaster, recovery by a new manager, and every complaint about it.

`play` runs for real and holds each answer to the oracle's. A complaint names seed, index and plot: enough to run it again.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import NotSafeToResumeError
from tests.torture.worlds import plots
from tests.torture.worlds.doing import TASK, Agent, evidence
from tests.torture.worlds.model import Claim, Pack
from tests.torture.worlds.oracle import ADOPT, Answer, Oracle

DEFAULT = {"default": True}
GOES_ON = ("fresh", "resume", "finished")
# What recover() may add to: the table of looks, and how many of them a step had. What is settled after a failed write is apart.
LOOKS: dict[str, tuple[str, ...]] = {"verifications": ("verifications", "seal"), "settlement": ()}


@dataclass(slots=True)
class Played:
    """What one scenario gave."""

    name: str
    answer: Answer
    complaints: list[str] = field(default_factory=list)


def play(directory: Path, seed: int, index: int) -> Played:
    """Run one scenario in an empty directory."""
    random = Random(f"{seed}:{index}")
    plot = plots.PLOTS[index % len(plots.PLOTS)]
    agent = Agent(directory, random)
    try:
        base = _lived(agent, random, plot)
    finally:
        agent.crash()
    answer = Oracle(agent.history, base).answer()
    played = Played(f"seed={seed} index={index} {plot.__name__}", answer)
    played.complaints += [f"{played.name}: {complaint}" for complaint in _complaints(agent, base, answer)]
    return played


def mend(directory: Path, seed: int, index: int) -> Iterator[str]:
    """Break the files after a history, look, put everything back, and look again: the first look may not count against it."""
    random = Random(f"mend:{seed}:{index}")
    agent = Agent(directory, random)
    try:
        plots.live_through(agent, random, random.randrange(2, 10))
        agent.files.keep(-1)
        random.choice(plots.SIMPLE)(agent, random)
    finally:
        agent.crash()
    for broken in (True, False):
        if not broken:
            agent.files.put_back(-1)
        oracle = Oracle(agent.history)
        with _manager(agent, None) as manager:
            found = [*_of_recovery(manager.recover(TASK), oracle.answer(), oracle)]
        yield from (f"seed={seed} index={index} {'broken' if broken else 'mended'}: {complaint}" for complaint in found)


def _lived(agent: Agent, random: Random, plot: plots.Plot) -> str | None:
    if plot not in plots.WITHOUT_HISTORY:
        plots.live_through(agent, random, random.randrange(1, 10))
    base = plot(agent, random)
    if plot in (plots.died_inside, plots.dead_branch, plots.one_step_back) and random.random() < 0.4:
        random.choice(plots.SIMPLE)(agent, random)
    return base


def _complaints(agent: Agent, base: str | None, answer: Answer) -> Iterator[str]:
    oracle = Oracle(agent.history, base)
    with _manager(agent, base) as manager:
        before = _without_looks(agent.registry)
        recovery = manager.recover(TASK)
        if before != _without_looks(agent.registry):
            yield f"recover changed more than the history of looks: {_changed(before, _without_looks(agent.registry))}"
        yield from _of_recovery(recovery, answer, oracle)
    yield from _of_resume(agent, base, answer)
    if answer.verdict == "repair":
        yield from _of_repair(agent, base)


def _of_repair(agent: Agent, base: str | None) -> Iterator[str]:
    """Put back what differs by hand; then the oracle is asked again, and the world of that checkpoint differs no more."""
    with _manager(agent, base) as manager:
        plan = manager.recover(TASK).plan
        if plan is None:
            yield "repair without a plan"
            return
        manager.restore(plan)
    answer = Oracle(agent.history, base).answer()
    if answer.verdict == "repair":
        yield "after the restore it is still to be repaired"
    yield from _of_resume(agent, base, answer)


def _of_recovery(recovery: Any, answer: Answer, oracle: Oracle) -> Iterator[str]:
    told = f"\n{recovery.explain()}"
    if answer.verdict != recovery.verdict:
        yield f"{_expected(answer)}, found {recovery.verdict}{told}"
    elif answer.verdict in ("resume", "finished") and answer.adopts is None:
        found = recovery.checkpoint.sequence_number if recovery.checkpoint else None
        if answer.sequence != found:
            yield f"{_expected(answer)}, found sequence {found}{told}"
    if recovery.verdict in ("fresh", "resume", "uncertain"):
        settled = {each.step_id: str(each.verdict) for each in recovery.interrupted}
        if answer.settled != settled:
            yield f"interrupted steps: expected {answer.settled}, found {settled}{told}"
    unseen = {each.subject for each in recovery.differences if each.outcome == "failed"} & oracle.unseen()
    if unseen:
        yield f"failed was said of what cannot be seen: {unseen}{told}"


def _of_resume(agent: Agent, base: str | None, answer: Answer) -> Iterator[str]:
    first = _resumed(agent, base)
    yield from _of_state(agent, base, answer, first)
    if first != (second := _resumed(agent, base, by_handle=True)):
        yield f"a second resume gave {second}, the first one {first}"
    if answer.verdict in ("fresh", "resume"):
        yield from _no_further_step(agent, base)


def _of_state(agent: Agent, base: str | None, answer: Answer, given: tuple[str, Any]) -> Iterator[str]:
    """Whatever the verdict was called: a returned state is one that stands."""
    said, state = given
    if said != "returned":
        if answer.verdict in GOES_ON:
            yield f"{_expected(answer)}, found a refusal: {given}"
        return
    history = agent.history
    oracle = Oracle(history, base)
    if state == DEFAULT:
        if len(history.marks) > history.restarted_at and answer.verdict != "finished":
            yield "a fresh start over committed work"
    elif not history.finished and not any("holds" == oracle.holds(*world) for world in oracle.worlds_of(state)):
        yield f"resumed from a state whose world does not hold: {state}"
    if answer.verdict in GOES_ON and state != (DEFAULT if answer.state is None else answer.state):
        yield f"{_expected(answer)} with {answer.state}, resumed with {state}"
    if answer.verdict not in GOES_ON:
        yield f"{_expected(answer)}, but a state was returned: {state}"


def _resumed(agent: Agent, base: str | None, *, by_handle: bool = False) -> tuple[str, Any]:
    with _manager(agent, base) as manager:
        try:
            if not by_handle:
                return "returned", manager.resume(TASK, DEFAULT)
            with manager.task(TASK) as task:
                return "returned", task.resume(DEFAULT)
        except NotSafeToResumeError as refusal:
            return str(refusal.recovery.verdict), None


def _no_further_step(agent: Agent, base: str | None) -> Iterator[str]:
    """Whoever was let go on can: the next step is committed, and is where the task resumes next."""
    claimed = Pack((Claim("exists", str(agent.registry)),))
    with _manager(agent, base) as manager:
        checkpoint = manager.commit_step(manager.begin_step(TASK, "tool_executed", {"next": 1}), evidence(claimed))
        if not checkpoint.verified:
            yield "the next step could not be verified"
    if ("returned", {"next": 1}) != (found := _resumed(agent, base)):
        yield f"after one more step: {found}"


def _manager(agent: Agent, base: str | None) -> closing[CheckpointManager]:
    return closing(CheckpointManager(agent.registry, base, durability="relaxed"))


def _without_looks(registry: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, but not which looks there were."""
    with closing(sqlite3.connect(registry, timeout=30)) as database:
        database.row_factory = sqlite3.Row
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table' order by name")]
        rows = {name: [dict(row) for row in database.execute(f"select * from {name}")] for name in names if name not in LOOKS}
    for row in rows.get("steps", []):
        for counted in LOOKS["verifications"]:
            del row[counted]
    return rows


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in after if before.get(name) != after[name]]


def _expected(answer: Answer) -> str:
    on = f" on {answer.sequence}" if answer.sequence is not None else ""
    adopted = f", adopting {answer.adopts}" if answer.adopts else ""
    return f"expected {answer.verdict}{on}{adopted} {answer.why}".strip()


def coverage(played: list[Played]) -> Counter[str]:
    """How often each verdict was right, and each way to settle an interrupted step."""
    seen = Counter(each.answer.verdict for each in played)
    for each in played:
        seen.update(f"{how} a step" for how in {*each.answer.settled.values(), *([ADOPT] if each.answer.adopts else [])})
    return seen
