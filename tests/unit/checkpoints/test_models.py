"""The models: the contract's constructors, summaries that add up, and dictionaries that lose and invent nothing."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentos.core.checkpoints import snapshots
from agentos.core.checkpoints.models import Checkpoint, Evidence, EvidencePack, EvidenceType, VerificationStatus
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome
from agentos.core.checkpoints.subjects import SUBJECT_KINDS
from agentos.errors import CheckpointError, InvalidInputError, SnapshotError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=8), JSON, max_size=4)
MOMENTS = st.datetimes(timezones=st.just(UTC))
RESULTS = st.builds(
    EvidenceResult,
    outcome=st.sampled_from(Outcome),
    code=st.text(max_size=10),
    message=st.text(max_size=10),
    hint=st.text(max_size=10),
    expected=JSON,
    found=JSON,
    assurance=st.none() | st.sampled_from(Assurance),
    duration_ms=st.floats(0, 1e9),
)
CLAIMS = st.builds(
    Evidence,
    st.sampled_from(EvidenceType),
    st.text(max_size=10),
    OBJECTS,
    OBJECTS,
    verified=st.booleans(),
    verification_status=st.sampled_from(VerificationStatus),
    verification_error=st.none() | st.text(max_size=10),
    verified_at=st.none() | MOMENTS,
    result=st.none() | RESULTS,
)
SUBJECTS = st.builds(
    "{}:{}".format, st.sampled_from(SUBJECT_KINDS), st.text(min_size=1, max_size=9).map(lambda s: s.replace("\0", "0"))
)
PACKS = st.builds(
    EvidencePack,
    st.lists(CLAIMS, max_size=3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 9),
    releases=st.lists(SUBJECTS, max_size=2),
)
CHECKPOINTS = st.builds(
    Checkpoint,
    st.text(max_size=10),
    st.text(max_size=10),
    st.none() | st.text(max_size=10),
    st.text(max_size=10),
    st.integers(0, 2**63 - 1),
    OBJECTS,
    PACKS,
    OBJECTS,
    created_at=st.none() | MOMENTS,
    verified=st.booleans(),
    last_verified_at=st.none() | MOMENTS,
)
MODELS = RESULTS | CLAIMS | PACKS | CHECKPOINTS


def claim(path: str = "x", **metadata: Any) -> Evidence:
    return Evidence(EvidenceType.ARTIFACT_EXISTS, "claim", {"path": path}, metadata)


def checkpoint(snapshot: dict[str, Any]) -> Checkpoint:
    return Checkpoint("id", "task", None, "manual_checkpoint", 1, snapshot, EvidencePack([claim()]))


# The contract's shapes.


def test_the_fields_stand_in_the_order_of_the_contract():
    """Positional constructors mean what the seed says they mean."""
    named = [each.name for each in fields(Evidence)]
    assert named[:4] == ["evidence_type", "description", "expected", "metadata"]
    assert named[4:8] == ["verified", "verification_status", "verification_error", "verified_at"]
    pack = [each.name for each in fields(EvidencePack)]
    assert pack[:4] == ["evidence_list", "require_all", "allow_partial", "min_verified"]
    assert [each.name for each in fields(Checkpoint)][:11] == [
        "checkpoint_id", "task_id", "work_item_id", "checkpoint_type", "sequence_number", "snapshot_data", "evidence_pack",
        "metadata", "created_at", "verified", "last_verified_at",
    ]  # fmt: skip


def test_a_fresh_item_is_pending():
    """Nothing is verified by being claimed; what is not shared between items is not shared."""
    one, other = claim(), Evidence(EvidenceType.ARTIFACT_EXISTS, "claim", {"path": "x"})
    assert (one.verified, one.verification_status, one.verification_error) == (False, VerificationStatus.PENDING, None)
    assert (one.verified_at, one.result) == (None, None)
    assert one.metadata is not other.metadata


def test_the_defaults_of_a_pack_are_the_strict_ones():
    """All must verify unless the pack says otherwise."""
    pack = EvidencePack([claim()])
    assert (pack.require_all, pack.allow_partial, pack.min_verified) == (True, False, 0)
    assert EvidencePack().evidence_list == []


def test_the_enums_are_texts():
    """EvidenceType holds the contract's values and ours, VerificationStatus exactly the contract's; both compare with them."""
    assert {"artifact_exists", "file_sha256", "command_exit", "db_row"} < set(EvidenceType)
    assert [each.value for each in VerificationStatus] == ["pending", "verified", "failed"]
    assert str(EvidenceType.DB_ROW) == EvidenceType("db_row") == "db_row"


def test_evidence_is_added_to_a_pack():
    """add_evidence appends, and takes nothing else."""
    pack = EvidencePack([claim("a")])
    pack.add_evidence(claim("b"))
    assert [item.expected["path"] for item in pack.evidence_list] == ["a", "b"]
    with pytest.raises(InvalidInputError, match="takes Evidence"):
        pack.add_evidence({"path": "c"})  # type: ignore[arg-type]
    assert len(pack.evidence_list) == 2


any_evidence: Any = Evidence
any_pack: Any = EvidencePack
any_result: Any = EvidenceResult

NO_SHAPES = {
    "an unknown type": (lambda: any_evidence("bogus", "d", {}), r"Evidence\.evidence_type: must be one of .*found bogus"),
    "a description that is no text": (lambda: any_evidence("db_row", 7, {}), r"Evidence\.description: .*found 7"),
    "expected as a list": (lambda: any_evidence("db_row", "d", []), r"Evidence\.expected: .*found \[\]"),
    "expected with a number as key": (lambda: any_evidence("db_row", "d", {1: 2}), r"Evidence\.expected"),
    "expected with a huge number as key": (lambda: any_evidence("db_row", "d", {10**5000: 2}), r"Evidence"),
    "an unknown field": (lambda: any_evidence("db_row", "d", {}, bogus=1), r"Evidence"),
    "a minimum below zero": (lambda: any_pack([], min_verified=-1), r"EvidencePack\.min_verified: .*found -1"),
    "a minimum far below zero": (lambda: any_pack([], min_verified=-(10**5000)), r"greater than or equal to 0"),
    "a fraction as minimum": (lambda: any_pack([], min_verified=1.0), r"EvidencePack\.min_verified"),
    "true as minimum": (lambda: any_pack([], min_verified=True), r"EvidencePack\.min_verified"),
    "text as minimum": (lambda: any_pack([], min_verified="1"), r"EvidencePack\.min_verified"),
    "one as require_all": (lambda: any_pack([], require_all=1), r"EvidencePack\.require_all"),
    "text as allow_partial": (lambda: any_pack([], allow_partial="yes"), r"EvidencePack\.allow_partial"),
    "text as evidence": (lambda: any_pack(["x"]), r"EvidencePack\.evidence_list\.0"),
    "an unknown outcome": (lambda: any_result("maybe", "CODE"), r"EvidenceResult\.outcome"),
}


@pytest.mark.parametrize(("make", "says"), NO_SHAPES.values(), ids=NO_SHAPES.keys())
def test_a_shape_that_is_none_is_refused_at_construction(make, says):
    """The error names the field and what was found, and is one of ours."""
    with pytest.raises(InvalidInputError, match=says) as refused:
        make()
    assert isinstance(refused.value, CheckpointError)
    assert str(refused.value).isprintable()


# Summaries.


@given(pack=PACKS)
def test_a_summary_adds_up(pack):
    """Total == verified + failed + error + pending; declared is a part of verified; is_verified is the policy's word."""
    summary = pack.verification_summary()
    counts = [summary[key] for key in ("verified", "failed", "error", "pending")]
    assert summary["total"] == sum(counts) == len(pack.evidence_list)
    assert 0 <= summary["declared"]
    assert summary["is_verified"] is pack.is_verified()
    assert set(summary) == {"total", "verified", "failed", "error", "pending", "declared", "is_verified"}


def test_a_summary_counts_what_was_recorded():
    """Each outcome lands in its own count, and a declared one in two."""
    now = datetime.now(UTC)
    pack = EvidencePack([claim(str(number)) for number in range(5)])
    for item, outcome, assurance in zip(
        pack.evidence_list,
        (Outcome.VERIFIED, Outcome.VERIFIED, Outcome.FAILED, Outcome.ERROR),
        (Assurance.OBSERVED, Assurance.DECLARED, Assurance.OBSERVED, None),
        strict=False,
    ):
        item.record(EvidenceResult(outcome, "CODE", "why", assurance=assurance), now)
    assert pack.verification_summary() == {
        "total": 5, "verified": 2, "failed": 1, "error": 1, "pending": 1, "declared": 1, "is_verified": False,
    }  # fmt: skip
    shown_as = [item.verification_status for item in pack.evidence_list]
    assert shown_as[2:] == [VerificationStatus.FAILED, VerificationStatus.FAILED, VerificationStatus.PENDING]


def test_an_item_without_a_result_counts_by_its_status():
    """Evidence that was loaded from an older form still adds up."""
    old = Evidence(EvidenceType.DB_ROW, "old", {}, verified=True, verification_status=VerificationStatus.VERIFIED)
    bad = Evidence(EvidenceType.DB_ROW, "bad", {}, verification_status=VerificationStatus.FAILED)
    summary = EvidencePack([old, bad, claim()]).verification_summary()
    assert (summary["verified"], summary["failed"], summary["pending"]) == (1, 1, 1)


# Dictionaries.


@given(model=MODELS)
def test_from_dict_is_the_exact_inverse_of_to_dict(model):
    """What is carried out comes back equal, of the same type, and gives the same dictionary again."""
    data = model.to_dict()
    back = type(model).from_dict(data)
    assert back == model
    assert repr(back.to_dict()) == repr(data)


@given(model=MODELS)
def test_a_dictionary_is_plain_data(model):
    """Enums as values, times as ISO 8601: JSON carries it and gives it back."""
    data = model.to_dict()
    assert type(model).from_dict(json.loads(json.dumps(data))) == model


@given(model=MODELS)
def test_every_field_is_carried(model):
    """A field that is forgotten is a claim that is forgotten."""
    assert list(model.to_dict()) == [each.name for each in fields(model)]


@given(model=MODELS, data=st.data())
def test_an_unknown_or_missing_key_is_refused(model, data):
    """Nothing is silently dropped and nothing made up."""
    plain = model.to_dict()
    missing = data.draw(st.sampled_from(sorted(plain)))
    with pytest.raises(InvalidInputError, match=rf"{type(model).__name__}.from_dict: missing key: {missing}"):
        type(model).from_dict({key: value for key, value in plain.items() if key != missing})
    with pytest.raises(InvalidInputError, match="unknown key: surprise"):
        type(model).from_dict({**plain, "surprise": 1})


@pytest.mark.parametrize("data", [None, [], "x", 7])
def test_what_is_no_dictionary_is_refused(data):
    """from_dict takes a dict and says what it got instead."""
    for model in (EvidenceResult, Evidence, EvidencePack, Checkpoint):
        with pytest.raises(InvalidInputError, match="takes a dict"):
            model.from_dict(data)


@pytest.mark.parametrize("items", [7, "ab", {"a": 1}, [7], None])
def test_a_list_of_evidence_that_is_none_is_refused(items):
    """Inside too, every refusal is one of ours."""
    with pytest.raises(InvalidInputError):
        EvidencePack.from_dict({**EvidencePack([]).to_dict(), "evidence_list": items})


def test_a_dictionary_shares_nothing_with_its_model():
    """What a caller does to the one does not reach the other, in either direction."""
    item = Evidence(EvidenceType.DB_ROW, "d", {"where": {"ids": [1]}}, {"tags": ["a"]})
    item.record(EvidenceResult(Outcome.FAILED, "CODE", "why", found={"row": {"id": 1}}), datetime.now(UTC))
    data = item.to_dict()
    kept = deepcopy(data)
    data["expected"]["where"]["ids"].append(2)
    data["metadata"]["tags"].append("b")
    data["result"]["found"]["row"]["id"] = 2
    assert item.to_dict() == kept
    back = Evidence.from_dict(kept)
    back.expected["where"]["ids"].append(3)
    assert kept["expected"]["where"]["ids"] == [1]


def test_times_are_iso_8601_with_their_offset():
    """A moment is the same moment afterwards."""
    moment = datetime(2026, 1, 29, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=2)))
    item = Evidence(EvidenceType.DB_ROW, "d", {}, verified_at=moment)
    assert item.to_dict()["verified_at"] == "2026-01-29T12:30:15.123456+02:00"
    assert Evidence.from_dict(item.to_dict()).verified_at == moment


def test_a_recorded_result_cannot_be_edited():
    """One look is one look."""
    result = EvidenceResult(Outcome.FAILED, "CODE")
    with pytest.raises(AttributeError):
        result.outcome = Outcome.VERIFIED  # type: ignore[misc]


# Typed snapshots.


class State(BaseModel):
    step: int
    names: tuple[str, ...] = ()
    seen_at: datetime | None = None


@dataclass
class Plain:
    step: int
    inner: dict[str, int]


class Lossy(BaseModel):
    step: int
    secret: str = "none"

    def model_post_init(self, context: Any) -> None:
        self.secret = "none"


@pytest.mark.parametrize(
    "state", [State(step=1, names=("a", "b"), seen_at=datetime(2026, 1, 1, tzinfo=UTC)), Plain(2, {"a": 1})]
)
def test_a_typed_state_comes_back_equal(state):
    """A pydantic model or dataclass is dumped in JSON mode, and snapshot_as gives it back."""
    stored = snapshots.as_object(state)
    assert type(stored) is dict
    assert checkpoint(stored).snapshot_as(type(state)) == state


def test_a_typed_state_that_would_not_come_back_is_refused():
    """What is lost on the way is found when it is saved."""
    state = Lossy(step=1)
    state.secret = "kept nowhere"
    with pytest.raises(SnapshotError, match="Lossy does not come back equal from JSON"):
        snapshots.as_object(state)


def test_a_state_that_does_not_fit_its_type_says_where():
    """Other code wrote it: the path and what is wrong, and the plain data is still there to convert."""
    stored = checkpoint({"step": "one", "names": []})
    with pytest.raises(SnapshotError, match=r"snapshot\['step'\]: does not fit State"):
        stored.snapshot_as(State)
    assert stored.snapshot_data["step"] == "one"


@pytest.mark.parametrize("snapshot", [None, [], "x", 7, State, Plain, object()])
def test_a_snapshot_that_is_no_object_is_refused(snapshot):
    """A dict, a model or a dataclass; not the class itself, and nothing else."""
    with pytest.raises(SnapshotError, match="expected a dict, a pydantic model or a dataclass"):
        snapshots.as_object(snapshot)
