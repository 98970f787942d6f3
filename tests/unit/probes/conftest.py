"""A base folder, a short way to look from it, and a watch over descriptors: every test here also proves that none leaks."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos._descriptors import release_parked
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Surroundings
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.probes import PROBES
from tests.unit.probes.databases import Look, writing


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    # What an earlier test left to the collector must not be closed in the middle of this one.
    gc.collect()
    # What is there by now is not looked through again: that took longer than most of these tests.
    gc.freeze()
    before = _open_descriptors()
    yield
    release_parked()
    gc.collect()
    assert set() == _open_descriptors() - before


def _open_descriptors() -> set[str]:
    # The listing itself takes one descriptor, which is gone when it is looked at.
    return {name for name in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{name}")}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every path that is opened from now on."""
    paths: list[object] = []
    real = os.open

    def recorded(path: Any, *arguments: Any, **options: Any) -> int:
        paths.append(path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", recorded)
    return paths


@pytest.fixture
def look(base: Path) -> Look:
    """Observe one claim: `look("file_sha256", path="x")`; surroundings may be given as `around={...}`."""

    def observe(kind: str, *, metadata: dict[str, Any] | None = None, around: Any = None, **expected: Any) -> Observation:
        claim = Evidence(kind, "what is claimed", expected, metadata or {})
        seen_from = Surroundings(**{"base_path": str(base), "timeout": 20.0, **(around or {})})
        return EvidenceVerifier(base, probes=PROBES).observe(claim, seen_from)

    return observe


@pytest.fixture
def wal(base: Path) -> Path:
    """A database in WAL mode at rest: closed cleanly, so without `-wal` and `-shm`."""
    with writing(base / "db") as writer:
        writer.execute("create table t(id, v)")
        writer.execute("insert into t values (1, 'old')")
    return base / "db"
