"""Is everything that was stored still there, and as it was written? Every row, every digest, every kept content.

Memory examines its rows and hands their contents; what belongs together is decided here. Looks only, and says of each thing
that is not as it must be what it is, where, what follows from it, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from agentos._text import shown
from agentos.core.checkpoints import needs

if TYPE_CHECKING:
    from agentos.core.checkpoints.hands import Hands
    from agentos.core.checkpoints.ports import Registry
    from agentos.core.checkpoints.stored import Needing, StoredRestore

# What is looked at, how many of it were, and how many there are.
Progress = Callable[[str, int, int], None]

# So many findings of one kind say enough.
MOST_TOLD = 200

_BACKUP = "restore a backup (docs/reliability.md says how), or go on without what is lost: other tasks are not affected"
_VAULT = "copy the file of this digest from a backup of the vault; without it, what needs it cannot be put back"
# What follows from a finding, and what to do.
KINDS = {
    "structure": ("pages of the database do not fit together: what lies behind them may be unreadable", _BACKUP),
    "schema": ("tables are not what the migrations make: lookups may miss what is there", _BACKUP),
    "row": ("what is stored is not what was written; it is refused whenever it is asked for", _BACKUP),
    "lost": ("something that was stored is gone", _BACKUP),
    "stray": (
        "something belongs to nothing: what it belonged to is gone, or agentos never wrote it",
        _BACKUP,
    ),
    "index": ("an index and its table disagree: a lookup may miss what is there", _BACKUP),
    "memory": ("what a task's row says of its checkpoints is not so: a lookup may name the wrong one, or none", _BACKUP),
    "claims": ("the index of claims is not what the packs say: a world would be folded from the wrong claims", _BACKUP),
    "content missing": ("kept content is not in the vault: files that need it cannot be put back", _VAULT),
    "content damaged": ("kept content is not what was kept: it is never served", _VAULT),
    "content unreadable": ("kept content could not be looked at from here", "look at the permissions and the disk, then again"),
}
UNREADABLE = "content unreadable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be."""

    kind: str
    where: str
    what: str

    @property
    def means(self) -> str:
        """What follows from it."""
        return KINDS[self.kind][0]

    @property
    def hint(self) -> str:
        """What to do."""
        return KINDS[self.kind][1]

    def to_dict(self) -> dict[str, str]:
        """All of it."""
        return {**asdict(self), "means": self.means, "hint": self.hint}


@dataclass(slots=True)
class Findings:
    """What was found so far: of each kind the first few hundred, and how many there were."""

    told: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, where: str, what: str) -> None:
        """One more."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MOST_TOLD:
            self.told.append(Finding(kind, shown(where, 160), shown(what, 300)))


@dataclass(eq=False)
class Examined:
    """What memory found, what it looked at, and for which steps and restores kept content may be needed."""

    findings: Findings
    rows: dict[str, int]
    needing: list[Needing]
    restores: list[StoredRestore]


class Content(NamedTuple):
    """Kept content that is needed: how large it is, if that is known, and who needs it."""

    size: int | None
    whose: str


@dataclass(frozen=True, slots=True)
class Checkup:
    """What a look at everything found. `rows` by table and `contents` were looked at."""

    registry: str
    deep: bool
    rows: dict[str, int]
    contents: int
    bytes: int
    findings: tuple[Finding, ...]
    # By kind; of some there are more than were told.
    counts: dict[str, int]

    @property
    def is_sound(self) -> bool:
        """Whether everything is there and as it was written, as far as this looked."""
        return not self.counts

    def in_words(self) -> str:
        """What was found, in short."""
        return ", ".join(f"{count} x {kind}" for kind, count in self.counts.items())

    @property
    def only_unreadable(self) -> bool:
        """Whether all that was found is what could not be looked at from here."""
        return set(self.counts) == {UNREADABLE}

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        plain = {name: getattr(self, name) for name in ("registry", "deep", "rows", "contents", "bytes", "counts")}
        return {"is_sound": self.is_sound, **plain, "findings": [each.to_dict() for each in self.findings]}


def silent(what: str, done: int, total: int) -> None:
    """For who does not want to know how far it is."""


def check(registry: Registry, hands: Hands, *, path: str, deep: bool, progress: Progress) -> Checkup:
    """Look at everything. Others may go on meanwhile: what they remove is not missed."""
    examined = registry.examine(deep=deep, progress=progress)
    contents, size = hands.examine(needed(examined, hands), examined.findings, deep=deep, progress=progress)
    found = examined.findings
    if "content missing" in found.counts and set(found.counts) == {"content missing"}:
        # It may have been collected while this looked: then nothing needs it any more.
        again = registry.examine(deep=False, progress=silent)
        hands.examine(needed(again, hands), again.findings, deep=False, progress=silent)
        found = again.findings
    return Checkup(path, deep, examined.rows, contents, size, tuple(found.told), found.counts)


def needed(examined: Examined, hands: Hands) -> dict[str, Content]:
    """Every content that something needs."""
    found: dict[str, Content] = {}
    for step in examined.needing:
        _add(found, needs.contents_of_step(step, hands), f"step {step.step_id} of task {step.task_id}")
    for stored in examined.restores:
        _add(found, needs.contents_of_restore(stored), f"restore {stored.restore_id}")
    return found


def _add(found: dict[str, Content], contents: Iterable[tuple[str, int | None]], whose: str) -> None:
    for digest, size in contents:
        known = found.get(digest)
        if known is None or known.size is None:
            found[digest] = Content(size, whose if known is None else known.whose)
