"""The claim in a task's row: taken, renewed, given back, and asked before every write that it guards.

The rules are core/checkpoints/claiming.py; here they meet the row, under the write lock, with what this machine says about
time and about other processes. Without a lease a task may be worked on by anyone, as long as no living holder has it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from agentos import _process
from agentos._text import shown
from agentos.core.checkpoints.claiming import (
    Claim,
    Decision,
    entered,
    fence_lease,
    fence_step,
    granted,
    may_take,
    released,
)
from agentos.core.checkpoints.holders import described, is_alive
from agentos.core.checkpoints.lease import Lease
from agentos.core.checkpoints.ports import Ending
from agentos.errors import LeaseLostError, SupersededError, TaskHeldError
from agentos.store.registry.sqlite.rows import StepRow, TaskRow


def take(task: TaskRow, holder: str, ttl: float | None) -> Lease:
    """Give the task to this holder; the caller stores the row.

    Raises:
        TaskHeldError: another living holder has it.
    """
    claim, here, now = _claim(task), _process.this_process(), _process.boottime()
    decision = may_take(claim, holder, is_alive(claim.holder), now, here.boot)
    if decision is Decision.HELD:
        raise held(task)
    if decision is Decision.TAKE:
        task.claim_since = datetime.now(UTC).isoformat()
    _put(task, granted(claim, decision, holder, ttl, now, here.boot))
    return Lease(task.task_id, holder, task.claim_token, task.claim_expires, ttl, here.text)


def give_back(task: TaskRow, lease: Lease) -> bool:
    """Let go of the task; False, and nothing changed, if the lease is not the current one."""
    claim = released(_claim(task), lease)
    if claim is not None:
        clear(task, claim)
    return claim is not None


def free(task: TaskRow) -> bool:
    """End the claim of a holder that is not seen to live; False if nobody has the task; the caller stores the row.

    Raises:
        TaskHeldError: the holder lives.
    """
    if task.claim_holder is None:
        return False
    if is_alive(task.claim_holder):
        raise held(task)
    clear(task, Claim(None, task.claim_token + 1, task_id=task.task_id))
    return True


def admit(task: TaskRow, lease: Lease | None) -> bool:
    """Let a write in; whether the row changed for it, and has to be stored.

    A claim whose holder is gone, or slept through its time, is ended here: with the same token left in force, that holder's
    late writes would land beside ours.

    Raises:
        TaskHeldError: without a lease, and a living holder has the task.
        LeaseLostError: the lease is not the current one.
    """
    if lease is not None:
        refuse_foreign(lease)
        fence_lease(_claim(task), lease)
        return renew(task, lease)
    if task.claim_holder is None:
        return False
    claim = entered(_claim(task), is_alive(task.claim_holder), _process.boottime(), _process.this_process().boot)
    if claim is None:
        raise held(task)
    clear(task, claim)
    return True


def is_admitted(task: TaskRow, lease: Lease | None) -> bool:
    """Whether, by this row of the task, a write may come in as it is. A remembered row may be outdated: a no is asked again."""
    if lease is None:
        return task.claim_holder is None
    if not _claim(task).is_under(lease):
        return False
    refuse_foreign(lease)
    return not renew(task, lease)


def is_current(task: TaskRow, row: StepRow, ending: Ending) -> bool:
    """Whether, by this row of the task, the step may end. A remembered row may be outdated: a no is asked again."""
    try:
        refuse_stale(task, row, ending)
    except (LeaseLostError, SupersededError):
        return False
    return True


def refuse_stale(task: TaskRow, row: StepRow, ending: Ending) -> None:
    """Refuse to end a step that was begun before the task went into other hands.

    Raises:
        LeaseLostError: nothing was changed.
        SupersededError: it is to be adopted, and the task does not stand any more where it was begun.
    """
    if ending.lease is not None:
        refuse_foreign(ending.lease)
        fence_lease(_claim(task), ending.lease)
    if not ending.adopted:
        fence_step(task.task_id, _claim(task), row.token)
    elif row.parent != task.head:
        raise SupersededError(
            f"step {row.step_id}: begun on checkpoint number {row.parent}, and the task stands at number {task.head}",
            hint="a step is adopted only onto the checkpoint it was begun on",
        )


def refuse_foreign(lease: Lease) -> None:
    """A lease is good in the process that it was made in, and a forked child is another one."""
    here = _process.this_process().text
    if lease.process != here:
        raise LeaseLostError(
            f"task {shown(lease.task_id, 80)}: this lease was made in another process ({shown(lease.process, 120)})",
            hint="a forked child is another holder: claim the task in it, once its parent has let go",
            task_id=lease.task_id,
        )


def renew(task: TaskRow, lease: Lease | None) -> bool:
    """Let the claim last its whole time again, once a third of that is over; whether the row changed."""
    if lease is None or lease.ttl is None or task.claim_expires is None:
        return False
    until = _process.boottime() + lease.ttl
    if until - task.claim_expires < lease.ttl / 3:
        return False
    task.claim_expires = until
    return True


def held(task: TaskRow) -> TaskHeldError:
    """Says who has the task, and since when."""
    from agentos import _ways  # noqa: PLC0415 - only a refusal has a way out

    since = f" since {task.claim_since}" if task.claim_since else ""
    waits, frees = _ways.wait(task.task_id), _ways.free(task.task_id)
    return TaskHeldError(
        f"task {shown(task.task_id, 80)}: held by {described(task.claim_holder)}{since}",
        hint=(
            _ways.Way("wait for it, or stop it: a claim ends with its process; ", waits, " waits")
            if is_alive(task.claim_holder)
            else _ways.Way("it cannot be seen from here: wait for its ttl, or ", frees, " once it is gone")
        ),
        task_id=task.task_id,
        holder=task.claim_holder,
        since=task.claim_since,
    )


def clear(task: TaskRow, claim: Claim) -> None:
    """Nobody has the task any more."""
    _put(task, claim)
    task.claim_since = None


def _claim(task: TaskRow) -> Claim:
    return Claim(task.claim_holder, task.claim_token, task.claim_boot, task.claim_expires, task.task_id)


def _put(task: TaskRow, claim: Claim) -> None:
    task.claim_holder, task.claim_token = claim.holder, claim.token
    task.claim_boot, task.claim_expires = claim.boot, claim.expires
