"""Workflow stores in memory, and on top of any run store.

Both keep the checkpoint's JSON, so what a caller does to its objects afterwards changes nothing, and what comes out was decoded
and checked. The one in files is in files.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from agentos import errors
from agentos._text import shown
from agentos.core.checkpoints.identifiers import check_id
from agentos.errors import InvalidInputError
from agentos.flow.data import CheckpointData, decoded, encoded, latest
from agentos.flow.errors import CheckpointIOError, CorruptCheckpointError
from agentos.store.runs.contract import CheckpointStore as RunStore

_MAX_BYTES = 255 - len(".json")


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps the checkpoints of workflow runs. Safe for tasks and threads; all but the one in memory also for processes.

    Ids can name a file: no slash, no dot at the beginning, at most 250 bytes of UTF-8, no NUL. Any other is a ValueError, on
    every store, and nothing changes.
    """

    async def save(self, workflow_id: str, data: CheckpointData) -> None:
        """Keep the checkpoint, in place of one with the same id, durably and in one move.

        Raises:
            OSError: the store cannot be written.
        """

    async def load(self, workflow_id: str, checkpoint_id: str) -> CheckpointData | None:
        """The checkpoint, or None if there is none.

        Raises:
            OSError: the store cannot be read.
            ValueError: what is stored is not a checkpoint of that id.
        """

    async def load_latest(self, workflow_id: str) -> CheckpointData | None:
        """The checkpoint with the newest `saved_at`, or None. Raises as `load` does, if any of them is damaged."""

    async def clear(self, workflow_id: str) -> None:
        """Forget every checkpoint of the run. No error if there is none."""

    async def list_checkpoints(self, workflow_id: str) -> list[str]:
        """The ids of the run's checkpoints, sorted."""


def checked_name(name: str, value: Any) -> str:
    """An id that can be the name of a file below a folder, and of nothing else."""
    text = check_id(name, value)
    if "/" in text or text.startswith(".") or len(text.encode()) > _MAX_BYTES:
        raise InvalidInputError(
            f"{name} {shown(text, 80)} cannot name a file: expected no slash, no leading dot, at most {_MAX_BYTES} bytes",
            hint="choose another id, or store a digest of it",
        )
    return text


def checked_checkpoint(data: CheckpointData) -> tuple[str, bytes]:
    """A checkpoint's id and its JSON."""
    content = encoded(data)
    return checked_name("checkpoint_id", data.checkpoint_id), content


class MemoryCheckpointStore:
    """In this process's memory: for tests. Nothing survives it."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, bytes]] = {}

    async def save(self, workflow_id: str, data: CheckpointData) -> None:
        workflow = checked_name("workflow_id", workflow_id)
        name, content = checked_checkpoint(data)
        self._runs.setdefault(workflow, {})[name] = content

    async def load(self, workflow_id: str, checkpoint_id: str) -> CheckpointData | None:
        name = checked_name("checkpoint_id", checkpoint_id)
        content = self._run(workflow_id).get(name)
        return None if content is None else decoded(content, name, name)

    async def load_latest(self, workflow_id: str) -> CheckpointData | None:
        return latest([decoded(content, name, name) for name, content in self._run(workflow_id).items()])

    async def clear(self, workflow_id: str) -> None:
        self._runs.pop(checked_name("workflow_id", workflow_id), None)

    async def list_checkpoints(self, workflow_id: str) -> list[str]:
        return sorted(self._run(workflow_id))

    def _run(self, workflow_id: str) -> dict[str, bytes]:
        return dict(self._runs.get(checked_name("workflow_id", workflow_id), {}))


class RunCheckpointStore:
    """On top of a run store: a workflow's run is a run there, a checkpoint a node. As durable as that store is.

    Give it a run store of its own, or run ids that nobody else uses there: every node of such a run must be a checkpoint.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store

    async def save(self, workflow_id: str, data: CheckpointData) -> None:
        workflow = checked_name("workflow_id", workflow_id)
        name, content = checked_checkpoint(data)
        with _spoken():
            await self._store.asave(workflow, name, content)

    async def load(self, workflow_id: str, checkpoint_id: str) -> CheckpointData | None:
        workflow, name = checked_name("workflow_id", workflow_id), checked_name("checkpoint_id", checkpoint_id)
        try:
            with _spoken():
                content = await self._store.aload(workflow, name)
        except errors.CheckpointNotFoundError:
            return None
        return decoded(content, name, f"{workflow}/{name}")

    async def load_latest(self, workflow_id: str) -> CheckpointData | None:
        found = [await self.load(workflow_id, name) for name in await self.list_checkpoints(workflow_id)]
        return latest([each for each in found if each is not None])

    async def clear(self, workflow_id: str) -> None:
        workflow = checked_name("workflow_id", workflow_id)
        with _spoken():
            await self._store.adelete_run(workflow)

    async def list_checkpoints(self, workflow_id: str) -> list[str]:
        workflow = checked_name("workflow_id", workflow_id)
        with _spoken():
            return sorted(info.node_id for info in await self._store.alist(workflow))


@contextmanager
def _spoken() -> Iterator[None]:
    """Say what a run store raises in the terms of this contract."""
    try:
        yield
    except errors.StoreCorruptError as error:
        raise CorruptCheckpointError(error.message, hint=error.hint) from error
    except errors.StoreError as error:
        raise CheckpointIOError(error.message, hint=error.hint) from error
