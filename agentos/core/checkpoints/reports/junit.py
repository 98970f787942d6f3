"""Reports as JUnit XML, for what reads test results.

What differs is a failure, what could not be checked is an error, what nobody looked at is skipped. Two things that test results
know nothing of are said in a case of their own, the last of each suite: that nothing was claimed at all, which is no success,
and that enough of a pack holds although not all of it does. Then what does not hold is skipped, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentos.core.checkpoints.reports.report import ReportedItem, VerificationReport, describe_policy
from agentos.core.checkpoints.results import Outcome

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# What XML 1.0 cannot carry, escaped or not.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_POLICY = "agentos.policy"


def junit(reports: Sequence[VerificationReport]) -> str:
    """One document, one suite for each report."""
    from xml.etree.ElementTree import Element, indent, tostring  # noqa: PLC0415 - written here, and never read

    root = Element("testsuites", name="agentos")
    for report in reports:
        root.append(_suite(report))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{tostring(root, encoding='unicode')}\n"


def _suite(report: VerificationReport) -> Element:
    from xml.etree.ElementTree import Element, SubElement  # noqa: PLC0415

    name = f"checkpoint {report.checkpoint_id}" if report.checkpoint_id else "evidence"
    suite = Element("testsuite", name=_legal(name), time=_seconds(report.duration_ms))
    if report.verified_at is not None:
        suite.set("timestamp", report.verified_at.isoformat(timespec="seconds"))
    properties = SubElement(suite, "properties")
    about = {"task_id": report.task_id, "policy": describe_policy(report.policy), "verdict": report.outcome}
    _add_properties(properties, about)
    for item in report.items:
        suite.append(_case(item, report))
    suite.append(_policy_case(report))
    counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    suite.set("tests", str(len(report.items) + 1))
    for attribute, tag in counts.items():
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _case(item: ReportedItem, report: VerificationReport) -> Element:
    from xml.etree.ElementTree import Element, SubElement  # noqa: PLC0415

    case = Element(
        "testcase",
        classname=_legal(f"agentos.evidence.{item.evidence_type}"),
        name=_legal(item.description or f"item {item.number}"),
        time=_seconds(item.duration_ms),
    )
    properties = SubElement(case, "properties")
    _add_properties(properties, {"assurance": item.assurance, "code": item.code, "attempts": len(item.attempts) or 1})
    said = _legal(item.message)
    if item.outcome == Outcome.VERIFIED.value:
        if item.flaky:
            SubElement(case, "flakyFailure", message=_legal(_first_failure(item)), type=_legal(item.code))
    elif item.outcome == Outcome.NOT_RUN.value or report.is_verified:
        reason = said if item.outcome == Outcome.NOT_RUN.value else f"does not hold, and the pack holds without it: {said}"
        SubElement(case, "skipped", message=reason)
    else:
        tag = "error" if item.outcome == Outcome.ERROR.value else "failure"
        SubElement(case, tag, message=said, type=_legal(item.code)).text = _legal(_details(item))
    return case


def _add_properties(properties: Element, about: Mapping[str, object]) -> None:
    """What is known; what is not is left out, for `None` could be a name."""
    from xml.etree.ElementTree import SubElement  # noqa: PLC0415

    for key, value in about.items():
        if value is not None:
            SubElement(properties, "property", name=key, value=_legal(str(value)))


def _policy_case(report: VerificationReport) -> Element:
    from xml.etree.ElementTree import Element, SubElement  # noqa: PLC0415

    case = Element("testcase", classname=_POLICY, name=f"enough holds: {_legal(describe_policy(report.policy))}", time="0")
    if report.is_verified:
        return case
    why = "an empty pack proves nothing" if not report.items else "not enough of the evidence holds"
    tag = "error" if report.outcome == Outcome.ERROR.value else "failure"
    SubElement(case, tag, message=why, type="POLICY")
    return case


def _details(item: ReportedItem) -> str:
    lines = [f"expected: {item.expected}", f"found: {item.found}", *(f"note: {note}" for note in item.notes)]
    return "\n".join([*lines, f"-> {item.hint}"] if item.hint else lines)


def _first_failure(item: ReportedItem) -> str:
    return next((each["message"] for each in item.attempts if each["outcome"] == Outcome.FAILED.value), "")


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.6f}"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
