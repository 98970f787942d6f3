"""A vault in a folder of its own, and what to keep in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.vault.vault import Vault

Keep = Callable[..., str]


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(str(tmp_path / "vault"))


@pytest.fixture
def keep(vault: Vault) -> Keep:
    """Keep bytes in a round of their own; their digest."""

    def kept(data: bytes, like: str | None = None) -> str:
        with vault.keeping() as keeping:
            digest = keeping.add(data, like=like)
            keeping.settle()
        return digest

    return kept
