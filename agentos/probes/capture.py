"""Measure a file now and claim what was measured.

It looks through the same eye that will verify the claim later, so the two cannot disagree about what a file is. Unlike a
probe it raises: evidence of something that could not be seen would be a guess.
"""

from __future__ import annotations

import os
from pathlib import Path

from agentos._text import shown
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.observing import Surroundings, Unseen
from agentos.core.checkpoints.verifier import DEFAULT_TIMEOUT, absolute
from agentos.errors import EvidenceUnavailableError, InvalidInputError
from agentos.probes.file_sha256 import FileSha256


def capture_file(path: str | Path, base_path: str | Path | None = None, description: str = "") -> Evidence:
    """Evidence that this file has the content it has now: its SHA-256 and size. The path is kept as it was given.

    Raises:
        EvidenceUnavailableError: the file is not there, is no regular file, or could not be read; says why.
    """
    name = _text(path)
    claim = Evidence(EvidenceType.FILE_SHA256, description or f"content of {shown(name, 120)}", {"path": name})
    seen = FileSha256().observe(claim, Surroundings(absolute(base_path), timeout=DEFAULT_TIMEOUT))
    if isinstance(seen, Unseen):
        raise EvidenceUnavailableError(seen.message, hint=seen.hint, code=seen.code, path=name)
    if seen.facts["type"] != "file":
        found = f"a {seen.facts['type']}" if seen.facts["exists"] else "nothing"
        raise EvidenceUnavailableError(
            f"{shown(name)}: expected a file, found {found}",
            hint="capture a file after it is written; other things can be claimed with artifact_exists",
            code="WRONG_TYPE" if seen.facts["exists"] else "ARTIFACT_MISSING",
            path=name,
        )
    claim.expected.update(sha256=seen.facts["sha256"], size=seen.facts["size"])
    return claim


def _text(path: str | Path) -> str:
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise InvalidInputError(f"capture_file: takes a path, found {shown(path, 80)}")
    return name
