"""What a run store promises: bytes by (run, node), numbered within their run.

The lower-level store that engines plug into: save bytes, load bytes, list, delete. It neither knows nor checks what the bytes
mean (see agentos/store/format.py for a format). Every promise below is tested by `agentos.testing.StoreContract`, over every
backend, and a third party can run that suite over another one.

How the asynchronous calls follow from the others is in twins.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self, TypeAlias, runtime_checkable

Data: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """What is known of a stored checkpoint without loading it."""

    run_id: str
    node_id: str
    sequence: int
    timestamp: datetime
    size: int


# In the body of a class that has a method `list`, the name means that method.
Infos: TypeAlias = list[CheckpointInfo]
Names: TypeAlias = list[str]


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps one value per (run, node); safe for threads, and what it calls durable also for processes.

    Ids are non-empty text of at most 512 characters without NUL and lone surrogates; any other text is as good as `a`. An id
    that breaks this raises InvalidInputError, the same on every backend, and nothing changes. After `close` every call raises
    StoreClosedError.
    """

    def save(self, run_id: str, node_id: str, data: Data) -> None:
        """Store a copy of `data`, in place of what the node had, under the next sequence number of the run.

        A durable store has it on disk when this returns.

        Raises:
            DataTypeError: `data` is not bytes, bytearray or memoryview. It is a TypeError.
            InvalidInputError: more than 512 MiB.
        """

    def save_many(self, run_id: str, items: Iterable[tuple[str, Data]]) -> None:
        """Store several nodes as if saved one after the other. Everything is checked before the first is written.

        On SQL backends all of them are stored or none; elsewhere a crash may leave the first few.
        """

    def load(self, run_id: str, node_id: str) -> bytes:
        """What was saved last.

        Raises:
            CheckpointNotFoundError: nothing is stored there.
            StoreCorruptError: what is stored there is not what was saved.
        """

    def list(self, run_id: str) -> Infos:
        """Every node of the run in order of sequence numbers, without loading data. Empty for an unknown run."""

    def delete(self, run_id: str, node_id: str) -> None:
        """Forget one node; its sequence number is not used again. No error if it is not there."""

    def delete_run(self, run_id: str) -> None:
        """Forget all of a run; its numbers begin at 1 again. No error if it is not there."""

    def list_runs(self) -> Names:
        """The ids of the runs that have a node, in order of code points."""

    def close(self) -> None:
        """Let go of everything. Closing twice is no error."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    async def asave(self, run_id: str, node_id: str, data: Data) -> None:
        """`save`, without blocking the event loop. A copy is taken before anything is awaited.

        Cancelling an asynchronous call stops the waiting, not the work: as after an error, the outcome is unknown.
        """

    async def asave_many(self, run_id: str, items: Iterable[tuple[str, Data]]) -> None:
        """`save_many`, likewise."""

    async def aload(self, run_id: str, node_id: str) -> bytes:
        """`load`, likewise."""

    async def alist(self, run_id: str) -> Infos:
        """`list`, likewise."""

    async def adelete(self, run_id: str, node_id: str) -> None:
        """`delete`, likewise."""

    async def adelete_run(self, run_id: str) -> None:
        """`delete_run`, likewise."""

    async def alist_runs(self) -> Names:
        """`list_runs`, likewise."""

    async def aclose(self) -> None:
        """`close`, likewise."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
