"""Claims about a part of what a file holds: when they hold, how they fail, and what they end."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, Verdict
from agentos.core.checkpoints.kinds import kind as kinds
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome
from agentos.errors import EvidenceDefinitionError, EvidenceUnavailableError, NotVerifiedError
from tests.unit.checkpoints.steps import committed, wrote

ABC = hashlib.sha256(b"abc").hexdigest()
AT = "2026-01-02T03:04:05.000+00:00"
MOMENT = {"modified_at": AT}
FILE = {"exists": True, "type": "file"}
NOTHING = {"exists": False, "type": None, "near": ["log.part"]}


def claim(kind: str, metadata: dict[str, Any] | None = None, **expected: Any) -> Evidence:
    return Evidence(kind, "what is claimed", {"path": "log", **expected}, metadata or {})


def judged(item: Evidence, facts: dict[str, Any]) -> tuple[str, str]:
    verdict: kinds.Verdict = kind_of(item).judge(item, facts)
    assert (verdict.outcome is Outcome.VERIFIED) is (verdict.message == "")
    return verdict.code, verdict.message


def refused(item: Evidence) -> str:
    with pytest.raises(EvidenceDefinitionError) as error:
        kind_of(item).refuse_malformed(item)
    return error.value.message


# file_prefix_sha256


@pytest.mark.parametrize(
    ("facts", "code", "said"),
    [
        ({**FILE, "bytes": 3, "sha256": ABC, **MOMENT}, "VERIFIED", ""),
        (
            {**FILE, "bytes": 3, "sha256": "0" * 64, **MOMENT},
            "HASH_MISMATCH",
            f"log: expected its first 3 bytes to have sha256 ba7816bf8f01…, found 000000000000… (modified {AT})",
        ),
        (
            {**FILE, "bytes": 2, "sha256": "0" * 64, **MOMENT},
            "FILE_TOO_SHORT",
            f"log: expected at least 3 bytes, found 2 (modified {AT}): it was cut off, or begun anew",
        ),
        (NOTHING, "ARTIFACT_MISSING", "log: expected a file, found nothing. Beside it: log.part; an interrupted write?"),
        ({"exists": True, "type": "directory"}, "WRONG_TYPE", "log: expected a file, found a directory"),
    ],
)
def test_the_beginning_of_a_file_is_judged_by_its_digest(facts, code, said):
    """It holds, or says in which of four ways it does not; the case of the digits does not matter."""
    assert (code, said) == judged(claim("file_prefix_sha256", bytes=3, sha256=ABC.upper()), facts)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"sha256": ABC}, "Missing 'bytes' in expected"),
        ({"bytes": 3}, "Missing 'sha256' in expected"),
        ({"bytes": 0, "sha256": ABC}, "expected['bytes'] must be a number of bytes from 1, found 0"),
        ({"bytes": True, "sha256": ABC}, "expected['bytes'] must be a number of bytes from 1, found True"),
        ({"bytes": 2**63, "sha256": ABC}, "expected['bytes'] must be a number of bytes from 1"),
        ({"bytes": 3, "sha256": "abc"}, "expected['sha256'] must be 64 hexadecimal digits, found 'abc'"),
        ({"bytes": 3, "sha256": ABC, "path": "../x"}, "expected['path'] '../x' leaves the base path"),
        ({"bytes": 3, "sha256": ABC, "size": 3}, "unknown key in expected: size"),
    ],
)
def test_a_beginning_that_could_never_be_checked_is_refused(expected, said):
    """Nothing of it is stored, and the message names the key."""
    assert said in refused(claim("file_prefix_sha256", **expected))


def test_a_log_may_grow_between_steps_and_may_not_be_cut(manager: CheckpointManager, work: Path):
    """What was appended after the checkpoint does not stand in its way; what was lost does."""
    (work / "log").write_bytes(b"abc")
    item = Evidence.capture_prefix("log", base_path=work)
    assert {"path": "log", "bytes": 3, "sha256": ABC} == item.expected
    committed(manager, EvidencePack([item]), {"n": 1})
    (work / "log").write_bytes(b"abcdef")
    assert Verdict.RESUME is manager.recover("t").verdict
    (work / "log").write_bytes(b"abXdef")
    assert Verdict.DIVERGED is manager.recover("t").verdict
    (work / "log").write_bytes(b"ab")
    assert Verdict.DIVERGED is manager.recover("t").verdict


def test_a_claim_about_a_part_ends_what_an_earlier_step_claimed_of_the_whole(manager: CheckpointManager, work: Path):
    """All claims about a file share its subject: the step that appended made the digest of the whole a thing of the past."""
    wrote(manager, "log", "abc")
    (work / "log").write_bytes(b"abcdef")
    committed(manager, EvidencePack([Evidence.capture_prefix("log", base_path=work)]), {"n": 2})
    (work / "log").write_bytes(b"abcdefghi")
    assert Verdict.RESUME is manager.recover("t").verdict
    assert {"n": 2} == manager.resume("t", {})


def test_a_step_proves_the_beginning_that_there_is_when_its_block_ends(manager: CheckpointManager, work: Path):
    """Measured at the end of the block, not where it was asked for."""
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_prefix("log")
        (work / "log").write_bytes(b"abc")
    assert step.checkpoint is not None
    assert {"path": "log", "bytes": 3, "sha256": ABC} == step.checkpoint.evidence_pack.evidence_list[0].expected


def test_an_empty_log_is_claimed_to_be_there_and_no_more(manager: CheckpointManager, work: Path):
    """No bytes are no beginning; a log that is not there at all makes the step fail."""
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_prefix("log")
        (work / "log").write_bytes(b"")
    assert step.checkpoint is not None
    assert "artifact_exists" == step.checkpoint.evidence_pack.evidence_list[0].evidence_type
    with pytest.raises(NotVerifiedError), manager.task("u").step("tool_executed", {}) as step:
        step.proves_prefix("gone")
    with pytest.raises(EvidenceUnavailableError):
        Evidence.capture_prefix("gone", base_path=work)


def test_what_a_look_saw_can_be_claimed():
    """The digest and the number of bytes are taken over, and nothing else."""
    item = claim("file_prefix_sha256")
    fill = kind_of(item).fill
    assert fill is not None
    assert ({"path": "log", "bytes": 3, "sha256": ABC}, {}) == fill(item, Seen({**FILE, "bytes": 3, "sha256": ABC, **MOMENT}))
    assert fill(item, Seen({**FILE, "bytes": 0, "sha256": ABC, **MOMENT})) is None
    assert fill(item, Seen(NOTHING)) is None
