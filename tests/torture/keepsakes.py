"""An agent whose life is keeping and putting back: steps on shared files, strangers, repairs, undoing, collecting, limits.

Its life has several processes, one after the other; each but the last ends in the middle of something, without a word, and the
next one finds that. What a call returned is acknowledged after it returned, and so is what somebody else wrote, once that is
durable: from then on every byte of it must be in place or in the safety copy. Other parts are for faults at their calls, and
try again after one. What all that is held to is in safekeeping.py.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from agentos.core.checkpoints import CheckpointError, CheckpointManager
from agentos.core.checkpoints.restores import Restored
from agentos.errors import VaultFullError
from agentos.vault.staging import STAGING
from tests.faults.channel import Fault, ack, arm, disarm, mark
from tests.torture.planted_keeping import plant

TASK = "t"
WORK = "work"
# What a step leaves: paths with what a file holds as a digest, a link as an arrow, a folder as nothing.
Tree = dict[str, str | None]


def argv(directory: Path, part: str = "life", fault: str = "", durability: str = "full") -> list[str]:
    """The command line: a whole life, one part of it, or some with commas between."""
    return [sys.executable, "-m", "tests.torture.keepsakes", str(directory), part, fault, durability]


def open_manager(directory: Path, **given: Any) -> CheckpointManager:
    """The manager of this directory."""
    return CheckpointManager(directory / "registry.sqlite", directory / WORK, **given)


def said(verb: str, **facts: Any) -> None:
    """Acknowledge."""
    ack(f"{verb} {json.dumps(facts)}")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree_of(root: Path) -> Tree:
    """Everything in the folder, as acknowledgements say it.

    What a restore could not clear away, where nothing can be removed, is for the next one to remove; safekeeping.py asks that.
    """
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(STAGING):
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = digest(path.read_bytes()) if path.is_file() else None
    return found


def main() -> None:
    """Live the part of the command line."""
    logging.disable(logging.WARNING)
    directory, part, fault, durability = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    if part == "life" or "," in part:
        for name in LIFE if part == "life" else part.split(","):
            subprocess.run(argv(directory, name, fault, durability), check=True)
        return
    plant(fault)
    name, _, killed_at = part.partition("!")
    if killed_at:
        _killed(partial(argv, directory, name, fault, durability), Fault.parse(killed_at))
    else:
        PARTS[part](Agent(directory, durability))


class OwnError(Exception):
    """The agent's own write failed."""


class Agent:
    """One process of that life."""

    def __init__(self, directory: Path, durability: str) -> None:
        self.directory, self.work = directory, directory / WORK
        self.given: dict[str, Any] = {"durability": durability}
        self.manager = open_manager(directory, **self.given)
        self.task = self.manager.task(TASK, workspace=self.work)

    def limited(self, limit: int) -> None:
        """Go on with a vault that may take no more than that."""
        self.task.release()
        self.manager.close()
        self.manager = open_manager(self.directory, vault_limit=limit, **self.given)
        self.task = self.manager.task(TASK, workspace=self.work)

    def resume(self) -> int:
        """Put back what differs, and go on."""
        said("restoring")
        state = self.task.resume({"n": 0}, repair=True)
        assert self.task.recovery is not None
        for done in self.task.recovery.restored:
            said("restored", restore=done.restore_id, **sides(done))
        [newest, *_] = self.task.checkpoints(1)
        said("committed", checkpoint=newest.checkpoint_id, n=state["n"], tree=tree_of(self.work))
        return int(state["n"])

    def step(self, number: int, *, touches: tuple[str, ...] = ()) -> None:
        """One step that edits what the one before it left."""
        with self.task.step("tool_executed", {"n": number}, touches=touches or None) as step:
            try:
                edit(self.work, number)
            except OSError as error:
                raise OwnError(str(error)) from error
        assert step.checkpoint is not None
        said("committed", checkpoint=step.checkpoint.checkpoint_id, n=number, tree=tree_of(self.work))

    def half(self, number: int) -> None:
        """A step that ends in the middle of its writes, with everything it touched kept before."""
        self.manager.begin_step(TASK, "tool_executed", {"n": number}, lease=self.task.lease, touches=["log", "gone-later"])
        (self.work / "log").write_text("half of it")
        (self.work / "rest").mkdir()
        (self.work / "rest" / "half").write_text("half")

    def stranger(self, name: str, data: bytes) -> None:
        """Somebody else writes a file, durably: no byte of it may be lost from here on."""
        path = self.work / name
        path.write_bytes(data)
        for place, flags in ((path, os.O_RDWR), (path.parent, os.O_RDONLY)):
            handle = os.open(place, flags)
            os.fsync(handle)
            os.close(handle)
        said("stranger", path=name, sha256=digest(data))

    def restore(self, checkpoint_id: str) -> Restored:
        """Put back by hand."""
        said("restoring")
        return self._restored(self.manager.restore(self.manager.plan_restore(checkpoint_id), lease=self.task.lease))

    def undo(self, restore_id: str) -> Restored:
        said("restoring")
        return self._restored(self.manager.undo_restore(restore_id, lease=self.task.lease))

    def _restored(self, done: Restored) -> Restored:
        assert done.verified
        said("restored", restore=done.restore_id, **sides(done))
        return done

    def collect(self) -> None:
        said("collected", missing=self.manager.collect().missing)


def sides(done: Restored) -> dict[str, dict[str, str]]:
    """What was in the files that went, and what is in those that came."""
    operations = done.plan.operations
    overwrote = {each.path: each.before.sha256 for each in operations if each.before.sha256}
    return {"overwrote": overwrote, "wrote": {each.path: each.after.sha256 for each in operations if each.after.sha256}}


def edit(work: Path, number: int) -> None:
    """A line of a text, some bytes, a file that comes and goes, a link, and what is a file at times and a folder at others."""
    rng = Random(number)
    lines = (work / "log").read_text().splitlines() if (work / "log").exists() else []
    lines = lines or [f"line {n}" for n in range(60)]
    lines[number % len(lines)] = f"line {number % len(lines)} as of step {number}: {rng.random()}"
    (work / "log").write_text("\n".join(lines))
    if number % 2:
        (work / "data").write_bytes(rng.randbytes(3000))
    (work / "gone-later" if number % 3 else work / "gone").write_text(f"{number}")
    (work / "gone" if number % 3 else work / "gone-later").unlink(missing_ok=True)
    (work / "latest").unlink(missing_ok=True)
    (work / "latest").symlink_to("data" if number % 2 else "log")
    flip = work / "flip"
    if number % 2:
        if flip.is_file():
            flip.unlink()
        (flip / "in").mkdir(parents=True, exist_ok=True)
        (flip / "in" / "it").write_text("the same in every odd step")
    elif not flip.is_file():
        if flip.is_dir():
            shutil.rmtree(flip)
        flip.write_text("the same in every even step")


def found(agent: Agent) -> None:
    """The workspace as it is before the first step; of so many files that what it holds takes more than a sector to say."""
    (agent.work / "few").mkdir(parents=True)
    (agent.work / "notes").write_bytes(b"as they were found\n" * 20)
    for number in range(12):
        (agent.work / "few" / f"{number}").write_bytes(b"%d" % number)


def crash() -> None:
    """End without a word: nothing is closed, nothing is let go of."""
    os._exit(0)


def _begins(agent: Agent) -> None:
    """Some steps, what each touches kept before the next, and one that ends half-way."""
    found(agent)
    agent.resume()
    for number in range(1, 5):
        agent.step(number, touches=("log", "data", "flip/in/it") if number == 3 else ())
    agent.half(5)
    crash()


def _repairs(agent: Agent) -> None:
    """Finds that, and what a stranger wrote meanwhile; goes on, and ends half-way again."""
    agent.stranger("notes", b"Bring milk.\n" * 30)
    agent.stranger("flip" if agent.work.joinpath("flip").is_file() else "flip/in/it", b"a stranger was here")
    assert 4 == agent.resume()
    agent.step(5)
    agent.half(6)
    crash()


def _undoes(agent: Agent) -> None:
    """Goes to an older checkpoint by hand and back again, twice, and collects in between."""
    agent.resume()
    agent.collect()
    *_, second, _, _ = [each.checkpoint_id for each in agent.task.checkpoints()]
    agent.stranger("unheard-of", b"nobody knows of this")
    done = agent.restore(second)
    agent.collect()
    undone = agent.undo(done.restore_id)
    agent.undo(undone.restore_id)
    agent.undo(done.restore_id)
    agent.stranger("notes", b"and the stranger was here again")
    agent.collect()
    crash()


def _fills(agent: Agent) -> None:
    """The vault is full: a step is refused, and so is a repair whose safety copy would not fit; nothing is changed."""
    agent.resume()
    agent.step(6)
    agent.limited(agent.manager.vault_report().bytes + 2500)
    assert 6 == agent.resume()
    agent.stranger("large", Random("large").randbytes(9000))
    refused = 0
    try:
        agent.step(7)
    except VaultFullError:
        refused += 1
    agent.task.release()
    try:
        agent.resume()
    except VaultFullError:
        refused += 1
    assert 2 == refused, refused
    assert agent.work.joinpath("large").stat().st_size == 9000
    crash()


def _ends(agent: Agent) -> None:
    """Rolls back, gives space back, and finishes."""
    assert 6 == agent.resume()
    agent.step(7)
    _, _, back, *_ = agent.task.checkpoints()
    agent.restore(back.checkpoint_id)
    said("superseding", n=back.snapshot_data["n"])
    agent.manager.rollback_to_checkpoint(back.checkpoint_id, supersede_later=True, lease=agent.task.lease)
    said("committed", checkpoint=back.checkpoint_id, n=back.snapshot_data["n"], tree=tree_of(agent.work))
    agent.collect()
    agent.step(8)
    agent.task.release()
    said("pruning", keep=2)
    agent.manager.prune(TASK, keep_verified=2)
    agent.collect()
    agent.resume()
    agent.step(9)
    agent.collect()
    crash()


# Parts that meet a fault, and try once more.


def _insists(what: Callable[[Agent], None]) -> Callable[[Agent], None]:
    """Try, and once more through a new manager if that fails; what is none of our errors is marked as bare."""

    def part(agent: Agent) -> None:
        for attempt in range(2):
            mark(f"attempt {attempt}")
            try:
                what(agent)
            except (CheckpointError, OwnError) as error:
                mark(f"raised {attempt} {type(error).__name__}: {str(error)[:300]!r}")
            except Exception as error:  # noqa: BLE001 - this is what must never happen, whatever it is
                where = [f"{Path(each.filename).name}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)[-4:]]
                mark(f"bare {attempt} {type(error).__name__}: {str(error)[:200]!r} {where}")
            else:
                return
            agent.manager.close()
            agent.__init__(agent.directory, agent.given["durability"])  # type: ignore[misc]

    return part


def _leaves(agent: Agent) -> None:
    """Leaves a workspace that differs in everything, with what strangers wrote."""
    _begins_without_end(agent)
    agent.half(5)
    agent.stranger("notes", b"Bring milk.\n" * 30)
    agent.stranger("new", b"nobody knows of this")
    agent.work.joinpath("latest").unlink()
    crash()


def _begins_without_end(agent: Agent) -> None:
    found(agent)
    agent.resume()
    for number in range(1, 5):
        agent.step(number)


def _calm(agent: Agent) -> None:
    """Leaves a workspace that is as it was committed."""
    _begins_without_end(agent)
    agent.task.release()
    agent.manager.close()


def _resume(agent: Agent) -> None:
    agent.resume()


def _commit(agent: Agent) -> None:
    number = agent.resume()
    agent.step(number + 1, touches=("log", "data"))


def _undo(agent: Agent) -> None:
    restores = [each for each in agent.manager.restores(TASK) if each.state == "done"]
    agent.undo(restores[-1].restore_id)


def _repaired(agent: Agent) -> None:
    """Leaves a workspace that was put back, so that undoing that has something to do."""
    _begins_without_end(agent)
    agent.stranger("notes", b"Bring milk.\n" * 30)
    agent.stranger("new", b"nobody knows of this")
    agent.work.joinpath("log").unlink()
    agent.resume()
    agent.task.release()
    agent.manager.close()


def _rolled_back(agent: Agent) -> None:
    """Leaves content that nothing needs any more."""
    _begins_without_end(agent)
    *_, back, _ = agent.task.checkpoints()
    agent.restore(back.checkpoint_id)
    said("superseding", n=back.snapshot_data["n"])
    agent.manager.rollback_to_checkpoint(back.checkpoint_id, supersede_later=True, lease=agent.task.lease)
    said("committed", checkpoint=back.checkpoint_id, n=back.snapshot_data["n"], tree=tree_of(agent.work))
    agent.task.release()
    agent.manager.close()


def _collect(agent: Agent) -> None:
    agent.collect()
    agent.resume()


def _killed(argv_of: Callable[[], list[str]], fault: Fault) -> None:
    """Somebody is killed at one call of this part; then another process does it."""
    arm(fault)
    if subprocess.run(argv_of(), check=False).returncode != -signal.SIGKILL:
        mark("survived")
    disarm()
    subprocess.run(argv_of(), check=True)


LIFE = ("begins", "repairs", "undoes", "fills", "ends")
PARTS: dict[str, Callable[[Agent], None]] = {
    "begins": _begins,
    "repairs": _repairs,
    "undoes": _undoes,
    "fills": _fills,
    "ends": _ends,
    "leaves": _leaves,
    "calm": _calm,
    "repaired": _repaired,
    "rolled back": _rolled_back,
    "resume": _insists(_resume),
    "commit": _insists(_commit),
    "undo": _insists(_undo),
    "collect": _insists(_collect),
}


if __name__ == "__main__":
    main()
