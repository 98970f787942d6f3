"""Open a run store by its address."""

from __future__ import annotations

from collections.abc import Callable

from agentos._text import shown
from agentos.errors import InvalidInputError
from agentos.store.runs.contract import CheckpointStore
from agentos.store.runs.inputs import LOCK_TIMEOUT, refuse_windows

_SCHEMES = "memory:, file:<folder>, sqlite:<file>"


def open_store(
    address: str, *, durability: str | None = None, key: bytes | None = None, lock_timeout: float = LOCK_TIMEOUT
) -> CheckpointStore:
    """The run store at this address: `memory:`, `file:<folder>` or `sqlite:<file>`.

    Args:
        durability: for `sqlite:`, one of full (the default), commit, relaxed.
        key: for `file:`, seals each file with an HMAC.
        lock_timeout: seconds to wait for another process before StoreBusyError.

    Raises:
        InvalidInputError: no known scheme, or an option that the store does not have.
    """
    scheme, path = _parsed(address)
    if durability is not None and scheme != "sqlite":
        raise InvalidInputError(f"durability is for sqlite: only, found it with {scheme}:")
    if key is not None and scheme != "file":
        raise InvalidInputError(f"key is for file: only, found it with {scheme}:")
    refuse_windows()
    return _OPENERS[scheme](path, durability or "full", key, lock_timeout)


def _parsed(address: str) -> tuple[str, str]:
    scheme, colon, path = address.partition(":") if isinstance(address, str) else ("", "", "")
    if not colon or scheme not in _OPENERS:
        raise InvalidInputError(f"address {shown(address, 80)} has no known scheme", hint=f"one of: {_SCHEMES}")
    if path.startswith("//"):
        # Elsewhere sqlite:///x means x here, and file:///x means x at the root: whoever writes it should say which.
        raise InvalidInputError(
            f"address {shown(address, 80)}: a path, not a URL", hint=f"{scheme}:relative or {scheme}:/absolute"
        )
    if bool(path) != (scheme != "memory"):
        raise InvalidInputError(f"address {shown(address, 80)} is not complete, or says too much", hint=f"one of: {_SCHEMES}")
    return scheme, path


def _memory(_path: str, _durability: str, _key: bytes | None, _lock_timeout: float) -> CheckpointStore:
    from agentos.store.runs.memory import MemoryStore  # noqa: PLC0415 - only the store that is opened is loaded

    return MemoryStore()


def _file(path: str, _durability: str, key: bytes | None, lock_timeout: float) -> CheckpointStore:
    from agentos.store.runs.file import FileStore  # noqa: PLC0415

    return FileStore(path, key=key, lock_timeout=lock_timeout)


def _sqlite(path: str, durability: str, _key: bytes | None, lock_timeout: float) -> CheckpointStore:
    from agentos.store.runs.sqlite import SQLiteStore  # noqa: PLC0415

    return SQLiteStore(path, durability=durability, lock_timeout=lock_timeout)


_OPENERS: dict[str, Callable[[str, str, bytes | None, float], CheckpointStore]] = {
    "memory": _memory,
    "file": _file,
    "sqlite": _sqlite,
}
