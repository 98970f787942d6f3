"""The evidence types: for each, what may be claimed, what it is about, how long it stands, and when it holds.

One file per kind of subject, loaded when a claim of its kind is met: a process pays for the few it uses. Types of your own are
registered in custom.py. Looking at the world is not done here: see probes/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentos._fork import importing
from agentos.core.checkpoints.kinds.kind import Kind, Lifetime
from agentos.core.checkpoints.kinds.places import from_base
from agentos.core.checkpoints.kinds.unknown import UNKNOWN
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.subjects import OF_A_PATH

if TYPE_CHECKING:
    from agentos.core.checkpoints.observing import Probe

# Where the rules of each type are: the constant that is called as the type is.
_FILES: dict[str, tuple[EvidenceType, ...]] = {
    "files": (EvidenceType.ARTIFACT_EXISTS, EvidenceType.ARTIFACT_ABSENT, EvidenceType.FILE_SHA256),
    "contents": (EvidenceType.FILE_PREFIX_SHA256, EvidenceType.FILE_CONTAINS),
    "documents": (EvidenceType.JSON_VALUE,),
    "trees": (EvidenceType.DIRECTORY_TREE,),
    "commands": (EvidenceType.COMMAND_EXIT,),
    "processes": (EvidenceType.PROCESS_EXISTS,),
    "rows": (EvidenceType.DB_ROW, EvidenceType.DB_ROW_ABSENT, EvidenceType.DB_ROW_COUNT),
    "repositories": (EvidenceType.GIT_COMMIT, EvidenceType.GIT_CLEAN),
    "responses": (EvidenceType.API_RESPONSE,),
    "containers": (EvidenceType.CONTAINER_RUNNING,),
    "services": (EvidenceType.NETWORK_REACHABLE, EvidenceType.PORT_LISTENING),
}
_WHERE = {each: file for file, types in _FILES.items() for each in types}
_loaded: dict[str, Kind] = {}


class _Kinds(Mapping[str, Kind]):
    """Every type that comes with agentos. What is asked for is loaded."""

    def __getitem__(self, name: str) -> Kind:
        if name not in _WHERE:
            raise KeyError(name)
        return _loaded.get(name) or _load(EvidenceType(name))

    def __iter__(self) -> Iterator[str]:
        return iter(_WHERE)

    def __len__(self) -> int:
        return len(_WHERE)


KINDS = _Kinds()


def kind_of(evidence: Evidence) -> Kind:
    """The rules for this item. Those of a type that nobody here knows refuse every definition, and judge nothing."""
    name = evidence.evidence_type
    found = _loaded.get(name) if isinstance(name, str) else UNKNOWN
    if found is not None:
        return found
    if name in _WHERE:
        return _load(EvidenceType(name))
    custom = _custom().kind_named(name)
    return UNKNOWN if custom is None else custom


def probe_of(evidence: Evidence) -> Probe | None:
    """What looks at this item, if its type is one that others brought."""
    name = evidence.evidence_type
    return _custom().probe_named(name) if isinstance(name, str) and name not in _WHERE else None


def is_known(name: object) -> bool:
    """Whether there are rules for evidence of this type."""
    return isinstance(name, str) and (name in _WHERE or _custom().kind_named(name) is not None)


def as_claimed(subject: str, base_path: str) -> str:
    """The subject as a claim made under this base would spell it: a release must meet what it releases."""
    kind, _, rest = subject.partition(":")
    return f"{kind}:{from_base(rest, base_path)}" if kind in OF_A_PATH else subject


@cache
def _custom() -> Any:
    with importing:
        return import_module(f"{__name__}.custom")


def _load(name: EvidenceType) -> Kind:
    with importing:
        module = import_module(f"{__name__}.{_WHERE[name]}")
    kind: Kind = getattr(module, name.name)
    _loaded[name] = kind
    return kind


__all__ = ["KINDS", "UNKNOWN", "Kind", "Lifetime", "as_claimed", "is_known", "kind_of", "probe_of"]
