"""The eyes: one probe per evidence type.

A probe observes and never judges, changes nothing, runs nothing, never waits without a limit, and never raises for what the
world does: it gives Seen with facts, or Unseen with the reason. What the facts mean is decided in `core/checkpoints/kinds/`.
Each is loaded when it is first asked for: a process pays for the few it uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from agentos._fork import importing
from agentos.core.checkpoints.models import EvidenceType

if TYPE_CHECKING:
    from agentos.core.checkpoints.observing import Probe

# The class of each probe; its file is called as the type is.
_CLASSES: dict[str, str] = {
    EvidenceType.ARTIFACT_EXISTS: "ArtifactExists",
    EvidenceType.ARTIFACT_ABSENT: "ArtifactAbsent",
    EvidenceType.FILE_SHA256: "FileSha256",
    EvidenceType.FILE_PREFIX_SHA256: "FilePrefixSha256",
    EvidenceType.FILE_CONTAINS: "FileContains",
    EvidenceType.JSON_VALUE: "JsonValue",
    EvidenceType.DIRECTORY_TREE: "DirectoryTree",
    EvidenceType.COMMAND_EXIT: "CommandExit",
    EvidenceType.PROCESS_EXISTS: "ProcessExists",
    EvidenceType.DB_ROW: "DbRow",
    EvidenceType.DB_ROW_ABSENT: "DbRowAbsent",
    EvidenceType.DB_ROW_COUNT: "DbRowCount",
    EvidenceType.GIT_COMMIT: "GitCommit",
    EvidenceType.GIT_CLEAN: "GitClean",
    EvidenceType.NETWORK_REACHABLE: "NetworkReachable",
    EvidenceType.PORT_LISTENING: "PortListening",
    EvidenceType.API_RESPONSE: "ApiResponse",
    EvidenceType.CONTAINER_RUNNING: "ContainerRunning",
}


class _Probes(Mapping[str, "Probe"]):
    """Every probe that comes with agentos."""

    def __init__(self) -> None:
        self._loaded: dict[str, Probe] = {}

    def __getitem__(self, name: str) -> Probe:
        found = self._loaded.get(name)
        if found is None:
            maker = _CLASSES[name]
            with importing:
                module = import_module(f"{__name__}.{name}")
            found = self._loaded[name] = getattr(module, maker)()
        return found

    def get(self, name: str, default: Probe | None = None) -> Probe | None:  # type: ignore[override]
        return self[name] if name in _CLASSES else default

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


PROBES: Mapping[str, Probe] = _Probes()

__all__ = ["PROBES"]
