"""Claims about how a command ended.

Nothing is ever run. What is compared is the exit code that was recorded when the command ran; with nothing recorded the claim
passes as its contract says, but only as `declared`, and is counted apart.
"""

from __future__ import annotations

from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.kind import Effort, Kind, Lifetime, Retries, Verdict, refuse, told
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.results import Assurance, Outcome

_RERUN = "the step did not end as claimed; do not resume past it"


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
    if not facts["recorded"]:
        return Verdict(Outcome.FAILED, "RECORD_MISSING", f"{command}: nothing is recorded at {shown(source, 120)}", _RERUN)
    got = facts["exit_code"]
    if type(got) is not int:
        said = f"{command}: recorded exit code must be an integer, found {shown(repr(got), 60)}"
        return Verdict(Outcome.FAILED, "RECORD_INVALID", said, _RERUN)
    if got != want:
        return Verdict(
            Outcome.FAILED,
            "EXIT_MISMATCH",
            f"{command}: expected exit code {shown(want, 60)}, recorded {shown(got, 60)}",
            _RERUN,
        )
    return Verdict(Outcome.VERIFIED, "VERIFIED", assurance=Assurance.RECORDED)


COMMAND_EXIT = Kind(
    {"exit_code": {"type": "integer"}},
    frozenset({"exit_code"}),
    Lifetime.STEP,
    _check,
    subject,
    _judge,
    metadata={"snapshot_key": {"type": "string", "pattern": "^/"}, "actual_exit_code": {}, "command": {}},
    retries=Retries.NEVER,
    effort=Effort.GLANCE,
)
