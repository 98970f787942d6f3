"""A run store in the memory of this process: for tests, and for runs that need not outlive it.

Nothing survives the process. The nodes of a run stand in order of their sequence numbers, because saving again moves a node to
the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from agentos import _fork
from agentos.store.runs.contract import CheckpointInfo, Data, Infos, Names
from agentos.store.runs.inputs import checked_data, checked_items, checked_node, checked_run, closed, not_found
from agentos.store.runs.times import moment, now
from agentos.store.runs.twins import AsyncTwins

T = TypeVar("T")


class _Node(NamedTuple):
    sequence: int
    saved_at: int
    data: bytes


@dataclass(slots=True)
class _Run:
    sequence: int = 0
    nodes: dict[str, _Node] = field(default_factory=dict)


class MemoryStore(AsyncTwins):
    """A dictionary behind a lock. A forked child goes on with a copy of its own."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._closed = False
        _fork.close_on_fork(self)

    def save(self, run_id: str, node_id: str, data: Data) -> None:
        run, node, copy = checked_run(run_id), checked_node(node_id), checked_data(data)
        with self._lock:
            self._put(run, node, copy)

    def save_many(self, run_id: str, items: Iterable[tuple[str, Data]]) -> None:
        run, checked = checked_run(run_id), checked_items(items)
        with self._lock:
            self._refuse_closed()
            for node, copy in checked:
                self._put(run, node, copy)

    def load(self, run_id: str, node_id: str) -> bytes:
        run, node = checked_run(run_id), checked_node(node_id)
        # Under the lock: a node that is just being saved again is out of its run for a moment.
        with self._lock:
            found = self._nodes(run).get(node)
        if found is None:
            raise not_found(run_id, node_id)
        return found.data

    def list(self, run_id: str) -> Infos:
        run = checked_run(run_id)
        with self._lock:
            nodes = [*self._nodes(run).items()]
        return [CheckpointInfo(run, node, found.sequence, moment(found.saved_at), len(found.data)) for node, found in nodes]

    def delete(self, run_id: str, node_id: str) -> None:
        run, node = checked_run(run_id), checked_node(node_id)
        with self._lock:
            self._nodes(run).pop(node, None)

    def delete_run(self, run_id: str) -> None:
        run = checked_run(run_id)
        with self._lock:
            self._refuse_closed()
            self._runs.pop(run, None)

    def list_runs(self) -> Names:
        with self._lock:
            self._refuse_closed()
            return sorted(run_id for run_id, run in self._runs.items() if run.nodes)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._runs.clear()

    # Called by agentos._fork: a child must not inherit a lock that another thread holds.

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self) -> None:
        self._lock.release()

    def _put(self, run_id: str, node_id: str, data: bytes) -> None:
        self._refuse_closed()
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = _Run()
        run.nodes.pop(node_id, None)
        run.sequence += 1
        run.nodes[node_id] = _Node(run.sequence, now(), data)

    def _nodes(self, run_id: str) -> dict[str, _Node]:
        self._refuse_closed()
        run = self._runs.get(run_id)
        return {} if run is None else run.nodes

    def _refuse_closed(self) -> None:
        if self._closed:
            raise closed()

    async def _elsewhere(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        # There is nothing to wait for, and a thread would cost twenty times the call.
        return call(*args, **kwargs)
