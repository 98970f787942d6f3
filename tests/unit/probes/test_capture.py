"""capture_file: what is claimed is what was measured, and what could not be measured is not claimed."""

from __future__ import annotations

import hashlib
import os

import pytest

from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceUnavailableError, InvalidInputError
from agentos.probes import PROBES


def test_the_claim_holds_the_moment_it_is_made(base):
    """Path as given, SHA-256 in lower case, size; and it verifies."""
    (base / "d").mkdir()
    (base / "d" / "x").write_bytes(b"content")
    claim = Evidence.capture_file("d/x", base_path=str(base), description="the result")
    assert claim == Evidence(
        EvidenceType.FILE_SHA256,
        "the result",
        {"path": "d/x", "sha256": hashlib.sha256(b"content").hexdigest(), "size": 7},
    )
    assert EvidenceVerifier(base, probes=PROBES).verify_evidence(claim)


def test_a_path_object_and_an_absolute_path_will_do(base, monkeypatch):
    """Without a base the current directory is it, as everywhere."""
    (base / "x").write_bytes(b"")
    assert Evidence.capture_file(base / "x").expected["path"] == str(base / "x")
    monkeypatch.chdir(base)
    claim = Evidence.capture_file("x")
    assert (claim.expected["path"], claim.description) == ("x", "content of x")


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("gone", "ARTIFACT_MISSING", "gone: expected a file, found nothing"),
        ("d", "WRONG_TYPE", "d: expected a file, found a directory"),
        ("fifo", "WRONG_TYPE", "fifo: expected a file, found a fifo"),
        ("../x", "PATH_ESCAPES", "../x: leads out of "),
        ("loop", "UNREADABLE", "loop: cannot be looked at: "),
        ("\x1b[31m", "ARTIFACT_MISSING", "\\x1b[31m: expected a file, found nothing"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(base, path, code, says):
    """Evidence of something that was not seen would be a guess."""
    (base / "d").mkdir()
    os.mkfifo(base / "fifo")
    (base / "loop").symlink_to("loop")
    with pytest.raises(EvidenceUnavailableError) as refused:
        Evidence.capture_file(path, base_path=base)
    assert refused.value.message.startswith(says)
    assert refused.value.diagnostics()["code"] == code


@pytest.mark.parametrize("path", [None, 7, b"x"])
def test_what_is_no_path_is_refused(path):
    """The argument is named, not the machinery that stumbled over it."""
    with pytest.raises(InvalidInputError, match="a path is needed, found"):
        Evidence.capture_file(path)
