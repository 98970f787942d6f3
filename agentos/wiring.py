"""The one module that knows everybody: turns paths and names into wired parts.

Imported lazily by the manager, the verifier and `Evidence.capture_*`, so that the rules know no other room.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos._process import Process, this_process
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.observing import Probe, Surroundings, Unseen
from agentos.core.checkpoints.ports import Registry
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceUnavailableError
from agentos.store.boot import open_registry
from agentos.store.durability import Durability, durability_named

if TYPE_CHECKING:
    from agentos.core.checkpoints.running import Command, CommandRun
    from agentos.core.checkpoints.task import Task
    from agentos.core.checkpoints.wanted import Wanted
    from agentos.vault.hands import VaultHands

# The vault's folder, beside the registry's file.
VAULT = "vault"

SyncFiles = Callable[[EvidencePack, Surroundings, datetime], None]


def manager_parts(
    db_path: str | Path, durability: str, lock_timeout: float, *, readonly: bool = False
) -> tuple[Registry, SyncFiles, str, Callable[[], Process]]:
    """Registry, what makes claimed files durable, the registry's path, and who asks."""
    mode = durability_named(durability)
    registry = open_registry(db_path, mode, lock_timeout, readonly=readonly)
    return registry, _sync_files if mode is Durability.FULL else _leave_files, registry.path, this_process


def default_probes() -> Mapping[str, Probe]:
    """The probes that come with agentos."""
    with importing:
        from agentos.probes import PROBES  # noqa: PLC0415 - only who looks at the world pays for the eyes

    return PROBES


def captured(wanted: Wanted, base_path: str | Path | None) -> Evidence:
    """Evidence with what is there now."""
    with importing:
        from agentos.probes.capture import capture  # noqa: PLC0415

    return capture(wanted, EvidenceVerifier(base_path))


def ran(command: Command) -> CommandRun:
    """What became of a command that was run just now."""
    with importing:
        from agentos.probes.running import run  # noqa: PLC0415

    return run(command)


def hands_of(registry: Registry, db_path: str, limit: int | None, durability: str, lock_timeout: float) -> VaultHands:
    """Hands over the vault beside a registry. Nothing is made of it before something is kept."""
    with importing:
        from agentos.probes import whole_file  # noqa: PLC0415 - only who keeps or restores pays for the hands
        from agentos.vault.hands import VaultHands  # noqa: PLC0415 - as above
        from agentos.vault.vault import Vault  # noqa: PLC0415 - as above

    root = os.path.join(os.path.dirname(db_path), VAULT)
    synced = durability_named(durability).syncs_commit
    return VaultHands(Vault(root, limit=limit, synced=synced, lock_timeout=lock_timeout), whole_file, registry)


def open_task(task_id: str, db_path: str | Path, **given: Any) -> Task:
    """A handle over a manager of its own."""
    from agentos.core.checkpoints.manager import CheckpointManager  # noqa: PLC0415 - the manager imports this module

    return CheckpointManager(db_path).task(task_id, **given)


def _sync_files(pack: EvidencePack, around: Surroundings, since: datetime) -> None:
    trouble = _settling()(pack.evidence_list, around, since)
    if trouble is not None:
        raise EvidenceUnavailableError(f"{trouble.message}; nothing was stored", hint=trouble.hint)


@cache
def _settling() -> Callable[[Iterable[Evidence], Surroundings, datetime], Unseen | None]:
    # Once a process: an import that finds its module still takes locks, and every commit would pay for it.
    with importing:
        from agentos.probes.settling import sync_recent  # noqa: PLC0415

    return sync_recent


def _leave_files(pack: EvidencePack, around: Surroundings, since: datetime) -> None:
    """Under weaker promises a claimed file is not synced."""
