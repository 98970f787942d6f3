"""Claims about how a command ended.

Nothing is ever run. What is compared is what was recorded when the command ran; with nothing recorded the claim passes as its
contract says, but only as `declared`, and is counted apart. Running a command is asked for by `Evidence.capture_command` and
`step.run`, which write the record: see running.py.
"""

from __future__ import annotations

import signal
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.command_record import problem_of
from agentos.core.checkpoints.kinds.kind import Effort, Kind, Lifetime, Retries, Verdict, refuse, told
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.results import Assurance, Outcome

# Where a record that was written by whoever ran the command is found.
RECORDED = "metadata['record']"
_RERUN = "the step did not end as claimed; do not resume past it"
_MOST_LINES = 8
_SECOND = 1000.0
_HOLDS = Verdict(Outcome.VERIFIED, "VERIFIED", assurance=Assurance.RECORDED)


def _check(evidence: Evidence) -> None:
    code = evidence.expected["exit_code"]
    if type(code) is not int:
        refuse(evidence, f"exit_code must be an integer, found {told(evidence, code)}")
    key = evidence.metadata.get("snapshot_key")
    if "snapshot_key" in evidence.metadata and (type(key) is not str or not key.startswith("/")):
        refuse(
            evidence,
            f"metadata['snapshot_key'] must be a JSON pointer, found {told(evidence, key)}",
            "such as /runs/0/exit_code",
        )


def subject(evidence: Evidence, base_path: str) -> str:  # noqa: ARG001 - every kind's subject takes the base
    """`command:` and the command line, or the description when none was given."""
    return f"command:{evidence.metadata.get('command') or evidence.description}"


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    command = shown(str(evidence.metadata.get("command") or evidence.description), 120)
    want, source = evidence.expected["exit_code"], facts["source"]
    if source is None:
        return Verdict(Outcome.VERIFIED, "DECLARED", assurance=Assurance.DECLARED)
    if source == RECORDED:
        return _judge_record(command, want, evidence.metadata)
    if not facts["recorded"]:
        return _failed("RECORD_MISSING", f"{command}: nothing is recorded at {shown(source, 120)}")
    got = facts["exit_code"]
    if type(got) is not int:
        return _failed("RECORD_INVALID", f"{command}: recorded exit code must be an integer, found {shown(repr(got), 60)}")
    if got != want:
        return _failed("EXIT_MISMATCH", f"{command}: expected exit code {shown(want, 60)}, recorded {shown(got, 60)}")
    return _HOLDS


def _judge_record(command: str, want: int, metadata: dict[str, Any]) -> Verdict:
    record = metadata["record"]
    problem = problem_of(record)
    if problem:
        return _failed("RECORD_INVALID", f"{command}: the record {problem}")
    ran = command_line(record["argv"])
    if metadata.get("command", ran) not in (ran, record["argv"]):
        return _failed("COMMAND_MISMATCH", f"{command}: the record is of another command, {shown(ran, 120)}")
    code, how = _end_of(record)
    if code == want:
        lost = [each for each in record["products"] if "problem" in each]
        if not lost:
            return _HOLDS
        left = f"{command}: was to leave {shown(lost[0]['path'], 120)}, and ended without: {shown(lost[0]['problem'], 200)}"
        return _failed("PRODUCT_MISSING", left, record)
    took = f"after {record['duration_ms'] / _SECOND:.1f} s, {shown(record['started_at'], 40)}"
    name = "COMMAND_TIMED_OUT" if record["timed_out"] else "COMMAND_KILLED" if code is None else "EXIT_MISMATCH"
    return _failed(name, f"{command}: expected exit code {shown(want, 60)}, {how} ({took}){_last_line(record)}", record)


def _end_of(record: dict[str, Any]) -> tuple[int | None, str]:
    """The exit code if it has one, and how it ended in words."""
    if record["timed_out"]:
        return None, "recorded that it did not end in time and was killed"
    if record["signal"] is not None:
        return None, f"recorded that it was killed by {_name_of(record['signal'])}"
    return record["exit_code"], f"recorded {record['exit_code']}"


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(record: dict[str, Any]) -> str:
    for name in ("stderr", "stdout"):
        lines = _lines_of(record[name])
        if lines:
            return f"; its {name} ends: {shown(lines[-1], 200)}"
    return ""


def _lines_of(stream: dict[str, Any] | None) -> list[str]:
    tail = "" if stream is None else stream["tail"]
    # What is written over itself on a terminal, such as progress, is as many lines.
    return [line.rstrip() for line in tail.replace("\r", "\n").split("\n") if line.strip()]


def _failed(code: str, message: str, record: dict[str, Any] | None = None) -> Verdict:
    notes = () if record is None else tuple(_notes(record))
    return Verdict(Outcome.FAILED, code, message, _RERUN, Assurance.RECORDED, notes=notes)


def _notes(record: dict[str, Any]) -> list[str]:
    """The last lines it said."""
    lines = ((name, line) for name in ("stdout", "stderr") for line in _lines_of(record[name])[-_MOST_LINES:])
    return [f"{name}: {shown(line, 200)}" for name, line in lines]


def command_line(argv: list[str]) -> str:
    """The command as a shell would be told it; nobody tells it to one."""
    from shlex import join  # noqa: PLC0415 - only what was recorded is spelled out

    return join(argv)


COMMAND_EXIT = Kind(
    {"exit_code": {"type": "integer"}},
    frozenset({"exit_code"}),
    Lifetime.STEP,
    _check,
    subject,
    _judge,
    metadata={
        # What is no record is judged, not refused: the command ran, and what became of it is to be told.
        "record": {"description": "as capturing writes it; RECORD in command_record.py is its schema"},
        "snapshot_key": {"type": "string", "pattern": "^/"},
        "actual_exit_code": {},
        "command": {},
    },
    retries=Retries.NEVER,
    effort=Effort.GLANCE,
)
