"""EvidenceVerifier: the evidence types by every sentence of their contract, and what an answer says and hides."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints.models import Evidence, EvidencePack, EvidenceType, VerificationStatus
from agentos.core.checkpoints.observing import Surroundings
from agentos.core.checkpoints.results import Assurance, Outcome
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import InvalidInputError
from agentos.probes import PROBES

HELLO = hashlib.sha256(b"hello").hexdigest()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"hello")
    return tmp_path


@pytest.fixture
def verifier(base: Path) -> EvidenceVerifier:
    return EvidenceVerifier(base, probes=PROBES)


def claim(kind: str, expected: dict[str, Any], **metadata: Any) -> Evidence:
    return Evidence(EvidenceType(kind), "what is claimed", expected, metadata)


def code(verifier: EvidenceVerifier, kind: str, expected: dict[str, Any], **metadata: Any) -> str:
    """The code of one look; every field of the item must tell the same story."""
    item = claim(kind, expected, **metadata)
    answer = verifier.verify_evidence(item)
    assert item.result is not None
    assert answer is item.verified is (item.result.outcome is Outcome.VERIFIED)
    assert item.verification_status is (VerificationStatus.VERIFIED if answer else VerificationStatus.FAILED)
    assert item.verification_error == (None if answer else item.result.message)
    assert bool(item.verification_error) is not answer
    return item.result.code


def error(verifier: EvidenceVerifier, kind: str, expected: dict[str, Any], **metadata: Any) -> str:
    item = claim(kind, expected, **metadata)
    assert not verifier.verify_evidence(item)
    return str(item.verification_error)


# artifact_exists


@pytest.mark.parametrize("path", ["file", "folder"])
@pytest.mark.parametrize("kind", ["any", None])
def test_something_at_the_path_is_enough_for_any(verifier, path, kind):
    """Check if path exists; the type is optional and `any` by default."""
    expected = {"path": path} if kind is None else {"path": path, "type": kind}
    assert code(verifier, "artifact_exists", expected) == "VERIFIED"


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("file", "file", "VERIFIED"),
        ("folder", "directory", "VERIFIED"),
        ("file", "directory", "WRONG_TYPE"),
        ("folder", "file", "WRONG_TYPE"),
        ("gone", "file", "ARTIFACT_MISSING"),
        ("gone", "directory", "ARTIFACT_MISSING"),
        ("gone", "any", "ARTIFACT_MISSING"),
    ],
)
def test_a_type_that_is_given_must_match(verifier, path, kind, expected):
    """If type is specified, verify that it matches."""
    assert code(verifier, "artifact_exists", {"path": path, "type": kind}) == expected


def test_relative_paths_start_at_the_base(verifier, base, monkeypatch):
    """Relative paths resolve against base_path, wherever the process stands; absolute ones against nothing."""
    monkeypatch.chdir("/")
    assert code(verifier, "artifact_exists", {"path": "file"}) == "VERIFIED"
    assert code(verifier, "artifact_exists", {"path": str(base / "file")}) == "VERIFIED"


def test_a_base_given_as_a_relative_path_is_pinned(base, monkeypatch):
    """base_path becomes absolute at construction and a later chdir does not move it; the default is the current directory."""
    monkeypatch.chdir(base)
    verifiers = [EvidenceVerifier(probes=PROBES), EvidenceVerifier(Path(), probes=PROBES), EvidenceVerifier(".", probes=PROBES)]
    monkeypatch.chdir("/")
    assert [code(each, "artifact_exists", {"path": "file"}) for each in verifiers] == ["VERIFIED"] * 3


# artifact_absent


@pytest.mark.parametrize(
    ("path", "expected"),
    [("gone", "VERIFIED"), ("gone/x", "VERIFIED"), ("file", "ARTIFACT_PRESENT"), ("folder", "ARTIFACT_PRESENT")],
)
def test_nothing_at_the_path_is_what_is_claimed(verifier, path, expected):
    """Anything there is a difference."""
    assert code(verifier, "artifact_absent", {"path": path}) == expected


def test_what_is_there_after_all_is_described(verifier, base):
    """Its type, and its size where that says something; a link that leads nowhere is there too."""
    (base / "link").symlink_to("nowhere")
    assert error(verifier, "artifact_absent", {"path": "file"}) == "file: expected nothing, found a file (5 bytes)"
    assert error(verifier, "artifact_absent", {"path": "folder"}) == "folder: expected nothing, found a directory"
    assert error(verifier, "artifact_absent", {"path": "link"}) == "link: expected nothing, found a link"


def test_absence_is_not_proved_by_a_base_that_is_not_there(base):
    """What could not be looked at is an error, and nobody resumes on it."""
    verifier = EvidenceVerifier(base / "unmounted", probes=PROBES)
    item = claim("artifact_absent", {"path": "gone"})
    assert not verifier.verify_evidence(item)
    assert item.result is not None
    assert (item.result.outcome, item.result.code) == (Outcome.ERROR, "BASE_MISSING")


# file_sha256


def test_a_hash_that_matches_verifies(verifier):
    """Check file exists, compute, compare; upper case is the same number."""
    assert code(verifier, "file_sha256", {"path": "file", "sha256": HELLO}) == "VERIFIED"
    assert code(verifier, "file_sha256", {"path": "file", "sha256": HELLO.upper(), "size": 5}) == "VERIFIED"


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ({"path": "file", "sha256": "0" * 64}, "HASH_MISMATCH"),
        ({"path": "file", "sha256": HELLO, "size": 6}, "SIZE_MISMATCH"),
        ({"path": "gone", "sha256": HELLO}, "ARTIFACT_MISSING"),
        ({"path": "folder", "sha256": HELLO}, "WRONG_TYPE"),
    ],
)
def test_a_hash_that_does_not_match_fails(verifier, expected, why):
    """Other content, another size, nothing there, and a folder: each says which."""
    assert code(verifier, "file_sha256", expected) == why


def test_a_mismatch_says_what_was_expected_and_found(verifier, base):
    """Expected and found, sizes and the time of the change: enough to see who changed it, and what to do."""
    os.utime(base / "file", (0, 0))
    item = claim("file_sha256", {"path": "file", "sha256": "0" * 64, "size": 9})
    verifier.verify_evidence(item)
    assert item.result
    assert item.result.message == (
        f"file: expected sha256 000000000000…, found {HELLO[:12]}… (9 -> 5 bytes, modified 1970-01-01T00:00:00.000+00:00)"
    )
    assert item.result.expected == item.expected
    assert item.result.found["sha256"] == HELLO
    assert item.result.hint


# command_exit


def test_a_valid_integer_passes_as_declared(verifier):
    """The contract: a valid integer passes. Nothing was recorded, so it is only declared, and counted apart."""
    item = claim("command_exit", {"exit_code": 0}, command="python script.py", timeout=30)
    assert verifier.verify_evidence(item)
    assert item.result
    assert item.result.assurance is Assurance.DECLARED


@pytest.mark.parametrize("value", ["0", True, False, None, 0.0, [0]])
def test_an_exit_code_must_be_an_integer(verifier, value):
    """Validate that expected_code is an integer; booleans are none."""
    assert "exit_code must be an integer" in error(verifier, "command_exit", {"exit_code": value})


def test_an_exit_code_must_be_given(verifier):
    """Validate that expected_code is provided."""
    assert "Missing 'exit_code' in expected" in error(verifier, "command_exit", {})


@pytest.mark.parametrize(
    ("recorded", "expected"), [(0, "VERIFIED"), (1, "EXIT_MISMATCH"), ("0", "RECORD_INVALID"), (True, "RECORD_INVALID")]
)
def test_what_was_recorded_is_compared(verifier, recorded, expected):
    """An exit code that was recorded can make the claim fail, and a true one is worth more than a declared one."""
    assert code(verifier, "command_exit", {"exit_code": 0}, actual_exit_code=recorded) == expected


def test_the_snapshot_can_hold_the_record(verifier):
    """The actual exit code is stored in snapshot_data: at the top, or where a pointer says."""
    for snapshot, metadata, expected in (
        ({"exit_code": 0}, {}, Outcome.VERIFIED),
        ({"exit_code": 2}, {}, Outcome.FAILED),
        ({"runs": [2]}, {"snapshot_key": "/runs/0"}, Outcome.FAILED),
        ({"runs": []}, {"snapshot_key": "/runs/0"}, Outcome.FAILED),
        ({}, {}, Outcome.VERIFIED),
    ):
        around = Surroundings("/", snapshot=partial(dict, snapshot))
        pack = EvidencePack([claim("command_exit", {"exit_code": 0}, **metadata)])
        assert verifier.judge_pack(pack, around) is expected


# db_row


@pytest.fixture
def database(base: Path) -> str:
    with closing(sqlite3.connect(base / "db.sqlite")) as writer:
        writer.executescript(
            "create table tasks(task_id text, status text, tries int);"
            "insert into tasks values ('task-123', 'completed', 2), ('task-124', 'active', null), ('task-125', 'active', 1);"
        )
    return "db.sqlite"


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ({"where": {"task_id": "task-123"}, "values": {"status": "completed"}}, "VERIFIED"),
        ({"where": {"task_id": "task-123"}}, "VERIFIED"),
        ({"where": {"status": "active"}, "values": {"tries": 1}}, "VERIFIED"),
        ({"where": {"tries": None}, "values": {"task_id": "task-124"}, "unique": True}, "VERIFIED"),
        ({"where": {"task_id": "task-123"}, "values": {"status": "active"}}, "VALUES_DIFFER"),
        ({"where": {"task_id": "task-123"}, "values": {"tries": "2"}}, "VALUES_DIFFER"),
        ({"where": {"task_id": "task-999"}, "values": {"status": "completed"}}, "ROW_MISSING"),
        ({"where": {"status": "active"}, "unique": True}, "ROW_AMBIGUOUS"),
        ({"where": {"1=1 or task_id": 9}}, "NO_SUCH_COLUMN"),
        ({"where": {"task_id": "task-123"}, "values": {"stauts": "x"}}, "NO_SUCH_COLUMN"),
    ],
)
def test_a_row_is_selected_and_its_values_compared(verifier, database, expected, why):
    """SELECT with WHERE, check that a row exists, verify that column values match."""
    assert code(verifier, "db_row", {"table": "tasks", **expected}, db_path=database) == why


def test_a_row_that_differs_says_how(verifier, database):
    """Column, expected and found, with text in quotes; a missing column comes with those that exist."""
    where = {"task_id": "task-123"}
    said = error(verifier, "db_row", {"table": "tasks", "where": where, "values": {"tries": "2"}}, db_path=database)
    assert said == "tasks: row with task_id='task-123' found, but tries: expected '2', found 2"
    said = error(verifier, "db_row", {"table": "tasks", "where": {"stauts": 1}}, db_path=database)
    assert said == "tasks has no column stauts; columns: task_id, status, tries"
    said = error(verifier, "db_row", {"table": "task", "where": where}, db_path=database)
    assert said == "db.sqlite has no table task; tables: tasks"


def test_a_database_that_is_missing_fails_and_one_that_is_not_named_is_an_error(verifier, base):
    """No database where one was claimed is a difference; a verifier on its own has no registry to fall back to."""
    expected = {"table": "tasks", "where": {"task_id": "x"}}
    assert code(verifier, "db_row", expected, db_path="gone.sqlite") == "DATABASE_MISSING"
    assert code(verifier, "db_row", expected) == "NO_DATABASE"
    assert not (base / "gone.sqlite").exists()


# Definitions.


@pytest.mark.parametrize(
    ("kind", "expected", "says"),
    [
        ("artifact_exists", {}, "Missing 'path' in expected"),
        ("artifact_exists", {"path": ""}, "must be a non-empty string, found ''"),
        ("artifact_exists", {"path": 7}, "must be a non-empty string, found 7"),
        ("artifact_exists", {"path": "a\0b"}, "holds a NUL"),
        ("artifact_exists", {"path": "../x"}, "leaves the base path"),
        ("artifact_exists", {"path": "a/../../x"}, "leaves the base path"),
        ("artifact_exists", {"path": "x", "type": "link"}, "expected['type'] is 'link'"),
        ("artifact_exists", {"path": "x", "typo": "file"}, "unknown key in expected: typo"),
        ("artifact_exists", {"path": {1: 2}}, "key 1 is int, keys must be str"),
        ("artifact_exists", {"path": {10**5000: 2}}, "is int, keys must be str"),
        ("artifact_exists", {"path": "\ud800"}, "holds a lone surrogate"),
        ("artifact_absent", {}, "Missing 'path' in expected"),
        ("artifact_absent", {"path": "../x"}, "leaves the base path"),
        ("artifact_absent", {"path": "x", "type": "file"}, "unknown key in expected: type"),
        ("file_sha256", {"path": "x"}, "Missing 'sha256' in expected"),
        ("file_sha256", {"path": "x", "sha256": "abc123..."}, "must be 64 hexadecimal digits, found 'abc123...'"),
        ("file_sha256", {"path": "x", "sha256": HELLO[:-1] + "g"}, "must be 64 hexadecimal digits"),
        ("file_sha256", {"path": "x", "sha256": HELLO, "size": -1}, "must be a number of bytes, found -1"),
        ("file_sha256", {"path": "x", "sha256": HELLO, "size": True}, "must be a number of bytes, found True"),
        ("file_sha256", {"path": "x", "sha256": HELLO, "size": 2**63}, "must be a number of bytes"),
        ("command_exit", {"exit_code": 0, "code": 1}, "unknown key in expected: code"),
        ("db_row", {"table": "t"}, "Missing 'where' in expected"),
        ("db_row", {"table": "t", "where": {}}, "is empty and would match any row"),
        ("db_row", {"table": "", "where": {"id": 1}}, "must be a name"),
        ("db_row", {"table": "t", "where": "id = 1"}, "must be a dict of column to value"),
        ("db_row", {"table": "t", "where": {"id": [1]}}, "must be text, a number, true, false or null"),
        ("db_row", {"table": "t", "where": {"id": 2**63}}, "does not fit a 64-bit column"),
        ("db_row", {"table": "t", "where": {"id": 1}, "values": {"v": -(2**63) - 1}}, "does not fit a 64-bit column"),
        ("db_row", {"table": "t", "where": {"id": 1}, "values": {"v": float("nan")}}, "nan is not allowed"),
        ("db_row", {"table": "t", "where": {"id": 1}, "unique": 1}, "must be true or false, found 1"),
    ],
)
def test_a_definition_that_could_never_be_checked_is_an_error_and_says_why(verifier, kind, expected, says):
    """Unknown keys, wrong types, malformed hashes: False, and why; never an exception, and never 'the world differs'."""
    assert code(verifier, kind, expected) == "INVALID_DEFINITION"
    assert says in error(verifier, kind, expected)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"lifetime": "forever"}, "metadata['lifetime'] is forever"),
        ({"lifetime": []}, "metadata['lifetime'] is []"),
        ({"sensitive": "yes"}, "metadata['sensitive'] must be true or false"),
        ({"note": (1, 2)}, "metadata['note']: tuple is not allowed"),
        ({"snapshot_key": "runs"}, "must be a JSON pointer, found 'runs'"),
        ({"snapshot_key": 0}, "must be a JSON pointer, found 0"),
    ],
)
def test_metadata_that_means_nothing_is_an_error(verifier, metadata, says):
    """What steers a check is checked too."""
    assert says in error(verifier, "command_exit", {"exit_code": 0}, **metadata)


@pytest.mark.parametrize("value", [None, 7, "", "a\0b"])
def test_a_database_path_must_be_a_path(verifier, value):
    """Given and unusable is not the same as not given."""
    said = error(verifier, "db_row", {"table": "t", "where": {"id": 1}}, db_path=value)
    assert "metadata['db_path'] must be a path" in said


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("expected", None),
        ("expected", []),
        ("metadata", None),
        ("evidence_type", "bogus"),
        ("evidence_type", None),
        ("evidence_type", []),
    ],
)
def test_an_item_broken_after_it_was_made_is_an_error(verifier, attribute, value):
    """Fields can be overwritten with anything; the answer is still False and why."""
    item = claim("artifact_exists", {"path": "file"})
    setattr(item, attribute, value)
    assert not verifier.verify_evidence(item)
    assert item.result
    assert item.result.code == "INVALID_DEFINITION"


def test_a_type_may_be_given_as_text(verifier):
    """A string is as good as the enum, also when it is set later."""
    item = Evidence("artifact_exists", "", {"path": "file"})
    assert item.evidence_type is EvidenceType.ARTIFACT_EXISTS
    item.evidence_type = "artifact_exists"
    assert verifier.verify_evidence(item)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3) | st.just("file"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["path", "type", "sha256", "size", "exit_code", "table", "where", "values", "unique", "other"])
METADATA = st.sampled_from(["db_path", "snapshot_key", "actual_exit_code", "sensitive", "lifetime", "command", "record"])


@given(
    kind=st.sampled_from(list(EvidenceType)),
    expected=st.dictionaries(KEYS, JSON, max_size=4),
    metadata=st.dictionaries(METADATA, JSON, max_size=3),
    description=st.text(max_size=20),
)
def test_no_definition_makes_the_verifier_raise(verifier, kind, expected, metadata, description):
    """Whatever is claimed, the answer is a bool with a reason that a terminal can print."""
    item = Evidence(kind, description, expected, metadata)
    answer = verifier.verify_evidence(item)
    assert item.result is not None
    assert answer is (item.result.outcome is Outcome.VERIFIED)
    assert answer or item.verification_error
    assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in item.result.message)
    assert item.verified_at


# What an answer says and hides.


def test_failed_and_could_not_check_are_told_apart(verifier, base):
    """The status shows both as failed; outcome and code keep them apart."""
    (base / "out").symlink_to("/etc")
    failed, unseen = claim("artifact_exists", {"path": "gone"}), claim("artifact_exists", {"path": "out/passwd"})
    assert not verifier.verify_evidence(failed)
    assert not verifier.verify_evidence(unseen)
    assert failed.verification_status is unseen.verification_status is VerificationStatus.FAILED
    assert failed.result
    assert unseen.result
    assert (failed.result.outcome, unseen.result.outcome) == (Outcome.FAILED, Outcome.ERROR)
    assert (failed.result.assurance, unseen.result.assurance) == (Assurance.OBSERVED, None)


def test_a_base_that_is_gone_is_never_failed(base):
    """A wrong directory or an unmounted disk must not look like lost work."""
    verifier = EvidenceVerifier(base / "unmounted", probes=PROBES)
    item = claim("file_sha256", {"path": "file", "sha256": HELLO})
    verifier.verify_evidence(item)
    assert item.result
    assert (item.result.outcome, item.result.code) == (Outcome.ERROR, "BASE_MISSING")


def test_the_time_of_the_look_is_kept(verifier):
    """verified_at is aware, in UTC, and of this look; the duration comes with it."""
    before = datetime.now(UTC)
    item = claim("artifact_exists", {"path": "file"})
    verifier.verify_evidence(item)
    assert item.verified_at
    assert before <= item.verified_at <= datetime.now(UTC)
    assert item.result
    assert item.result.duration_ms > 0


def test_a_second_look_replaces_the_first(verifier, base):
    """What an item says is what was seen last."""
    item = claim("artifact_exists", {"path": "file"})
    assert verifier.verify_evidence(item)
    (base / "file").unlink()
    assert not verifier.verify_evidence(item)
    (base / "file").touch()
    assert verifier.verify_evidence(item)
    assert item.verification_error is None


@pytest.mark.parametrize(
    ("kind", "expected", "metadata"),
    [
        ("artifact_exists", {"path": "hunter2"}, {}),
        ("artifact_exists", {"path": "../hunter2"}, {}),
        ("artifact_exists", {"path": "loop-hunter2"}, {}),
        ("artifact_exists", {"path": "file", "type": "hunter2"}, {}),
        ("artifact_exists", {"path": {"hunter2": (1,)}}, {}),
        ("file_sha256", {"path": "file", "sha256": "hunter2"}, {}),
        ("file_sha256", {"path": "hunter2", "sha256": HELLO}, {}),
        ("command_exit", {"exit_code": "hunter2"}, {}),
        ("command_exit", {"exit_code": 0}, {"actual_exit_code": "hunter2"}),
        ("command_exit", {"exit_code": 0}, {"snapshot_key": "/hunter2"}),
        ("command_exit", {"exit_code": 0}, {"snapshot_key": "hunter2"}),
        ("db_row", {"table": "tasks", "where": {"task_id": "hunter2"}}, {"db_path": "db.sqlite"}),
        (
            "db_row",
            {"table": "tasks", "where": {"task_id": "task-123"}, "values": {"status": "hunter2"}},
            {"db_path": "db.sqlite"},
        ),
        ("db_row", {"table": "hunter2", "where": {"task_id": 1}}, {"db_path": "db.sqlite"}),
        ("db_row", {"table": ["hunter2"], "where": {"task_id": 1}}, {"db_path": "db.sqlite"}),
        ("db_row", {"table": "tasks", "where": {"task_id": 1}}, {"db_path": "hunter2"}),
        ("db_row", {"table": "tasks", "where": {"task_id": 1}}, {"db_path": "folder/../../hunter2"}),
    ],
)
def test_a_sensitive_item_shows_none_of_its_values(verifier, base, database, kind, expected, metadata):
    """However a look ends, neither message, expected nor found gives the values away; the code says enough to act on."""
    (base / "loop-hunter2").symlink_to("loop-hunter2")
    item = claim(kind, expected, sensitive=True, **metadata)
    assert not verifier.verify_evidence(item)
    assert item.result
    told = (item.verification_error, item.result.message, item.result.hint, item.result.expected, item.result.found)
    assert "hunter2" not in repr(told)
    assert item.result.code
    assert "what is claimed" in item.result.message


def test_a_sensitive_item_that_holds_shows_nothing_either(verifier, database):
    """The values of a row that matched are not in the report."""
    expected = {"table": "tasks", "where": {"task_id": "task-123"}, "values": {"status": "completed"}}
    item = claim("db_row", expected, sensitive=True, db_path=database)
    assert verifier.verify_evidence(item)
    assert item.result
    assert (item.result.expected, item.result.found) == ("(sensitive)", "(sensitive)")


def test_secrets_in_addresses_are_masked(verifier):
    """A password in a command line or a path is not repeated in the reason."""
    command = "psql postgres://user:hunter2@host/db"
    said = error(verifier, "command_exit", {"exit_code": 0}, actual_exit_code=1, command=command)
    assert said == "psql postgres://user:***@host/db: expected exit code 0, recorded 1"
    assert "hunter2" not in error(verifier, "artifact_exists", {"path": "ftp://user:hunter2@host/x"})


def test_control_characters_are_escaped(verifier):
    """A hostile name cannot drive the terminal that shows the reason."""
    said = error(verifier, "artifact_exists", {"path": "a\x1b[2J\n\u202eb"})
    assert said.startswith("a\\x1b[2J\\x0a\\u202eb: expected something, found nothing")


# Several at once.


def test_verify_multiple_counts(verifier):
    """The seed's five keys; failed is everything that is not verified."""
    items = [claim("artifact_exists", {"path": path}) for path in ("file", "folder", "gone")] + [claim("command_exit", {})]
    assert verifier.verify_multiple(items) == {
        "total": 4, "verified": 2, "failed": 2, "success_rate": 0.5, "all_passed": False,
    }  # fmt: skip
    assert verifier.verify_multiple(items[:2])["all_passed"] is True


def test_no_items_is_no_success(verifier):
    """Zero checks prove nothing."""
    assert verifier.verify_multiple([]) == {"total": 0, "verified": 0, "failed": 0, "success_rate": 0.0, "all_passed": False}


def test_a_pack_looks_at_every_item(verifier):
    """One bad item never stops the others."""
    pack = EvidencePack(
        [claim("command_exit", {}), claim("artifact_exists", {"path": "gone"}), claim("artifact_exists", {"path": "file"})]
    )
    assert verifier.verify_evidence_pack(pack) is False
    assert [item.verified for item in pack.evidence_list] == [False, False, True]
    assert all(item.verified_at for item in pack.evidence_list)


def test_a_pack_is_judged_by_its_own_policy(verifier):
    """At least two of three, as in the seed's example; an empty pack never verifies; too much asked never verifies."""
    paths = ["file", "gone", "folder"]
    pack = EvidencePack([claim("artifact_exists", {"path": path}) for path in paths], False, True, 2)
    assert verifier.verify_evidence_pack(pack)
    pack.min_verified = 4
    assert not verifier.verify_evidence_pack(pack)
    assert not verifier.verify_evidence_pack(EvidencePack([]))


def test_only_what_is_declared_is_counted_apart(verifier):
    """A pack of bare exit codes verifies, and its summary says how little that is worth."""
    pack = EvidencePack([claim("command_exit", {"exit_code": 0}), claim("artifact_exists", {"path": "file"})])
    assert verifier.verify_evidence_pack(pack)
    summary = pack.verification_summary()
    assert (summary["verified"], summary["declared"]) == (2, 1)


# The verifier itself.


def test_a_probe_that_breaks_is_an_error_and_not_a_difference(base):
    """A bug of ours must never read as 'the world differs'."""

    class Broken:
        evidence_type = EvidenceType.ARTIFACT_EXISTS

        def observe(self, evidence: Evidence, around: Surroundings) -> Any:
            raise ZeroDivisionError("oops\x1b")

    verifier = EvidenceVerifier(base, probes={EvidenceType.ARTIFACT_EXISTS: Broken()})
    assert code(verifier, "artifact_exists", {"path": "file"}) == "INTERNAL"
    assert "ZeroDivisionError: oops\\x1b" in error(verifier, "artifact_exists", {"path": "file"})
    assert code(verifier, "command_exit", {"exit_code": 0}) == "NO_PROBE"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", None, True])
def test_a_timeout_must_be_a_positive_number(timeout):
    """Nothing waits without a limit, and no limit is made up."""
    with pytest.raises(InvalidInputError, match="timeout must be a positive number of seconds"):
        EvidenceVerifier("/", timeout=timeout, probes=PROBES)


def test_an_endless_timeout_is_a_timeout(base):
    """Infinity is a positive number; nothing that takes one breaks on it."""
    verifier = EvidenceVerifier(base, timeout=float("inf"), probes=PROBES)
    with open(base / "file", "rb"):
        assert code(verifier, "file_sha256", {"path": "file", "sha256": HELLO}) == "VERIFIED"


@pytest.mark.parametrize("path", ["", "a\0b", 7, b"/"])
def test_a_base_path_must_be_a_path(path):
    """A base that cannot be one is refused at construction."""
    with pytest.raises(InvalidInputError, match="base_path must be a path"):
        EvidenceVerifier(path, probes=PROBES)


@pytest.mark.parametrize("thing", [None, "file", {"path": "file"}])
def test_what_is_no_evidence_is_refused(verifier, thing):
    """There is nobody to carry the answer."""
    with pytest.raises(InvalidInputError, match="must be Evidence"):
        verifier.verify_evidence(thing)


def test_allowed_roots_bound_absolute_paths(base, tmp_path):
    """An absolute path outside the allowed roots is not looked at."""
    verifier = EvidenceVerifier(base, allowed_roots=[base / "folder"], probes=PROBES)
    assert code(verifier, "artifact_exists", {"path": str(base / "folder")}) == "VERIFIED"
    assert code(verifier, "artifact_exists", {"path": str(base / "file")}) == "PATH_ESCAPES"
    assert code(verifier, "artifact_exists", {"path": "file"}) == "VERIFIED"
