"""Bad input gets the promised error, which names it, and changes nothing; and no error speaks to a terminal."""

import copy
import logging
import os
import pickle
import re
import threading
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentos
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType
from agentos.errors import (
    AgentosError,
    CheckpointError,
    CheckpointIdTakenError,
    EvidenceDefinitionError,
    EvidenceMismatchError,
    InvalidInputError,
    SnapshotError,
    SupersededError,
)
from tests.support import content, dump, exists, exited, row


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def manager(db: Path, tmp_path: Path):
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:
        yield manager


@pytest.fixture
def step(manager: CheckpointManager) -> str:
    return manager.begin_step("t", "tool_executed", {"n": 1})


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the plain kind is what JSON would turn into a list


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


# Identifiers, types, limits.

NO_IDS: list[Any] = ["", 5, b"t", ["t"], "x" * 513, "nul\0", "\ud83d", True, Colour.RED, object()]
NO_TYPES: list[Any] = [
    "",
    "nonsense",
    "custom:",
    "custom:" + "x" * 65,
    "custom:a b",
    "custom:é",
    "Custom:a",
    None,
    5,
    "custom:a\n",
]
NO_LIMITS: list[Any] = [0, -1, 1.5, "10", True, None, float("inf")]


def refused(db: Path, kind: type[CheckpointError], call: Callable[[], Any], match: str | None = None) -> CheckpointError:
    before = dump(db)
    with pytest.raises(kind, match=match) as error:
        call()
    assert before == dump(db)
    return error.value


@pytest.mark.parametrize("bad", NO_IDS, ids=range(len(NO_IDS)))
def test_bad_ids_are_refused_by_every_call_and_change_nothing(manager: CheckpointManager, db: Path, step: str, bad: Any):
    """Whatever takes an id refuses what is none, and the error names the argument."""
    calls: dict[str, list[Callable[[], Any]]] = {
        "task_id": [
            lambda: manager.begin_step(bad, "tool_executed", {}),
            lambda: manager.get_last_verified_checkpoint(bad),
            lambda: manager.list_checkpoints(bad),
            lambda: manager.list_open_steps(bad),
            lambda: manager.finish_task(bad),
            lambda: manager.task(bad),
        ],
        "work_item_id": [lambda: manager.begin_step("t", "tool_executed", {}, bad)],
        "step_id": [
            lambda: manager.commit_step(bad, exists("out.txt")),
            lambda: manager.get_step(bad),
            lambda: manager.note_error(bad, ValueError("x")),
        ],
        "checkpoint_id": [
            lambda: manager.commit_step(step, exists("out.txt"), bad),
            lambda: manager.verify_checkpoint(bad),
            lambda: manager.rollback_to_checkpoint(bad),
            lambda: manager.get_checkpoint(bad),
            lambda: manager.delete_checkpoint(bad),
        ],
    }
    for name, group in calls.items():
        for call in group:
            refused(db, InvalidInputError, call, f"^{name} ")


def test_a_missing_id_is_refused_where_one_is_needed(manager: CheckpointManager, db: Path):
    """None is an answer only for ids that are optional."""
    wanted: list[Callable[[], Any]] = [
        lambda: manager.begin_step(None, "tool_executed", {}),  # type: ignore[arg-type]
        lambda: manager.commit_step(None, exists("out.txt")),  # type: ignore[arg-type]
        lambda: manager.verify_checkpoint(None),  # type: ignore[arg-type]
        lambda: manager.delete_checkpoint(None),  # type: ignore[arg-type]
    ]
    for call in wanted:
        refused(db, InvalidInputError, call, "must be a non-empty string, found None")


@pytest.mark.parametrize("bad", NO_TYPES, ids=range(len(NO_TYPES)))
def test_unknown_checkpoint_types_are_refused_with_the_list(manager: CheckpointManager, db: Path, bad: Any):
    """A type that is not one of the eight, nor custom:<name>, is refused, and the hint lists what is known."""
    calls = [lambda: manager.begin_step("t", bad, {})]
    if bad is not None:
        calls.append(lambda: manager.get_last_verified_checkpoint("t", bad))  # type: ignore[arg-type, return-value]
        calls.append(lambda: manager.list_checkpoints("t", 5, bad))  # type: ignore[arg-type, return-value]
    for call in calls:
        error = refused(db, InvalidInputError, call, "^checkpoint_type .*is unknown")
        assert error.hint.startswith("one of: iteration_start, iteration_end, tool_executed, llm_response, approval_point, ")


@pytest.mark.parametrize(
    "kind",
    [
        "iteration_start",
        "iteration_end",
        "tool_executed",
        "llm_response",
        "approval_point",
        "state_transition",
        "manual_checkpoint",
        "error_boundary",
        "custom:a",
        "custom:" + "Az0_.-" * 10 + "abcd",
    ],
)
def test_every_known_type_and_custom_names_are_accepted(manager: CheckpointManager, kind: str):
    """The eight of the schema, and names of 1 to 64 letters, digits, `_`, `.` and `-`."""
    taken = manager.commit_step(manager.begin_step("t", kind, {}), exists("out.txt"))
    assert kind == taken.checkpoint_type


@pytest.mark.parametrize("bad", NO_LIMITS, ids=range(len(NO_LIMITS)))
def test_a_limit_below_one_is_refused(manager: CheckpointManager, db: Path, bad: Any):
    """No list of nothing, and no list of one and a half."""
    refused(db, InvalidInputError, lambda: manager.list_checkpoints("t", bad), "^limit must be a whole number from 1, found")


# Snapshots and metadata.

NO_SNAPSHOTS: list[tuple[Any, str]] = [
    ({"a": (1, 2)}, "snapshot['a']: tuple"),
    ({"a": {"b": [1, {2}]}}, "snapshot['a']['b'][1]: set"),
    ({"a": float("nan")}, "snapshot['a']: nan"),
    ({"a": [float("-inf")]}, "snapshot['a'][0]: -inf"),
    ({"a": b"x"}, "snapshot['a']: bytes"),
    ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "snapshot['a']: datetime.datetime"),
    ({"a": Colour.RED}, "snapshot['a']: "),
    ({"a": Number.ONE}, "snapshot['a']: "),
    ({"a": Point(1, 2)}, "snapshot['a']: "),
    ({"a": OrderedDict()}, "snapshot['a']: collections.OrderedDict"),
    ({"a": Path("x")}, "snapshot['a']: pathlib."),
    ({1: "a"}, "snapshot: key 1 is int"),
    ({"a": {None: 1}}, "snapshot['a']: key None is NoneType"),
    ({"a": "\ud83d"}, "snapshot['a']: \\ud83d holds a lone surrogate"),
    ({"\udcff": 1}, "snapshot: key: \\udcff holds a lone surrogate"),
    (nested(65), "nested more than 64 levels deep"),
    ({"a": 10**4300}, "snapshot['a']: an integer of more than 4,300 digits"),
    ([1, 2], "snapshot: expected a dict, a pydantic model or a dataclass, found list"),
    ("text", "snapshot: expected a dict, a pydantic model or a dataclass, found str"),
    (OrderedDict(a=1), "found OrderedDict"),
]


@pytest.mark.parametrize(("bad", "said"), NO_SNAPSHOTS, ids=range(len(NO_SNAPSHOTS)))
def test_a_snapshot_that_would_not_come_back_is_refused_with_its_path(
    manager: CheckpointManager, db: Path, step: str, bad: Any, said: str
):
    """Refused at begin, at commit and as metadata, before anything is written, with the path of the value."""
    assert said in refused(db, SnapshotError, lambda: manager.begin_step("t", "tool_executed", bad)).message
    assert said in refused(db, SnapshotError, lambda: manager.commit_step(step, exists("out.txt"), snapshot=bad)).message
    said = said.replace("snapshot", "metadata", 1)
    assert said in refused(db, SnapshotError, lambda: manager.begin_step("t", "tool_executed", {}, None, bad)).message


def test_none_is_no_snapshot_to_begin_with(manager: CheckpointManager, db: Path):
    """The state before the work must be given, even if it is empty."""
    refused(db, SnapshotError, lambda: manager.begin_step("t", "tool_executed", None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "good", [nested(64), {"a": 10**4299}, {"a": -(2**63), "b": 2**64, "c": 1e308, "d": "\U0001f600\x00"}, {}], ids=range(4)
)
def test_what_is_accepted_comes_back_equal(manager: CheckpointManager, good: dict[str, Any]):
    """The largest that is allowed goes in and comes back, type for type."""
    checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", good, None, good), exists("out.txt"))
    stored = manager.get_checkpoint(checkpoint.checkpoint_id)
    assert stored is not None
    assert (good, good) == (stored.snapshot_data, stored.metadata)
    assert good == manager.rollback_to_checkpoint(checkpoint.checkpoint_id)


def test_a_snapshot_over_a_megabyte_is_accepted_and_warned_about(manager: CheckpointManager, caplog):
    """It is stored whole; the log says how large it was, without its values. At begin and at commit."""
    large = {"secret": "x" * 1_000_000}
    with caplog.at_level(logging.WARNING, "agentos.checkpoints"):
        step = manager.begin_step("t", "tool_executed", large)
        checkpoint = manager.commit_step(step, exists("out.txt"), snapshot={**large, "n": 2})
    assert {**large, "n": 2} == manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    told = [record.getMessage() for record in caplog.records]
    assert ["a snapshot of 1,000,013 bytes", "a snapshot of 1,000,019 bytes"] == [each.partition(";")[0] for each in told]
    assert "xxxx" not in caplog.text


def test_a_snapshot_of_a_megabyte_is_not_warned_about(manager: CheckpointManager, caplog):
    """The line is drawn above it."""
    manager.begin_step("t", "tool_executed", {"a": "x" * 999_000})
    assert [] == caplog.records


# Evidence.

HASH = "a" * 64
NO_EVIDENCE: list[tuple[EvidencePack, str]] = [
    (EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {})]), "Missing 'path' in expected"),
    (EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": 5})]), "must be a non-empty string, found 5"),
    (
        EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": "a", "kind": "file"})]),
        "unknown key in expected: kind",
    ),
    (EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": "a", "type": "link"})]), "expected['type'] is 'link'"),
    (EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": "nul\0"})]), "holds a NUL"),
    (EvidencePack([Evidence(EvidenceType.FILE_SHA256, "d", {"path": "a"})]), "Missing 'sha256' in expected"),
    (EvidencePack([Evidence(EvidenceType.FILE_SHA256, "d", {"path": "a", "sha256": "abc123..."})]), "64 hexadecimal digits"),
    (EvidencePack([Evidence(EvidenceType.FILE_SHA256, "d", {"path": "a", "sha256": HASH + "\n"})]), "64 hexadecimal digits"),
    (exited("0"), "exit_code must be an integer, found '0'"),
    (exited(expected=True), "exit_code must be an integer, found True"),
    (exited(snapshot_key="no-pointer"), "must be a JSON pointer"),
    (row({}, {"a": 1}), "expected['where'] is empty"),
    (row({"a": [1]}, {}), "expected['where']['a'] must be"),
    (row({"a": 2**63}, {}), "does not fit a 64-bit column"),
    (row({"a": 1}, {}, table=""), "expected['table'] must be a name"),
    (exited(lifetime="forever"), "metadata['lifetime'] is forever"),
    (exited(sensitive="yes"), "metadata['sensitive'] must be true or false"),
    (EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": "a"}, {"x": {1, 2}})]), "['metadata']['x']: set"),
    (exists("out.txt", require_all=False, allow_partial=True, min_verified=2), "2 of 1 items can never be verified"),
    (EvidencePack(min_verified=1), "1 of 0 items can never be verified"),
]


@pytest.mark.parametrize(("bad", "said"), NO_EVIDENCE, ids=range(len(NO_EVIDENCE)))
def test_evidence_that_could_never_be_checked_is_refused_at_commit(
    manager: CheckpointManager, db: Path, step: str, bad: EvidencePack, said: str
):
    """Unknown keys, wrong types and malformed hashes are refused before anything is stored; the step stays begun."""
    assert said in refused(db, EvidenceDefinitionError, lambda: manager.commit_step(step, bad)).message
    assert 1 == manager.commit_step(step, exists("out.txt")).sequence_number


@pytest.mark.parametrize("bad", [None, [], {}, "pack", exists("out.txt").evidence_list], ids=range(5))
def test_what_is_no_pack_is_refused(manager: CheckpointManager, db: Path, step: str, bad: Any):
    """A list of evidence is no pack: its policy would be a guess."""
    refused(db, InvalidInputError, lambda: manager.commit_step(step, bad), "^evidence_pack must be an EvidencePack, found")


def changed(**values: Any) -> EvidencePack:
    pack = exists("out.txt")
    pack.__dict__.update(values)
    return pack


def spoiled(**values: Any) -> EvidencePack:
    pack = exists("out.txt")
    pack.evidence_list[0].__dict__.update(values)
    return pack


SPOILED: list[Any] = [
    changed(evidence_list=[{"evidence_type": "artifact_exists"}]),
    changed(evidence_list=["junk"]),
    changed(evidence_list=None),
    changed(min_verified="1"),
    changed(min_verified=-1),
    changed(min_verified=True),
    changed(require_all="no"),
    changed(allow_partial=1),
    spoiled(evidence_type="nonsense"),
    spoiled(evidence_type=None),
    spoiled(expected=["path"]),
    spoiled(metadata=None),
    spoiled(description=7),
    spoiled(description=b"x"),
]


@pytest.mark.parametrize("bad", SPOILED, ids=range(len(SPOILED)))
def test_a_pack_spoiled_after_it_was_made_is_refused(manager: CheckpointManager, db: Path, step: str, bad: EvidencePack):
    """The models check what they are made of; what was put into them later is checked when it is committed."""
    refused(db, InvalidInputError, lambda: manager.commit_step(step, bad))
    assert 1 == manager.commit_step(step, exists("out.txt")).sequence_number


def test_a_type_given_as_text_later_is_accepted(manager: CheckpointManager, step: str):
    """EvidenceType is text as well; the plain word names the same type, at construction and after."""
    assert manager.commit_step(step, spoiled(evidence_type="artifact_exists")).verified


def test_an_exit_code_beyond_64_bits_is_stored_and_judged(manager: CheckpointManager):
    """A whole number is a whole number: what was expected comes back as it was, also when it is huge."""
    step = manager.begin_step("t", "tool_executed", {"exit_code": 2**70})
    checkpoint = manager.commit_step(step, exited(2**70))
    assert checkpoint.verified
    assert checkpoint == manager.get_checkpoint(checkpoint.checkpoint_id)
    assert manager.verify_checkpoint(checkpoint.checkpoint_id)


def test_a_neighbour_with_an_undecodable_name_spoils_no_report(manager: CheckpointManager, tmp_path: Path, step: str):
    """A file beside the missing one may have any name that the file system can hold."""
    with open(os.fsencode(tmp_path) + b"/gone.txt.\xff\x1b.tmp", "wb"):
        pass
    checkpoint = manager.commit_step(step, exists("gone.txt"))
    assert checkpoint == manager.get_checkpoint(checkpoint.checkpoint_id)
    assert checkpoint.verified is False


# The manager's own arguments.

NO_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"db_path": ""}, "^db_path must be a path"),
    ({"db_path": None}, "^db_path must be a path"),
    ({"db_path": 5}, "^db_path must be a path"),
    ({"db_path": b"x"}, "^db_path must be a path"),
    ({"db_path": "a\0b"}, "^db_path must be a path"),
    ({"db_path": ":memory:"}, "a registry in memory would not survive a crash"),
    ({"base_path": ""}, "^base_path must be a path"),
    ({"base_path": 5}, "^base_path must be a path"),
    ({"base_path": "a\0b"}, "^base_path must be a path"),
    ({"auto_verify": "no"}, "^auto_verify must be true or false"),
    ({"auto_verify": None}, "^auto_verify must be true or false"),
    ({"durability": "off"}, "^durability off is unknown"),
    ({"durability": ""}, "^durability  is unknown"),
    ({"durability": None}, "^durability None is unknown"),
    ({"durability": ["full"]}, "^durability .*is unknown"),
    ({"lock_timeout": 0}, "^lock_timeout must be a positive number"),
    ({"lock_timeout": -1}, "^lock_timeout must be a positive number"),
    ({"lock_timeout": "30"}, "^lock_timeout must be a positive number"),
    ({"lock_timeout": float("nan")}, "^lock_timeout must be a positive number"),
    ({"lock_timeout": True}, "^lock_timeout must be a positive number"),
    ({"verify_timeout": 0}, "^(verify_)?timeout must be a positive number"),
    ({"verify_timeout": "1"}, "^(verify_)?timeout must be a positive number"),
    ({"verify_timeout": None}, "^(verify_)?timeout must be a positive number"),
    ({"verify_timeout": float("nan")}, "^(verify_)?timeout must be a positive number"),
]


@pytest.mark.parametrize(("arguments", "said"), NO_ARGUMENTS, ids=range(len(NO_ARGUMENTS)))
def test_bad_arguments_of_the_manager_are_refused_before_a_file_is_made(
    tmp_path: Path, monkeypatch, arguments: dict[str, Any], said: str
):
    """The error names the argument, and no registry was created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=said):
        CheckpointManager(**arguments)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("seconds", [float("inf"), 1e12, 10**30, 5])
def test_patience_may_be_endless(db: Path, tmp_path: Path, seconds: float):
    """A waiting time longer than any clock can hold is a long time, not an error."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path, lock_timeout=seconds, verify_timeout=seconds) as manager:
        assert manager.commit_step(manager.begin_step("t", "tool_executed", {}), content("out.txt", "one")).verified


@pytest.mark.parametrize("bad", [5, b"x", "", "a\0b"], ids=range(4))
def test_a_bad_workspace_is_refused(manager: CheckpointManager, bad: Any):
    """A handle looks from a folder, or says that it was given none."""
    with pytest.raises(InvalidInputError, match=r"^workspace must be a path"):
        manager.task("t", workspace=bad)


# Errors.


def every_error(manager: CheckpointManager, folder: Path) -> list[CheckpointError]:
    """One of each kind that a user can cause with a registry that works."""
    checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"))
    later = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"), "later")
    empty = manager.commit_step(manager.begin_step("t", "tool_executed", {}), EvidencePack())
    open_step = manager.begin_step("t", "tool_executed", {})
    manager.rollback_to_checkpoint(checkpoint.checkpoint_id, supersede_later=True)
    manager.begin_step("over", "tool_executed", {})
    manager.finish_task("over")
    with CheckpointManager(folder / "other.sqlite", folder) as closed:
        pass
    calls: list[Callable[[], Any]] = [
        lambda: manager.begin_step("", "tool_executed", {}),
        lambda: manager.begin_step("t", "tool_executed", {"a": {1}}),
        lambda: manager.begin_step("over", "tool_executed", {}),
        lambda: manager.commit_step("step_none", exists("out.txt")),
        lambda: manager.commit_step(checkpoint.step_id, exists("out.txt")),
        lambda: manager.commit_step(open_step, exists("out.txt"), "later"),
        lambda: manager.commit_step(open_step, exists("../x")),
        lambda: manager.rollback_to_checkpoint("none"),
        lambda: manager.rollback_to_checkpoint(empty.checkpoint_id),
        lambda: manager.rollback_to_checkpoint(later.checkpoint_id, supersede_later=True),
        lambda: closed.get_checkpoint("x"),
        lambda: CheckpointManager(folder),
        lambda: manager.task("t").step("tool_executed", {"a": {1}}).__enter__(),
    ]
    errors = []
    for call in calls:
        with pytest.raises(CheckpointError) as error:
            call()
        errors.append(error.value)
    return errors


def test_everything_the_manager_raises_is_a_checkpoint_error_that_survives_pickling(manager: CheckpointManager, tmp_path: Path):
    """Each has a message, a hint, diagnostics for a program, and is the same after pickle and copy."""
    errors = every_error(manager, tmp_path)
    assert len(errors) - 2 <= len({type(error) for error in errors})
    for error in errors:
        assert isinstance(error, agentos.CheckpointError)
        assert isinstance(error, AgentosError)
        told = error.diagnostics()
        assert (type(error).__name__, error.message, error.hint) == (told["error"], told["message"], told["hint"])
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert (type(error), str(error), told) == (type(again), str(again), again.diagnostics())


# What is shown.

NASTY = "a\x1b[31mred\x07\n\u202egnp.exe\x9b0m\x85\u2028"


def readable(text: str) -> bool:
    return (
        re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text) is None
    )


def test_control_characters_are_escaped_wherever_they_come_from(manager: CheckpointManager, tmp_path: Path, step: str):
    """Ids, names, descriptions and paths are shown escaped: no error can drive a terminal or reorder a line."""
    (tmp_path / NASTY.replace("\0", "")).write_text("one")
    named = manager.commit_step(manager.begin_step(NASTY, "tool_executed", {}), content("out.txt", "one"), NASTY)
    (tmp_path / "out.txt").write_text("two")
    later = manager.commit_step(manager.begin_step(NASTY, "tool_executed", {}), content("out.txt", "two"), NASTY + "2")
    manager.begin_step(NASTY + "over", "tool_executed", {})
    manager.finish_task(NASTY + "over")
    assert later.verified

    def superseded() -> None:
        (tmp_path / "out.txt").write_text("one")
        manager.rollback_to_checkpoint(NASTY, supersede_later=True)
        (tmp_path / "out.txt").write_text("two")
        manager.rollback_to_checkpoint(NASTY + "2", supersede_later=True)

    calls: list[tuple[type[CheckpointError], Callable[[], Any]]] = [
        (InvalidInputError, lambda: manager.begin_step(NASTY * 100, "tool_executed", {})),
        (InvalidInputError, lambda: manager.begin_step("t", NASTY, {})),
        (SnapshotError, lambda: manager.begin_step("t", "tool_executed", {NASTY: {NASTY: {1}}})),
        (CheckpointError, lambda: manager.begin_step(NASTY + "over", "tool_executed", {})),
        (CheckpointError, lambda: manager.finish_task(NASTY + "nobody")),
        (CheckpointError, lambda: manager.commit_step(NASTY, exists("out.txt"))),
        (CheckpointError, lambda: manager.commit_step(step, exists("out.txt"), NASTY)),
        (CheckpointError, lambda: manager.commit_step(step, EvidencePack([Evidence("artifact_exists", NASTY, {"path": 5})]))),
        (CheckpointError, lambda: manager.commit_step(step, exists("../" + NASTY))),
        (CheckpointError, lambda: manager.verify_checkpoint(NASTY + "unknown")),
        (EvidenceMismatchError, lambda: manager.rollback_to_checkpoint(NASTY)),
        (SupersededError, superseded),
        (CheckpointError, lambda: CheckpointManager(tmp_path / NASTY)),
        (InvalidInputError, lambda: CheckpointManager(tmp_path / "x.sqlite", durability=NASTY)),
    ]
    for kind, call in calls:
        with pytest.raises(kind) as error:
            call()
        assert readable(str(error.value).replace("\n  -> ", " -> ")), repr(str(error.value))
        assert "\n" not in error.value.message
        assert "\n" not in error.value.hint
    assert named.checkpoint_id == NASTY


def test_a_registry_with_a_nasty_path_is_named_escaped(tmp_path: Path):
    """Also what the store says about its own file is readable."""
    folder = tmp_path / NASTY
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(folder / "registry.sqlite", tmp_path) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        folder.rename(tmp_path / "moved")
        with pytest.raises(CheckpointError, match="removed or replaced") as error:
            manager.commit_step(step, exists("out.txt"))
    assert readable(error.value.message)


def test_secrets_in_addresses_are_masked_in_messages(manager: CheckpointManager):
    """A password inside an address is never repeated in an error."""
    with pytest.raises(CheckpointError) as error:
        manager.verify_checkpoint("postgres://user:hunter2@host/db")
    assert "hunter2" not in str(error.value)
    assert "postgres://user:***@host/db" in error.value.message


def test_sensitive_evidence_shows_no_values(manager: CheckpointManager, tmp_path: Path, caplog):
    """`metadata['sensitive']` keeps the values of an item out of messages, results and logs."""
    pack = row({"task_id": "t"}, {"status": "hunter2"}, sensitive=True)
    checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    with pytest.raises(EvidenceMismatchError) as error, caplog.at_level(logging.DEBUG):
        manager.rollback_to_checkpoint(checkpoint.checkpoint_id)
    item = checkpoint.evidence_pack.evidence_list[0]
    for text in (
        str(error.value),
        repr(error.value.diagnostics()),
        str(item.verification_error),
        repr(item.result),
        caplog.text,
    ):
        assert "hunter2" not in text
        assert "active" not in text


def test_many_threads_may_begin_more_steps_than_are_remembered(manager: CheckpointManager):
    """The memory of begun steps is bounded and shared; what falls out of it is read from the registry."""
    begun: list[list[str]] = [[] for _ in range(8)]
    troubles: list[BaseException] = []

    def begin(mine: list[str]) -> None:
        try:
            mine.extend(manager.begin_step("t", "tool_executed", {"n": n}) for n in range(30))
        except BaseException as error:  # noqa: BLE001 - a thread's error is reported by the test
            troubles.append(error)

    threads = [threading.Thread(target=begin, args=(mine,)) for mine in begun]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == troubles
    steps = [step for mine in begun for step in mine]
    assert 240 == len(set(steps))
    for step in steps[::10]:
        manager.commit_step(step, exists("out.txt"))
    assert list(range(24, 0, -1)) == [each.sequence_number for each in manager.list_checkpoints("t")]


# Whatever it is.


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "out.txt").write_text("one")
    with CheckpointManager(folder / "registry.sqlite", folder, durability="relaxed", verify_timeout=5) as manager:
        yield manager


ANY_TEXT = st.text(st.characters(), max_size=600)


@given(task=ANY_TEXT, item=ANY_TEXT, name=ANY_TEXT)
def test_any_text_is_an_id_that_comes_back_or_is_refused(shared: CheckpointManager, task: str, item: str, name: str):
    """Control characters, emoji, right-to-left marks: what is accepted names the same thing for ever; what is not, nothing."""
    name = f"{name}{len(name)}-{task}"[:520]
    checkpoint, problem = None, ""
    try:
        step = shared.begin_step(task, "tool_executed", {}, item)
        checkpoint = shared.commit_step(step, exists("out.txt"), name)
    except (CheckpointIdTakenError, InvalidInputError) as error:
        problem = error.message
    assert readable(problem)
    if checkpoint is None:
        return
    assert (task, item, name) == (checkpoint.task_id, checkpoint.work_item_id, checkpoint.checkpoint_id)
    assert checkpoint == shared.get_checkpoint(name)
    assert checkpoint == shared.list_checkpoints(task, 1)[0]
    assert checkpoint == shared.get_last_verified_checkpoint(task)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["path", "type", "sha256", "size", "exit_code", "table", "where", "values", "unique", "other"])
ABOUT = st.sampled_from(["lifetime", "sensitive", "db_path", "command", "snapshot_key", "actual_exit_code", "record", "other"])
PLAUSIBLE = st.sampled_from(
    ["out.txt", "a" * 64, "file", "tasks", "task", 0, {"task_id": "t"}, {"status": "active"}, "/exit_code"]
)


@given(
    kind=st.sampled_from(EvidenceType),
    description=st.text(st.characters(), max_size=30),
    expected=st.dictionaries(KEYS, PLAUSIBLE | JSON, max_size=5),
    metadata=st.dictionaries(ABOUT, PLAUSIBLE | JSON, max_size=4),
)
def test_any_definition_is_stored_whole_or_refused(
    shared: CheckpointManager, kind: EvidenceType, description: str, expected: dict[str, Any], metadata: dict[str, Any]
):
    """Whatever is claimed: it is committed, verified without raising and read back equal, or refused as a definition."""
    pack = EvidencePack([Evidence(kind, description, copy.deepcopy(expected), copy.deepcopy(metadata))])
    step = shared.begin_step("definitions", "tool_executed", {"exit_code": 0})
    checkpoint, problem = None, ""
    try:
        checkpoint = shared.commit_step(step, pack)
    except EvidenceDefinitionError as error:
        problem = error.message
    assert readable(problem)
    if checkpoint is None:
        return
    stored = shared.get_checkpoint(checkpoint.checkpoint_id)
    assert stored is not None
    assert checkpoint == stored
    item = stored.evidence_pack.evidence_list[0]
    assert (kind, description, repr(expected), repr(metadata)) == (
        item.evidence_type,
        item.description,
        repr(item.expected),
        repr(item.metadata),
    )
    shared.verify_checkpoint(checkpoint.checkpoint_id)
