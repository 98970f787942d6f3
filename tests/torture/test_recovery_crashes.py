"""Power cuts, kills and I/O errors in a life of recovery: claims, adoptions, walks back, once, removal, a fresh start.

What was acknowledged holds in every state, and nothing is half done: the registry opens, recover() gives an answer that fits
what was said, `fresh` is never said over work, and the task can be gone on with. See recovering.py for that life.
"""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointError, CheckpointManager
from tests.faults.inject import Injected, sweep_errors
from tests.faults.record import Recorder, Recording, worker_environment
from tests.faults.replay import Cut, Survival, states
from tests.support import content
from tests.torture.recovering import KEPT, SYNCS, TASK, argv, open_manager
from tests.torture.test_power_cuts import chosen_cuts

# Between these and the next line the task may stand before or after what is going on.
UNDER_WAY = ("changing", "pruning", "restarting", "finishing")


@dataclass
class Promised:
    """What may be relied on, by what was acknowledged."""

    token: int = 0
    live: list[tuple[str, int]] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    done: dict[str, Any] = field(default_factory=dict)
    # Checkpoints that may have been removed, and those that must have been.
    may_go: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    under_way: str = ""
    may_be: list[int] = field(default_factory=list)
    finished: bool = False

    def take(self, verb: str, facts: Any) -> None:
        """One more line."""
        if verb != "token":  # It is said on the way to what the resume decided, which is still to come.
            self.under_way = verb if verb in UNDER_WAY else ""
        getattr(self, f"_{verb}")(facts)

    def _token(self, facts: Any) -> None:
        self.token = facts["token"]

    def _begun(self, facts: Any) -> None:
        self.begun.append(facts["step"])

    def _committed(self, facts: Any) -> None:
        self.live.append((facts["checkpoint"], facts["n"]))

    def _changing(self, facts: Any) -> None:
        self.may_be = facts["may_be"]

    def _resumed(self, facts: Any) -> None:
        if facts["adopted"] and facts["adopted"] not in dict(self.live):
            self.live.append((facts["adopted"], facts["n"]))
        self.superseded += facts["superseded"]
        self.live = [each for each in self.live if each[0] not in facts["superseded"]]

    def _about(self, facts: Any) -> None:
        self.noted.append(facts["key"])

    def _done(self, facts: Any) -> None:
        self.done[facts["key"]] = facts["result"]

    def _pruning(self, facts: Any) -> None:
        self.may_go = [*self.superseded, *(checkpoint for checkpoint, _ in self.live[: -facts["keep"]])]
        self.begun = []

    def _pruned(self, _: Any) -> None:
        self.removed = self.superseded

    def _restarting(self, _: Any) -> None:
        """Nothing is promised yet."""

    def _restarted(self, _: Any) -> None:
        self.live = []

    def _finishing(self, _: Any) -> None:
        """Nor here."""

    def _finished(self, _: Any) -> None:
        self.finished = True

    @property
    def answers(self) -> set[tuple[str, int | None]]:
        """What recover() may say: a verdict, and the state."""
        at = self.live[-1][1] if self.live else None
        here = ("fresh", None) if at is None else ("resume", at)
        if self.finished:
            return {("finished", at)}
        return {here, *self._also(at)}

    def _also(self, at: int | None) -> set[tuple[str, int | None]]:
        if self.under_way == "changing":
            return {("diverged", None), *(("resume", number) for number in self.may_be)}
        if self.under_way == "restarting":
            return {("fresh", None)}
        if self.under_way == "finishing":
            return {("finished", at)}
        return set()


def violations(directory: Path, acks: tuple[str, ...]) -> list[str]:
    """What is not as it was promised."""
    promised = Promised()
    for line in acks:
        verb, facts = line.split(" ", 1)
        promised.take(verb, json.loads(facts))
    try:
        with open_manager(directory) as manager:
            return [*_broken(manager, promised), *_no_further(manager)]
    except (CheckpointError, sqlite3.Error) as problem:
        return [f"closed: {type(problem).__name__}: {problem}"]


def _broken(manager: CheckpointManager, promised: Promised) -> Iterator[str]:
    yield from _damaged(Path(manager.db_path))
    recovery = manager.recover(TASK)
    answer = (recovery.verdict.value, None if recovery.snapshot is None else recovery.snapshot["n"])
    # The next commit may have landed without a word.
    landed = [checkpoint.snapshot_data["n"] for checkpoint in manager.list_checkpoints(TASK)[:1]]
    if answer not in promised.answers | {("resume", number) for number in landed}:
        yield f"answer: {answer}, and it may be {promised.answers} | {recovery.explain()}"
    task = manager._registry.task(TASK)
    if promised.token > (task.token if task else 0):
        yield f"lost: token {promised.token}"
    for step_id in promised.begun:
        if manager.get_step(step_id) is None:
            yield f"lost: begin {step_id}"
    yield from _checkpoints(manager, promised)
    yield from _calls(manager, promised)


def _checkpoints(manager: CheckpointManager, promised: Promised) -> Iterator[str]:
    listed = {checkpoint.checkpoint_id for checkpoint in manager.list_checkpoints(TASK)}
    for checkpoint_id, number in promised.live:
        found = manager.get_checkpoint(checkpoint_id)
        if checkpoint_id not in promised.may_go and (found is None or found.snapshot_data != {"n": number}):
            yield f"lost: checkpoint {number}"
    for checkpoint_id in promised.superseded:
        if checkpoint_id in listed:
            yield f"back: {checkpoint_id} was rolled back past"
        if checkpoint_id not in promised.may_go and manager.get_checkpoint(checkpoint_id) is None:
            yield f"lost: {checkpoint_id}, which was rolled back past and is to be kept"
    for checkpoint_id in promised.removed:
        if manager.get_checkpoint(checkpoint_id) is not None:
            yield f"back: {checkpoint_id} was removed"


def _calls(manager: CheckpointManager, promised: Promised) -> Iterator[str]:
    for key in promised.noted:
        if manager._registry.once(key) is None:
            yield f"lost: the note of {key}"
    for key, result in promised.done.items():
        found = manager.once(key, {"key": key}, lambda: "called again", task_id=TASK, expects=content(key, key))
        if found != result:
            yield f"once: {key} gave {found}, and was {result}"
        effect = Path(manager.base_path, key)
        if not effect.exists() or effect.read_text() != key:
            yield f"effect: {key} is done, and nothing is to be seen of it"


def _no_further(manager: CheckpointManager) -> Iterator[str]:
    """The task goes on from the answer, if there is one to go on from."""
    verdict = manager.recover(TASK).verdict
    if verdict == "diverged":
        return
    with manager.task(TASK) as task:
        before = task.resume({"n": 0})
        if verdict != "finished":
            # What a crash left is settled: asked again, the answer is the same, and no step is open.
            again = task.resume({"n": 0})
            if (before, []) != (again, manager.list_open_steps(TASK)):
                yield f"unsettled: {before}, then {again}"


def _damaged(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as database:
        sound = database.execute("pragma integrity_check").fetchone()[0]
    if sound != "ok":
        yield f"damaged: {sound}"


@pytest.fixture
def life(recorder: Recorder, tmp_path: Path) -> Callable[..., Recording]:
    """Record the whole life, with a fault planted in it or without."""

    def record(fault: str = "") -> Recording:
        directory = tmp_path / "run"
        (directory / "work").mkdir(parents=True)
        recording = recorder.record(argv(directory, fault=fault), directory, timeout=120)
        assert not (directory / "twice").exists()
        return recording

    return record


def test_power_cuts_take_nothing_from_a_life_of_recovery(life, rng: Random, count):
    """Tokens, adoptions, walks back, results of once, removals and fresh starts are there after every cut."""
    recording = life()
    cuts = chosen_cuts(recording, count(300, 2000), rng)
    found = [
        f"{lines[0]} | {state.description}"
        for state in states(recording, cuts)
        if (lines := violations(state.path, state.acked))
    ]
    assert [] == found
    print(f"{len(cuts)} states of {len(recording.ops)} calls, {len(recording.acks)} acknowledgements")


@pytest.mark.planted
def test_power_cuts_find_recovery_that_believes_what_is_not_synced(life, rng: Random):
    """An adopted step, a walk back and a call settled by looking stand on files that the one who crashed never synced."""
    recording = life("unsynced-recovery")
    cuts = chosen_cuts(recording, 300, rng)
    found = [line for state in states(recording, cuts) for line in violations(state.path, state.acked)]
    for sign in ("answer: ('resume', 3)", "answer: ('diverged', None)", "effect: mail"):
        assert any(line.startswith(sign) for line in found), sign


# Faults at the calls of one resume and of one removal.


@dataclass(frozen=True)
class Scene:
    """What is left behind, the process that meets the fault there, and the state that the task stands at before and after."""

    before: str
    part: str
    stands_at: int

    def __str__(self) -> str:
        return self.part


SCENES = [Scene("tangles", "resume", 10), Scene("grows", "prune", 14)]


@pytest.fixture
def left(tmp_path: Path) -> Callable[[Scene], Callable[[Path], None]]:
    """What a process left behind that ended in the middle, as often as it is wanted."""

    def make(scene: Scene) -> Callable[[Path], None]:
        template = tmp_path / "template"
        (template / "work").mkdir(parents=True)
        subprocess.run(
            argv(template, scene.before), env=worker_environment(), check=True, stdout=subprocess.DEVNULL, timeout=60
        )
        return lambda directory: _copied(template, directory)

    return make


def _copied(template: Path, directory: Path) -> None:
    shutil.copytree(template, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*-shm"))


def wrong_after(scene: Scene, directory: Path, acks: list[str]) -> list[str]:
    """What is not as before the call, or as after it: recover() gives one answer all along, and resume() ends the same."""
    try:
        with open_manager(directory) as manager:
            found = [*_damaged(Path(manager.db_path)), *WRONG[scene.part](manager, acks)]
            recovery = manager.recover(TASK)
            with manager.task(TASK) as task:
                answer = (recovery.verdict.value, task.resume({"n": 0})["n"])
            if answer != ("resume", scene.stands_at):
                found.append(f"answer: {answer}")
            return found + [f"after: {line}" for line in WRONG[scene.part](manager, [*acks, "adopted {}"])]
    except (CheckpointError, sqlite3.Error) as problem:
        return [f"closed: {type(problem).__name__}: {problem}"]


def _wrong_resume(manager: CheckpointManager, acks: list[str]) -> Iterator[str]:
    """Adopted at most once, and exactly once if that was said; what was rolled back past is kept."""
    decided = [each for each in manager._registry.decisions(TASK) if each.what == "adopt"]
    live = [checkpoint.snapshot_data["n"] for checkpoint in manager.list_checkpoints(TASK)]
    kept = {checkpoint.snapshot_data["n"] for checkpoint in manager.list_checkpoints(TASK, include_superseded=True)}
    said = any(line.startswith("adopted") for line in acks)
    if len(decided) != live.count(10) or live not in ([[10, 1]] if said else [[2, 1], [1], [10, 1]]):
        yield f"half: {live}, adopted {len(decided)} times"
    if not {1, 2} <= kept:
        yield f"lost: of 1 and 2 there is {kept}"


def _wrong_prune(manager: CheckpointManager, acks: list[str]) -> Iterator[str]:
    """What must stay is there, and what was said to be removed is gone: the removal happened, or did not."""
    numbers = sorted(checkpoint.snapshot_data["n"] for checkpoint in manager.list_checkpoints(TASK, include_superseded=True))
    everything, rest = [*range(1, 15)], [*range(15 - KEPT, 15)]
    said = any(line.startswith("pruned") for line in acks)
    if numbers != rest and (said or numbers != everything):
        yield f"half: {numbers}"


WRONG: dict[str, Callable[[CheckpointManager, list[str]], Iterator[str]]] = {"resume": _wrong_resume, "prune": _wrong_prune}


def acks_of(recording: Recording, until: int | None = None) -> list[str]:
    return [each.text for each in recording.acks if until is None or each.index < until]


def after_cuts(scene: Scene, run: Injected, rng: Random, number: int) -> Iterator[str]:
    """What power cuts find after the fault: at the end, at each acknowledgement, and anywhere."""
    recording = run.recording
    last = len(recording.ops)
    cuts = [
        Cut(last, Survival.DROP, "strict", number),
        *(Cut(each.index + 1, Survival.DROP, "strict", number) for each in recording.acks),
    ]
    cuts += [Cut(rng.randint(last // 3, last), rng.choice([*Survival]), "strict", number) for _ in range(8)]
    for state in states(recording, cuts):
        acked = acks_of(recording, state.cut.prefix)
        for line in wrong_after(scene, state.path, acked):
            yield f"{line} | {run.fault} | {state.description}"


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_a_kill_at_any_call_leaves_before_or_after(recorder: Recorder, tmp_path: Path, left, rng: Random, count, scene: Scene):
    """SIGKILL at each call that writes: of a resume that adopts and rolls back, and of a removal that gives space back."""
    fallen = 0
    for run in sweep_errors(
        recorder,
        lambda to: argv(to, scene.part),
        tmp_path / "sweep",
        rng,
        actions=["SIGKILL"],
        lasting=[False],
        count=count(5, 10_000),
        prepare=left(scene),
    ):
        assert -9 == run.recording.returncode, run.recording.stderr
        assert [] == wrong_after(scene, run.directory, acks_of(run.recording)), run.fault
        fallen += 1
    print(f"{scene}: killed at {fallen} different calls")


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_an_io_error_leaves_before_or_after(recorder: Recorder, tmp_path: Path, left, rng: Random, count, scene: Scene):
    """EIO and ENOSPC at those calls are raised as ours or harmless, and power cuts after them find nothing half done."""
    raised = number = 0
    for number, run in enumerate(
        sweep_errors(
            recorder, lambda to: argv(to, scene.part), tmp_path / "sweep", rng, count=count(6, 10_000), prepare=left(scene)
        ),
        1,
    ):
        assert [] == [name for name in run.recording.marks if name.startswith("bare")], run.fault
        # One that meets the error while it opens the registry for the first time ends by it.
        assert 0 == run.recording.returncode or "\nagentos.errors." in run.recording.stderr, run.recording.stderr
        raised += any(name.startswith("raised") for name in run.recording.marks)
        assert [] == [*after_cuts(scene, run, rng, number)], run.fault
        assert [] == wrong_after(scene, run.directory, acks_of(run.recording)), run.fault
    print(f"{scene}: {number} errors, raised in {raised}")


@pytest.mark.parametrize("nth", SYNCS)
def test_a_sync_that_fails_while_space_is_given_back_leaves_no_hole(recorder: Recorder, tmp_path: Path, left, nth: int):
    """The process that saw it fail ends; the next one commits, and a power cut takes nothing of that."""
    directory = tmp_path / "run"
    directory.mkdir()
    left(SCENES[1])(directory)
    recording = recorder.record(argv(directory, f"failing sync {nth},goes on"), directory)
    [commit] = [each for each in recording.acks if each.text.startswith("committed")]
    cuts = [Cut(commit.index + 1, survival, "strict", nth) for survival in Survival]
    for state in states(recording, cuts):
        with open_manager(state.path) as manager:
            assert [] == list(_damaged(state.path / "registry.sqlite")), state.description
            assert {"n": 15} == manager.resume(TASK, {}), state.description
