"""A disk that fails under a commit: the outcome is unknown, the next call settles it, and a power cut takes nothing back.

The faults are real: the recorder makes the system calls of a process fail, and power cuts are made from its tape.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import CheckpointError
from tests.faults.record import Recorder, RecorderUnavailableError, Recording
from tests.faults.replay import sampled_states
from tests.support import run

Count = Callable[[int, int], int]


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """The library that records calls and injects faults."""
    try:
        return Recorder.build(tmp_path_factory.getbasetemp() / "recorder")
    except RecorderUnavailableError as reason:
        pytest.skip(str(reason))


UNCLEAR = """
import os, sys
from agentos import CheckpointManager
from agentos.errors import OutcomeUnknownError, StepAlreadyCommittedError
from tests.faults.channel import Fault, ack, arm, disarm, mark
from tests.support import exists
folder, durability, company = sys.argv[1:4]
db = os.path.join(folder, "registry.sqlite")
manager = CheckpointManager(db, folder, durability=durability)
# Another connection keeps the log alive: then closing ours does not tidy it away.
other = CheckpointManager(db, folder) if company == "others" else None
if other is not None:
    other.list_checkpoints("t")
commit = lambda step: manager.commit_step(step, exists("out.txt"))
for _ in range(3):
    ack(f"{commit(manager.begin_step('t', 'tool_executed', {})).sequence_number}")
step = manager.begin_step("t", "tool_executed", {})
arm(Fault.parse("fdatasync:1:EIO"))
try:
    commit(step)
    raise SystemExit("nothing failed")
except OutcomeUnknownError:
    disarm()
mark("again")
ack(f"{commit(step).sequence_number}")
mark("settled")
ack(f"{commit(manager.begin_step('t', 'tool_executed', {})).sequence_number}")
mark("over")
print([each.sequence_number for each in manager.list_checkpoints("t")])
"""


def recorded(recorder: Recorder, folder: Path, code: str, *arguments: str) -> Recording:
    (folder / "out.txt").write_text("one")
    return recorder.record([sys.executable, "-c", code, str(folder), *arguments], folder, timeout=60)


def lost(recording: Recording, count: int, rng: Random) -> list[str]:
    """What was acknowledged and is not there after a power cut, with the cut."""
    found = []
    for state in sampled_states(recording, count, rng, "strict"):
        if not state.acked:
            continue
        try:
            with CheckpointManager(state.path / "registry.sqlite", state.path) as manager:
                there = {str(each.sequence_number) for each in manager.list_checkpoints("t")}
        except CheckpointError as error:
            found.append(f"{error} | {state.description}")
            continue
        found += [f"number {number} | {state.description}" for number in state.acked if number not in there]
    return found


@pytest.mark.parametrize("company", ["alone", "others"])
@pytest.mark.parametrize("durability", ["full", "commit"])
def test_after_a_failed_sync_the_outcome_is_settled_by_a_synced_write(
    recorder: Recorder, tmp_path: Path, seed: int, count: Count, durability: str, company: str
):
    """The commit raises, the same call commits exactly once after a synced write, and no power cut takes back what is said."""
    recording = recorded(recorder, tmp_path, UNCLEAR, durability, company)
    assert ["1", "2", "3", "4", "5"] == [ack.text for ack in recording.acks]
    assert recording.fired == 1
    calls = recording.calls_between("again", "settled")
    assert calls["fdatasync", "registry.sqlite-wal"] >= 1
    assert [] == lost(recording, count(60, 2000), Random(seed))
    with CheckpointManager(tmp_path / "registry.sqlite") as manager:
        assert [5, 4, 3, 2, 1] == [each.sequence_number for each in manager.list_checkpoints("t")]


ALREADY = """
import os, sys
from agentos import CheckpointManager
from agentos.errors import StepAlreadyCommittedError
from tests.faults.channel import ack, mark
from tests.support import exists
db = os.path.join(sys.argv[1], "registry.sqlite")
# The other process commits with little durability, and dies: what it wrote can be read, and is not on disk.
other = CheckpointManager(db, sys.argv[1], durability="relaxed")
manager = CheckpointManager(db, sys.argv[1])
step = manager.begin_step("t", "tool_executed", {})
other.commit_step(step, exists("out.txt"))
mark("asked")
try:
    manager.commit_step(step, exists("out.txt"))
except StepAlreadyCommittedError:
    ack("1")
mark("answered")
os._exit(0)
"""


def test_already_committed_is_said_only_after_a_synced_write(recorder: Recorder, tmp_path: Path, seed: int, count: Count):
    """A checkpoint that can be read is not therefore on disk: the refusal makes it so before it is an answer."""
    recording = recorded(recorder, tmp_path, ALREADY)
    assert ["1"] == [ack.text for ack in recording.acks]
    assert recording.calls_between("asked", "answered")["fdatasync", "registry.sqlite-wal"] >= 1
    assert [] == lost(recording, count(40, 1000), Random(seed))


HONEST = """
import os, sys
from agentos import CheckpointManager
from tests.faults.channel import ack, mark
from tests.support import exists
manager = CheckpointManager(os.path.join(sys.argv[1], "registry.sqlite"), sys.argv[1], durability=sys.argv[2])
mark("first")
for _ in range(6):
    step = manager.begin_step("t", "tool_executed", {})
    mark("begun")
    ack(f"{manager.commit_step(step, exists('out.txt')).sequence_number}")
    mark("committed")
os._exit(0)
"""


@pytest.mark.parametrize(("durability", "syncs"), [("full", 12), ("commit", 6), ("relaxed", 0)])
def test_each_durability_syncs_what_it_promises(
    recorder: Recorder, tmp_path: Path, seed: int, count: Count, durability: str, syncs: int
):
    """Full syncs begin and commit, commit only the commit, relaxed neither; what a synced commit acknowledged survives."""
    recording = recorded(recorder, tmp_path, HONEST, durability)
    assert syncs == recording.calls_between("first", "committed")["fdatasync", "registry.sqlite-wal"]
    if syncs:
        assert [] == lost(recording, count(40, 1000), Random(seed))


@pytest.mark.parametrize("call", ["begin", "commit", "verify", "delete"])
def test_a_failed_sync_of_any_write_is_unknown(recorder: Recorder, tmp_path: Path, call: str):
    """Whatever was being written when the disk broke for good: the error says that nobody knows."""
    code = """
import os, sys
from agentos import CheckpointManager
from agentos.errors import OutcomeUnknownError
from tests.faults.channel import Fault, arm, disarm, mark
from tests.support import exists
folder, call = sys.argv[1:3]
manager = CheckpointManager(os.path.join(folder, "registry.sqlite"), folder)
checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"))
step = manager.begin_step("t", "tool_executed", {})
calls = {
    "begin": lambda: manager.begin_step("t", "tool_executed", {}),
    "commit": lambda: manager.commit_step(step, exists("out.txt")),
    "verify": lambda: manager.verify_checkpoint(checkpoint.checkpoint_id),
    "delete": lambda: manager.delete_checkpoint(checkpoint.checkpoint_id),
}
mark("before")
arm(Fault.parse("fdatasync:1:EIO+"))
try:
    calls[call]()
except OutcomeUnknownError:
    mark("after")
    os._exit(0)
raise SystemExit("nothing failed")
"""
    assert recorded(recorder, tmp_path, code, call).fired >= 1


def test_the_programs_of_this_file_work_without_faults(tmp_path: Path):
    """By hand, without a recorder, the worker acknowledges what it does on standard output."""
    (tmp_path / "out.txt").write_text("one")
    assert ["1", "2", "3", "4", "5", "6"] == [line for line in run(HONEST, tmp_path, "full").split() if line.isdigit()]


READS = """
import os, sys
from agentos import CheckpointManager
from agentos.errors import OutcomeUnknownError
from agentos.store import unsettled
from tests.faults.channel import Fault, arm, disarm
from tests.support import exists
folder = sys.argv[1]
manager = CheckpointManager(os.path.join(folder, "registry.sqlite"), folder)
step = manager.begin_step("t", "tool_executed", {})
mend = unsettled.mend_log
def broken(path):
    raise OSError(5, "the disk stays broken")
unsettled.mend_log = broken
arm(Fault.parse("fdatasync:1:EIO"))
try:
    manager.commit_step(step, exists("out.txt"))
except OutcomeUnknownError:
    disarm()
for read, what in ((manager.list_checkpoints, "t"), (manager.get_last_verified_checkpoint, "t"), (manager.get_step, step)):
    try:
        print("answered", read(what))
    except OutcomeUnknownError:
        print("unknown")
unsettled.mend_log = mend
print(len(manager.list_checkpoints("t")) in (0, 1))
"""


def test_nothing_is_answered_before_an_unclear_commit_is_settled(recorder: Recorder, tmp_path: Path):
    """A disk that stays broken: reads say so too, and do not serve what the next power cut takes."""
    (tmp_path / "out.txt").write_text("x")
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "out.txt").write_text("x")
    tape, acks = tmp_path / "tape", tmp_path / "acks"
    env = recorder.environment(directory, tape, acks)
    ended = subprocess.run([sys.executable, "-c", READS, str(directory)], env=env, capture_output=True, text=True, check=False)
    assert ("unknown\n" * 3 + "True\n", "") == (ended.stdout, ended.stderr)
