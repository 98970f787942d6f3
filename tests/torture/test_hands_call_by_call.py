"""kill -9 at each call that writes: of a resume that puts back, and of a collection. The next resume finishes or undoes it.

What is left behind for both is made once: see mender.py. After each kill the task resumes at the last committed bytes, a
stranger gets back what was overwritten, a collection misses nothing, and there is nothing left for a second one.
"""

import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from agentos.core.checkpoints import CheckpointError
from tests.faults.inject import sweep_errors
from tests.faults.record import Recorder, worker_environment
from tests.torture.handyman import TASK, Job
from tests.torture.mender import STEPS, argv, job_in
from tests.torture.stranger import calls_in, get_back
from tests.torture.workshop import LEDGER, Tree, differences, reference, tree_of


@dataclass(frozen=True, slots=True)
class Left:
    """What is there before each kill: a folder to copy, what the steps make of the workspace, and what it holds."""

    template: Path
    trees: list[Tree]
    before: Tree

    def put(self, directory: Path) -> None:
        """The same there; the paths in the registry are those of the directory in which it was made."""
        shutil.copytree(self.template, directory, symlinks=True, dirs_exist_ok=True)


@pytest.fixture
def left(tmp_path: Path, seed: int) -> Left:
    """Left behind by a process of its own."""
    directory = tmp_path / "sweep" / "run"
    directory.mkdir(parents=True)
    subprocess.run(argv(directory, "leave", f"{seed}"), env=worker_environment(), check=True)
    trees = reference(tmp_path / "reference", f"{seed}", STEPS)
    before = tree_of(directory / "work")
    shutil.move(directory, tmp_path / "template")
    return Left(tmp_path / "template", trees, before)


def wrong_after(job: Job, before: Tree, rng: Random) -> Iterator[str]:
    """Everything that is not as it has to be after a kill."""
    try:
        with job.manager() as manager:
            explained = yield from _resumed(job)
            quiet = [each.restore_id for each in manager.restores(TASK) if each.state == "done"]
            ledger = (job.work / LEDGER).read_bytes()
            yield from get_back(manager, sorted({*calls_in(explained), *quiet}), job.work, before, rng)
            yield from differences(before, tree_of(job.work))
            # The step that had half changed it was given up: nobody else would put this back again.
            (job.work / LEDGER).write_bytes(ledger)
            yield from _resumed(job)
            yield from (f"missing: {digest}" for digest in manager.collect().missing)
            again = manager.collect()
            if (again.contents, again.drafts) != (0, 0):
                yield f"left: {again}"
            yield from _resumed(job)
    except CheckpointError as problem:
        yield f"raised: {type(problem).__name__}: {problem}"


def _resumed(job: Job) -> Generator[str, None, str]:
    """What differs after a resume, and what it said."""
    with job.manager() as manager, job.task(manager) as task:
        state = task.resume({"n": 0}, repair=True)
        yield from (f"resumed at {state}: {line}" for line in differences(job.trees[STEPS], tree_of(job.work)))
        assert task.recovery is not None
        return task.recovery.explain()


@pytest.fixture
def sweep(recorder: Recorder, tmp_path: Path, left: Left, rng: Random, count) -> Callable[..., Iterator[list[str]]]:
    """Kill at each call, or at some of them; what is wrong after each."""

    def swept(part: str, fault: str = "") -> Iterator[list[str]]:
        runs = sweep_errors(
            recorder,
            lambda to: argv(to, part, fault=fault),
            tmp_path / "sweep",
            rng,
            actions=["SIGKILL"],
            lasting=[False],
            count=count(5, 10_000),
            prepare=left.put,
        )
        for run in runs:
            assert -9 == run.recording.returncode, run.recording.stderr
            found = list(wrong_after(job_in(run.directory, trees=left.trees), left.before, rng))
            yield [f"{line} | {run.fault}" for line in found]

    return swept


@pytest.mark.parametrize("part", ["resume", "collect"])
def test_a_kill_at_any_call_is_finished_or_undone_by_the_next_resume(sweep, part: str):
    """SIGKILL at each call that writes below the registry, the vault and the workspace."""
    number = 0
    for number, found in enumerate(sweep(part), 1):
        assert [] == found, f"after {number} others"
    print(f"{part}: killed at {number} different calls")


@pytest.mark.planted
def test_kills_call_by_call_find_a_journal_that_is_written_afterwards(sweep):
    """What was moved away by then is nowhere to be found."""
    assert any(any(sweep("resume", "journal-afterwards")) for _ in range(3))
