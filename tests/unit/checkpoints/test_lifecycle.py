"""The life of a step is one table, and the manager follows a plain model of it whatever is done in whatever order."""

import itertools
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.lifecycle import CHECKPOINT_STATES, TRANSITIONS, StepEvent, StepState, advance
from agentos.errors import (
    CheckpointIdTakenError,
    CheckpointNotFoundError,
    EvidenceMismatchError,
    EvidenceUnavailableError,
    StepAlreadyCommittedError,
    StepNotFoundError,
    SupersededError,
)
from tests.support import content, dump, exists

# The table.


def test_the_table_is_what_the_design_says():
    """Only a begun step can go on, to one of three ends; two of those are checkpoints."""
    assert {
        (StepState.BEGUN, StepEvent.COMMIT): StepState.COMMITTED,
        (StepState.BEGUN, StepEvent.ADOPT): StepState.ADOPTED,
        (StepState.BEGUN, StepEvent.ABANDON): StepState.ABANDONED,
    } == TRANSITIONS
    assert {StepState.COMMITTED, StepState.ADOPTED} == CHECKPOINT_STATES


@pytest.mark.parametrize(("state", "event"), list(itertools.product(StepState, StepEvent)))
def test_a_pair_that_is_not_in_the_table_is_refused(state: StepState, event: StepEvent):
    """Every legal pair gives the next state; every other raises and says what the step is."""
    if (state, event) in TRANSITIONS:
        assert TRANSITIONS[state, event] is advance("step_x", state, event)
    else:
        with pytest.raises(StepAlreadyCommittedError, match=f"step step_x: cannot {event}, it is {state} already") as error:
            advance("step_x", state, event)
        assert ("step_x", state.value) == (error.value.diagnostics()["step_id"], error.value.diagnostics()["state"])


def test_an_illegal_event_changes_nothing(tmp_path: Path):
    """Committing a committed, a deleted or a superseded step leaves every table as it is."""
    (tmp_path / "a").write_text("a")
    db = tmp_path / "registry.sqlite"
    with CheckpointManager(db, tmp_path) as manager:
        steps = [manager.begin_step("t", "tool_executed", {"n": n}) for n in range(3)]
        first, second, _ = [manager.commit_step(step, exists("a")) for step in steps]
        manager.delete_checkpoint(second.checkpoint_id)
        manager.rollback_to_checkpoint(first.checkpoint_id, supersede_later=True)
        before = dump(db)
        for step in steps:
            with pytest.raises(StepAlreadyCommittedError):
                manager.commit_step(step, exists("a"), "another name", snapshot={"n": 9})
        assert before == dump(db)


# The model.

NAMES = ["a", "b", "c"]
TASKS = ["one", "two"]
TYPES = ["tool_executed", "iteration_end", "custom:x"]
TEXTS = ["red", "blue"]


@dataclass
class Claims:
    """What a pack claims: a name with the text it must have, or None for any; and how many must hold (None: all)."""

    items: list[tuple[str, str | None]]
    enough: int | None = None

    def pack(self) -> EvidencePack:
        claims: list[Evidence] = []
        for name, text in self.items:
            claims += (exists(name) if text is None else content(name, text)).evidence_list
        if self.enough is None:
            return EvidencePack(claims)
        return EvidencePack(claims, require_all=False, allow_partial=True, min_verified=self.enough)

    def outcome(self, files: dict[str, str]) -> str:
        """What a look at these files gives, worked out from the words of the contract."""
        seen = [self._one(files.get(name), text) for name, text in self.items]
        needed = len(seen) if self.enough is None else max(1, self.enough)
        if seen and seen.count("verified") >= needed:
            return "verified"
        possible = seen.count("verified") + seen.count("error")
        return "error" if "error" in seen and possible >= needed else "failed"

    def _one(self, found: str | None, text: str | None) -> str:
        if found == "(leads out)":
            return "error"
        return "verified" if found is not None and text in (None, found) else "failed"


@dataclass
class Made:
    """A checkpoint as the model knows it."""

    checkpoint_id: str
    step_id: str
    task: str
    kind: str
    sequence: int
    snapshot: dict[str, Any]
    claims: Claims
    verified: bool = False
    looks: int = 0
    superseded_by: str | None = None
    deleted: bool = False

    @property
    def live(self) -> bool:
        return not self.deleted and self.superseded_by is None

    def look(self, files: dict[str, str], *, first: bool = False) -> str:
        outcome = self.claims.outcome(files)
        # The look of the commit is part of the checkpoint itself.
        self.looks += not first
        if outcome != "error":
            self.verified = outcome == "verified"
        return outcome


@dataclass
class Begun:
    step_id: str
    task: str
    kind: str
    snapshot: dict[str, Any]


@dataclass
class World:
    """The plain-Python model: files, open steps, checkpoints in commit order, and a counter per task."""

    files: dict[str, str] = field(default_factory=dict)
    begun: dict[str, Begun] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TASKS, 0))

    def timeline(self, task: str) -> list[Made]:
        return [each for each in reversed(self.made) if each.task == task and each.live]


claims = st.builds(
    Claims,
    st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.sampled_from(TEXTS)), max_size=3),
    st.none() | st.just(0) | st.just(1),
).filter(lambda each: (each.enough or 0) <= len(each.items))
snapshots = st.fixed_dictionaries({"n": st.integers(0, 9)})
managers = st.integers(0, 2)


class Lifecycle(RuleBasedStateMachine):
    """Three managers on one file, one of which does not verify, against the model."""

    steps = Bundle("steps")
    checkpoints = Bundle("checkpoints")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="agentos-lifecycle-"))
        self.base = self.folder / "work"
        self.base.mkdir()
        self.stack = ExitStack()
        self.managers = [self.opened(number) for number in range(3)]
        self.world = World()

    def opened(self, number: int) -> CheckpointManager:
        manager = CheckpointManager(self.folder / "registry.sqlite", self.base, auto_verify=number != 2, durability="relaxed")
        return self.stack.enter_context(manager)

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)

    # The world changes.

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(TEXTS))
    def write(self, name: str, text: str) -> None:
        self.remove(name)
        (self.base / name).write_text(text)
        self.world.files[name] = text

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        (self.base / name).unlink(missing_ok=True)
        self.world.files.pop(name, None)

    @rule(name=st.sampled_from(NAMES))
    def lead_out(self, name: str) -> None:
        """The name leads out of the base: what is there cannot be checked."""
        self.remove(name)
        (self.base / name).symlink_to(self.folder / "registry.sqlite")
        self.world.files[name] = "(leads out)"

    @rule(number=managers)
    def reopen(self, number: int) -> None:
        self.managers[number].close()
        self.managers[number] = self.opened(number)

    # Steps.

    @rule(target=steps, by=managers, task=st.sampled_from(TASKS), kind=st.sampled_from(TYPES), snapshot=snapshots)
    def begin(self, by: int, task: str, kind: str, snapshot: dict[str, Any]) -> str:
        step = self.managers[by].begin_step(task, kind, snapshot)
        self.world.begun[step] = Begun(step, task, kind, dict(snapshot))
        return step

    @rule(
        target=checkpoints,
        step=consumes(steps),
        by=managers,
        claimed=claims,
        after=st.none() | snapshots,
        named=st.booleans(),
    )
    def commit(self, step: str, by: int, claimed: Claims, after: dict[str, Any] | None, named: bool) -> Any:
        begun = self.world.begun.pop(step)
        name = f"name of {step}" if named else step.removeprefix("step_")
        found = self.managers[by].commit_step(step, claimed.pack(), name if named else None, snapshot=after)
        self.world.counters[begun.task] += 1
        snapshot = begun.snapshot if after is None else after
        made = Made(name, step, begun.task, begun.kind, self.world.counters[begun.task], snapshot, claimed)
        if by != 2:
            made.look(self.world.files, first=True)
        self.world.made.append(made)
        assert (made.checkpoint_id, made.sequence, made.snapshot, made.verified) == (
            found.checkpoint_id,
            found.sequence_number,
            found.snapshot_data,
            found.verified,
        )
        return multiple(made)

    @rule(made=checkpoints, by=managers, claimed=claims)
    def commit_again(self, made: Made, by: int, claimed: Claims) -> None:
        with pytest.raises(StepAlreadyCommittedError):
            self.managers[by].commit_step(made.step_id, claimed.pack())

    @rule(step=steps, made=checkpoints, by=managers, claimed=claims)
    def commit_under_a_taken_name(self, step: str, made: Made, by: int, claimed: Claims) -> None:
        with pytest.raises(CheckpointIdTakenError):
            self.managers[by].commit_step(step, claimed.pack(), made.checkpoint_id)

    @rule(by=managers, claimed=claims)
    def commit_what_never_began(self, by: int, claimed: Claims) -> None:
        with pytest.raises(StepNotFoundError):
            self.managers[by].commit_step("step_01ARZ3NDEKTSV4RRFFQ69G5FAV", claimed.pack())

    # Checkpoints.

    @rule(made=checkpoints, by=managers)
    def verify(self, made: Made, by: int) -> None:
        if made.deleted:
            with pytest.raises(CheckpointNotFoundError):
                self.managers[by].verify_checkpoint(made.checkpoint_id)
        else:
            outcome = made.look(self.world.files)
            assert (outcome == "verified") is self.managers[by].verify_checkpoint(made.checkpoint_id)

    @rule(made=checkpoints, by=managers, supersede=st.booleans())
    def roll_back(self, made: Made, by: int, supersede: bool) -> None:
        roll_back = self.managers[by].rollback_to_checkpoint
        if made.deleted:
            with pytest.raises(CheckpointNotFoundError):
                roll_back(made.checkpoint_id, supersede_later=supersede)
            return
        outcome = made.look(self.world.files)
        refusals = {"failed": EvidenceMismatchError, "error": EvidenceUnavailableError}
        if outcome in refusals:
            with pytest.raises(refusals[outcome]):
                roll_back(made.checkpoint_id, supersede_later=supersede)
        elif supersede and not made.live:
            with pytest.raises(SupersededError):
                roll_back(made.checkpoint_id, supersede_later=True)
        else:
            assert made.snapshot == roll_back(made.checkpoint_id, supersede_later=supersede)
            if supersede:
                for each in self.world.timeline(made.task):
                    if each.sequence > made.sequence:
                        each.superseded_by = made.checkpoint_id

    @rule(made=checkpoints, by=managers)
    def delete(self, made: Made, by: int) -> None:
        assert (not made.deleted) is self.managers[by].delete_checkpoint(made.checkpoint_id)
        made.deleted = True

    # What must hold whatever was done.

    @rule(made=checkpoints, by=managers)
    def get(self, made: Made, by: int) -> None:
        found = self.managers[by].get_checkpoint(made.checkpoint_id)
        if made.deleted:
            assert found is None
        else:
            assert found is not None
            assert (made.snapshot, made.verified, made.superseded_by) == (
                found.snapshot_data,
                found.verified,
                found.superseded_by,
            )

    @invariant()
    def the_timelines_agree(self) -> None:
        for by, task in enumerate(TASKS):
            found = self.managers[by].list_checkpoints(task)
            expected = self.world.timeline(task)
            assert [(each.checkpoint_id, each.sequence, each.snapshot, each.verified) for each in expected] == [
                (each.checkpoint_id, each.sequence_number, each.snapshot_data, each.verified) for each in found
            ]

    @invariant()
    def the_last_verified_agree(self) -> None:
        for by, (task, kind) in enumerate(itertools.product(TASKS, [None, *TYPES])):
            found = self.managers[by % 3].get_last_verified_checkpoint(task, kind)
            expected = next((each for each in self.world.timeline(task) if each.verified and kind in (None, each.kind)), None)
            assert (None if expected is None else expected.checkpoint_id) == (None if found is None else found.checkpoint_id)

    @invariant()
    def the_open_steps_agree(self) -> None:
        for task in TASKS:
            found = self.managers[1].list_open_steps(task)
            assert {each.step_id for each in self.world.begun.values() if each.task == task} == {each.step_id for each in found}

    @invariant()
    def every_look_is_on_record(self) -> None:
        assert sum(each.looks for each in self.world.made) == len(dump(self.folder / "registry.sqlite")["verifications"])


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(stateful_step_count=40)


def test_evidence_about_the_registry_itself_follows_the_lifecycle(tmp_path: Path):
    """The registry's public row of the task is evidence like any other: it changes when the task is finished."""
    claim = Evidence(
        EvidenceType.DB_ROW, "active", {"table": "tasks", "where": {"task_id": "t"}, "values": {"status": "active"}}
    )
    with CheckpointManager(tmp_path / "registry.sqlite", tmp_path) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), EvidencePack([claim]))
        assert checkpoint.verified
        manager.finish_task("t")
        with pytest.raises(EvidenceMismatchError, match="status: expected 'active', found 'completed'"):
            manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
