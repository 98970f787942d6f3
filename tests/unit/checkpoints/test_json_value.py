"""json_value: when a value is as claimed, and what is said when it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceVerifier, Verdict
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome
from agentos.errors import EvidenceDefinitionError, EvidenceUnavailableError, InvalidInputError, NotVerifiedError
from tests.unit.checkpoints.steps import committed

FILE = {"exists": True, "type": "file"}


def claim(metadata: dict[str, Any] | None = None, **expected: Any) -> Evidence:
    return Evidence("json_value", "what is claimed", {"path": "x", "pointer": "/a", **expected}, metadata or {})


def found(value: Any, **more: Any) -> dict[str, Any]:
    return {**FILE, "found": True, "json": json.dumps(value), **more}


def judged(item: Evidence, facts: dict[str, Any]) -> tuple[str, str]:
    kind_of(item).refuse_malformed(item)
    verdict = kind_of(item).judge(item, facts)
    assert (verdict.outcome is Outcome.VERIFIED) is (verdict.message == "")
    return verdict.code, verdict.message


@pytest.mark.parametrize(
    ("want", "value"),
    [
        (1, 1),
        (1, 1.0),
        ("one", "one"),
        (None, None),
        (True, True),
        ({"ge": 0.9}, 0.93),
        ({"equals": [1, {"b": None}]}, [1, {"b": None}]),
        ({"contains": 2}, [1, 2]),
        (10**30, 10**30),
        ({"not": 1}, True),
    ],
)
def test_a_value_that_matches_holds(want, value):
    """Plain values, operators, and wrapped lists and objects."""
    assert ("VERIFIED", "") == judged(claim(value=want), found(value))


@pytest.mark.parametrize(
    ("want", "value", "said"),
    [
        (1, True, "x: /a: expected 1, found true"),
        (1, "1", 'x: /a: expected 1, found "1"'),
        (0, False, "x: /a: expected 0, found false"),
        (0, None, "x: /a: expected 0, found null"),
        (False, None, "x: /a: expected False, found null"),
        (10**30, 10**30 + 1, f"x: /a: expected {10**30}, found {10**30 + 1}"),
        ({"ge": 0.9}, 0.5, "x: /a: expected at least 0.9, found 0.5"),
        ({"equals": [1]}, [True], "x: /a: expected [1], found [true]"),
        ("a", "\x1b[31m", "x: /a: expected 'a', found \"\\u001b[31m\""),
    ],
)
def test_a_value_that_differs_says_what_it_is(want, value, said):
    """By type and all the way down: a number is neither text nor true."""
    assert ("VALUE_DIFFERS", said) == judged(claim(value=want), found(value))


def test_where_the_pointer_leads_nowhere_the_claim_fails_and_says_how_far_it_led():
    """Unless that is what is claimed."""
    why = 'the document has keys b; no "a"'
    nothing = {**FILE, "found": False, "why": why}
    assert ("POINTER_MISSING", f"x: {why}") == judged(claim(value=1), nothing)
    assert ("POINTER_MISSING", f"x: {why}") == judged(claim(exists=True), nothing)
    assert ("VERIFIED", "") == judged(claim(exists=False), nothing)
    assert ("VERIFIED", "") == judged(claim(exists=True), found(None))
    assert ("POINTER_PRESENT", "x: expected nothing at /a, found null") == judged(claim(exists=False), found(None))


@pytest.mark.parametrize("expected", [{"value": 1}, {"exists": False}, {"exists": True}])
def test_without_a_file_or_a_line_nothing_holds(expected):
    """Not even that there is nothing at the pointer: that is said of a document."""
    missing: dict[str, Any] = {"exists": False, "type": None, "near": []}
    assert "ARTIFACT_MISSING" == judged(claim(**expected), missing)[0]
    assert "WRONG_TYPE" == judged(claim(**expected), {"exists": True, "type": "fifo"})[0]
    empty = {**FILE, "lines": False, "torn": 0, "found": False}
    assert ("NO_LINE", "x: expected a complete line, found none") == judged(claim(**expected), empty)


def test_a_torn_line_is_told_whether_the_claim_holds_or_not():
    """Who died while writing it is worth knowing either way."""
    for value in (1, 2):
        verdict = kind_of(claim()).judge(claim(value=1), found(value, lines=True, torn=7))
        assert ("its last line is torn after 7 bytes, and the one before it was read",) == verdict.notes


@pytest.mark.parametrize(
    ("expected", "metadata", "said"),
    [
        ({}, {}, "expected must say either 'value' or 'exists'"),
        ({"value": 1, "exists": True}, {}, "expected must say either 'value' or 'exists'"),
        ({"value": {}}, {}, "expected['value'] must be a value or operators, found {}"),
        ({"value": [1]}, {}, "expected['value'] must be a value or operators, found [1]"),
        ({"value": {"is": 1}}, {}, "expected['value']: unknown operator is"),
        ({"exists": 0}, {}, "expected['exists'] must be true or false, found 0"),
        ({"value": 1, "pointer": "a"}, {}, "expected['pointer'] must be a JSON pointer, found 'a'"),
        ({"value": 1, "path": ""}, {}, "expected['path'] must be a non-empty string"),
        ({"value": 1}, {"format": "yaml"}, "metadata['format'] is 'yaml'"),
        ({"value": 1}, {"format": ["json"]}, "metadata['format'] is ['json']"),
        ({"value": 1}, {"max_bytes": 0}, "metadata['max_bytes'] must be a number of bytes from 1, found 0"),
        ({"value": 1}, {"max_bytes": True}, "metadata['max_bytes'] must be a number of bytes from 1, found True"),
    ],
)
def test_a_definition_that_could_never_be_checked_is_refused(expected, metadata, said):
    """In words that name the key."""
    item = claim(metadata, **expected)
    with pytest.raises(EvidenceDefinitionError) as error:
        kind_of(item).refuse_malformed(item)
    assert said in error.value.message


def test_the_report_holds_the_beginning_of_a_large_value_and_the_judge_all_of_it(tmp_path: Path):
    """A claim about a whole document does not copy it into every verification."""
    (tmp_path / "x").write_text(json.dumps(["long"] * 1000))
    item = claim(pointer="", value={"contains": "other"})
    assert not EvidenceVerifier(tmp_path).verify_evidence(item)
    assert item.result is not None
    assert 200 == len(item.result.found["json"])
    assert len(item.result.message) < 300


def test_a_sensitive_value_is_not_told(tmp_path: Path):
    """Neither in the message nor in what was found."""
    (tmp_path / "x").write_text('{"a": "hunter2"}')
    for item in (claim({"sensitive": True}, value="hunter3"), claim({"sensitive": True}, value=1, pointer="/b")):
        assert not EvidenceVerifier(tmp_path).verify_evidence(item)
        assert "hunter" not in str(item.result)
    (tmp_path / "x").write_text("hunter2")
    assert not EvidenceVerifier(tmp_path).verify_evidence(item)
    assert "hunter" not in str(item.result)


@pytest.mark.parametrize("value", [1, "text", None, [1, {"ge": 2}], {"ge": 3}, {}, [], 10**40])
def test_what_is_captured_is_claimed_exactly(tmp_path: Path, value):
    """Also a value that looks like a matcher; it holds for itself and for nothing else."""
    (tmp_path / "x").write_text(json.dumps({"a": value}))
    item = Evidence.capture_json("x", "/a", base_path=tmp_path)
    kind_of(item).refuse_malformed(item)
    assert EvidenceVerifier(tmp_path).verify_evidence(item)
    (tmp_path / "x").write_text(json.dumps({"a": [value, 1]}))
    assert not EvidenceVerifier(tmp_path).verify_evidence(item)


def test_what_cannot_be_captured_is_not_claimed(tmp_path: Path):
    """No file, no such pointer, no JSON, no pointer at all."""
    (tmp_path / "x").write_text("{}")
    (tmp_path / "y").write_text("{")
    for path, why in (("x", "no keys"), ("gone", "found nothing"), ("y", "not JSON")):
        with pytest.raises(EvidenceUnavailableError, match=why):
            Evidence.capture_json(path, "/a", base_path=tmp_path)
    with pytest.raises(InvalidInputError, match="must be a JSON pointer"):
        Evidence.capture_json("x", "a", base_path=tmp_path)


def test_a_step_proves_the_value_that_is_there_when_its_block_ends(manager: CheckpointManager, work: Path):
    """Measured at the end of the block; a pointer to nothing makes the step fail."""
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_json("x", "/a")
        (work / "x").write_text('{"a": [1]}')
    assert step.checkpoint is not None
    expected = step.checkpoint.evidence_pack.evidence_list[0].expected
    assert {"path": "x", "pointer": "/a", "value": {"equals": [1]}} == expected
    said = 'the document has keys a; no "b"'
    with pytest.raises(NotVerifiedError, match=said), manager.task("u").step("tool_executed", {}) as step:
        step.proves_json("x", "/b")


def test_the_rest_of_the_document_may_change_between_steps(manager: CheckpointManager, work: Path):
    """What is claimed stands in the way when it differs, and nothing else does."""
    (work / "x").write_text('{"a": 1, "b": 1}')
    committed(manager, EvidencePack([claim(value=1)]), {"n": 1})
    (work / "x").write_text('{"b": 2, "a": 1}')
    assert Verdict.RESUME is manager.recover("t").verdict
    (work / "x").write_text('{"b": 2, "a": 2}')
    assert Verdict.DIVERGED is manager.recover("t").verdict
    (work / "x").write_text('{"b": 2, "a": ')
    assert Verdict.BLOCKED is manager.recover("t").verdict


def test_what_a_look_saw_can_be_claimed():
    """Nothing at the pointer is nothing to claim."""
    fill = kind_of(claim()).fill
    assert fill is not None
    assert ({"path": "x", "pointer": "/a", "value": 2}, {}) == fill(claim(value=1), Seen(found(2)))
    assert fill(claim(value=1), Seen({**FILE, "found": False, "why": ""})) is None
