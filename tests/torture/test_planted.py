"""Each fault that is planted in agentos is found by the torture that is there to find it, over the real manager.

A torture that misses its planted fault proves nothing when it finds none. Beside each fault runs the same without it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import ANY

import pytest

from agentos.store.registry.sqlite import rows, tables
from tests.faults.corrupt import Damage
from tests.faults.kill import kill_rounds, run_together
from tests.faults.record import Recorder
from tests.faults.replay import sampled_states
from tests.torture import history
from tests.torture.agent import Errand, registry_of
from tests.torture.audit import missing
from tests.torture.insisting import Trial
from tests.torture.test_corruption import damages, put, scratch
from tests.torture.test_io_errors import record, violations

__all__ = ["scratch"]


@pytest.fixture
def after_cuts(recorder: Recorder, tmp_path: Path, rng: Random) -> Callable[..., list[str]]:
    """What power cuts find in one agent's work, with a fault planted in it."""

    def losses(fault: str, **errand) -> list[str]:
        directory = tmp_path / "run"
        directory.mkdir()
        recording = recorder.record(Errand(str(directory), fault=fault, **errand).argv, directory)
        states = sampled_states(recording, 120, rng)
        return [line for state in states for line in missing(state.path, state.acked)]

    return losses


@pytest.mark.planted
@pytest.mark.parametrize(
    ("fault", "errand", "sign"),
    [
        ("ack-early", {}, "lost: commit"),
        ("normal-sync", {}, "lost: commit"),
        ("normal-sync", {}, "lost: begin"),
        ("no-folder-sync", {"steps": 1}, "lost: begin"),
        ("no-file-sync", {"artifacts": True}, "artifact: "),
    ],
)
def test_power_cuts_find(after_cuts, fault: str, errand: dict, sign: str):
    """Acknowledging too early, NORMAL where FULL is promised, and every sync that is left out."""
    assert any(line.startswith(sign) for line in after_cuts(fault, **errand))


@pytest.mark.planted
def test_power_cuts_find_nothing_where_nothing_is_planted(after_cuts):
    """The same agent without a fault, under the same cuts."""
    assert [] == after_cuts("", artifacts=True)


@pytest.mark.planted
@pytest.mark.parametrize(("fault", "found"), [("", False), ("ack-early", True)])
def test_kills_find_an_acknowledgement_before_the_commit(tmp_path: Path, rng: Random, fault: str, found: bool):
    """What was promised and never stored is missed after the kill."""
    errand = Errand(str(tmp_path), steps=0, fault=fault)
    groups = kill_rounds(lambda number: replace(errand, task=f"t{rng.getrandbits(32)}").argv, 4, rng, rounds=4)
    lost = missing(tmp_path, [ack for group in groups for worker in group for ack in worker.acks])
    assert found == any(line.startswith("lost: commit") for line in lost)
    assert [] == [line for line in lost if not line.startswith("lost: commit")]


@pytest.mark.planted
@pytest.mark.parametrize(("fault", "found"), [("", False), ("number-outside", True)])
def test_several_processes_find_a_number_drawn_outside_the_lock(tmp_path: Path, fault: str, found: bool):
    """Four agents of one task: each number is drawn once if it is drawn under the write lock, and only then."""
    errand = Errand(str(tmp_path), task="shared", steps=30, artifacts=True, fault=fault)
    workers = run_together(lambda number: replace(errand, seed=number).argv, 4)
    twice = [line for line in missing(tmp_path, []) if line.startswith("number: ")]
    assert found == bool(twice)
    assert found or [0] * 4 == [worker.returncode for worker in workers]


@pytest.mark.planted
@pytest.mark.parametrize(("fault", "found"), [("", False), ("unsynced-answer", True)])
def test_io_errors_find_an_answer_that_is_not_durable(recorder: Recorder, tmp_path: Path, rng: Random, fault: str, found: bool):
    """After an unclear commit the step is looked up, seen, and acknowledged without a sync: gone after the cut."""
    trials = [Trial(str(tmp_path / f"{anew}"), "neighbour", "full", "fdatasync:2:EIO", anew) for anew in (False, True)]
    recording = record(recorder, tmp_path, trials, fault)
    assert found == any(line.startswith("lost: commit") for line in violations(recording, trials, rng))


@pytest.mark.planted
def test_corruption_finds_digests_that_are_not_checked(scratch: Path, seed: int, monkeypatch: pytest.MonkeyPatch):
    """Without the checks of rows and snapshots wrong answers are given, and the damage that led to each is named."""
    known = history.make(scratch)
    path = registry_of(scratch)
    whole = path.read_bytes()
    right = history.answers(scratch, known)
    monkeypatch.setattr(rows, "_refuse_damaged", lambda *args: None)
    monkeypatch.setattr(tables, "sha256", lambda data: ANY)

    def is_answered_wrong(done: Damage) -> bool:
        put(path, done.content)
        # Whatever else unchecked rows lead to is a finding too, and not this one.
        return bool(history.wrong(history.answers(scratch, known, refusals=Exception), right))

    found = next(filter(is_answered_wrong, damages(whole, seed, 1000)))
    assert f"damage(seed={seed}, index=" in found.description
