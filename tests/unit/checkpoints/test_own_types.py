"""Evidence types of your own: registered in code or by an installed package, and treated like every other type."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceVerifier, Found, evidence_type
from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.results import Outcome
from agentos.errors import EvidenceDefinitionError, InvalidInputError
from tests.support import environment, run

DEPTHS = {"mail": 0, "letters": 3}


def name_of(claim: Evidence) -> str:
    queue: str = claim.expected["queue"]
    return queue


@evidence_type("queue_drained", required=("queue",), optional=("broker",), lifetime="lasting", subject=name_of)
def queue_drained(claim: Evidence, around: Surroundings) -> Found:
    """A queue that has nothing in it."""
    queue = claim.expected["queue"]
    if queue not in DEPTHS:
        return Found.unseen(f"queue {queue}: no broker knows it", hint="start the broker")
    depth = DEPTHS[queue]
    if depth:
        return Found.differs(f"queue {queue}: expected it empty, found {depth} messages", hint="wait", depth=depth)
    return Found.holds(depth=depth)


def claim(queue: str, **more: Any) -> Evidence:
    return Evidence("queue_drained", f"queue {queue}", {"queue": queue, **more})


@pytest.mark.parametrize(
    ("queue", "outcome", "code", "said"),
    [
        ("mail", "verified", "VERIFIED", ""),
        ("letters", "failed", "DIFFERS", "queue letters: expected it empty, found 3 messages"),
        ("none", "error", "UNSEEN", "queue none: no broker knows it"),
    ],
)
def test_a_look_of_your_own_gives_one_of_three_answers(queue: str, outcome: str, code: str, said: str):
    """It holds, it differs, or it could not be seen: with a message and, where something was seen, with facts."""
    item = claim(queue)
    assert EvidenceVerifier().verify_evidence(item) is (outcome == "verified")
    assert item.result is not None
    assert (outcome, code, said) == (item.result.outcome, item.result.code, item.result.message)
    assert "observed" == item.result.assurance or outcome == "error"


def test_it_is_committed_walked_and_released_like_every_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A lasting claim of one's own gates a resume, and a later one about the same subject ends it."""
    monkeypatch.chdir(tmp_path)
    with CheckpointManager("r.sqlite") as manager:
        step_id = manager.begin_step("t", "tool_executed", {"n": 1})
        assert manager.commit_step(step_id, EvidencePack([claim("mail")])).verified
        assert "resume" == manager.recover("t").verdict
        monkeypatch.setitem(DEPTHS, "mail", 2)
        found = manager.recover("t")
        assert ("diverged", "custom:queue_drained:mail") == (found.verdict, found.differences[0].subject)
        accepted = EvidencePack([Evidence("artifact_exists", "x", {"path": "."})], releases=["custom:queue_drained:mail"])
        assert manager.commit_step(manager.begin_step("t", "tool_executed", {"n": 2}), accepted).verified
        assert "resume" == manager.recover("t").verdict


@pytest.mark.parametrize("expected", [{}, {"queue": "mail", "colour": "red"}])
def test_its_keys_are_checked(expected: dict[str, Any]):
    """A missing or a misspelled key is refused where it is committed."""
    item = Evidence("queue_drained", "x", expected)
    assert not EvidenceVerifier().verify_evidence(item)
    assert item.result is not None
    assert "INVALID_DEFINITION" == item.result.code


ANSWERS = (True, None, "fine", Found.holds(when={1, 2}), Found.holds(much=float("inf")))
MADE_BY_HAND = (Found("yes"), Found(Outcome.NOT_RUN), Found.differs(5), Found.differs("x", hint=None))  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [*ANSWERS, *MADE_BY_HAND], ids=range(9))
def test_an_answer_that_is_none_is_no_answer(answer: Any):
    """What is no Found, or holds facts that JSON cannot carry, could not be checked; nothing is guessed."""
    look: Callable[..., Any] = lambda claim, around: answer  # noqa: E731 - it is given a new answer each time
    look.__qualname__ = "same"
    evidence_type("careless")(look)
    item = Evidence("careless", "x", {})
    assert not EvidenceVerifier().verify_evidence(item)
    assert item.result is not None
    assert ("error", "BAD_ANSWER") == (item.result.outcome, item.result.code)


@pytest.mark.parametrize("error", [RuntimeError("oops"), SystemExit(3)], ids=["error", "exit"])
def test_a_look_that_breaks_says_nothing_about_the_world_and_whose_bug_it_is(error: BaseException):
    """Also one that would end its thread, which nobody would wait for the end of."""

    def look(claim: Evidence, around: Surroundings) -> Found:
        raise error

    look.__qualname__ = "same"
    evidence_type("breaking")(look)
    item = Evidence("breaking", "x", {}, {"deadline": 5})
    assert not EvidenceVerifier().verify_evidence(item)
    assert item.result is not None
    assert ("error", "INTERNAL") == (item.result.outcome, item.result.code)
    assert f"breaking: the probe broke: {type(error).__name__}" in item.result.message
    assert "a bug in what looks for this type" in item.result.hint


def test_a_look_cannot_change_what_is_claimed():
    """What is stored is what was given."""

    @evidence_type("meddling", required=("queue",))
    def look(claim: Evidence, around: Surroundings) -> Found:
        claim.expected["queue"], claim.metadata["lifetime"] = "another", "task"
        return Found.holds()

    item = Evidence("meddling", "x", {"queue": "mail"})
    assert EvidenceVerifier().verify_evidence(item)
    assert ({"queue": "mail"}, {}) == (item.expected, item.metadata)


@pytest.mark.parametrize(
    "bad", [{"required": "queue"}, {"required": (1,)}, {"optional": 7}, {"content": "no"}, {"subject": "x"}]
)
def test_a_definition_that_no_claim_could_meet_is_refused(bad: dict[str, Any]):
    """A single name in place of a list would ask for its letters."""
    with pytest.raises(InvalidInputError, match=r"evidence_type: (required|optional|content|subject) must be"):
        evidence_type("never_registered", **bad)
    with pytest.raises(InvalidInputError, match="must be defined by a function"):
        evidence_type("never_registered")("no function")  # type: ignore[arg-type]


@pytest.mark.parametrize("said", [None, "", "a\0b"])
def test_a_claim_that_is_about_nothing_is_refused_before_it_is_stored(said: Any, tmp_path: Path):
    """So is one whose subject cannot be told, whatever that raises."""

    def subject(claim: Evidence) -> str:
        name: str = said if claim.expected else claim.expected["queue"]
        return name

    name = f"about_nothing_{len(repr(said))}"
    evidence_type(name, subject=subject, optional=("x",))(lambda claim, around: Found.holds())
    with CheckpointManager(tmp_path / "r.sqlite") as manager:
        for expected in ({"x": 1}, {}):
            step_id = manager.begin_step("t", "tool_executed", {})
            with pytest.raises(EvidenceDefinitionError, match=r"its subject (must be text|could not be told: KeyError)"):
                manager.commit_step(step_id, EvidencePack([Evidence(name, "d", expected)]))


def test_what_it_says_is_escaped():
    """A message from outside never drives a terminal."""
    evidence_type("noisy")(lambda claim, around: Found.differs("\x1b[31mred\n", hint="\x07"))
    item = Evidence("noisy", "x", {})
    EvidenceVerifier().verify_evidence(item)
    assert item.result is not None
    assert ("\\x1b[31mred\\x0a", "\\x07") == (item.result.message, item.result.hint)


@pytest.mark.parametrize("name", ["file_sha256", "Upper", "", "a b", "x" * 65, 7, "a\n"])
def test_a_name_that_is_taken_or_none_is_refused(name: Any):
    """Types that come with agentos cannot be replaced."""
    with pytest.raises(InvalidInputError, match="evidence_type: "):
        evidence_type(name)


def test_two_definitions_of_one_name_are_a_mistake():
    """The same one again, as when a module is loaded anew, is none."""

    def first(claim: Evidence, around: Surroundings) -> Found:
        return Found.holds()

    def second(claim: Evidence, around: Surroundings) -> Found:
        return Found.holds()

    evidence_type("defined_once")(first)
    evidence_type("defined_once")(first)
    with pytest.raises(InvalidInputError, match=r"defined_once is taken by .*first"):
        evidence_type("defined_once")(second)


@pytest.mark.parametrize("bad", [{"lifetime": "for ever"}, {"retries": "often"}])
def test_an_argument_that_is_none_of_the_choices_is_refused(bad: dict[str, str]):
    """With the choices."""
    with pytest.raises(InvalidInputError, match=r"one of: \w+, \w+, \w+"):
        evidence_type("never_registered", **bad)  # type: ignore[arg-type]


def test_a_registry_may_hold_types_that_this_process_does_not_know(tmp_path: Path):
    """They are shown, cannot be checked, and block a resume instead of losing it; committing one is refused by name."""
    write = """
import sys
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, Found, evidence_type
evidence_type("from_elsewhere", required=("x",), lifetime="lasting")(lambda claim, around: Found.holds())
with CheckpointManager(sys.argv[1]) as manager:
    step_id = manager.begin_step("t", "tool_executed", {})
    print(manager.commit_step(step_id, EvidencePack([Evidence("from_elsewhere", "d", {"x": 1})])).verified)
"""
    read = """
import json, sys
from agentos.core.checkpoints import CheckpointManager, Evidence
from agentos.errors import InvalidInputError
with CheckpointManager(sys.argv[1]) as manager:
    [checkpoint] = manager.list_checkpoints("t")
    holds = manager.verify_checkpoint(checkpoint.checkpoint_id)
    again = manager.get_checkpoint(checkpoint.checkpoint_id)
    found = manager.recover("t")
try:
    Evidence("from_elsewhere", "d", {"x": 1})
except InvalidInputError as error:
    refusal = error.message
code = again.evidence_pack.evidence_list[0].result.code
print(json.dumps([holds, code, found.verdict, found.differences[0].message, refusal]))
"""
    assert "True" == run(write, tmp_path / "r.sqlite").strip()
    holds, code, verdict, said, refusal = json.loads(run(read, tmp_path / "r.sqlite"))
    assert (False, "NO_PROBE", "blocked") == (holds, code, verdict)
    assert "nothing here can look at from_elsewhere" == said
    assert "Evidence.evidence_type: must be one of " in refusal


def test_an_installed_package_brings_its_types(tmp_path: Path):
    """The entry point of the type's name is loaded when a claim of that type is met, and none that is not asked for."""
    (tmp_path / "plugin.py").write_text(
        "from agentos.core.checkpoints import Found, evidence_type\n"
        "evidence_type('brought_along')(lambda claim, around: Found.holds())\n"
    )
    (tmp_path / "broken.py").write_text("raise RuntimeError('this plugin is broken')\n")
    meta = tmp_path / "plugin-1.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (meta / "entry_points.txt").write_text("[agentos.evidence]\nbrought_along = plugin\nbroken_type = broken\n")
    program = """
import json, sys
from agentos.core.checkpoints import Evidence, EvidenceVerifier
from agentos.errors import InvalidInputError
said = ["plugin" in sys.modules, EvidenceVerifier().verify_evidence(Evidence("brought_along", "x", {}))]
try:
    Evidence("broken_type", "x", {})
except InvalidInputError as error:
    said.append("broken_type" in error.message)
print(json.dumps(said + ["broken" in sys.modules]))
"""
    path = os.pathsep.join([environment()["PYTHONPATH"], str(tmp_path)])
    assert [False, True, True, False] == json.loads(run(program, env=environment(PYTHONPATH=path)))


def test_a_definition_cannot_be_changed_into_a_type_that_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What was good when it was made is checked again when it is committed."""
    monkeypatch.chdir(tmp_path)
    item = claim("mail")
    item.evidence_type = "nobody_knows"
    with CheckpointManager("r.sqlite") as manager:
        step_id = manager.begin_step("t", "tool_executed", {})
        with pytest.raises(EvidenceDefinitionError, match="must be Evidence"):
            manager.commit_step(step_id, EvidencePack([item]))
