"""agentos: a recovery manager that lets an agent resume a long task only from what can be proven."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agentos.core.checkpoints import (
        Checkpoint,
        CheckpointError,
        CheckpointManager,
        Evidence,
        EvidencePack,
        EvidenceType,
        EvidenceVerifier,
        Task,
        VerificationStatus,
        evidence_schema,
    )

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointManager",
    "Evidence",
    "EvidencePack",
    "EvidenceType",
    "EvidenceVerifier",
    "VerificationStatus",
    "evidence_schema",
    "task",
]


def task(
    task_id: str,
    *,
    workspace: str | Path | None = None,
    exclude: Sequence[str] = (),
    shared: bool = False,
    db_path: str | Path = "store/registry.sqlite",
    ttl: float | None = None,
) -> Task:
    """A handle to a task in the default registry, `store/registry.sqlite` below the current directory.

    Args:
        workspace: the folder that it works in: its relative paths resolve there, and each checkpoint proves and keeps all of it
            (default: the current directory, of which only what is claimed is proven).
        exclude: what is left out of the workspace, in lines as a `.gitignore` holds them.
        shared: other tasks may work in the same folder.
        ttl: seconds after which another may take the task over from a holder that does not stir. Longer than your longest step;
            needed where a holder cannot be seen, as in containers.
    """
    from agentos.wiring import open_task  # noqa: PLC0415 - opening a registry loads the rooms that importing a name does not

    return open_task(task_id, db_path, workspace=workspace, exclude=exclude, shared=shared, ttl=ttl)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - reads the installed package's metadata from disk

        return version("agentos-recovery")
    if name not in __all__:
        raise AttributeError(f"module 'agentos' has no attribute {name!r}")
    # Every module of agentos imports this one first, also those that need none of these names: `agentos --help` is one.
    import importlib  # noqa: PLC0415 - as above

    from agentos._fork import importing  # noqa: PLC0415

    with importing:
        return getattr(importlib.import_module("agentos.core.checkpoints"), name)
