"""A vault in a folder of its own, what to keep in it, and a registry to write a journal in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentos.store.durability import Durability
from agentos.store.registry.sqlite.registry import SQLiteRegistry
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


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SQLiteRegistry]:
    registry = SQLiteRegistry(str(tmp_path / "registry.sqlite"), Durability.FULL, 30.0)
    yield registry
    registry.close()
