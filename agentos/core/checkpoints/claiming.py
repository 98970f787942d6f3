"""Who may take a task, and whose writes count.

The token decides writes, expiry only permits a takeover: a holder that slept through its ttl loses nothing until another one
takes the task, and from then on nothing it does can land. A token is never given out twice and never goes back.
Pure rules: whether a process lives, what time it is and which boot this is are observed elsewhere and handed in, and the store
applies the answer under the lock of the task's row. A model of these very functions is searched in full by the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agentos._text import shown
from agentos.core.checkpoints.lease import Lease
from agentos.errors import LeaseLostError


@dataclass(frozen=True)
class Claim:
    """A task's claim as it is stored. Without a holder the task is free; its token stays."""

    holder: str | None = None
    token: int = 0
    boot: str | None = None
    # By the clock that counts from that boot; None: for as long as the holder lives.
    expires: float | None = None
    # Tokens of different tasks are often equal; where the task is named, a lease has to be for that one.
    task_id: str | None = None

    def is_under(self, lease: Lease) -> bool:
        """Whether this is the claim that the lease was given for, and still is."""
        same_task = self.task_id is None or self.task_id == lease.task_id
        return same_task and (self.holder, self.token) == (lease.holder, lease.token)


class Decision(StrEnum):
    """What becomes of a wish to hold a task."""

    TAKE = "take"
    RENEW = "renew"
    HELD = "held"


def may_take(claim: Claim, holder: str, alive: bool | None, now: float, boot: str) -> Decision:  # noqa: FBT001 - a fact
    """Whether `holder` gets the task.

    Args:
        alive: whether the claim's holder lives; None if that cannot be seen from here.
        now: seconds since this boot.
        boot: which boot this is; an empty text where the system does not say.
    """
    if claim.holder is None or is_gone(claim, alive, boot):
        return Decision.TAKE
    if claim.holder == holder:
        # Late or not: nobody took it in between, so no write of another holder can lie between its own.
        return Decision.RENEW
    return Decision.TAKE if has_expired(claim, now, boot) else Decision.HELD


def is_gone(claim: Claim, alive: bool | None, boot: str) -> bool:  # noqa: FBT001 - a fact
    """Whether the claim's holder is known to have ended: nothing lives through a restart of its machine."""
    return claim.holder is not None and (alive is False or _differ(claim.boot, boot))


def has_expired(claim: Claim, now: float, boot: str) -> bool:
    """Whether the claim's time is up. Times of different boots cannot be compared, so then it is not."""
    return claim.expires is not None and (claim.boot or "") == boot and now >= claim.expires


def _differ(claimed: str | None, boot: str) -> bool:
    # A system that does not name its boots tells nothing about restarts.
    return bool(claimed) and bool(boot) and claimed != boot


def granted(claim: Claim, decision: Decision, holder: str, ttl: float | None, now: float, boot: str) -> Claim:
    """The claim after `decision`, which is not a refusal: whoever takes a task gets a token nobody had."""
    if decision is Decision.HELD:
        raise AssertionError("a task that is held is not granted")
    token = claim.token + 1 if decision is Decision.TAKE else claim.token
    return Claim(holder, token, boot, None if ttl is None else now + ttl, claim.task_id)


def entered(claim: Claim, alive: bool | None, now: float, boot: str) -> Claim | None:  # noqa: FBT001 - a fact
    """The claim once a write without a lease has come in; None if a holder has the task and keeps it out.

    A claim that could be taken ends here: with the same token left in force, a holder that only slept would go on beside us.
    """
    if claim.holder is None:
        return claim
    return None if may_take(claim, "", alive, now, boot) is Decision.HELD else _free(claim, claim.token + 1)


def released(claim: Claim, lease: Lease) -> Claim | None:
    """The claim without its holder, who gave it back; None if the lease is not the current one and nothing changes."""
    return _free(claim, claim.token) if claim.is_under(lease) else None


def _free(claim: Claim, token: int) -> Claim:
    return Claim(None, token, task_id=claim.task_id)


def fence_lease(claim: Claim, lease: Lease) -> None:
    """Let a write through only under the task's current claim.

    Raises:
        LeaseLostError: another holder took the task, or it was given back, or it is another task; nothing may be changed.
    """
    if claim.task_id is not None and claim.task_id != lease.task_id:
        raise LeaseLostError(
            f"task {shown(claim.task_id, 80)}: this lease is for another task, {shown(lease.task_id, 80)}",
            hint="every task is claimed by itself: pass the lease that claim_task() gave for this one",
            task_id=claim.task_id,
        )
    if not claim.is_under(lease):
        raise _lost(lease.task_id, claim, lease.token, "this lease has")


def fence_step(task_id: str, claim: Claim, token: int) -> None:
    """Let a step end only if nobody took the task since it began. `token` is what its begin stored.

    Raises:
        LeaseLostError: somebody did; nothing may be changed.
    """
    if claim.token != token:
        raise _lost(task_id, claim, token, "the step was begun under")


def _lost(task_id: str, claim: Claim, token: int, whose: str) -> LeaseLostError:
    if claim.holder is None:
        now_held = "nobody holds it now" if claim.token != token else "it was given back"
    else:
        now_held = f"it is held by {shown(claim.holder, 120)}"
    return LeaseLostError(
        f"task {shown(task_id, 80)}: {whose} token {token}, the task's is {claim.token}: {now_held}",
        hint="stop this work: another holder may have gone on from an earlier state; resume() claims the task anew",
        task_id=task_id,
        token=token,
        current_token=claim.token,
        holder=claim.holder,
    )
