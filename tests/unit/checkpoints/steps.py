"""What the tests of recovery share: a step that writes a file and proves it, claims of every lifetime, and the crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentos.core.checkpoints import Checkpoint, CheckpointManager, Evidence, EvidencePack, EvidenceType
from tests.support import content


def wrote(manager: CheckpointManager, name: str, text: str, state: Any = None, *, task: str = "t", **begin: Any) -> Checkpoint:
    """A step that writes a file and proves its content; its state is `{name: text}` unless another is given."""
    step = manager.begin_step(task, "tool_executed", {name: text} if state is None else state, **begin)
    (manager.base_path / name).write_text(text)
    return manager.commit_step(step, content(name, text))


def committed(
    manager: CheckpointManager, pack: EvidencePack, state: Any = None, *, task: str = "t", **begin: Any
) -> Checkpoint:
    """A step that proves this."""
    return manager.commit_step(manager.begin_step(task, "tool_executed", state or {}, **begin), pack)


def crashed(manager: CheckpointManager, state: Any = None, *, task: str = "t", **begin: Any) -> str:
    """A step that begins and never ends."""
    return manager.begin_step(task, "tool_executed", {"crashed": True} if state is None else state, **begin)


def lasting(pack: EvidencePack, lifetime: str) -> EvidencePack:
    """The same pack, its items with this lifetime."""
    for item in pack.evidence_list:
        item.metadata["lifetime"] = lifetime
    return pack


def absent(name: str) -> EvidencePack:
    """A pack that claims that nothing is there."""
    return EvidencePack([Evidence(EvidenceType.ARTIFACT_ABSENT, f"nothing at {name}", {"path": name})])


def hide(path: Path) -> Path:
    """Make it impossible to tell what is there, also for root: a link that leads to itself in the place of its folder."""
    hidden = path.with_name(f"{path.name}.hidden")
    path.rename(hidden)
    path.symlink_to(path.name)
    return hidden


def show(path: Path) -> None:
    """Undo `hide`."""
    path.unlink()
    path.with_name(f"{path.name}.hidden").rename(path)
