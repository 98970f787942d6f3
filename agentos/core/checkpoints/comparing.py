"""Two checkpoints side by side: what changed in the state, and in the files that they vouch for. Nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints import codec, files_between
from agentos.core.checkpoints.differing import Change, differences
from agentos.core.checkpoints.parts import Parts
from agentos.core.checkpoints.ports import Registry, StoredStep
from agentos.core.checkpoints.stored import Place
from agentos.errors import CheckpointNotFoundError


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two."""

    checkpoint_id: str
    task_id: str
    sequence_number: int
    checkpoint_type: str
    created_at: str

    def to_dict(self) -> dict[str, Any]:
        """All of it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one checkpoint to the other. Without a `before` there was nothing before.

    `files` is None where nobody asked for them; `notes` says what about them is not known.
    """

    before: Side | None
    after: Side
    changes: tuple[Change, ...]
    files: tuple[files_between.FileChange, ...] | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return {
            "from": None if self.before is None else self.before.to_dict(),
            "to": self.after.to_dict(),
            "changes": [each.to_dict() for each in self.changes],
            "files": None if self.files is None else [each.to_dict() for each in self.files],
            "notes": list(self.notes),
        }


def compare(parts: Parts, before_id: str | None, after_id: str, *, files: bool) -> Comparison:
    """What changed; from the checkpoint before on the timeline if none is named."""
    after = _existing(parts.registry, after_id)
    before = _before(parts.registry, after) if before_id is None else _existing(parts.registry, before_id)
    state = {} if before is None else codec.decode(before.snapshot)
    found = tuple(differences(state, codec.decode(after.snapshot)))
    told: tuple[files_between.FileChange, ...] | None = None
    notes: list[str] = []
    if files:
        old, new = (_files(parts, each, after.base_path, notes) for each in (before, after))
        told = tuple(files_between.changes(old, new))
    return Comparison(None if before is None else _side(before), _side(after), found, told, tuple(dict.fromkeys(notes)))


def _existing(registry: Registry, checkpoint_id: str) -> StoredStep:
    stored = registry.checkpoint(checkpoint_id)
    if stored is None:
        raise CheckpointNotFoundError(
            f"checkpoint {shown(checkpoint_id, 80)}: unknown", hint="list_checkpoints(task_id) shows what there is"
        )
    return stored


def _before(registry: Registry, stored: StoredStep) -> StoredStep | None:
    """The one before it on the timeline; of one that was rolled back past, the one that its step was begun on."""
    if stored.live:
        before = next(iter(registry.candidates(stored.task_id, stored.sequence or 0, 1)), None)
    else:
        log = registry.log(stored.task_id, Place(number=stored.parent + 1), 1, 0)
        before = next((each.step for each in log.checkpoints), None) if log is not None else None
    return None if before is None else registry.checkpoint(before.checkpoint_id or "")


def _files(parts: Parts, stored: StoredStep | None, base: str, notes: list[str]) -> files_between.Files:
    if stored is None:
        return files_between.Files()
    task = parts.registry.task(stored.task_id)
    if task is None:
        raise CheckpointNotFoundError(f"task {shown(stored.task_id, 80)}: unknown")
    if parts.moved:
        base = parts.around_step(stored).base_path
    found = files_between.files_of(parts.survey(task).stands(stored), base)
    which = f"number {stored.sequence}"
    notes += [f"{which}: what the tree {shown(root, 120)} held was not kept" for root in found.unknown]
    if found.hidden:
        notes.append(f"{which}: {found.hidden} sensitive claims are not told about")
    if not stored.live:
        notes.append(
            f"{which} is not on the timeline: of what was rolled back past with it, only its own claims are known here"
        )
    return found


def _side(stored: StoredStep) -> Side:
    return Side(
        stored.checkpoint_id or "", stored.task_id, stored.sequence or 0, stored.checkpoint_type, stored.committed_at or ""
    )
