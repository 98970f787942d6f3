"""Reports: the same facts as a table, a JSON document, JUnit XML and Markdown; nothing in them lies or leaks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from agentos.core.checkpoints import (
    CheckpointManager,
    Evidence,
    EvidencePack,
    EvidenceType,
    EvidenceVerifier,
    Found,
    VerificationReport,
    evidence_type,
)
from agentos.core.checkpoints.reports.junit import junit
from agentos.core.checkpoints.reports.markdown import markdown
from agentos.errors import CheckpointNotFoundError, InvalidInputError
from tests.support import exists, exited

NASTY = "evil\n| `x` <b>\x1b[31m\x00 postgres://ada:secret@db/x"
_up = iter([False, True])


@evidence_type("comes_up", retries="failures", content=False)
def comes_up(claim: Evidence, around: Any) -> Found:
    """Fails once, and then holds."""
    return Found.holds() if next(_up) else Found.differs("expected up, found down")


@evidence_type("blind_spot")
def blind_spot(claim: Evidence, around: Any) -> Found:
    """Cannot look."""
    return Found.unseen("no permission to look", hint="ask for it")


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerificationReport:
    """One of everything: verified, failed, error, flaky, declared, not run."""
    monkeypatch.setattr(f"{__name__}._up", iter([False, True]))
    (tmp_path / "a").write_text("a")
    pack = EvidencePack(
        [
            *exists("a", "gone").evidence_list,
            Evidence("blind_spot", "the dark side", {}),
            Evidence("comes_up", "the service", {}, {"deadline": 5}),
            *exited(0).evidence_list,
        ]
    )
    EvidenceVerifier(tmp_path).verify_evidence_pack(pack)
    pack.evidence_list.append(Evidence(EvidenceType.ARTIFACT_EXISTS, NASTY, {"path": NASTY}))
    return VerificationReport.of_pack(pack)


def test_the_summary_adds_up(report: VerificationReport):
    """Every item is counted under one outcome; flaky and declared are parts of verified."""
    told = report.summary
    assert (6, 3, 1, 1, 1) == tuple(told[key] for key in ("total", "verified", "failed", "error", "not_run"))
    assert (1, {"declared": 1, "observed": 2}, "failed") == (told["flaky"], told["by_assurance"], told["verdict"])
    assert not report.is_verified


def test_the_table_shows_each_item_once_and_why_it_does_not_hold(report: VerificationReport):
    """Outcome, type, description, assurance; the reason and the remedy beneath; the verdict last."""
    table = report.table()
    lines = table.splitlines()
    assert "6 evidence · require_all" == lines[0]
    assert re.search(r"^  ok    artifact_exists +a is there +observed +[\d.]+ ms$", table, re.MULTILINE)
    assert "        gone: expected something, found nothing." in lines
    assert re.search(r"^  ERR   blind_spot .*\n        no permission to look\n        -> ask for it$", table, re.MULTILINE)
    assert re.search(r"^  ok    comes_up .* flaky: passed on attempt 2$", table, re.MULTILINE)
    assert lines[-1].startswith("3 verified (1 declared only), 1 failed, 1 error, 1 not run, 1 flaky · ")
    assert lines[-1].endswith(" · NOT VERIFIED")


def test_the_json_is_one_document_with_everything(report: VerificationReport):
    """Results in the order of the pack, every attempt, and a version."""
    told = json.loads(report.json())
    assert (1, 6) == (told["schema_version"], len(told["results"]))
    assert [1, 2, 3, 4, 5, 6] == [each["number"] for each in told["results"]]
    assert ["failed", "verified"] == [each["outcome"] for each in told["results"][3]["attempts"]]
    assert told["summary"] == report.summary


def test_junit_tells_errors_from_failures(report: VerificationReport):
    """What could not be checked is an <error>, what differs a <failure>, what nobody looked at <skipped>; the sums fit."""
    root = ET.fromstring(report.junit())
    [suite] = root
    cases = {
        case.get("classname", ""): [child.tag for child in case if child.tag != "properties"] for case in suite.iter("testcase")
    }
    assert ["error"] == cases["agentos.evidence.blind_spot"]
    assert ["flakyFailure"] == cases["agentos.evidence.comes_up"]
    assert ["failure"] == cases["agentos.policy"]
    assert ("7", "2", "1", "1") == tuple(suite.get(key) for key in ("tests", "failures", "errors", "skipped"))
    assert ("7", "2", "1", "1") == tuple(root.get(key) for key in ("tests", "failures", "errors", "skipped"))
    failure = next(suite.iter("failure"))
    assert ("ARTIFACT_MISSING", "gone: expected something, found nothing.") == (failure.get("type"), failure.get("message"))


def test_a_pack_that_holds_in_part_is_no_failed_test_run(tmp_path: Path):
    """Two of three were asked for, and are there: the third is skipped, and says that it does not hold."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    pack = exists("a", "b", "c", require_all=False, allow_partial=True, min_verified=2)
    assert EvidenceVerifier(tmp_path).verify_evidence_pack(pack)
    [suite] = ET.fromstring(VerificationReport.of_pack(pack).junit())
    assert ("0", "0", "1") == tuple(suite.get(key) for key in ("failures", "errors", "skipped"))
    assert "at least 2" in VerificationReport.of_pack(pack).table()


def test_nothing_claimed_is_no_success_in_any_form():
    """A test run of no tests would be green."""
    report = VerificationReport.of_pack(EvidencePack())
    assert "NOT VERIFIED (no evidence, so nothing is proven)" in report.table()
    [suite] = ET.fromstring(report.junit())
    assert ("1", "1") == (suite.get("tests"), suite.get("failures"))
    assert "failed" == json.loads(report.json())["summary"]["verdict"]
    assert "NOT VERIFIED" in report.markdown()


def test_what_could_not_be_checked_is_not_called_damage(tmp_path: Path):
    """The verdict of the whole is an error too, and says so."""
    pack = EvidencePack([Evidence("blind_spot", "x", {})])
    EvidenceVerifier(tmp_path).verify_evidence_pack(pack)
    report = VerificationReport.of_pack(pack)
    assert report.table().endswith("NOT VERIFIED: could not be checked")
    [suite] = ET.fromstring(report.junit())
    assert ("0", "2") == (suite.get("failures"), suite.get("errors"))


@pytest.mark.parametrize("form", ["table", "json", "junit", "markdown"])
def test_hostile_names_drive_nothing_and_passwords_are_masked(report: VerificationReport, form: str):
    """No control character, no broken cell, no password in an address, in whatever form."""
    text: str = getattr(report, form)()
    assert "secret" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", text)
    if form == "junit":
        ET.fromstring(text)
    if form == "markdown":
        assert "<b>" not in text
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert {6} == {len(re.findall(r"(?<!\\)\|", row)) for row in rows}


@pytest.mark.parametrize("looked", [False, True])
def test_what_follows_the_question_mark_of_a_url_is_in_no_report(looked: bool):
    """There are often secrets: neither a message nor the claim as it is repeated shows them, also where it is refused."""
    url = "http://127.0.0.1:1/health?token=hunter2"
    pack = EvidencePack([Evidence("api_response", "it is up", {"url": each, "status": 200}) for each in (url, f"{url} x")])
    if looked:
        EvidenceVerifier().verify_evidence_pack(pack)
    report = VerificationReport.of_pack(pack)
    assert "http://127.0.0.1:1/health?…" == report.items[0].expected["url"]
    assert "hunter2" not in f"{report.table()}{report.json()}{report.junit()}{report.markdown()}"


@pytest.mark.parametrize("nothing", [None, 5, []])
def test_a_report_on_no_pack_is_refused(nothing: Any):
    """By name, and not by a traceback from within."""
    with pytest.raises(InvalidInputError, match="must be an EvidencePack, found"):
        VerificationReport.of_pack(nothing)
    with pytest.raises(InvalidInputError, match="must be a Checkpoint, found"):
        VerificationReport.of_checkpoint(nothing)


def test_what_is_not_known_is_not_called_none():
    """Neither a task nor an assurance has that name."""
    pack = EvidencePack([Evidence("artifact_exists", "d", {"path": "x"})])
    document = ET.fromstring(VerificationReport.of_pack(pack).junit())
    assert "None" not in [each.get("value") for each in document.iter()]


def test_a_sensitive_item_shows_no_value(tmp_path: Path):
    """Neither what was expected nor what was found, looked at or not."""
    (tmp_path / "a").write_text("a")
    pack = exited(77123, sensitive=True, actual_exit_code=4711, command="hide me")
    unseen = VerificationReport.of_pack(pack)
    EvidenceVerifier(tmp_path).verify_evidence_pack(pack)
    for report in (unseen, VerificationReport.of_pack(pack)):
        for text in (report.table(), report.json(), report.junit(), report.markdown()):
            assert [] == [value for value in ("77123", "4711", "hide me") if value in text]


def test_a_manager_reports_what_it_measures_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the checkpoint's names; `look=False` shows what was known, and measures nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("a")
    with CheckpointManager("r.sqlite") as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("a"))
        (tmp_path / "a").unlink()
        assert manager.verification_report(checkpoint.checkpoint_id, look=False).is_verified
        report = manager.verification_report(checkpoint.checkpoint_id)
        assert (False, "t", 1) == (report.is_verified, report.task_id, report.sequence_number)
        assert f"checkpoint {checkpoint.checkpoint_id} · task t · number 1 · 1 evidence · require_all" == report.title
        assert not manager.verification_report(checkpoint.checkpoint_id, look=False).is_verified
        with pytest.raises(CheckpointNotFoundError):
            manager.verification_report("nope")
    several = [report, VerificationReport.of_pack(EvidencePack())]
    assert 2 == len(ET.fromstring(junit(several)))
    assert 2 == len(re.findall("^## ", markdown(several), re.MULTILINE))
