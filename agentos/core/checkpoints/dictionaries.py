"""Turn a model into plain data and back, without losing or inventing anything.

`to_dictionary` carries every field; `from_dictionary` is its exact inverse and refuses unknown or missing keys, because a key
that is silently dropped is a claim that is silently dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from agentos._text import listed, shown
from agentos.errors import InvalidInputError

T = TypeVar("T")


def to_dictionary(model: Any) -> dict[str, Any]:
    """Every field of the model as plain data."""
    return {each.name: _plain(getattr(model, each.name)) for each in fields(model)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    # What a caller does to the dictionary must not reach the model it came from.
    return copy.deepcopy(value) if isinstance(value, dict) else value


def from_dictionary(cls: type[T], data: Any, readers: Mapping[str, Callable[[Any], Any]]) -> T:
    """A model from exactly its own keys; `readers` rebuild the fields that are models themselves."""
    if not isinstance(data, dict):
        raise InvalidInputError(f"{cls.__name__}.from_dict: takes a dict, found {shown(data, 80)}")
    wanted = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    _refuse(cls, "unknown key", [key for key in data if key not in wanted])
    _refuse(cls, "missing key", [key for key in wanted if key not in data])
    values = {key: _rebuilt(readers.get(key), value) for key, value in data.items()}
    return cls(**values)


def _refuse(cls: type[Any], problem: str, keys: list[Any]) -> None:
    if keys:
        raise InvalidInputError(f"{cls.__name__}.from_dict: {problem}: {listed([str(key) for key in keys])}")


def _rebuilt(reader: Callable[[Any], Any] | None, value: Any) -> Any:
    if reader is not None and value is not None:
        return reader(value)
    return copy.deepcopy(value) if isinstance(value, dict) else value
