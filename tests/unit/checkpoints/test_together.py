"""Many looks at once: none holds up the others, none is waited for past its time, and answers are in the order of claims."""

from __future__ import annotations

import _thread
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import Evidence, EvidencePack, EvidenceType, EvidenceVerifier, Found, evidence_type, together
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.errors import InvalidInputError
from tests.support import environment, exists

RELEASE = threading.Event()


@evidence_type("hanging", required=("number",))
def hanging(claim: Evidence, around: Surroundings) -> Found:
    """Hangs as a dead mount does, whatever limit it is given, until the test lets go."""
    RELEASE.wait()
    return Found.holds()


@evidence_type("sleeping", required=("seconds",))
def sleeping(claim: Evidence, around: Surroundings) -> Found:
    """Takes its time, and says who it was."""
    assert around.cancel is not None
    return Found.unseen("called off") if around.cancel.wait(claim.expected["seconds"]) else Found.holds(me=claim.description)


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    RELEASE.clear()
    yield
    RELEASE.set()
    end = time.monotonic() + 10
    while any(thread.name == "agentos-look" for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.005)
    assert [] == [thread for thread in threading.enumerate() if thread.name == "agentos-look"]


def claims(kind: str, *values: Any, **metadata: Any) -> list[Evidence]:
    key = "number" if kind == "hanging" else "seconds"
    return [Evidence(kind, f"{number}", {key: value}, dict(metadata)) for number, value in enumerate(values)]


def codes(pack: EvidencePack) -> list[str]:
    return [item.result.code if item.result else "" for item in pack.evidence_list]


@pytest.mark.parametrize("seconds", [1e30, float("inf")])
def test_a_limit_longer_than_any_system_waits_is_no_limit(seconds: float, tmp_path: Path):
    """Neither that of an item nor that of a pack ends in an error of the clock."""
    pack = EvidencePack([*exists(".").evidence_list, *claims("sleeping", 0.01, 0.01)])
    assert EvidenceVerifier(tmp_path, timeout=seconds, deadline=seconds).verify_evidence_pack(pack)
    with pytest.raises(InvalidInputError, match="timeout must be a positive number of seconds"):
        EvidenceVerifier(tmp_path, timeout=10**400)


def test_answers_come_in_the_order_of_the_claims(tmp_path: Path):
    """Whatever finished first."""
    pack = EvidencePack(claims("sleeping", 0.2, 0.01, 0.1, 0.0))
    assert EvidenceVerifier(tmp_path).verify_evidence_pack(pack)
    assert ["0", "1", "2", "3"] == [item.result.found["facts"]["me"] for item in pack.evidence_list if item.result]


def test_what_answers_over_a_wire_is_asked_all_at_once(tmp_path: Path):
    """Ten of them take as long as the slowest."""
    begun = time.monotonic()
    assert EvidenceVerifier(tmp_path).verify_evidence_pack(EvidencePack(claims("sleeping", *[0.3] * 10)))
    assert time.monotonic() - begun < 1.5


def test_a_look_that_hangs_holds_up_nobody(tmp_path: Path):
    """It counts as not checkable when its time is over; everything else was looked at."""
    (tmp_path / "a").write_text("a")
    pack = EvidencePack([*claims("hanging", 1, deadline=0.3), *exists("a").evidence_list, *claims("sleeping", 0.0)])
    begun = time.monotonic()
    assert not EvidenceVerifier(tmp_path).verify_evidence_pack(pack)
    assert time.monotonic() - begun < 5
    assert ["TIMED_OUT", "VERIFIED", "VERIFIED"] == codes(pack)


class Dead:
    """A file system that does not answer for one name."""

    def __init__(self, real: Any, name: str) -> None:
        self.real, self.name = real, name

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        if evidence.expected["path"] == self.name:
            RELEASE.wait()
        seen: Observation = self.real.observe(evidence, around)
        return seen


def test_a_file_that_hangs_is_left_behind_and_the_next_ones_are_looked_at(tmp_path: Path):
    """Near things are looked at one after the other; the thread that hangs is replaced."""
    names = ["a", "b", "dead", "c", "d"]
    for name in names:
        (tmp_path / name).write_text(name)
    verifier = EvidenceVerifier(tmp_path, timeout=0.3)
    verifier._probes = {**verifier._probes, EvidenceType.ARTIFACT_EXISTS: Dead(verifier._probes["artifact_exists"], "dead")}
    pack = exists(*names)
    assert not verifier.verify_evidence_pack(pack)
    assert ["VERIFIED", "VERIFIED", "TIMED_OUT", "VERIFIED", "VERIFIED"] == codes(pack)


def test_too_many_stuck_looks_are_not_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A process whose looks hang for ever does not fill up with threads; once they are back, it looks again."""
    monkeypatch.setattr(together, "_MOST_STUCK", 2)
    monkeypatch.setattr(together, "_stuck", [])
    verifier = EvidenceVerifier(tmp_path)
    assert not verifier.verify_evidence_pack(EvidencePack(claims("hanging", 1, 2, deadline=0.1)))
    pack = EvidencePack(claims("sleeping", 0.0, 0.0))
    assert not verifier.verify_evidence_pack(pack)
    assert ["TOO_MANY_STUCK"] * 2 == codes(pack)
    RELEASE.set()
    for thread in list(together._stuck):
        thread.join(10)
    assert verifier.verify_evidence_pack(pack)


def test_a_pack_has_a_deadline_of_its_own(tmp_path: Path):
    """What was not seen by then could not be checked, and what was seen counts."""
    (tmp_path / "a").write_text("a")
    pack = EvidencePack([*claims("sleeping", *[5.0] * 40), *exists("a").evidence_list])
    begun = time.monotonic()
    assert not EvidenceVerifier(tmp_path, deadline=0.3).verify_evidence_pack(pack)
    assert time.monotonic() - begun < 3
    assert ({"TIMED_OUT"}, "VERIFIED") == (set(codes(pack)[:-1]), codes(pack)[-1])


def test_large_files_are_read_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two files over the line are under way at the same time, small ones never are."""
    monkeypatch.setattr(together, "LARGE", 1000)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    under_way: list[int] = []
    most: dict[bool, int] = {True: 0, False: 0}
    lock, pair = threading.Lock(), threading.Barrier(2, timeout=20)
    verifier = EvidenceVerifier(tmp_path)
    real = verifier._probes["file_sha256"]

    class Counting:
        size = staticmethod(lambda evidence, around: os.stat(tmp_path / evidence.expected["path"]).st_size)

        def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
            large = evidence.expected["path"].startswith("large")
            with lock:
                under_way.append(1)
                most[large] = max(most[large], len(under_way))
            if large:
                pair.wait()
            seen: Observation = real.observe(evidence, around)
            with lock:
                under_way.pop()
            return seen

    verifier._probes = {**verifier._probes, EvidenceType.FILE_SHA256: Counting()}
    pack = EvidencePack()
    for name, size in {"small 1": 10, "large 1": 5000, "large 2": 5000, "small 2": 10}.items():
        (tmp_path / name).write_bytes(b"x" * size)
        digest = hashlib.sha256(b"x" * size).hexdigest()
        pack.add_evidence(Evidence(EvidenceType.FILE_SHA256, name, {"path": name, "sha256": digest}))
    assert verifier.verify_evidence_pack(pack)
    assert 2 == most[True]


def test_control_c_ends_the_looks(tmp_path: Path):
    """The caller gets his interrupt at once, and whoever was waiting is told."""
    told = threading.Event()

    class Waiting:
        def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
            assert around.cancel is not None
            around.cancel.calls(told.set)
            _thread.interrupt_main()
            around.cancel.wait(60)
            return Seen({"exists": True, "type": "file"})

    verifier = EvidenceVerifier(tmp_path)
    verifier._probes = {EvidenceType.ARTIFACT_EXISTS: Waiting()}
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        verifier.verify_evidence_pack(exists("a", "b"))
    assert told.wait(10)
    assert time.monotonic() - begun < 30


def test_what_was_left_behind_does_not_keep_the_process_alive(tmp_path: Path):
    """A look that hangs for ever is no reason for the agent not to end."""
    program = """
import threading
from agentos.core.checkpoints import Evidence, EvidencePack, EvidenceVerifier, Found, evidence_type
never = threading.Event()
evidence_type("stuck")(lambda claim, around: never.wait() or Found.holds())
claims = [Evidence("stuck", "x", {}, {"deadline": 0.1}) for _ in range(3)]
print(EvidenceVerifier().verify_evidence_pack(EvidencePack(claims)))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (0, "False\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_single_claim_that_may_hang_is_not_waited_for_either(tmp_path: Path):
    """A pack of one that answers over a wire has its limit too."""
    [claim] = claims("hanging", 1, deadline=0.2)
    assert not EvidenceVerifier(tmp_path).verify_evidence(claim)
    assert claim.result is not None
    assert "TIMED_OUT" == claim.result.code


def test_a_manager_has_these_limits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`verify_deadline` bounds what a commit waits for; the checkpoint is stored unverified, with the reason."""
    from agentos import CheckpointManager

    monkeypatch.chdir(tmp_path)
    with CheckpointManager("r.sqlite", verify_deadline=0.3) as manager:
        step_id = manager.begin_step("t", "tool_executed", {})
        checkpoint = manager.commit_step(step_id, EvidencePack(claims("sleeping", 5.0, 5.0)))
    assert not checkpoint.verified
    assert ["TIMED_OUT"] * 2 == codes(checkpoint.evidence_pack)


@pytest.mark.parametrize("bad", [0, -1, "5", True, float("nan")])
def test_a_deadline_that_is_none_is_refused(bad: Any):
    """By name, where it is given."""
    make: Callable[..., Any] = EvidenceVerifier
    with pytest.raises(ValueError, match="deadline must be a positive number of seconds"):
        make(deadline=bad)
