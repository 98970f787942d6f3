"""What holds of every type of evidence: it can fail, it can be impossible to check, and no name in it reaches a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints.kinds import KINDS, kind_of
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.reports import VerificationReport
from agentos.core.checkpoints.results import EvidenceResult, Outcome
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceDefinitionError
from tests.unit.probes.everything import World, world

# Clears a screen, rings, begins a line, turns the rest around, and looks like a formatted answer.
HOSTILE = "a\x1b[2J\x07\n\u202eb\x00\x9b31m\u2028c\r%s{0}"
WITHOUT_NUL = HOSTILE.replace("\x00", "")


@pytest.fixture
def everything(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 's'}")
    with world(base, tmp_path / "s") as made:
        yield made


def look(claim: Evidence, base: Path | str, timeout: float = 20.0) -> EvidenceResult:
    """What one look at it is worth, its definition checked before."""
    verifier = EvidenceVerifier(base, timeout=timeout)
    try:
        kind_of(claim).refuse_malformed(claim)
    except EvidenceDefinitionError as error:
        return EvidenceResult(Outcome.ERROR, "INVALID_DEFINITION", error.message, error.hint)
    return kind_of(claim).result(claim, verifier.observe(claim, verifier.around, once=True))


def changed(claim: Evidence, **metadata: Any) -> Evidence:
    return Evidence(claim.evidence_type, claim.description, claim.expected, {**claim.metadata, **metadata})


def test_what_differs_fails_and_says_what_was_expected_and_found(everything):
    """Each has its code, its reason and what to do; and it is never an error."""
    for kind, (_, differs) in everything.claims.items():
        result = look(differs, everything.base)
        assert (kind, Outcome.FAILED) == (kind, result.outcome), result
        assert result.code != "VERIFIED"
        assert result.message, kind
        assert result.hint, kind


# Away from everything: no base, no engine, no snapshot, an address that was not meant, another machine, and no time at all.
CANNOT = {
    **dict.fromkeys(("network_reachable", "api_response"), "ADDRESS_REFUSED"),
    "container_running": "ENGINE_MISSING",
    "command_exit": "NO_SNAPSHOT",
    "process_exists": "OTHER_HOST",
    "process_exists counted": "TIMED_OUT",
    "port_listening": "TIMED_OUT",
}


def test_what_cannot_be_looked_at_is_an_error_and_never_a_difference(everything, tmp_path, monkeypatch):
    """Whatever it would have said: nothing is known, so nothing follows."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody'}")
    for kind, claims in everything.claims.items():
        timeout = 1e-9 if CANNOT.get(kind) == "TIMED_OUT" else 5.0
        for claim in claims:
            hidden = changed(claim, allow_private=False)
            if kind == "command_exit":
                hidden = Evidence("command_exit", "d", claim.expected, {"snapshot_key": "/exit_code"})
            if kind == "process_exists":
                hidden = Evidence("process_exists", "d", {**claim.expected, "boot_id": "another"}, {"host": "elsewhere"})
            result = look(hidden, tmp_path / "gone", timeout)
            assert (kind, Outcome.ERROR, CANNOT.get(kind, "BASE_MISSING")) == (kind, result.outcome, result.code), result
            assert result.assurance is None


def hostile(value: Any, name: str) -> Iterator[Any]:
    """The value with each text in it, and each name of a key that is not ours, made hostile."""
    if isinstance(value, str):
        yield name
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: spoiled} for spoiled in hostile(inner, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], spoiled, *value[at + 1 :]] for spoiled in hostile(inner, name))


def keys_renamed(expected: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The columns, headers and keys that a claim names."""
    yield {**expected, name: 1}
    for key, inner in expected.items():
        if isinstance(inner, dict):
            yield {**expected, key: {name: 1}}


@pytest.mark.parametrize("name", [HOSTILE, WITHOUT_NUL, WITHOUT_NUL + "/" + WITHOUT_NUL], ids=["nul", "control", "path"])
def test_no_name_in_a_claim_drives_a_terminal(everything, name):
    """It is refused, it fails or it cannot be checked; whatever is said of it is one line of plain letters."""
    tried = 0
    for kind, (holds, _) in everything.claims.items():
        for expected in [*hostile(holds.expected, name), *keys_renamed(holds.expected, name)]:
            claim = Evidence(holds.evidence_type, name, expected, {**holds.metadata, "timeout": 5})
            result = look(claim, everything.base)
            # Nothing is nowhere, whatever it is called.
            nothing = kind.startswith(("artifact_absent", "db_row_absent"))
            assert result.outcome is not Outcome.VERIFIED or nothing, (kind, expected)
            for said in (result.message, result.hint, *result.notes):
                assert said.isprintable(), (kind, said)
            tried += 1
    assert tried > len(KINDS)


def test_no_name_in_a_claim_drives_a_report(everything):
    """Claims of all types under hostile names: no form of the report holds a control character but its line ends."""
    claims = [
        Evidence(differs.evidence_type, WITHOUT_NUL, differs.expected, {**differs.metadata, "deadline": 0.01})
        for _, differs in everything.claims.values()
    ]
    EvidenceVerifier(everything.base).verify_evidence_pack(EvidencePack(claims))
    report = VerificationReport.of_pack(EvidencePack(claims))
    for text in (report.table(), report.markdown(), report.junit(), report.json()):
        assert {letter for letter in text if not letter.isprintable()} <= {"\n"}


def test_nothing_of_a_sensitive_claim_is_told(everything):
    """Of no type, whether it holds, differs or cannot be checked; a password is in no message, report or repr of a result."""
    secret = "hunter2hunter2"
    for kind, (holds, _) in everything.claims.items():
        for expected in [*hostile(holds.expected, secret), *keys_renamed(holds.expected, secret)]:
            if secret in expected:
                continue  # an unknown key is named, for it is no value
            claim = Evidence(holds.evidence_type, "d", expected, {**holds.metadata, "sensitive": True, "timeout": 5})
            result = look(claim, everything.base)
            claim.record(result, datetime.now(UTC))
            report = VerificationReport.of_pack(EvidencePack([claim]))
            said = [repr(result), report.table(), report.markdown(), report.junit(), report.json()]
            assert not [text for text in said if secret in text], (kind, expected, result)
