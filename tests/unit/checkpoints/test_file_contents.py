"""Claims about a part of what a file holds: when they hold, how they fail, and what they end."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceVerifier, Verdict
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
    with pytest.raises(EvidenceUnavailableError, match="gone: expected a file, found nothing"):
        Evidence.capture_prefix("gone", base_path=work)
    with pytest.raises(EvidenceUnavailableError, match="beginning of log: it is there, and has nothing that could be claimed"):
        Evidence.capture_prefix("log", base_path=work)


def test_what_a_look_saw_can_be_claimed():
    """The digest and the number of bytes are taken over, and nothing else."""
    item = claim("file_prefix_sha256")
    fill = kind_of(item).fill
    assert fill is not None
    assert ({"path": "log", "bytes": 3, "sha256": ABC}, {}) == fill(item, Seen({**FILE, "bytes": 3, "sha256": ABC, **MOMENT}))
    assert fill(item, Seen({**FILE, "bytes": 0, "sha256": ABC, **MOMENT})) is None
    assert fill(item, Seen(NOTHING)) is None


# file_contains


@pytest.mark.parametrize(
    ("expected", "count", "code", "said"),
    [
        ({}, 1, "VERIFIED", ""),
        ({}, 0, "PATTERN_MISSING", "log: expected 'done' at least 1 time, found it not at all"),
        ({"count": 3}, 3, "VERIFIED", ""),
        ({"count": 3}, 2, "COUNT_DIFFERS", "log: expected 'done' 3 times, found it 2 times"),
        (
            {"count": {"ge": 2, "lt": 4}},
            4,
            "COUNT_DIFFERS",
            "log: expected 'done' at least 2 and less than 4 times, found it 4 times",
        ),
        ({"absent": True}, 0, "VERIFIED", ""),
        ({"count": 0}, 0, "VERIFIED", ""),
        ({"absent": True}, 5000, "PATTERN_PRESENT", "log: expected 'done' not at all, found it 5,000 times"),
    ],
)
def test_what_a_file_contains_is_judged_by_the_count(expected, count, code, said):
    """At least one unless something else is asked for."""
    item = claim("file_contains", pattern="done", **expected)
    kind_of(item).refuse_malformed(item)
    assert (code, said) == judged(item, {**FILE, "count": count})


@pytest.mark.parametrize("expected", [{}, {"absent": True}])
def test_a_file_that_is_not_there_contains_nothing_and_lacks_nothing(expected):
    """Nothing was written: that what must not be in it is not there proves nothing."""
    item = claim("file_contains", pattern="done", **expected)
    assert "ARTIFACT_MISSING" == judged(item, NOTHING)[0]
    assert "WRONG_TYPE" == judged(item, {"exists": True, "type": "directory"})[0]


@pytest.mark.parametrize(
    ("expected", "metadata", "said"),
    [
        ({"pattern": ""}, {}, "expected['pattern'] must be text of 1 to 10,000 characters, found ''"),
        ({"pattern": 1}, {}, "expected['pattern'] must be text of 1 to 10,000 characters, found 1"),
        ({"pattern": "a" * 10_001}, {}, "expected['pattern'] must be text of 1 to 10,000 characters"),
        ({"regex": True, "pattern": "a" * 1001}, {}, "expected['pattern'] must be text of 1 to 1,000 characters"),
        ({"regex": 1}, {}, "expected['regex'] must be true or false, found 1"),
        ({"count": {"ge": 0}}, {}, "expected['count'] matches any number"),
        ({"count": {}}, {}, "expected['count'] is empty"),
        ({"count": {"lt": 0}}, {}, "expected['count'] matches no number of things"),
        ({"count": {"gt": 3, "lt": 4}}, {}, "expected['count'] matches no number of things"),
        ({"count": {"equals": 1, "not": 1}}, {}, "expected['count'] matches no number of things"),
        ({"count": {"le": 0, "not": 0}}, {}, "expected['count'] matches no number of things"),
        ({"count": 2**63}, {}, "expected['count'] matches no number of things"),
        ({"count": -1}, {}, "expected['count'] must be a number of things"),
        ({"absent": False}, {}, "expected['absent'] must be true, without a count"),
        ({"absent": True, "count": 1}, {}, "expected['absent'] must be true, without a count"),
        ({}, {"flags": ["ignorecase"]}, "metadata['flags'] are for regular expressions only"),
        ({"regex": True}, {"flags": "ignorecase"}, "metadata['flags'] must be a list of flags"),
        ({"regex": True}, {"flags": [["dotall"]]}, "metadata['flags'] must be a list of flags"),
        ({}, {"encoding": "zlib"}, "metadata['encoding'] is 'zlib'"),
        ({}, {"encoding": "punycode"}, "metadata['encoding'] is 'punycode'"),
        ({}, {"encoding": None}, "metadata['encoding'] is None"),
        ({}, {"encoding": ["utf-8"]}, "metadata['encoding'] is ['utf-8']"),
        ({}, {"max_bytes": "1"}, "metadata['max_bytes'] must be a number of bytes from 1"),
        ({}, {"time_limit": 0}, "metadata['time_limit'] must be a number of seconds up to a day, found 0"),
        ({"regex": True, "pattern": "("}, {}, "expected['pattern'] is no regular expression"),
        ({"regex": True, "pattern": "(?<=a+)b"}, {}, "expected['pattern'] is no regular expression"),
        ({"regex": True, "pattern": "a{99999999999999999999}"}, {}, "expected['pattern'] is no regular expression"),
        (
            {"regex": True, "pattern": "(" * 490 + ")" * 490},
            {},
            "expected['pattern'] is no regular expression: 'nested too deep'",
        ),
        ({"regex": True, "pattern": "ö"}, {}, "is an expression over bytes, and holds characters that are none"),
        ({"regex": True, "pattern": "^$", "absent": True}, {"flags": ["multiline"]}, "can match nothing but the empty text"),
        ({"regex": True, "pattern": "(?=ERROR)", "count": 0}, {}, "can match nothing but the empty text, found '(?=ERROR)'"),
        ({"regex": True, "pattern": "(?L)\\b"}, {}, "can match nothing but the empty text"),
        ({"pattern": "ö", "absent": True}, {"encoding": "ascii"}, "has letters that ascii has not, found 'ö'"),
        ({"path": "../log"}, {}, "leaves the base path"),
    ],
)
def test_a_search_that_could_never_be_checked_is_refused(expected, metadata, said):
    """What claims nothing, what is no expression, and what would be looked for in another way than it says."""
    assert said in refused(claim("file_contains", metadata, **{"pattern": "done", **expected}))


@pytest.mark.parametrize("count", [{"ge": 3, "lt": 4}, {"not": 0, "le": 1}, {"gt": 0, "lt": 3, "not": 1}, {"ge": 2**63 - 1}])
def test_a_count_that_some_number_meets_is_a_claim(count):
    """However few these numbers are."""
    item = claim("file_contains", pattern="done", count=count)
    kind_of(item).refuse_malformed(item)


def test_an_expression_that_may_match_something_is_a_claim():
    """Also one that may match nothing too, and one that looks around."""
    for pattern in ("x*", "(ERROR)?", "(?<=a)b", "\\n\\n", "^.$"):
        item = claim("file_contains", pattern=pattern, regex=True, absent=True)
        kind_of(item).refuse_malformed(item)


def test_hostile_expressions_are_refused_or_accepted_quickly():
    """Compiling one takes no time that anybody notices, whatever is in it."""
    worst = ["[\0-\U0010fffe]" * 200, "(?i:[\0-\U0010fffe])" * 100, "(?:a{1000}){1000}" * 58, "|".join(map(str, range(270)))]
    begun = time.process_time()
    for pattern in worst:
        item = claim("file_contains", {"encoding": "utf-8", "flags": ["ignorecase"]}, pattern=pattern, regex=True)
        kind_of(item).refuse_malformed(item)
    assert time.process_time() - begun < 10


def test_an_expression_that_takes_for_ever_blocks_and_never_diverges(manager: CheckpointManager, work: Path):
    """The report names the expression; nothing destructive follows from it."""
    (work / "log").write_bytes(b"a" * 10)
    item = claim("file_contains", {"time_limit": 0.5}, pattern="(a+)+$", regex=True)
    committed(manager, EvidencePack([item]), {"n": 1})
    (work / "log").write_bytes(b"a" * 40 + b"!")
    found = manager.recover("t")
    assert Verdict.BLOCKED is found.verdict
    assert "'(a+)+$'" in found.explain()


def test_what_is_looked_for_is_not_told_if_it_is_sensitive(tmp_path: Path):
    """Neither where it is missing nor where matching it takes for ever."""
    (tmp_path / "log").write_bytes(b"a" * 40 + b"!")
    for expected in ({"pattern": "hunter2"}, {"pattern": "hunter2|(a+)+$", "regex": True}):
        item = claim("file_contains", {"sensitive": True, "time_limit": 0.3}, **expected)
        assert not EvidenceVerifier(tmp_path).verify_evidence(item)
        assert "hunter" not in str(item.result)
    item = claim("file_contains", {"sensitive": True}, pattern="(hunter2", regex=True)
    assert "hunter" not in refused(item)
