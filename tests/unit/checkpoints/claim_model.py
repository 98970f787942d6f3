"""The claim protocol as a model that can be searched in full.

Three holders of one task claim, begin, commit, release, stop, go on and die in every order, while time ticks and the machine is
restarted. What the store would decide is decided by the real rules of `claiming`; who is overtaken is kept beside it, as ghosts
that no rule reads, and `broken` judges by those alone. The third holder lives in another pid namespace: it sees nobody, and
nobody sees it. A commit has two halves, because looking at evidence takes long enough to be stopped in the middle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

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
from agentos.core.checkpoints.lease import Lease
from agentos.errors import LeaseLostError

T = TypeVar("T")
NAMESPACES = (0, 0, 1)
UP, STOPPED, DEAD = "up", "stopped", "dead"


class Step(NamedTuple):
    token: int
    leased: bool
    sent: bool = False
    # A ghost: another holder got the task since this began.
    overtaken: bool = False


class Holder(NamedTuple):
    life: str = UP
    # A process that ended comes back as another one.
    number: int = 0
    lease: Lease | None = None
    step: Step | None = None


class World(NamedTuple):
    claim: Claim = Claim()
    holders: tuple[Holder, ...] = (Holder(),) * len(NAMESPACES)
    now: int = 0
    boot: int = 0
    begins: int = 0
    deaths: int = 0


class Action(NamedTuple):
    name: str
    who: int = -1
    ttl: int | None = None


@dataclass(frozen=True)
class Rules:
    """The protocol, how far it is searched, and what may be switched off in it."""

    tokens: int = 2
    ticks: int = 2
    begins: int = 2
    deaths: int = 1
    reboots: int = 1
    unleased: bool = True
    token_decides: bool = True
    expiry_decides: bool = False
    a_begin_ends_what_it_overrides: bool = True


@dataclass(frozen=True)
class Found:
    """What a search came to: how many states, and the shortest way to a broken promise if there is one."""

    states: int
    broken: str = ""
    trace: tuple[Action, ...] = ()


def search(rules: Rules) -> Found:
    """Visit every state that can be reached, nearest first, and stop at the first promise that does not hold."""
    start = World()
    came_from: dict[World, tuple[World, Action] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        before = waiting.popleft()
        for action in actions(before, rules):
            after, said = perform(before, action, rules)
            if problem := broken(before, action, after, said):
                return Found(len(came_from), problem, (*trace_to(before, came_from), action))
            if after not in came_from:
                came_from[after] = (before, action)
                waiting.append(after)
    return Found(len(came_from))


def trace_to(world: World, came_from: dict[World, tuple[World, Action] | None]) -> tuple[Action, ...]:
    trace: list[Action] = []
    while (step := came_from[world]) is not None:
        world, action = step
        trace.append(action)
    return tuple(reversed(trace))


def actions(world: World, rules: Rules) -> Iterator[Action]:
    """Everything that may happen next."""
    if world.now < rules.ticks:
        yield Action("tick")
    anybody_stopped = any(holder.life == STOPPED for holder in world.holders)
    for who, holder in enumerate(world.holders):
        if holder.life == DEAD:
            yield Action("start", who)
            continue
        if world.deaths < rules.deaths:
            yield Action("die", who)
        if holder.life == STOPPED:
            yield Action("continue", who)
            continue
        yield from calls(world, who, rules)
        if not anybody_stopped:
            yield Action("stop", who)
    if world.boot < rules.reboots:
        yield Action("reboot")


def calls(world: World, who: int, rules: Rules) -> Iterator[Action]:
    """What a running holder may call."""
    holder = world.holders[who]
    if world.claim.token < rules.tokens:
        yield Action("claim", who, 1)
        yield Action("claim", who, None)
    # A begin may cost a token too.
    if holder.step is None and world.begins < rules.begins and world.claim.token <= rules.tokens:
        if holder.lease is not None:
            yield Action("begin", who)
        elif rules.unleased:
            yield Action("begin unleased", who)
    if holder.step is not None:
        yield Action("land" if holder.step.sent else "commit", who)
    if holder.lease is not None:
        yield Action("release", who)


def perform(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    """The world afterwards, and what the caller was told. A refusal leaves the world as it is."""
    try:
        return PERFORMED[action.name](world, action, rules)
    except LeaseLostError:
        return world, "lost"


def tick(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    return world._replace(now=world.now + 1), ""


def reboot(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    gone = tuple(Holder(DEAD, holder.number) for holder in world.holders)
    return world._replace(holders=gone, boot=world.boot + 1, now=0), ""


def live(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    holder = world.holders[action.who]
    if action.name == "start":
        return put(world, action.who, Holder(UP, holder.number + 1)), ""
    if action.name == "die":
        return put(world._replace(deaths=world.deaths + 1), action.who, Holder(DEAD, holder.number)), ""
    return put(world, action.who, holder._replace(life=STOPPED if action.name == "stop" else UP)), ""


def claim(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    who, boot = action.who, str(world.boot)
    decision = may_take(world.claim, name(world, who), seen(world, who), world.now, boot)
    if decision is Decision.HELD:
        return world, decision.value
    taken = granted(world.claim, decision, name(world, who), action.ttl, world.now, boot)
    lease = Lease("task", name(world, who), taken.token, taken.expires, action.ttl)
    world = put(world._replace(claim=taken), who, world.holders[who]._replace(lease=lease))
    return (overtake(world, who) if decision is Decision.TAKE else world), decision.value


def begin(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    if action.name == "begin":
        if rules.token_decides:
            fence_lease(world.claim, existing(world.holders[action.who].lease))
    else:
        claim = entered(world.claim, seen(world, action.who), world.now, str(world.boot))
        if claim is None:
            return world, "held"
        if claim != world.claim and rules.a_begin_ends_what_it_overrides:
            world = overtake(world._replace(claim=claim), action.who)
    holder = world.holders[action.who]._replace(step=Step(world.claim.token, action.name == "begin"))
    return put(world._replace(begins=world.begins + 1), action.who, holder), "begun"


def commit(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    """The first half: the evidence is looked at. Where expiry decides, this is the last time that anybody asks."""
    holder = world.holders[action.who]
    if rules.expiry_decides and holder.lease is not None:
        expires = holder.lease.expires
        if expires is not None and world.now >= expires:
            return world, "expired"
    return put(world, action.who, holder._replace(step=existing(holder.step)._replace(sent=True))), ""


def land(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    """The second half: one transaction."""
    holder = world.holders[action.who]
    step = existing(holder.step)
    if rules.token_decides:
        if step.leased and holder.lease is not None:
            fence_lease(world.claim, holder.lease)
        fence_step("task", world.claim, step.token)
    return put(world, action.who, holder._replace(step=None)), "landed"


def release(world: World, action: Action, rules: Rules) -> tuple[World, str]:
    holder = world.holders[action.who]
    after = released(world.claim, existing(holder.lease))
    world = put(world, action.who, holder._replace(lease=None))
    return (world if after is None else world._replace(claim=after)), ""


PERFORMED = {
    "tick": tick,
    "reboot": reboot,
    **dict.fromkeys(("start", "die", "stop", "continue"), live),
    "claim": claim,
    **dict.fromkeys(("begin", "begin unleased"), begin),
    "commit": commit,
    "land": land,
    "release": release,
}


def existing(value: T | None) -> T:
    assert value is not None
    return value


def put(world: World, who: int, holder: Holder) -> World:
    return world._replace(holders=(*world.holders[:who], holder, *world.holders[who + 1 :]))


def name(world: World, who: int) -> str:
    return f"{who}.{world.holders[who].number}"


def owner(world: World) -> int | None:
    """Who holds the task, be he dead; None if nobody or a process that has another's place by now."""
    return next((who for who in range(len(world.holders)) if name(world, who) == world.claim.holder), None)


def lives(world: World) -> bool:
    who = owner(world)
    return who is not None and world.holders[who].life != DEAD


def seen(world: World, who: int) -> bool | None:
    """What `who` can see of the holder's life."""
    if world.claim.holder is None:
        return None
    held_in = NAMESPACES[int(world.claim.holder.partition(".")[0])]
    return lives(world) if held_in == NAMESPACES[who] else None


def overtake(world: World, by: int) -> World:
    """Mark the steps that others have under way."""
    for who, holder in enumerate(world.holders):
        if who != by and holder.step is not None:
            world = put(world, who, holder._replace(step=holder.step._replace(overtaken=True)))
    return world


def broken(before: World, action: Action, after: World, said: str) -> str:
    """The promise that this action broke; empty if all hold."""
    if after.claim.token < before.claim.token:
        return "a token went back"
    if said == "take" and after.claim.token <= before.claim.token:
        return "a token was given out twice"
    if said == "landed":
        return stale(before, action.who)
    if action.name == "claim":
        return wrongly_claimed(before, action.who, said)
    current = [
        who for who, holder in enumerate(after.holders) if holder.lease is not None and is_current(after.claim, holder.lease)
    ]
    return "two current claims" if len(current) > 1 else ""


def stale(before: World, who: int) -> str:
    if existing(before.holders[who].step).overtaken:
        return "a stale write landed"
    if before.claim.holder is not None and owner(before) != who and lives(before):
        return "a write landed beside a living holder"
    return ""


def wrongly_claimed(before: World, who: int, said: str) -> str:
    taken = said == "take"
    if before.claim.holder is None or owner(before) == who:
        return "" if said != "held" else "a free task was refused"
    if before.claim.boot != str(before.boot):
        return "" if taken else "a claim outlived its machine"
    if seen(before, who) is False:
        return "" if taken else "a dead holder kept the task"
    over = before.claim.expires is not None and before.now >= before.claim.expires
    if over:
        return "" if taken else "an expired claim was kept"
    return "a claim was stolen" if taken else ""


def is_current(claim: Claim, lease: Lease) -> bool:
    try:
        fence_lease(claim, lease)
    except LeaseLostError:
        return False
    return True
