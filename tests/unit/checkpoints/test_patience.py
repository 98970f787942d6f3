"""Looking again: when it may be believed, for how long, and what is kept of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentos.core.checkpoints import Evidence, EvidencePack, EvidenceVerifier, Found, evidence_type
from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.patience import patiently

Script = list[Found | Exception]
_scripts: dict[str, Iterator[Any]] = {}


def _scripted(claim: Evidence, around: Surroundings) -> Found:
    answer = next(_scripts[claim.expected["script"]])
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, Found)
    return answer


SERVICE = evidence_type("scripted_service", required=("script",), retries="failures", content=False)(_scripted)
CONTENT = evidence_type("scripted_content", required=("script",))(_scripted)
HASTY = evidence_type("scripted_fact", required=("script",), retries="never")(_scripted)
FLAKING = evidence_type("scripted_flake", required=("script",), retries="failures")(_scripted)

HOLDS, DIFFERS = Found.holds(), Found.differs("expected up, found down")
SHAKY, BLIND = Found.unseen("moved", transient=True), Found.unseen("no permission")


@pytest.fixture
def verified(request: pytest.FixtureRequest) -> Callable[..., Evidence]:
    """A claim of this type, verified by looks that answer as the script says."""

    def verify(kind: str, *script: Found | Exception, **metadata: Any) -> Evidence:
        name = request.node.name
        _scripts[name] = iter(script)
        claim = Evidence(kind, "the thing", {"script": name}, {"deadline": 5, **metadata})
        EvidenceVerifier().verify_evidence(claim)
        return claim

    return verify


def outcomes(claim: Evidence) -> list[str]:
    """The attempts, and then the outcome that counts."""
    assert claim.result is not None
    return [*(each["outcome"] for each in claim.result.attempts), claim.result.outcome.value]


def test_content_that_differs_is_final(verified):
    """Another look that would pass is never taken: retrying until it passes hides damage."""
    claim = verified("scripted_content", DIFFERS, HOLDS)
    assert (["failed"], False) == (outcomes(claim), claim.result.flaky)


def test_a_look_that_could_not_be_taken_is_taken_again(verified):
    """Something moved while it was read; the next look counts, and both are kept. That is not flaky: nothing had failed."""
    claim = verified("scripted_content", SHAKY, HOLDS)
    assert (["error", "verified", "verified"], False) == (outcomes(claim), claim.result.flaky)
    assert "moved" == claim.result.attempts[0]["message"]


def test_a_look_that_can_never_be_taken_is_not_taken_again(verified):
    """What is not allowed now is not allowed a moment later."""
    assert ["error"] == outcomes(verified("scripted_content", BLIND, HOLDS))


def test_content_that_never_holds_still_is_given_up_on(verified):
    """Three looks, and it stays uncheckable; that it moved is no sign of damage."""
    assert ["error", "error", "error", "error"] == outcomes(verified("scripted_content", SHAKY, SHAKY, SHAKY, HOLDS))


def test_a_service_that_comes_up_is_waited_for_and_called_flaky(verified):
    """It counts, as services may still be starting, and everybody can see that it did not answer at first."""
    claim = verified("scripted_service", DIFFERS, SHAKY, HOLDS)
    assert (["failed", "error", "verified", "verified"], True) == (outcomes(claim), claim.result.flaky)
    assert claim.verified
    assert all(each["duration_ms"] >= 0 for each in claim.result.attempts)


def test_each_try_is_kept_with_the_time_that_it_took():
    """The pauses between them are in the time of the whole, and in that of no try."""

    def look(around: Surroundings) -> Observation:
        time.sleep(0.01)
        return Seen({"holds": False, "message": "down", "hint": "", "facts": {}})

    claim = Evidence("scripted_service", "the thing", {"script": ""}, {"deadline": 1})
    seen = patiently(look, kind_of(claim), claim, Surroundings("/", timeout=60))
    result = kind_of(claim).result(claim, seen, seen.took_ms)
    took = [each["duration_ms"] for each in result.attempts]
    assert 1 < len(took)
    assert min(took) >= 10
    assert sum(took) < result.duration_ms


def test_content_that_comes_and_goes_does_not_count(verified):
    """A pass after a failure is shown for what it is, and fails the gate."""
    claim = verified("scripted_flake", DIFFERS, HOLDS)
    assert ("FLAKY", True, False) == (claim.result.code, claim.result.flaky, claim.verified)
    assert ["failed", "failed", "failed"] == outcomes(claim)


def test_a_service_that_stays_down_fails_at_its_deadline(verified):
    """The last answer is the answer, with every try before it."""
    begun = time.monotonic()
    claim = verified("scripted_service", *[DIFFERS] * 100, deadline=0.4)
    assert time.monotonic() - begun < 2
    assert "DIFFERS" == claim.result.code
    assert 1 < len(claim.result.attempts) < 100


def test_the_first_look_ends_by_itself_where_the_deadline_is_nearer_than_its_timeout():
    """A service that is slow is not left behind as stuck, and what it did not say in time is said of it."""
    given: list[float] = []

    def look(around: Surroundings) -> Observation:
        given.append(around.timeout)
        return Unseen("TIMED_OUT", "the service did not answer in time")

    for kind in ("scripted_service", "scripted_content"):
        claim = Evidence(kind, "the thing", {"script": ""}, {"timeout": 10, "deadline": 0.3})
        patiently(look, kind_of(claim), claim, Surroundings("/", timeout=60))
    assert [0.3, 0.3] == given


def test_a_last_look_without_the_time_it_needs_does_not_unsee_what_was_seen():
    """The deadline cuts it short: what the one before it saw is the answer, and that it was cut short is among the tries."""

    def look(around: Surroundings) -> Observation:
        if around.timeout >= 0.1:
            return Seen({"holds": False, "message": "down", "hint": "", "facts": {}})
        time.sleep(around.timeout)
        return Unseen("TIMED_OUT", "too late", transient=True)

    claim = Evidence("scripted_service", "the thing", {"script": ""}, {"timeout": 0.1, "deadline": 0.3})
    cut_short = False
    for _ in range(50):  # pauses are drawn at random: at times none is left to be cut short
        seen = patiently(look, kind_of(claim), claim, Surroundings("/", timeout=60))
        assert isinstance(seen, Seen)
        cut_short = "TIMED_OUT" in [each["code"] for each in seen.attempts]
        if cut_short:
            break
    assert cut_short


def test_a_recorded_fact_is_looked_up_once(verified):
    """It does not change with the world, so there is nothing to wait for; its `timeout` is a remark about something else."""
    assert ["error"] == outcomes(verified("scripted_fact", SHAKY, HOLDS, timeout="30 minutes"))


def test_each_claim_waits_for_itself(request):
    """Two claims of a pack: the one that held at once is not looked at again because of the other."""
    for name, script in {"up": [HOLDS], "late": [DIFFERS, DIFFERS, HOLDS]}.items():
        _scripts[f"{request.node.name}-{name}"] = iter(script)
    claims = [Evidence("scripted_service", name, {"script": f"{request.node.name}-{name}"}) for name in ("up", "late")]
    assert EvidenceVerifier().verify_evidence_pack(EvidencePack(claims))
    assert [0, 3] == [len(claim.result.attempts) for claim in claims if claim.result]


def test_a_probe_that_breaks_is_not_asked_again(verified):
    """A bug reads as "could not look", and looking again would only repeat it."""
    claim = verified("scripted_service", ZeroDivisionError("x"), HOLDS)
    assert ("INTERNAL", []) == (claim.result.code, claim.result.attempts)


def test_waiting_ends_when_the_look_is_called_off():
    """Whoever cancels does not wait for the next try."""
    cancel, looks = Cancel(), threading.Event()
    around = Surroundings("/", timeout=60, cancel=cancel)
    claim = Evidence("scripted_service", "the thing", {"script": ""}, {"deadline": 60})

    def look(_: Surroundings) -> Observation:
        looks.set()
        return Seen({"holds": False, "message": "down", "hint": "", "facts": {}})

    def call_off() -> None:
        looks.wait()
        cancel.set()

    threading.Thread(target=call_off, daemon=True).start()
    begun = time.monotonic()
    seen = patiently(look, kind_of(claim), claim, around)
    assert isinstance(seen, Seen)
    assert time.monotonic() - begun < 30


def test_one_look_may_take_less_than_all_of_them():
    """`timeout` bounds each look, `deadline` all of them, and neither more than whoever asks allows."""
    limits: list[float] = []

    def look(around: Surroundings) -> Observation:
        limits.append(around.timeout)
        return Unseen("X", "x", transient=len(limits) < 3)

    claim = Evidence("scripted_content", "the thing", {"script": ""}, {"timeout": 2, "deadline": 50})
    patiently(look, kind_of(claim), claim, Surroundings("/", timeout=40))
    assert [2, 2, 2] == limits
    limits.clear()
    patiently(look, kind_of(claim), claim, Surroundings("/", timeout=1))
    assert all(limit <= 1 for limit in limits)


@pytest.mark.parametrize("bad", [0, -1, "5", True, None, float("nan"), 1e9])
@pytest.mark.parametrize("key", ["timeout", "deadline"])
def test_a_time_that_is_none_is_refused_where_it_is_committed(key: str, bad: Any):
    """By name, and before anything waits for ever."""
    claim = Evidence("scripted_content", "the thing", {"script": "x"}, {key: bad})
    assert not EvidenceVerifier().verify_evidence(claim)
    assert claim.result is not None
    assert "INVALID_DEFINITION" == claim.result.code
    if isinstance(bad, float) and bad != bad:  # noqa: PLR0124 - the shortest way to say NaN
        return
    assert f"metadata['{key}'] must be a number of seconds" in claim.result.message
