"""process_exists: which claims can be made, and how facts are judged. No process is looked at here."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.matchers import matches
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import EvidenceResult, Outcome
from agentos.errors import EvidenceDefinitionError

BOOT = "2f85a651-75ff-43b9-87d8-1752712c6f84"
ONE = {"pid": 4121, "start_ticks": 500, "boot_id": BOOT}
SINCE = {"start_ticks": 500, "started_at": "2026-03-01T07:58:00+00:00"}
THERE = {"boot_id": BOOT, "there": True, **SINCE, "ended": False, "name": "w"}
REUSED = (
    "process 4121: expected the one that started at tick 500, found 'ng\\x1binx' of tick 9000 (2026-03-01T07:58:00+00:00): "
    "the pid was reused, and the process is gone"
)


def claim(expected: dict[str, Any], **metadata: Any) -> Evidence:
    return Evidence("process_exists", "the worker", expected, metadata)


def judged(expected: dict[str, Any], facts: dict[str, Any]) -> EvidenceResult:
    item = claim(expected)
    kind_of(item).refuse_malformed(item)
    return kind_of(item).result(item, Seen(facts))


def counted(count: Any, found: int, *, unseen: int = 0, hidden: bool = False) -> EvidenceResult:
    return judged({"name": "worker", "count": count}, {"count": found, "unseen": unseen, "hidden": hidden, "pids": []})


@pytest.mark.parametrize(
    ("facts", "code", "says"),
    [
        ({}, "VERIFIED", ""),
        ({"start_ticks": 501}, "VERIFIED", ""),
        ({"boot_id": "another"}, "MACHINE_RESTARTED", "process 4121: the machine was started again since"),
        ({"there": False}, "PROCESS_GONE", "process 4121: expected it to run, and nothing has this pid"),
        ({"ended": True}, "PROCESS_ENDED", "process 4121: expected it to run, and it ended; nobody has waited for it yet"),
        ({"start_ticks": 9000, "name": "ng\x1binx"}, "PID_REUSED", REUSED),
    ],
)
def test_one_process_is_its_pid_its_start_and_its_boot(facts, code, says):
    """Each of the three can tell it from another, and the reason says which did."""
    found = judged(ONE, {**THERE, **facts})
    assert code == found.code
    assert found.message.startswith(says)


@pytest.mark.parametrize("facts", [{"boot_id": "another"}, {"there": False}, {"ended": True}, {"start_ticks": 9000}])
def test_a_process_that_ended_is_not_waited_for(facts):
    """It does not come back; a service that fits a description may still be starting."""
    item = claim(ONE)
    assert kind_of(item).judge(item, {**THERE, **facts}).final
    other = claim({"name": "worker", "count": 1})
    assert not kind_of(other).judge(other, {"count": 0, "unseen": 0, "hidden": False, "pids": []}).final


@pytest.mark.parametrize(
    ("count", "found", "code"),
    [
        (1, 1, "VERIFIED"),
        (1, 0, "PROCESS_MISSING"),
        (1, 2, "COUNT_DIFFERS"),
        (0, 0, "VERIFIED"),
        (0, 1, "COUNT_DIFFERS"),
        ({"ge": 1}, 3, "VERIFIED"),
        ({"ge": 2, "lt": 4}, 4, "COUNT_DIFFERS"),
    ],
)
def test_so_many_fit_a_description(count, found, code):
    """Exactly as many as are claimed."""
    assert code == counted(count, found).code


def test_the_reason_says_what_was_looked_for():
    """Description, claimed number, found number."""
    assert "processes with name 'worker': expected at least 1, found 0" == counted({"ge": 1}, 0).message


@pytest.mark.parametrize(
    ("count", "found", "unseen", "hidden", "outcome"),
    [
        ({"ge": 1}, 1, 50, False, Outcome.VERIFIED),
        ({"ge": 2}, 1, 50, False, Outcome.ERROR),
        (0, 0, 1, False, Outcome.ERROR),
        (0, 1, 1, False, Outcome.FAILED),
        (3, 1, 1, False, Outcome.FAILED),
        (1, 0, 0, True, Outcome.ERROR),
        (1, 2, 0, True, Outcome.FAILED),
        ({"ge": 1}, 1, 0, True, Outcome.VERIFIED),
        ({"not": 7}, 0, 0, True, Outcome.ERROR),
        ({"le": 3}, 0, 0, True, Outcome.ERROR),
    ],
)
def test_what_cannot_be_seen_may_fit(count, found, unseen, hidden, outcome):
    """Neither true nor false is said where the unseen could make it the other one."""
    assert outcome is counted(count, found, unseen=unseen, hidden=hidden).outcome


COUNTS = st.integers(0, 6) | st.dictionaries(
    st.sampled_from(["gt", "ge", "lt", "le", "equals", "not"]), st.integers(0, 6), min_size=1, max_size=3
)


@given(COUNTS, st.integers(0, 8), st.integers(0, 8))
def test_the_judgement_is_that_of_every_number_that_is_possible(count, found, unseen):
    """Only the bounds are tried; trying every number says the same."""
    ever = {matches(count, number) for number in range(20)}
    try:
        outcome = counted(count, found, unseen=unseen).outcome
    except EvidenceDefinitionError:
        assert ever in ({True}, {False}), "what some numbers meet and others do not is a claim"
        return
    assert {True, False} == ever
    answers = {matches(count, number) for number in range(found, found + unseen + 1)}
    assert {frozenset({True}): Outcome.VERIFIED, frozenset({False}): Outcome.FAILED}.get(
        frozenset(answers), Outcome.ERROR
    ) is outcome


@pytest.mark.parametrize(
    ("expected", "says"),
    [
        ({}, "must name a process by its pid, or describe it"),
        ({"count": 1}, "must name a process by its pid, or describe it"),
        ({"pid": 4121}, "a pid alone names nobody, for it is given out again: start_ticks, boot_id is missing"),
        ({"pid": 4121, "start_ticks": 5}, "boot_id is missing"),
        ({"start_ticks": 5, "boot_id": BOOT, "name": "x", "count": 1}, "must name a process by its pid, or describe it"),
        ({**ONE, "name": "worker"}, "name describes others"),
        ({**ONE, "count": 1}, "count describes others"),
        ({**ONE, "pid": 0}, "expected['pid'] must be an integer from 1, found 0"),
        ({**ONE, "pid": True}, "expected['pid'] must be an integer"),
        ({**ONE, "start_ticks": 5.0}, "expected['start_ticks'] must be an integer"),
        ({**ONE, "boot_id": ""}, "expected['boot_id'] must be the name of a boot"),
        ({"name": "worker"}, "a description needs a count"),
        ({"name": "worker", "count": {}}, "would match any number"),
        ({"name": "worker", "count": {"ge": 0}}, "expected['count'] matches any number"),
        ({"name": "worker", "count": True}, "must be a number of things"),
        ({"name": 7, "count": 0}, "expected['name'] fits no process"),
        ({"name": {"ge": 7}, "count": 0}, "expected['name'] fits no process"),
        ({"name": {"in": ["a", 1]}, "count": 0}, "expected['name'] fits no process"),
        ({"name": {}, "count": 0}, "must be a value or operators"),
        ({"argv": "sleep 60", "count": 0}, "expected['argv'] fits no process"),
        ({"argv": {"equals": "sleep 60"}, "count": 0}, "expected['argv'] fits no process"),
        ({"argv": {"prefix": "sleep"}, "count": 0}, "expected['argv'] fits no process"),
        ({"cmd": "x", "count": 1}, "unknown key in expected: cmd"),
        ({"selector": {"name": "x"}}, "a description needs a count"),
        ({"selector": {}, "count": 1}, "expected['selector'] must be an object that describes processes"),
        ({"selector": "x", "count": 1}, "expected['selector'] must be an object that describes processes"),
        ({"selector": {"cmd": "x"}, "count": 1}, "unknown key in expected['selector']: cmd"),
        ({"selector": {"argv": "x"}, "count": 1}, "expected['selector']['argv'] fits no process"),
        ({"selector": {"name": "x"}, "user": "me", "count": 1}, "or beside it, and user is beside it"),
        ({**ONE, "selector": {"name": "x"}}, "selector describes others"),
    ],
)
def test_what_names_nobody_is_refused(expected, says):
    """Above all a pid alone, and a claim that could not fail."""
    item = claim(expected)
    with pytest.raises(EvidenceDefinitionError) as refused:
        kind_of(item).refuse_malformed(item)
    assert says in refused.value.message


def test_a_description_may_stand_in_a_selector():
    """It is the same claim about the same processes."""
    facts = {"count": 2, "unseen": 0, "hidden": False, "pids": []}
    beside, within = {"name": "w", "user": "me"}, {"selector": {"user": "me", "name": "w"}}
    said = {judged({**each, "count": 1}, facts).message for each in (beside, within)}
    assert {"processes with name 'w', user 'me': expected 1, found 2"} == said
    [subject] = {
        kind_of(item).subject(item, "/base") for item in (claim({**beside, "count": 1}), claim({**within, "count": 1}))
    }
    assert 'process:{"name": "w", "user": "me"}' == subject


def test_what_it_is_about():
    """One process for good, or a description whatever its number: a later claim about the same takes its place."""
    about = [
        kind_of(item).subject(item, "/base")
        for item in (claim(ONE), claim({"name": "w", "count": 1}), claim({"count": {"ge": 2}, "name": "w"}))
    ]
    assert [f"process:4121/500/{BOOT}", 'process:{"name": "w"}', 'process:{"name": "w"}'] == about
