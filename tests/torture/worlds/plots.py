"""How a scenario goes: a random history, and then the disaster that its plot is named after.

A plot changes the world or the registry through the agent, and gives the base path that the one who recovers will say (None:
the one that is stored). Plots take turns, so that even a short run meets each of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

from tests.torture.worlds.doing import Agent
from tests.torture.worlds.files import NAMES, clear

Plot = Callable[[Agent, Random], str | None]
EFFECTS = ("none", "some", "half", "all")


def live_through(agent: Agent, random: Random, steps: int) -> None:
    """A history of about so many steps, with all that happens in one."""
    second = random.random() < 0.12
    for _ in range(steps):
        base = agent.files.second if second and random.random() < 0.3 else None
        agent.step(rerunnable=random.random() > 0.02, auto_verify=random.random() > 0.08, base=base)
        live = [mark for mark in agent.history.marks if mark.is_live]
        chance = random.random()
        if chance < 0.06:
            agent.verify(random.choice(live))
        elif chance < 0.10:
            agent.roll_back(random.choice(live))
        elif chance < 0.13 and len(live) > 1:
            agent.delete(random.choice(live))
        elif chance < 0.16:
            agent.die(effects=random.choice(("none", "none", "some")), expects=random.random() < 0.5)


def nothing(agent: Agent, random: Random) -> None:
    """The process was killed between two steps, and that is all."""


def edited(agent: Agent, random: Random) -> None:
    """Somebody edited files by hand."""
    for path in _some(agent, random):
        agent.files.write(path, agent.files.work)


def half_written(agent: Agent, random: Random) -> None:
    """Files end in the middle."""
    for path in _some(agent, random):
        agent.files.halve(path, agent.files.work)


def deleted(agent: Agent, random: Random) -> None:
    """Files are gone."""
    for path in _some(agent, random):
        clear(agent.files.full(path, agent.files.work))


def regrown(agent: Agent, random: Random) -> None:
    """Something came back where nothing was to be."""
    path = random.choice(NAMES)
    agent.clear_away(path)
    agent.files.write(path, agent.files.work)


def put_back(agent: Agent, random: Random) -> None:
    """Files are as they were at an earlier checkpoint."""
    agent.files.put_back(random.choice([*agent.files.kept]), tuple(_some(agent, random)))


def all_put_back(agent: Agent, random: Random) -> None:
    """The whole workspace is as it was at an earlier checkpoint."""
    agent.files.put_back(random.choice([*agent.files.kept]))


def one_step_back(agent: Agent, random: Random) -> None:
    """A step changed what is there, and then the workspace was put back to what it was before."""
    before = len(agent.history.marks)
    for _ in range(random.randrange(1, 4)):
        agent.step(rerunnable=random.random() > 0.15)
    agent.files.put_back(before)


def masked(agent: Agent, random: Random) -> None:
    """Something that is no file, or leads nowhere that may be looked at, stands where a file was."""
    for path in _some(agent, random):
        full = agent.files.full(path, agent.files.work)
        clear(full)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        target = random.choice((None, full, agent.files.second, "nowhere", "nowhere"))
        if target is None:
            os.mkdir(full)
        else:
            os.symlink(target, full)


def wiped(agent: Agent, random: Random) -> None:
    """Nothing that any step wrote is left."""
    for base in (agent.files.work, agent.files.second):
        for path in agent.files.paths():
            clear(agent.files.full(path, base))


def base_gone(agent: Agent, random: Random) -> None:
    """The disk is not mounted, or something else is where it was."""
    work = agent.files.work
    os.rename(work, work + ".unmounted")
    how = random.randrange(3)
    if how == 1:
        os.symlink(work, work)
    elif how == 2:
        with open(work, "wb") as file:
            file.write(b"no folder")


def base_shut(agent: Agent, random: Random) -> None:
    """The workspace may not be entered. Nothing is shut to root, who finds an unmounted one instead."""
    if os.geteuid() == 0:
        base_gone(agent, random)
    else:
        os.chmod(agent.files.work, 0)


def wrong_place(agent: Agent, random: Random) -> str:
    """The one who recovers says a base that is not there, or one with nothing in it."""
    wrong = agent.files.work + ".wrong"
    if random.random() < 0.5:
        os.mkdir(wrong)
    return wrong


def moved(agent: Agent, random: Random) -> str:
    """The workspace moved as it is, and the one who recovers says where."""
    there = agent.files.work + ".moved"
    os.rename(agent.files.work, there)
    return there


def dead_branch(agent: Agent, random: Random) -> None:
    """A rollback left checkpoints behind, and perhaps an open step on them; then files were put back, or work went on."""
    if random.random() < 0.4:
        agent.die(effects=random.choice(EFFECTS[:2]), rerunnable=random.random() < 0.8, expects=random.random() < 0.7)
    for mark in random.sample(agent.history.marks, min(4, len(agent.history.marks))):
        if mark.is_live and agent.roll_back(mark):
            if random.random() < 0.5:
                agent.files.put_back(mark.sequence)
            else:
                agent.step()
            return


def died_unsure(agent: Agent, random: Random) -> None:
    """The crash came inside a step that must not run twice."""
    agent.die(effects=random.choice(EFFECTS), rerunnable=False, expects=random.random() < 0.5)


def died_inside(agent: Agent, random: Random) -> None:
    """The crash came inside a step, or several, after part of what it does."""
    for _ in range(random.choice((1, 1, 2, 3))):
        agent.die(effects=random.choice(EFFECTS), rerunnable=random.random() < 0.85, expects=random.random() < 0.7)


def died_at_the_end(agent: Agent, random: Random) -> None:
    """The crash came after all effects of a step and before its commit; perhaps with harm done beside them."""
    agent.die(effects="all", rerunnable=random.random() < 0.5)
    if random.random() < 0.3:
        random.choice((edited, put_back, half_written))(agent, random)


def landed(agent: Agent, random: Random) -> None:
    """The very second step had done all it was to do. The history of this plot is empty."""
    agent.step()
    agent.die(effects="all", rerunnable=random.random() < 0.5)


def doubtful(agent: Agent, random: Random) -> None:
    """The very second step must not run twice, and nobody said what it would leave. The history of this plot is empty."""
    agent.step()
    agent.die(effects=random.choice(EFFECTS), rerunnable=False, expects=False)


def grown(agent: Agent, random: Random) -> None:
    """The very first step took a file away, and it came back. The history of this plot is empty."""
    regrown(agent, random)


def never_called(agent: Agent, random: Random) -> None:
    """The registry was made, and that is all. The history of this plot is empty."""
    agent.manager()


def never_began(agent: Agent, random: Random) -> None:
    """Nothing was committed; steps may have been begun. The history of this plot is empty."""
    for _ in range(random.randrange(3)):
        agent.die(effects=random.choice(EFFECTS), rerunnable=random.random() < 0.7, expects=random.random() < 0.6)


def started_over(agent: Agent, random: Random) -> None:
    """A human started the task over, and it may have come further since."""
    if not agent.history.begun:
        agent.restart()
    for _ in range(random.randrange(2)):
        agent.step()


def finished(agent: Agent, random: Random) -> None:
    """The task is done, and perhaps its files were touched afterwards."""
    agent.finish()
    if random.random() < 0.5:
        edited(agent, random)


PLOTS: tuple[Plot, ...] = (
    *(nothing, edited, half_written, deleted, regrown, put_back, all_put_back, one_step_back, masked, wiped, base_gone),
    *(base_shut, wrong_place, moved, dead_branch, died_unsure, died_inside, died_at_the_end, started_over, finished),
    *(landed, doubtful, grown, never_called, never_began),
)
WITHOUT_HISTORY = (landed, doubtful, grown, never_called, never_began)
# Some of them after one another: a put-back after a crash inside a step, and so on.
SIMPLE = (nothing, edited, half_written, deleted, put_back, all_put_back, masked)


def _some(agent: Agent, random: Random) -> list[str]:
    return random.sample(agent.files.paths(), random.choice((1, 1, 2, 3)))
