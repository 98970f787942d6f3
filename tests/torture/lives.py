"""Rounds of one agent that is killed again and again, until its work is done: python -m tests.torture.lives '{"directory": …}'.

A round is one folder and its 30 steps, through as many processes as it takes; in every other round a stranger changes things
while nobody lives. Every life is forked from this process, which has everything loaded. After each round one line is printed:
where the kills fell, and everything that is not as it has to be.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.torture.forking import Aim, Heard, beside, listen
from tests.torture.handyman import TASK, Job, Life
from tests.torture.planted_hands import plant
from tests.torture.stranger import calls_in, get_back, meddle
from tests.torture.workshop import LEDGER, MEMORY, SCRATCH, Tree, differences, furnish, reference, tree_of

STEPS = 30
PLACES = ("step", "commit", "restore", "collect")
# Seconds that a place takes, about: a kill from outside falls within it, or soon after.
_LASTS = {"step": 0.01, "commit": 0.02, "restore": 0.03, "collect": 0.006, "resume": 0.06, "life": 1.0}


@dataclass(frozen=True, slots=True)
class Rounds:
    """What is to be done. Round n of a seed is the same whichever rounds came before it."""

    directory: str
    seed: int
    first: int = 0
    count: int = 1
    # A name of planted_hands.FAULTS, or nothing.
    fault: str = ""
    # A folder in memory: a kill takes nothing from the system, so most rounds need not wait for a disk.
    memory: str = ""

    def folder(self, number: int) -> Path:
        """Where this round is played."""
        return Path(self.memory if self.memory and number % 4 else self.directory, f"{number}")

    @property
    def argv(self) -> list[str]:
        """The command line of a process that does it."""
        return [sys.executable, "-m", "tests.torture.lives", json.dumps(asdict(self))]


def main() -> None:
    """Do the rounds of the command line, one line of JSON for each, up to the first that goes wrong."""
    logging.disable(logging.WARNING)
    told = Rounds(**json.loads(sys.argv[1]))
    plant(told.fault)
    _warm_up(Path(told.directory, "warm"))
    for number in range(told.first, told.first + told.count):
        round_ = Round(told.folder(number), f"{told.seed}:{number}", strangers=number % 2 == 1)
        round_.run()
        if not round_.wrong:
            shutil.rmtree(round_.job.directory)
        sys.stdout.write(json.dumps({"round": number, "counts": round_.counts, "wrong": round_.wrong}) + "\n")
        sys.stdout.flush()
        if round_.wrong:
            return


def _warm_up(directory: Path) -> None:
    """Have everything imported that a life needs: in a life of its own, whose modules are then imported here."""
    round_ = Round(directory, "warm", strangers=True)
    before = set(sys.modules)
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reader)
        with open(os.devnull, "wb") as nowhere:
            for life in (Life(round_.job, nowhere.fileno(), looks=True), Life(round_.job, nowhere.fileno())):
                life.live()
        os.write(writer, "\n".join(sorted(set(sys.modules) - before)).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as modules:
        for name in modules.read().split():
            __import__(name)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "a life that nobody disturbs must come to its end"
    shutil.rmtree(directory)


class Round:
    """One folder, from the first life to the last."""

    def __init__(self, directory: Path, seed: str, *, strangers: bool) -> None:
        self.rng = Random(seed)
        self.strangers = strangers
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter(rounds=1)
        self.done = 0
        self.finished = False
        shutil.rmtree(directory, ignore_errors=True)
        trees = reference(directory / "reference", seed, STEPS)
        within = self.rng.random() < 0.25
        self.job = Job(directory, seed, trees, self.rng.choice(["relaxed", "relaxed", "commit", "full"]), within)
        furnish(self.job.work, seed)
        if within:
            (self.job.work / MEMORY).mkdir()

    def run(self) -> None:
        """Live and die, until the work is done."""
        for aim in self._aims():
            heard = self._live(aim)
            if self.wrong or not heard.killed_in:
                break
            if self.rng.random() < 0.5:
                self._clean_up()
            # Before the first commit a stranger is part of the workspace as it was found, and a finished one is not put back.
            if self.strangers and self.counts["resumed"] and self.done < STEPS and self.rng.random() < 0.5:
                self._visit(in_restore=heard.killed_in == "restore")
        if not self.wrong and not self.finished:
            self._live(None)
        if not self.wrong and not self.finished:
            self.wrong.append(f"ended at {self.done}")
        if not self.wrong:
            self.wrong += [f"at the end: {line}" for line in differences(self.job.trees[-1], tree_of(self.job.work))]

    def _aims(self) -> list[Aim]:
        """A restore needs something to put back: what a life before it left half done."""
        places = [self.rng.choice(["step", "commit", "collect", "life"]) for _ in range(self.rng.randint(2, 4))]
        if self.rng.random() < 0.8:
            places += ["step", "restore", *self.rng.choice([[], ["restore"], ["resume", "restore"]])]
        if self.rng.random() < 0.5:
            places.append(self.rng.choice(["commit", "collect"]))
        return [self._aim(place) for place in places]

    def _aim(self, place: str) -> Aim:
        entry = 1 if place in ("restore", "resume", "life") else self.rng.randint(1, 6)
        if place != "life" and self.rng.random() < 0.6:
            return Aim(place, entry, calls=self.rng.randint(1, _MOST_CALLS[place]))
        return Aim(place, entry, delay=self.rng.uniform(0, _LASTS[place]))

    # Lives.

    def _live(self, aim: Aim | None, *, looks: bool = False) -> Heard:
        life = partial(_lived, self.job, aim, looks)
        scratch = _scratch(self.job.work)
        if self.counts["resumed"] and self.rng.random() < 0.2:
            with beside(partial(_collects_on, self.job)) as janitor:
                heard = listen(life, aim)
            self.counts["beside"] += 1
            self.wrong += [f"raised: {line[1][-2000:]}" for line in janitor if line[0] == "raised"]
        else:
            heard = listen(life, aim)
        self.counts["lives"] += 1
        if heard.killed_in:
            self.counts[f"killed in {heard.killed_in}"] += 1
        self._check(heard, scratch)
        return heard

    def _check(self, heard: Heard, scratch: dict[str, bytes]) -> None:
        for number, found in [line[1:] for line in heard.lines if line[0] == "resumed"]:
            self.counts["resumed"] += 1
            self.wrong += [f"after the resume at {number}: {line}" for line in found]
            if number < self.done:
                self.wrong.append(f"lost: step {self.done} was acknowledged, resumed at {number}")
        self.wrong += [f"raised: {line[1][-2000:]}" for line in heard.lines if line[0] == "raised"]
        self.counts["restores"] += sum(line[1] for line in heard.lines if line[0] == "restored")
        for contents, drafts, missing in [line[1:] for line in heard.lines if line[0] == "collected"]:
            self.counts.update(collections=1, collected=contents, drafts=drafts)
            self.wrong += [f"collect misses {digest}" for digest in missing]
        self.done = max([self.done, *(line[1] for line in heard.lines if line[0] == "committed")])
        self.finished = heard.last("finished") is not None
        now = _scratch(self.job.work)
        self.wrong += [f"touched: {name}" for name, data in scratch.items() if not now.get(name, b"").startswith(data)]

    def _clean_up(self) -> None:
        """Somebody else collects while steps are open and nobody lives; that may be killed too."""
        heard = listen(partial(_collected, self.job), self._aim("collect") if self.rng.random() < 0.5 else None)
        self.counts["killed in collect"] += bool(heard.killed_in)
        self.wrong += [f"raised: {line[1][-2000:]}" for line in heard.lines if line[0] == "raised"]

    def _visit(self, *, in_restore: bool) -> None:
        """A stranger comes; then a resume, which may be killed too; then what the stranger wrote is got back."""
        old = frozenset(self._restores())
        written = meddle(self.job.work, self.rng)
        before = None if in_restore else tree_of(self.job.work)
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            self._live(self._aim(self.rng.choice(["restore", "resume"])), looks=True)
        heard = self._live(None, looks=True)
        told = heard.last("restored")
        if self.wrong or told is None:
            self.wrong = self.wrong or ["a resume after a stranger came to no end"]
            return
        printed = [each for each in calls_in(told[1]) if each not in old]
        if self.rng.random() < 0.5:
            self._clean_up()
        ledger = (self.job.work / LEDGER).read_bytes()
        if printed and self.rng.random() < 0.3:
            # Whoever makes the printed call may be killed too, and makes it again.
            aim = self._aim("restore")
            killed = listen(partial(_undone, self.job, printed[-1], aim), aim)
            self.counts["killed in an undo"] += bool(killed.killed_in)
        got = listen(partial(_got_back, self.job, printed, old, written, before, self.rng.getrandbits(64)), None)
        # The step that had half changed it was given up: nobody else would put this back again.
        (self.job.work / LEDGER).write_bytes(ledger)
        self.wrong += [f"not back: {line[1]}" for line in got.lines if line[0] in ("missing", "raised")]
        self.counts.update(strangers=1, edits=len(written))

    def _restores(self) -> list[str]:
        with closing(sqlite3.connect(self.job.registry)) as database:
            return [restore_id for (restore_id,) in database.execute("select restore_id from restores")]


# Counted calls up to which a life goes on in a place; what is left over when it leaves is for the next time it comes there.
_MOST_CALLS = {"step": 120, "commit": 300, "restore": 400, "collect": 400, "resume": 500}


def _lived(job: Job, aim: Aim | None, looks: bool, pipe: int) -> None:
    Life(job, pipe, aim, looks).live()


def _collects_on(job: Job, pipe: int) -> None:
    """Whatever else goes on."""
    with job.manager() as manager:
        while True:
            manager.collect()


def _collected(job: Job, pipe: int) -> None:
    with job.manager() as manager, Life(job, pipe).at("collect"):
        manager.collect()


def _undone(job: Job, restore_id: str, aim: Aim, pipe: int) -> None:
    Life(job, pipe, aim).watch()
    with job.manager() as manager:
        manager.undo_restore(restore_id)


def _got_back(
    job: Job, printed: list[str], old: frozenset[str], written: Tree, before: Tree | None, seed: int, pipe: int
) -> None:
    """The stranger's things, and if nothing else was under way then everything else as it was."""
    life = Life(job, pipe)
    with job.manager() as manager:
        # What only made things overwrote nothing, so nobody was told of it; it is no less undone for the comparison.
        manager.settle_restores(TASK)
        made = [each for each in manager.restores(TASK) if each.restore_id not in old and each.undoes is None]
        quiet = [each.restore_id for each in made if each.state == "done"]
        for line in get_back(manager, sorted({*printed, *quiet}), job.work, written, Random(seed)):
            life.say("missing", line)
    for line in [] if before is None else differences(before, tree_of(job.work)):
        life.say("missing", f"as it was: {line}")


def _scratch(work: Path) -> dict[str, bytes]:
    """What nobody may touch: there it is only added to."""
    return {path.name: path.read_bytes() for path in (work / SCRATCH).iterdir() if path != work / LEDGER}


if __name__ == "__main__":
    main()
