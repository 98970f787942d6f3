"""What may be given as a snapshot: a JSON object, or a pydantic model or dataclass that dumps to one and comes back.

A typed state is dumped in JSON mode and read back before it is accepted, so `revive` later gives an equal object.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.errors import SnapshotError

T = TypeVar("T")


def as_object(snapshot: Any, what: str = "snapshot") -> dict[str, Any]:
    """The JSON object to store for `snapshot`.

    Raises:
        SnapshotError: it is neither a dict nor a typed state, or a typed state that does not come back equal.
    """
    if type(snapshot) is dict:
        return snapshot
    if _is_typed(snapshot):
        return _dumped(snapshot, what)
    raise SnapshotError(
        f"{what}: expected a dict, a pydantic model or a dataclass, found {type(snapshot).__name__}",
        hint="wrap the value: {'value': …}",
    )


def revive(stored: dict[str, Any], model: type[T]) -> T:
    """An object of type `model` from a stored snapshot."""
    from pydantic import ValidationError  # noqa: PLC0415 - only users of typed state pay for it

    name = getattr(model, "__name__", shown(model, 80))
    adapter = _adapter(model)
    try:
        found: T = adapter.validate_json(codec.encode(stored).removeprefix(b"#"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"[{part!r}]" for part in first["loc"])
        raise SnapshotError(
            f"snapshot{shown(where)}: does not fit {name}: {first['msg']}",
            hint="the checkpoint was written by other code; read snapshot_data and convert it",
        ) from error
    return found


def _adapter(model: Any) -> Any:
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter  # noqa: PLC0415

    if model is None or isinstance(model, (str, bytes, int, float, dict, list, tuple, set)):
        raise SnapshotError(f"snapshot_as takes a type, found {shown(model, 80)}", hint="give a pydantic model or a dataclass")
    try:
        adapter: Any = TypeAdapter(model)
        # An annotation that cannot be resolved shows only when it is used.
        adapter.rebuild(raise_errors=True)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        said = str(error).partition("\n")[0]
        raise SnapshotError(
            f"snapshot: {shown(model, 80)} is no type that JSON can be read into: {shown(said, 200)}",
            hint="give a pydantic model or a dataclass that is defined at the top of a module",
        ) from None
    return adapter


def _is_typed(snapshot: Any) -> bool:
    if isinstance(snapshot, type):
        return False
    return hasattr(snapshot, "__pydantic_serializer__") or dataclasses.is_dataclass(snapshot)


def _dumped(snapshot: Any, what: str) -> dict[str, Any]:
    from pydantic_core import PydanticSerializationError  # noqa: PLC0415

    name = type(snapshot).__name__
    try:
        plain = _adapter(type(snapshot)).dump_python(snapshot, mode="json", warnings="error")
    except (PydanticSerializationError, ValueError) as error:
        raise SnapshotError(f"{what}: {name} cannot be dumped to JSON: {shown(str(error), 200)}") from error
    if type(plain) is not dict:
        raise SnapshotError(f"{what}: {name} dumps to {type(plain).__name__}, expected a JSON object")
    if revive(plain, type(snapshot)) != snapshot:
        raise SnapshotError(f"{what}: {name} does not come back equal from JSON", hint="look for excluded or lossy fields")
    return plain
