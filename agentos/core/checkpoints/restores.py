"""What a restore would do and what it did: plain values, for people, for programs and for the journal.

A plan changes nothing. Planning and doing is hands' work, see vault/.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from agentos._text import listed, shown


class Kind(StrEnum):
    """What is at a path. Everything that is neither nothing, a file, a folder nor a link is special, and is left alone."""

    NOTHING = "nothing"
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    SPECIAL = "special"


class Action(StrEnum):
    """What is done at a path."""

    CREATE = "create"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    SET_EXECUTABLE = "set_executable"


@dataclass(frozen=True, slots=True)
class Thing:
    """What is, or is to be, at a path. `mode` is known of what was seen; of what is to be only `executable`, if that."""

    kind: Kind
    sha256: str = ""
    size: int = 0
    executable: bool | None = None
    target: str = ""
    mode: int | None = None

    def fits(self, wanted: Thing) -> bool:
        """Whether what is there is what is wanted."""
        if self.kind is not wanted.kind:
            return False
        if wanted.kind is Kind.LINK:
            return self.target == wanted.target
        if wanted.kind is not Kind.FILE:
            return True
        return self.sha256 == wanted.sha256 and wanted.executable in (None, self.executable)

    def describe(self) -> str:
        """In a few words."""
        if self.kind is Kind.FILE:
            return f"a file of {self.size:,} bytes"
        return {Kind.NOTHING: "nothing", Kind.LINK: f"a link to {shown(self.target, 80)}"}.get(
            self.kind, f"a {self.kind.value}"
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Thing:
        """The inverse of `asdict`."""
        return cls(**{**data, "kind": Kind(data["kind"])})


NOTHING = Thing(Kind.NOTHING)


@dataclass(frozen=True, slots=True)
class Operation:
    """One path, what is there, and what is to be there."""

    path: str
    action: Action
    before: Thing
    after: Thing

    @property
    def overwrites(self) -> bool:
        """Whether something is gone from its place afterwards."""
        return self.action in (Action.OVERWRITE, Action.DELETE)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Operation:
        """The inverse of `asdict`."""
        return cls(data["path"], Action(data["action"]), Thing.from_dict(data["before"]), Thing.from_dict(data["after"]))


@dataclass(frozen=True, slots=True)
class Cannot:
    """Something that cannot be put back, and why."""

    subject: str
    why: str


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What would make a checkpoint's files true again, seen from what is there now. Made by `plan_restore`; changes nothing."""

    task_id: str
    checkpoint_id: str
    base_path: str
    operations: tuple[Operation, ...]
    cannot: tuple[Cannot, ...]
    # Paths that are as they are to be.
    left_alone: int
    # Set for a plan that takes another restore back.
    undoes: str | None = None

    def paths(self, action: Action | str) -> list[str]:
        """The paths at which this is done."""
        return [each.path for each in self.operations if each.action == action]

    @property
    def bytes(self) -> int:
        """Bytes of content that are written."""
        return sum(each.after.size for each in self.operations if each.action in (Action.CREATE, Action.OVERWRITE))

    @property
    def is_complete(self) -> bool:
        """Whether nothing would be left as it should not be."""
        return not self.cannot

    def only(self, *paths: str) -> RestorePlan:
        """The part of the plan at or beneath these paths, with the folders that it needs on the way there."""
        chosen = tuple(each for each in self.operations if is_at(each.path, paths) or _leads(each, paths))
        return RestorePlan(self.task_id, self.checkpoint_id, self.base_path, chosen, self.cannot, self.left_alone, self.undoes)

    def needing(self, spare: Collection[str]) -> RestorePlan:
        """The plan without complaints about these paths: what is claimed of them holds as they are, or need not."""
        cannot = tuple(each for each in self.cannot if each.subject not in spare)
        return replace(self, cannot=cannot)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return {**asdict(self), "bytes": self.bytes, "is_complete": self.is_complete}

    def explain(self) -> str:
        """In plain sentences, with the paths."""
        return "\n".join(_lines(self))


@dataclass(frozen=True, slots=True)
class Restored:
    """A restore that was done. `undo_restore(restore_id)` puts back what it overwrote and deleted."""

    restore_id: str
    plan: RestorePlan
    # Whether what was to be made true was measured to be true afterwards.
    verified: bool

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return {"restore_id": self.restore_id, "plan": self.plan.to_dict(), "verified": self.verified}


@dataclass(frozen=True, slots=True)
class Copied:
    """What was written into a folder of its own: how many files and links, their bytes, and what could not be had."""

    folder: str
    files: int
    bytes: int
    cannot: tuple[Cannot, ...]

    @property
    def is_complete(self) -> bool:
        """Whether everything is there."""
        return not self.cannot

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return {**asdict(self), "is_complete": self.is_complete}


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed, or would be: contents and drafts, and their bytes. `missing` was needed and is not there."""

    contents: int
    drafts: int
    bytes: int
    kept: int
    kept_bytes: int
    missing: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class VaultReport:
    """What kept content takes on the disk, in bytes; what several need counts for the first of them.

    `tasks` is for checkpoints and open steps, `safety` for what restores overwrote, `unneeded` is what `collect()` would free.
    """

    place: str
    bytes: int
    contents: int
    limit: int | None
    tasks: dict[str, int]
    safety: int
    unneeded: int


def operations_from(stored: bytes) -> list[Operation]:
    """The operations of a restore as the journal keeps them."""
    return [Operation.from_dict(each) for each in json.loads(stored)]


def is_at(path: str, roots: Iterable[str]) -> bool:
    """Whether the path is one of these, or beneath one."""
    plain = [root.rstrip("/").removeprefix("./") for root in roots]
    return any(root in ("", ".") or path == root or path.startswith(f"{root}/") for root in plain)


def _leads(each: Operation, paths: Iterable[str]) -> bool:
    return each.after.kind is Kind.DIRECTORY and any(path.removeprefix("./").startswith(f"{each.path}/") for path in paths)


_MOST_SHOWN = 20
_VERBS = {
    Action.CREATE: "create",
    Action.OVERWRITE: "overwrite",
    Action.DELETE: "delete",
    Action.SET_EXECUTABLE: "set the executable bit of",
}


def _lines(plan: RestorePlan) -> Iterator[str]:
    counts = Counter(each.action for each in plan.operations)
    done = ", ".join(f"{_VERBS[action]} {counts[action]}" for action in Action if counts[action]) or "nothing to do"
    to = f"checkpoint {shown(plan.checkpoint_id, 80)}" if plan.checkpoint_id else "what was there before the first checkpoint"
    what = f"undo restore {plan.undoes}" if plan.undoes else f"restore to {to}"
    yield f"{what} in {shown(plan.base_path)}: {done}; {plan.bytes:,} bytes; {plan.left_alone:,} left alone"
    for each in plan.operations[:_MOST_SHOWN]:
        yield f"  {_VERBS[each.action]} {shown(each.path)}: {each.before.describe()} -> {each.after.describe()}"
    if len(plan.operations) > _MOST_SHOWN:
        rest = [each.path for each in plan.operations[_MOST_SHOWN:]]
        yield f"  and {listed(rest)}"
    for cannot in plan.cannot:
        yield f"  cannot: {shown(cannot.subject)}: {cannot.why}"
