"""How the record of a command is judged: what was not written when the command ended proves nothing. No command is run here."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.command_record import problem_of, sealed
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome

STREAM = {"sha256": "0" * 64, "bytes": 0, "tail": ""}
BARE: dict[str, Any] = {
    "argv": ["pytest", "-q"],
    "cwd": ".",
    "env": [],
    "host": "here",
    "started_at": "2026-03-01T10:02:11+00:00",
    "ended_at": "2026-03-01T10:02:23+00:00",
    "duration_ms": 12_400.0,
    "exit_code": 0,
    "signal": None,
    "timed_out": False,
    "stdout": STREAM,
    "stderr": STREAM,
    "products": [],
}


def judged(record: Any, *, exit_code: int = 0, **metadata: Any) -> EvidenceResult:
    claim = Evidence("command_exit", "tests", {"exit_code": exit_code}, {"record": record, **metadata})
    facts = {"source": "metadata['record']", "recorded": True, "exit_code": None}
    return kind_of(claim).result(claim, Seen(facts))


def told(**changes: Any) -> dict[str, Any]:
    """A record that was written like this."""
    return sealed({**copy.deepcopy(BARE), **changes})


def test_a_record_that_was_written_so_is_believed_as_recorded():
    """No more than that: whoever wrote the registry could have written it."""
    found = judged(told())
    assert (Outcome.VERIFIED, Assurance.RECORDED) == (found.outcome, found.assurance)


def test_the_record_speaks_before_a_bare_number():
    """`actual_exit_code` beside a record changes nothing."""
    assert "EXIT_MISMATCH" == judged(told(exit_code=1), actual_exit_code=0).code


AFTERWARDS: dict[str, Any] = {
    **dict.fromkeys(("cwd", "host", "started_at", "ended_at"), "x"),
    "argv": ["pytest"],
    "env": ["CI"],
    "duration_ms": 12_400.5,
    "stdout": {**STREAM, "tail": "4 passed"},
    "stderr": {**STREAM, "bytes": 1},
    "products": [{"path": "x", "problem": ""}],
    "digest": "0" * 64,
}


@pytest.mark.parametrize("name", sorted(AFTERWARDS))
def test_a_record_that_was_changed_afterwards_is_invalid(name):
    """Its digest says so, whatever was changed."""
    assert "tests: the record is not what was written: its digest differs" == judged({**told(), name: AFTERWARDS[name]}).message


@pytest.mark.parametrize("end", [{"exit_code": 1}, {"exit_code": None, "signal": 9}, {"exit_code": None, "timed_out": True}])
def test_a_failure_that_was_made_a_success_afterwards_is_invalid(end):
    """The change that pays most."""
    success = {"exit_code": 0, "signal": None, "timed_out": False}
    assert "RECORD_INVALID" == judged({**told(**end), **success}).code


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"exit_code": True}, "holds no usable exit_code: True"),
        ({"exit_code": "0"}, "holds no usable exit_code"),
        ({"exit_code": 0.0}, "holds no usable exit_code"),
        ({"exit_code": None}, "contradicts itself"),
        ({"signal": 9}, "contradicts itself"),
        ({"timed_out": True}, "contradicts itself"),
        ({"timed_out": 0}, "holds no usable timed_out"),
        ({"exit_code": -9}, "holds a number"),
        ({"exit_code": 256}, "holds a number"),
        ({"exit_code": None, "signal": 0}, "holds a number"),
        ({"duration_ms": -1}, "holds a number"),
        ({"argv": []}, "holds no usable argv"),
        ({"argv": ["sh", 1]}, "holds no usable argv"),
        ({"argv": "sh"}, "holds no usable argv: 'sh'"),
        ({"stdout": {}}, "holds no usable account of the output"),
        ({"stderr": {**STREAM, "bytes": True}}, "holds no usable account of the output"),
        ({"stderr": {**STREAM, "sha256": "0"}}, "holds no usable account of the output"),
        ({"products": [{"path": "x"}]}, "holds no usable account of the products"),
        ({"products": [{"path": "x", "problem": "", "size": 1}]}, "holds no usable account of the products"),
        ({"products": ["x"]}, "holds no usable account of the products"),
        ({"more": 1}, "has an unknown key: more"),
    ],
)
def test_a_record_that_no_command_leaves_is_invalid_whatever_its_digest(changes, says):
    """Somebody wrote it by hand, and knew how the digest is made."""
    found = judged(told(**changes))
    assert (Outcome.FAILED, "RECORD_INVALID") == (found.outcome, found.code)
    assert found.message.startswith(f"tests: the record {says}")


@pytest.mark.parametrize("name", [*sorted(BARE), "digest"])
def test_a_record_that_lacks_something_is_invalid(name):
    """Every part is asked for by name."""
    record = told()
    del record[name]
    assert f"tests: the record lacks {name}" == judged(record).message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(sorted(BARE)), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([*sorted(BARE), "digest"]))
def test_no_record_breaks_the_judge(value, name):
    """Whatever stands there, alone or as a part, the answer is a verdict that can be stored."""
    for record in (value, {**told(), name: value}, told(**{name: value}) if name != "digest" else value):
        found = judged(record)
        codec.encode(found.to_dict())
        assert found.outcome is Outcome.VERIFIED or found.message


def test_a_record_of_another_command_is_no_record_of_this_one():
    """What is claimed of `pytest` is not shown by how `true` ended."""
    found = judged(told(argv=["true"]), command="pytest -q")
    assert "COMMAND_MISMATCH" == found.code
    assert "pytest -q: the record is of another command, true" == found.message
    for same in ("pytest -q", ["pytest", "-q"]):
        assert "VERIFIED" == judged(told(), command=same).code


def test_the_reason_has_the_last_words_escaped():
    """The last line of stderr, else of stdout; more of it in the notes; nothing of it if the item is sensitive."""
    said = {**STREAM, "tail": "10%\rone\n\n\x1b[2Jtwo\n \n"}
    found = judged(told(exit_code=1, stdout={**STREAM, "tail": "out"}, stderr=said), command="pytest -q")
    assert found.message == (
        "pytest -q: expected exit code 0, recorded 1 (after 12.4 s, 2026-03-01T10:02:11+00:00); its stderr ends: \\x1b[2Jtwo"
    )
    assert ["stdout: out", "stderr: 10%", "stderr: one", "stderr: \\x1b[2Jtwo"] == found.notes
    hidden = judged(told(exit_code=1, stderr=said), sensitive=True)
    assert ("(sensitive)", []) == (hidden.found, hidden.notes)
    assert "two" not in hidden.message


def test_a_problem_is_told_in_a_few_words():
    """A record may be anything, also something large."""
    assert len(problem_of(["x" * 10_000])) < 120


def test_what_nobody_listened_to_is_not_said_to_be_silence():
    """A command that wrote to the user's terminal has a record without an account of it, and less to say when it failed."""
    assert Outcome.VERIFIED is judged(told(stdout=None, stderr=None)).outcome
    failed = judged(told(stdout=None, stderr=None, exit_code=1))
    assert ("EXIT_MISMATCH", []) == (failed.code, failed.notes)
    assert "is not what was written" in problem_of({**told(), "stderr": None})
