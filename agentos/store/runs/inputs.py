"""What may be given to a run store. Refused with a sentence before anything is written, and the same on every backend."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.identifiers import check_id
from agentos.errors import CheckpointNotFoundError, DataTypeError, InvalidInputError, StoreClosedError

# Below what the smallest backend can hold in one value (SQLite: 1,000,000,000 bytes), so that all draw the line in one place.
MAX_DATA = 512 << 20
LOCK_TIMEOUT = 30.0


def refuse_windows() -> None:
    """Raise where files cannot be locked and folders not be synced."""
    if sys.platform == "win32":
        raise InvalidInputError("agentos does not run on Windows: it needs POSIX file locks, fork and directory syncs")


def checked_run(run_id: Any) -> str:
    """A run's id."""
    return check_id("run_id", run_id)


def checked_node(node_id: Any) -> str:
    """A node's id."""
    return check_id("node_id", node_id)


def checked_data(data: Any) -> bytes:
    """The data as bytes that nobody else can change."""
    if type(data) is bytes and len(data) <= MAX_DATA:
        return data
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise DataTypeError(
            f"data must be bytes, bytearray or memoryview, found {type(data).__name__}",
            hint="encode it first; agentos.store.format.encode_checkpoint() turns a state into bytes",
        )
    view = memoryview(data)
    if view.nbytes > MAX_DATA:
        raise InvalidInputError(
            f"data has {view.nbytes:,} bytes, at most {MAX_DATA:,} are allowed", hint="keep large content in files"
        )
    return view.tobytes()


def checked_items(items: Any) -> list[tuple[str, bytes]]:
    """Several nodes with their data, all of them checked."""
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes, bytearray, memoryview, dict)):
        raise InvalidInputError(f"items must be a list of (node_id, data), found {type(items).__name__}")
    return [_checked_item(number, item) for number, item in enumerate(items)]


def _checked_item(number: int, item: Any) -> tuple[str, bytes]:
    if not isinstance(item, (tuple, list)) or len(item) != 2:  # noqa: PLR2004 - a pair
        raise InvalidInputError(f"items[{number}] must be a pair (node_id, data), found {type(item).__name__}")
    return checked_node(item[0]), checked_data(item[1])


def checked_timeout(lock_timeout: Any) -> float:
    """Seconds to wait for a lock."""
    if type(lock_timeout) not in (int, float) or not 0 < lock_timeout < float("inf"):
        raise InvalidInputError(f"lock_timeout must be a positive number of seconds, found {shown(lock_timeout, 60)}")
    return float(lock_timeout)


def not_found(run_id: str, node_id: str) -> CheckpointNotFoundError:
    """The error for a node that is not there."""
    return CheckpointNotFoundError(
        f"run {shown(run_id, 80)}, node {shown(node_id, 80)}: nothing is stored there",
        hint="list(run_id) says what the run has",
        run_id=run_id,
        node_id=node_id,
    )


def closed() -> StoreClosedError:
    """The error for a call after `close`."""
    return StoreClosedError("this store is closed", hint="open it again")
