"""The asynchronous calls of a run store, each made of the synchronous one.

The work is done in a thread, so that a slow disk or a lock that another process holds does not stop the event loop. What is
given is checked and copied before that: whoever changes a bytearray while the call is under way changes nothing that is
stored. Inherit `AsyncTwins` to give a store of your own these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from agentos._fork import importing
from agentos.store.runs.contract import Data, Infos, Names
from agentos.store.runs.inputs import checked_data, checked_items

P = ParamSpec("P")
T = TypeVar("T")


class AsyncTwins:
    """`asave` for `save`, and so on; also the two kinds of `with`."""

    save: Callable[[str, str, Data], None]
    save_many: Callable[[str, Iterable[tuple[str, Data]]], None]
    load: Callable[[str, str], bytes]
    list: Callable[[str], Infos]
    delete: Callable[[str, str], None]
    delete_run: Callable[[str], None]
    list_runs: Callable[[], Names]
    close: Callable[[], None]

    async def asave(self, run_id: str, node_id: str, data: Data) -> None:
        await self._elsewhere(self.save, run_id, node_id, checked_data(data))

    async def asave_many(self, run_id: str, items: Iterable[tuple[str, Data]]) -> None:
        await self._elsewhere(self.save_many, run_id, checked_items(items))

    async def aload(self, run_id: str, node_id: str) -> bytes:
        return await self._elsewhere(self.load, run_id, node_id)

    async def alist(self, run_id: str) -> Infos:
        return await self._elsewhere(self.list, run_id)

    async def adelete(self, run_id: str, node_id: str) -> None:
        await self._elsewhere(self.delete, run_id, node_id)

    async def adelete_run(self, run_id: str) -> None:
        await self._elsewhere(self.delete_run, run_id)

    async def alist_runs(self) -> Names:
        return await self._elsewhere(self.list_runs)

    async def aclose(self) -> None:
        await self._elsewhere(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.aclose()

    async def _elsewhere(self, call: Callable[P, T], *args: Any, **kwargs: Any) -> T:
        with importing:
            import asyncio  # noqa: PLC0415 - a process that never awaits does not pay for it

        return await asyncio.to_thread(call, *args, **kwargs)
