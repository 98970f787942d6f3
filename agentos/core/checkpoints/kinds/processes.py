"""Claims that a process runs: this very one, or so many that fit a description.

A pid alone names nobody, for it is given out again: one process is named by its pid, the tick at which it started, and the boot
of its machine. A description says how many are to fit it, and what cannot be seen from here may always fit it too.
"""

from __future__ import annotations

import json
from typing import Any

from agentos._process import is_same_start
from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.kind import (
    HOLDS,
    Effort,
    Filled,
    Kind,
    Lifetime,
    Retries,
    Schema,
    Verdict,
    refuse,
    told,
)
from agentos.core.checkpoints.kinds.matchers import (
    COUNT,
    TEXT,
    are_texts,
    check_count,
    check_matcher,
    described,
    fits_text,
    matches,
)
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome

# Cheapest first: whatever does not fit ends the look at a process.
SELECTORS = ("name", "user", "argv", "exe")
_IDENTITY = ("pid", "start_ticks", "boot_id")
_LARGEST = 2**63
_CAPTURE = "Evidence.capture_process(pid) writes all three"
_START = "start it again, or fall back to a checkpoint that does without it"
_SEE = "look as a user who sees every process, or describe it by what can be seen, such as its user"


def _check(evidence: Evidence) -> None:
    expected = evidence.expected
    for name in ("pid_ns", "host"):
        if type(evidence.metadata.get(name, "")) is not str:
            refuse(evidence, f"metadata['{name}'] must be text, found {told(evidence, evidence.metadata[name])}")
    if "pid" in expected:
        _check_identity(evidence)
        return
    if "selector" in expected:
        _check_selector(evidence, expected["selector"])
    if not description(expected) or any(name in expected for name in _IDENTITY):
        refuse(evidence, "expected must name a process by its pid, or describe it", f"by any of: {listed([*SELECTORS])}")
    if "count" not in expected:
        refuse(evidence, "a description needs a count: how many processes fit it", 'such as 1 or {"ge": 1}')
    part = "expected['selector']" if "selector" in expected else "expected"
    for name, matcher in description(expected).items():
        _check_description(evidence, f"{part}['{name}']", name, matcher)
    check_count(evidence, "expected['count']", expected["count"])


def description(expected: dict[str, Any]) -> dict[str, Any]:
    """What is said of the processes that are meant; it may stand in a `selector` of its own."""
    part = expected.get("selector", expected)
    return {name: part[name] for name in SELECTORS if name in part}


def _check_selector(evidence: Evidence, selector: Any) -> None:
    if type(selector) is not dict or not selector:
        refuse(evidence, f"expected['selector'] must be an object that describes processes, found {told(evidence, selector)}")
    unknown = [name for name in selector if name not in SELECTORS]
    if unknown:
        refuse(evidence, f"unknown key in expected['selector']: {listed(unknown)}", f"known: {listed([*SELECTORS])}")
    beside = [name for name in SELECTORS if name in evidence.expected]
    if beside:
        refuse(evidence, f"a description stands in expected['selector'] or beside it, and {listed(beside)} is beside it")


def _check_description(evidence: Evidence, where: str, name: str, matcher: Any) -> None:
    """Refuse also what nothing could ever fit: that none does would then be a claim that cannot fail."""
    check_matcher(evidence, where, matcher)
    for operator, operand in matcher.items() if type(matcher) is dict else [("equals", matcher)]:
        if name == "argv":
            fits = are_texts(operand) if operator in ("equals", "not") else operator == "contains" and type(operand) is str
            hint = 'such as {"contains": "--worker"} or {"equals": ["sleep", "60"]}'
        else:
            fits = fits_text(operator, operand)
            hint = 'such as "sleep" or {"prefix": "python"}'
        if not fits:
            refuse(evidence, f"{where} fits no process, found {told(evidence, matcher)}", hint)


def _check_identity(evidence: Evidence) -> None:
    expected = evidence.expected
    missing = [name for name in _IDENTITY if name not in expected]
    if missing:
        refuse(evidence, f"a pid alone names nobody, for it is given out again: {listed(missing)} is missing", _CAPTURE)
    others = [name for name in expected if name not in _IDENTITY]
    if others:
        refuse(evidence, f"one process is named by its pid; {listed(others)} describes others")
    for name, least in (("pid", 1), ("start_ticks", 0)):
        number = expected[name]
        if type(number) is not int or not least <= number < _LARGEST:
            refuse(evidence, f"expected['{name}'] must be an integer from {least}, found {told(evidence, number)}", _CAPTURE)
    boot = expected["boot_id"]
    if type(boot) is not str or not boot:
        refuse(evidence, f"expected['boot_id'] must be the name of a boot, found {told(evidence, boot)}", _CAPTURE)


def subject(evidence: Evidence, base_path: str) -> str:  # noqa: ARG001 - every kind's subject takes the base
    """`process:` and who is meant: pid, start and boot, or the description without its count."""
    expected = evidence.expected
    if "pid" in expected:
        return f"process:{expected['pid']}/{expected['start_ticks']}/{shown(expected['boot_id'])}"
    return f"process:{json.dumps(description(expected), sort_keys=True)}"


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    return _judge_one(evidence.expected, facts) if "pid" in evidence.expected else _judge_count(evidence.expected, facts)


def _judge_one(expected: dict[str, Any], facts: dict[str, Any]) -> Verdict:
    who = f"process {expected['pid']}"
    if facts["boot_id"] != expected["boot_id"]:
        return _over("MACHINE_RESTARTED", f"{who}: the machine was started again since, and nothing that ran then runs now")
    if not facts["there"]:
        return _over("PROCESS_GONE", f"{who}: expected it to run, and nothing has this pid")
    if not is_same_start(facts["start_ticks"], expected["start_ticks"]):
        wanted = f"expected the one that started at tick {expected['start_ticks']}"
        found = f"found {shown(repr(facts['name']), 60)} of tick {facts['start_ticks']} ({facts['started_at']})"
        return _over("PID_REUSED", f"{who}: {wanted}, {found}: the pid was reused, and the process is gone")
    if facts["ended"]:
        return _over("PROCESS_ENDED", f"{who}: expected it to run, and it ended; nobody has waited for it yet")
    return HOLDS


def _over(code: str, message: str) -> Verdict:
    # A process that ended does not come back, however long one waits.
    return Verdict(Outcome.FAILED, code, message, _START, final=True)


def _judge_count(expected: dict[str, Any], facts: dict[str, Any]) -> Verdict:
    count, found = expected["count"], facts["count"]
    answers = {matches(count, number) for number in _possible(count, facts)}
    if answers == {True}:
        return HOLDS
    what = listed([f"{name} {described(matcher)}" for name, matcher in description(expected).items()])
    said = f"processes with {what}: expected {described(count)}, found {found}"
    if answers == {False}:
        return Verdict(Outcome.FAILED, "COUNT_DIFFERS" if found else "PROCESS_MISSING", said, _START)
    unseen = "others are hidden from here" if facts["hidden"] else f"{facts['unseen']} could not be looked at"
    return Verdict(Outcome.ERROR, "PROCESS_OUT_OF_SIGHT", f"{said}, and {unseen}", _SEE, None)


def _possible(count: Any, facts: dict[str, Any]) -> set[int]:
    """How many processes may fit, as far as the answer could depend on it."""
    bounds = [count] if type(count) is int else [*count.values()]
    least = facts["count"]
    most = max(least, *bounds) + 1 if facts["hidden"] else least + facts["unseen"]
    around = (bound + step for bound in bounds for step in (-1, 0, 1))
    return {least, most, *(number for number in around if least < number < most)}


def _fill(evidence: Evidence, seen: Seen) -> Filled | None:
    facts = seen.facts
    if not facts.get("there") or facts["ended"]:
        return None
    expected = {"pid": evidence.expected["pid"], "start_ticks": facts["start_ticks"], "boot_id": facts["boot_id"]}
    # Where its pid means something, and what helps a person to recognise it.
    where = {name: facts[name] for name in ("pid_ns", "host", "name", "started_at")}
    return expected, {**evidence.metadata, **where}


_SAID: Schema = {"type": "string"}
_SOME: Schema = {"type": "array", "items": _SAID}
_ARGV: Schema = {
    "type": "object",
    "properties": {"equals": _SOME, "not": _SOME, "contains": _SAID},
    "additionalProperties": False,
    "minProperties": 1,
}
_DESCRIBED: dict[str, Schema] = {**dict.fromkeys(("name", "user", "exe"), TEXT), "argv": _ARGV}
_NOBODY: tuple[Schema, ...] = tuple({"not": {"required": [name]}} for name in _IDENTITY)
_NOT_DESCRIBED: tuple[Schema, ...] = tuple({"not": {"required": [name]}} for name in (*SELECTORS, "selector", "count"))
_NOT_BESIDE: tuple[Schema, ...] = tuple({"not": {"required": [name]}} for name in SELECTORS)

PROCESS_EXISTS = Kind(
    {
        "pid": {"type": "integer", "minimum": 1, "maximum": _LARGEST - 1},
        "start_ticks": {"type": "integer", "minimum": 0, "maximum": _LARGEST - 1},
        "boot_id": {"type": "string", "minLength": 1},
        **_DESCRIBED,
        "selector": {"type": "object", "properties": _DESCRIBED, "additionalProperties": False, "minProperties": 1},
        "count": COUNT,
    },
    frozenset(),
    Lifetime.STEP,
    _check,
    subject,
    _judge,
    metadata={"pid_ns": _SAID, "host": _SAID},
    together=(
        {
            "properties": {
                "expected": {
                    "anyOf": [
                        {"required": [*_IDENTITY], "allOf": [*_NOT_DESCRIBED]},
                        {"required": ["count", "selector"], "allOf": [*_NOBODY, *_NOT_BESIDE]},
                        {
                            "required": ["count"],
                            "anyOf": [{"required": [name]} for name in SELECTORS],
                            "allOf": [*_NOBODY, {"not": {"required": ["selector"]}}],
                        },
                    ]
                }
            }
        },
    ),
    retries=Retries.FAILURES,
    effort=Effort.WAIT,
    timeout=10.0,
    deadline=10.0,
    fill=_fill,
    content=False,
)
