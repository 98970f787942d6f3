"""Who holds a task or runs a step, as text that is stored, and whether they still live.

A holder is a name and a process, `name@process`; a step that was begun without a lease names its process alone. Rules about
them are in claiming.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agentos import _marked, _process
from agentos._text import listed, shown
from agentos.core.checkpoints.claiming import Claim, Decision, may_take

if TYPE_CHECKING:
    from agentos.core.checkpoints.lease import Lease
    from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.stored import StoredTask


def new_holder(name: str | None = None) -> str:
    """This process as a holder; without a name, one that nobody had before."""
    return f"{name or os.urandom(6).hex()}@{_process.this_process().text}"


def is_alive(holder: str | None) -> bool | None:
    """Whether the holder's process lives; None if that cannot be seen from here."""
    process = _process.Process.parse((holder or "").rpartition("@")[2])
    return None if process is None else _process.is_alive(process)


def described(holder: str | None) -> str:
    """The holder in words."""
    name, _, text = (holder or "").rpartition("@")
    process = _process.Process.parse(text)
    if process is None:
        return shown(holder, 120)
    called = f" ({shown(name, 80)})" if name else ""
    unseen = ", which cannot be seen from here," if _process.is_alive(process) is None else ""
    return f"process {process.pid} on {shown(process.host, 80)}{called}{unseen}"


def living_holder(task: StoredTask, mine: Lease | None) -> str | None:
    """Who has the task, unless that is this lease's holder, or nobody who could still go on."""
    claim = Claim(task.holder, task.token, task.boot, task.expires, task.task_id)
    if task.holder is None or (mine is not None and claim.is_under(mine)):
        return None
    decision = may_take(claim, "", is_alive(task.holder), _process.boottime(), _process.this_process().boot)
    return task.holder if decision is Decision.HELD else None


# What `agentos run` says of a step in its metadata: its command is one whose processes can be known.
RUN_MARK = "agentos_run"


def is_running(step: StoredStep) -> bool:
    """Whether another process may be in the middle of this step, without a claim that would say so.

    What cannot be seen from here, in another container, may well be: doing it twice is worse than asking a person.
    """
    process = _process.Process.parse(step.runner)
    if step.error is not None or process is None or process == _process.this_process():
        return False
    return _process.is_alive(process) is not False


def left_running(step: StoredStep) -> list[int]:
    """The processes of a step that `agentos run` began, without the one that began it: what a SIGKILL of that one leaves."""
    if f'"{RUN_MARK}"'.encode() not in step.metadata:
        return []
    found = _marked.processes_of(step.step_id)
    return [*found, os.getpid()] if _marked.is_marked(step.step_id) else found


def runs_it(step: StoredStep) -> str:
    """Who is in the middle of the step, in words; nothing if nobody is."""
    if is_running(step):
        return described(step.runner)
    left = left_running(step)
    pids = f"process{'es' if len(left) > 1 else ''} {listed(list(map(str, left)), 5)}"
    return f"its command, {pids}, which outlived the agentos that ran it," if left else ""


def end_left_running(step: StoredStep) -> list[int]:
    """Kill those, if whoever began the step is known to have ended: it is under way otherwise."""
    if is_alive(step.runner) is not False or not left_running(step):
        return []
    return _marked.end_processes_of(step.step_id)
