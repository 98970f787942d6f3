"""Typed states go in and come back equal, lossy ones are refused, and what is given or returned is always a copy."""

import copy
import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic.dataclasses import dataclass as pydantic_dataclass

from agentos.core.checkpoints import Checkpoint, CheckpointManager, EvidencePack
from agentos.errors import SnapshotError
from tests.support import dump, exists


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def manager(db: Path, tmp_path: Path):
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:
        yield manager


class Mood(Enum):
    GOOD = "good"


class Inner(BaseModel):
    name: str
    tags: set[str] = set()


class Model(BaseModel):
    number: int
    when: datetime
    took: timedelta
    amount: Decimal
    mood: Mood
    id: UUID
    inner: Inner
    pairs: list[tuple[int, str]]
    raw: bytes = b"abc"
    nothing: float | None = None


@dataclass
class Nested:
    value: int


@dataclass
class Plain:
    name: str
    when: datetime
    nested: Nested
    many: list[Nested] = field(default_factory=list)
    pair: tuple[int, int] = (1, 2)


@pydantic_dataclass
class Checked:
    number: int
    mood: Mood = Mood.GOOD


@dataclass
class Unresolvable:
    later: "NoSuchName"  # type: ignore[name-defined]  # noqa: F821 - it cannot be resolved, that is the point


MODEL = Model(
    number=2**70,
    when=datetime(2026, 1, 29, 12, 30, 0, 123456, tzinfo=UTC),
    took=timedelta(seconds=1.5),
    amount=Decimal("0.10"),
    mood=Mood.GOOD,
    id=UUID(int=7),
    inner=Inner(name="é", tags={"a", "b"}),
    pairs=[(1, "one")],
)
STATES = [
    MODEL,
    Plain("x", datetime(2026, 1, 1, tzinfo=UTC), Nested(1), [Nested(2)]),
    Checked(3),
]


@pytest.mark.parametrize("state", STATES, ids=["pydantic", "dataclass", "pydantic dataclass"])
@pytest.mark.parametrize("when", ["begin", "commit"])
def test_a_typed_state_comes_back_equal(manager: CheckpointManager, state: Any, when: str):
    """A model or a dataclass is the whole snapshot, at begin and at commit; snapshot_as gives back an equal object."""
    step = manager.begin_step("t", "tool_executed", state if when == "begin" else {})
    checkpoint = manager.commit_step(step, exists("out.txt"), snapshot=state if when == "commit" else None)
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert stored is not None
    assert dict is type(stored.snapshot_data)
    for each in (checkpoint, stored):
        again = each.snapshot_as(type(state))
        assert (type(state), state) == (type(again), again)


def test_a_stored_state_is_plain_json(manager: CheckpointManager):
    """What is stored names no class: a typed state is dumped in JSON mode and revived by whoever knows the type."""
    step = manager.begin_step("t", "tool_executed", Checked(3))  # type: ignore[arg-type]
    assert {"number": 3, "mood": "good"} == manager.commit_step(step, exists("out.txt")).snapshot_data


def test_a_state_that_does_not_fit_says_where(manager: CheckpointManager):
    """Reviving as another type names the field and what is wrong with it."""
    checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {"number": "many"}), exists("out.txt"))
    with pytest.raises(SnapshotError, match=r"snapshot\['number'\]: does not fit Checked: .*integer"):
        checkpoint.snapshot_as(Checked)


@pytest.mark.parametrize("model", [5, "Model", lambda: None, Unresolvable], ids=range(4))
def test_reviving_as_something_that_is_no_type_is_refused(manager: CheckpointManager, model: Any):
    """snapshot_as takes a model or a dataclass; everything else is a sentence."""
    checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {"a": 1}), exists("out.txt"))
    with pytest.raises(SnapshotError):
        checkpoint.snapshot_as(model)


# What would be lost is refused.


class Excluding(BaseModel):
    kept: int = 1
    secret: str = Field(default="none", exclude=True)


class Hiding(BaseModel):
    kept: int = 1
    _hidden: int = PrivateAttr(default=0)


class Base(BaseModel):
    name: str = "base"


class Derived(Base):
    more: int = 0


class Holder(BaseModel):
    item: Base


class Loose(BaseModel):
    anything: Any = None


class Mistyped(BaseModel):
    number: int = 0


class Arbitrary(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: object = None


class Listy(BaseModel):
    ratio: float = 0.0


@dataclass
class NotInit:
    number: int
    computed: int = field(init=False, default=0)


def hiding() -> Hiding:
    model = Hiding()
    model._hidden = 5
    return model


def not_init() -> NotInit:
    state = NotInit(1)
    state.computed = 9
    return state


LOSSY: dict[str, Any] = {
    "an excluded field": Excluding(secret="hunter2"),
    "a private attribute": hiding(),
    "a subclass in a field of its base": Holder(item=Derived(more=1)),
    "a tuple in a field of any type": Loose(anything=(1, 2)),
    "a set in a field of any type": Loose(anything={1}),
    "a value of the wrong type": Mistyped.model_construct(number="many"),
    "an object JSON knows nothing of": Arbitrary(thing=object()),
    "not a number": Listy(ratio=float("nan")),
    "infinity": Listy(ratio=float("inf")),
    "a field that the constructor does not take": not_init(),
    "an annotation nobody can resolve": Unresolvable(1),
    "the class itself": Model,
    "a dataclass itself": Plain,
}


@pytest.mark.parametrize("what", LOSSY)
def test_a_typed_state_that_would_not_come_back_is_refused(manager: CheckpointManager, db: Path, what: str):
    """A dump that loses or changes anything is refused at begin and at commit, before anything is written."""
    step = manager.begin_step("t", "tool_executed", {})
    before = dump(db)
    with pytest.raises(SnapshotError) as error:
        manager.begin_step("t", "tool_executed", LOSSY[what])
    with pytest.raises(SnapshotError):
        manager.commit_step(step, exists("out.txt"), snapshot=LOSSY[what])
    assert before == dump(db)
    assert "hunter2" not in str(error.value)


def test_a_model_that_dumps_to_something_else_than_an_object_is_refused(manager: CheckpointManager):
    """A snapshot is a JSON object, whatever it is made from."""
    from pydantic import RootModel

    class Numbers(RootModel[list[int]]):
        pass

    with pytest.raises(SnapshotError, match="dumps to list, expected a JSON object"):
        manager.begin_step("t", "tool_executed", Numbers([1, 2]))  # type: ignore[arg-type]


# Copies.


def test_what_is_given_is_copied(manager: CheckpointManager):
    """A caller who goes on with its own dict, pack and metadata changes nothing that was begun or committed."""
    snapshot: dict[str, Any] = {"done": [1], "deep": {"a": [1]}}
    metadata = {"tags": ["x"]}
    pack = exists("out.txt")
    step = manager.begin_step("t", "tool_executed", snapshot, None, metadata)
    snapshot["done"].append(2)
    snapshot["deep"]["a"].clear()
    metadata["tags"].append("y")
    checkpoint = manager.commit_step(step, pack)
    pack.evidence_list[0].expected["path"] = "elsewhere"
    pack.evidence_list.clear()
    pack.require_all = False
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    for each in (checkpoint, stored):
        assert each is not None
        assert ({"done": [1], "deep": {"a": [1]}}, {"tags": ["x"]}) == (each.snapshot_data, each.metadata)
        assert (1, "out.txt", True) == (
            len(each.evidence_pack.evidence_list),
            each.evidence_pack.evidence_list[0].expected["path"],
            each.evidence_pack.require_all,
        )


def test_a_snapshot_given_at_commit_is_copied_too(manager: CheckpointManager):
    """Also the state after the work."""
    after: dict[str, Any] = {"done": [1]}
    checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"), snapshot=after)
    after["done"].append(2)
    assert {"done": [1]} == checkpoint.snapshot_data
    assert {"done": [1]} == manager.rollback_to_checkpoint(checkpoint.checkpoint_id)


def spoil(checkpoint: Checkpoint) -> None:
    checkpoint.snapshot_data["n"] = "spoiled"
    checkpoint.snapshot_data.setdefault("deep", {})["x"] = "spoiled"
    checkpoint.metadata["m"] = "spoiled"
    checkpoint.verified = not checkpoint.verified
    checkpoint.sequence_number = 99
    checkpoint.evidence_pack.evidence_list[0].expected["path"] = "spoiled"
    checkpoint.evidence_pack.evidence_list.append(checkpoint.evidence_pack.evidence_list[0])


def test_changing_what_was_returned_changes_nothing_that_is_stored(manager: CheckpointManager):
    """A checkpoint in a user's hands is a copy, whichever call it came from."""
    step = manager.begin_step("t", "tool_executed", {"n": 1, "deep": {"x": 1}}, None, {"m": 1})
    committed = manager.commit_step(step, exists("out.txt"))
    before = copy.deepcopy(committed)
    sources = [
        lambda: committed,
        lambda: manager.get_checkpoint(before.checkpoint_id),
        lambda: manager.list_checkpoints("t")[0],
        lambda: manager.get_last_verified_checkpoint("t"),
    ]
    for source in sources:
        found = source()
        assert found is not None
        spoil(found)
        assert before == manager.get_checkpoint(before.checkpoint_id)
    rolled = manager.rollback_to_checkpoint(before.checkpoint_id)
    rolled["n"] = "spoiled"
    assert {"n": 1, "deep": {"x": 1}} == manager.rollback_to_checkpoint(before.checkpoint_id)
    begun = manager.get_step(step)
    assert begun is not None
    begun.snapshot_data["n"] = "spoiled"
    again = manager.get_step(step)
    assert again is not None
    assert {"n": 1, "deep": {"x": 1}} == again.snapshot_data


def test_the_begun_state_is_not_the_callers_even_after_a_refused_commit(manager: CheckpointManager):
    """A commit that was refused leaves the remembered state as it was."""
    step = manager.begin_step("t", "tool_executed", {"n": 1})
    with pytest.raises(Exception, match="never be verified"):
        manager.commit_step(step, EvidencePack(min_verified=1))
    first = manager.commit_step(step, exists("out.txt"))
    first.snapshot_data["n"] = 2
    assert {"n": 1} == manager.rollback_to_checkpoint(first.checkpoint_id)


# Whatever it is.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)


@given(before=OBJECTS, after=st.none() | OBJECTS, metadata=st.none() | OBJECTS)
def test_any_json_object_comes_back_equal(
    shared: CheckpointManager, before: dict[str, Any], after: dict[str, Any] | None, metadata: dict[str, Any] | None
):
    """Whatever is accepted is stored and read back equal, type for type, by another manager too."""
    step = shared.begin_step("t", "tool_executed", before, None, metadata)
    checkpoint = shared.commit_step(step, exists("out.txt"), snapshot=after)
    stored = shared.get_checkpoint(checkpoint.checkpoint_id)
    begun = shared.get_step(step)
    assert stored is not None
    assert begun is not None
    expected = before if after is None else after
    assert repr(expected) == repr(stored.snapshot_data) == repr(checkpoint.snapshot_data)
    assert repr(metadata or {}) == repr(stored.metadata)
    assert repr(before) == repr(begun.snapshot_data)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "out.txt").write_text("one")
    with CheckpointManager(folder / "registry.sqlite", folder) as manager:
        yield manager


@given(
    state=st.builds(
        Plain,
        name=st.text(),
        when=st.datetimes(timezones=st.just(UTC)),
        nested=st.builds(Nested, st.integers(-(2**80), 2**80)),
        many=st.lists(st.builds(Nested, st.integers()), max_size=3),
    )
)
def test_any_dataclass_of_json_values_comes_back_equal(shared: CheckpointManager, state: Plain):
    """The same for typed states."""
    checkpoint = shared.commit_step(shared.begin_step("t", "tool_executed", state), exists("out.txt"))  # type: ignore[arg-type]
    assert state == checkpoint.snapshot_as(Plain)
    assert dataclasses.asdict(state) == dataclasses.asdict(checkpoint.snapshot_as(Plain))
