"""Power cuts, kills and I/O errors while content is kept, put back, undone and collected.

What was acknowledged is in the vault, whole; what a restore had begun to change is finished or taken back by the next
`resume(repair=True)`; and what it overwrote is in the safety copy. See keepsakes.py for the life and safekeeping.py for what it
is held to.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from agentos.errors import ContentMissingError, NotSafeToResumeError, VaultError
from agentos.vault.keeping import Keeping
from agentos.vault.vault import Vault
from tests.faults.channel import Fault
from tests.faults.inject import Injected, fault_points, sweep_errors
from tests.faults.record import Recorder, Recording, worker_environment
from tests.faults.replay import Cut, Survival, states
from tests.torture.keepsakes import TASK, WORK, argv, edit, open_manager, tree_of
from tests.torture.safekeeping import put_away, violations
from tests.torture.test_power_cuts import chosen_cuts


@pytest.fixture
def life(recorder: Recorder, tmp_path: Path) -> Callable[..., Recording]:
    """Record the whole life, with a fault planted in it or without."""

    def record(part: str = "life", fault: str = "", durability: str = "full") -> Recording:
        directory = tmp_path / "run"
        directory.mkdir()
        recording = recorder.record(argv(directory, part, fault, durability), directory, timeout=120)
        put_away(directory)
        return recording

    return record


def cuts_of(recording: Recording, count: int, rng: Random, named_count: int | None = None) -> list[Cut]:
    """Most of them as everywhere; a quarter right after something got its name, some with that and not all that is in it."""
    named_count = count // 4 if named_count is None else named_count
    named = [op.index + 1 for op in recording.ops if op.call == "rename"]
    some = [Survival.NAMES, Survival.TORN, Survival.SUBSET, Survival.DROP]
    there = {
        Cut(rng.choice(named), rng.choice(some), rng.choice(["strict", "ext4"]), rng.getrandbits(32))
        for _ in range(named_count)
    }
    return sorted({*there, *chosen_cuts(recording, count - len(there), rng)})


STORIES = {"full": 60, "commit": 40}


@pytest.mark.parametrize("durability", STORIES)
def test_power_cuts_take_nothing_that_was_kept(life, rng: Random, count, durability: str):
    """Content of acknowledged checkpoints, strangers' bytes, the way back of restores: all there after every cut."""
    recording = life(durability=durability)
    cuts = cuts_of(recording, count(300, 2000) * STORIES[durability] // 100, rng)
    found = [
        f"{lines[0]} | {state.description}"
        for state in states(recording, cuts)
        if (lines := violations(state.path, state.acked, undo=state.cut.prefix % 4 == 0))
    ]
    assert [] == found
    print(f"{durability}: {len(cuts)} states of {len(recording.ops)} calls, {len(recording.acks)} acknowledgements")


def _believe(self: Keeping, digest: str) -> None:
    if not self._vault.has(digest):
        raise ContentMissingError(digest)
    self._met.add(digest)


@pytest.mark.planted
def test_power_cuts_find_a_name_without_its_content(life, rng: Random, monkeypatch: pytest.MonkeyPatch):
    """Content that is named before it is synced: whoever keeps the same again, and believes names, is deceived."""
    recording = life("begins", "rename-first")
    monkeypatch.setattr(Keeping, "_meet", _believe)
    with closing(states(recording, cuts_of(recording, 300, rng, 300))) as cut:
        assert any(line.startswith("content: ") for state in cut for line in violations(state.path, state.acked, undo=False))


def after_relaxed(directory: Path) -> Iterator[str]:
    """What is wrong for a process in `full` that goes on after one in `relaxed`: it may lack what was there, no more."""
    with open_manager(directory) as manager:
        vault = Vault(str(directory / "vault"))
        for sha256 in vault.digests():
            with suppress(ContentMissingError):
                vault.check(sha256)
        with manager.task(TASK, workspace=directory / WORK) as task:
            try:
                number = task.resume({"n": 0}, repair=True)["n"]
            except NotSafeToResumeError:
                return
            with task.step("tool_executed", {}):
                edit(directory / WORK, number + 1)
        for path, leaf in tree_of(directory / WORK).items():
            if leaf is not None and not leaf.startswith("-> "):
                try:
                    vault.check(leaf)
                except VaultError as problem:
                    yield f"content: {path}: {problem}"


def test_power_cuts_leave_nothing_torn_where_less_is_promised(life, rng: Random, count):
    """What is named is whole even in `relaxed`, and whoever promises more does not stand on what may be lost."""
    recording = life("begins,repairs", durability="relaxed")
    cuts = cuts_of(recording, count(100, 500), rng)
    assert [] == [f"{line} | {state.description}" for state in states(recording, cuts) for line in after_relaxed(state.path)]


@pytest.mark.planted
@pytest.mark.parametrize(
    ("fault", "parts", "sign"),
    [
        ("no-file-sync", "begins,repairs", "content: "),
        ("no-folder-sync", "begins,repairs", "content: "),
        ("commit-first", "begins,repairs", "content: "),
        ("no-safety-copy", "begins,repairs", "stranger: "),
        ("forgets-restores", "begins,repairs,collect", "stranger: "),
        ("restore-unsynced", "begins,repairs,undoes", "restored: "),
    ],
)
def test_power_cuts_find(life, rng: Random, fault: str, parts: str, sign: str):
    """Every sync that is left out, every order that is turned round, and every copy that is not made or not needed."""
    recording = life(parts, fault)
    with closing(states(recording, cuts_of(recording, 300, rng))) as cut:
        assert any(line.startswith(sign) for state in cut for line in violations(state.path, state.acked))


# Faults at the calls of one commit, one repair, one undoing, one collection.


@dataclass(frozen=True)
class Scene:
    """What is left behind, and the process that meets the fault there."""

    before: str
    part: str

    def __str__(self) -> str:
        return self.part


SCENES = [Scene("calm", "commit"), Scene("leaves", "resume"), Scene("repaired", "undo"), Scene("rolled back", "collect")]


@dataclass(frozen=True)
class Left:
    """What a process left behind, to be had again and again at the place where it was made; and what it acknowledged."""

    template: Path
    acks: tuple[str, ...]

    def __call__(self, directory: Path) -> None:
        shutil.copytree(self.template, directory, dirs_exist_ok=True, symlinks=True, ignore=shutil.ignore_patterns("*-shm"))


@pytest.fixture
def left(tmp_path: Path) -> Callable[[Scene], Left]:
    """What is there when the process of a scene begins."""

    def make(scene: Scene) -> Left:
        run, template = tmp_path / "sweep" / "run", tmp_path / "template"
        run.mkdir(parents=True)
        made = subprocess.run(
            argv(run, scene.before), env=worker_environment(), check=True, stdout=subprocess.PIPE, text=True, timeout=60
        )
        run.rename(template)
        return Left(template, tuple(line for line in made.stdout.splitlines() if line[0] != "#"))

    return make


def after_fault(left: Left, run: Injected, rng: Random, number: int) -> Iterator[str]:
    """What is wrong as the process left it; then, after power cuts at the end, at each acknowledgement, and anywhere."""
    recording = run.recording
    for line in violations(run.directory, [*left.acks, *run.acked]):
        yield f"{line} | {run.fault}"
    put_away(run.directory)
    last = len(recording.ops)
    cuts = [Cut(last, survival, "strict", number) for survival in (Survival.DROP, Survival.NAMES)]
    cuts += [Cut(each.index + 1, Survival.DROP, "strict", number) for each in recording.acks]
    cuts += [Cut(rng.randint(0, last), rng.choice([*Survival]), "strict", number) for _ in range(4)]
    for state in states(recording, cuts):
        for line in violations(state.path, [*left.acks, *state.acked]):
            yield f"{line} | {run.fault} | {state.description}"


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_a_kill_at_any_call_loses_nothing(recorder: Recorder, tmp_path: Path, left, rng: Random, count, scene: Scene):
    """SIGKILL at each call that writes: the next resume ends what was begun; every byte is in place or in the safety copy."""
    fallen = 0
    before = left(scene)
    for number, run in enumerate(
        sweep_errors(
            recorder,
            lambda to: argv(to, scene.part),
            tmp_path / "sweep",
            rng,
            actions=["SIGKILL"],
            lasting=[False],
            count=count(3, 60),
            prepare=before,
        )
    ):
        assert -9 == run.recording.returncode, run.recording.stderr
        assert [] == [*after_fault(before, run, rng, number)], run.fault
        fallen += 1
    print(f"{scene}: killed at {fallen} different calls")


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_an_io_error_loses_nothing(recorder: Recorder, tmp_path: Path, left, rng: Random, count, scene: Scene):
    """EIO and ENOSPC at those calls are raised as ours or harmless; the workspace is as before or finished; cuts follow."""
    raised = number = 0
    before = left(scene)
    for number, run in enumerate(
        sweep_errors(recorder, lambda to: argv(to, scene.part), tmp_path / "sweep", rng, count=count(3, 100), prepare=before),
        1,
    ):
        assert [] == [name for name in run.recording.marks if name.startswith("bare")], run.fault
        # One that meets the error while it opens the registry for the first time ends by it.
        assert 0 == run.recording.returncode or "\nagentos.errors." in run.recording.stderr, run.recording.stderr
        raised += any(name.startswith("raised") for name in run.recording.marks)
        assert [] == [*after_fault(before, run, rng, number)], run.fault
    print(f"{scene}: {number} errors, raised in {raised}")


@pytest.fixture
def second_lives(recorder: Recorder, tmp_path: Path, left) -> Callable[..., Iterator[str]]:
    """What is wrong after somebody was killed at each of these calls, the next process did the same, and the power went."""

    def found(scene: Scene, choose: Callable[[list[Fault]], list[Fault]], planted: str = "") -> Iterator[str]:
        before, directory = left(scene), tmp_path / "sweep" / "run"
        before(directory)
        totals = recorder.count(argv(directory, scene.part), directory)
        put_away(directory)
        for number, fault in enumerate(choose(fault_points(totals, ["SIGKILL"], [False]))):
            before(directory)
            recording = recorder.record(argv(directory, f"{scene.part}!{fault}", planted), directory)
            put_away(directory)
            cuts = [Cut(each.index + 1, Survival.DROP, "strict", number) for each in recording.acks]
            for state in states(recording, cuts):
                for line in violations(state.path, [*before.acks, *state.acked]):
                    yield f"{line} | {fault} | {state.description}"

    return found


@pytest.mark.parametrize("scene", SCENES[:2], ids=str)
def test_what_the_dead_left_half_durable_is_not_believed(second_lives, rng: Random, count, scene: Scene):
    """Killed at any call; the next process does the same and acknowledges it; then the power goes."""
    assert [] == [*second_lives(scene, lambda faults: rng.sample(faults, min(count(3, 40), len(faults))))]


@pytest.mark.planted
def test_second_lives_find_a_folder_that_is_believed_to_be_durable(second_lives):
    """Whoever made it died before it was."""

    def where_folders_are_made(faults: list[Fault]) -> list[Fault]:
        return [fault for fault in faults if fault.call == "fsync"]

    found = second_lives(SCENES[0], where_folders_are_made, "trusts-folders")
    assert any(line.startswith("content: ") for line in found)
