"""Constructors that refuse bad input in our words: pydantic checks, and the error names the field and what was found.

Building the validators takes as long as importing pydantic, so it is put off until the first instance is made: a process that
only reads never needs them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import rebuild_dataclass

from agentos._fork import importing
from agentos._text import shown
from agentos.errors import InvalidInputError

T = TypeVar("T")
CONFIG = ConfigDict(extra="forbid", defer_build=True)


def readable(cls: type[T]) -> type[T]:
    """Let the constructor raise our error, which names the field and what was found, in place of pydantic's."""
    validated: Callable[..., None] = cls.__init__

    @functools.wraps(validated)
    def __init__(self: T, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it takes the place of the class's own
        if not cls.__pydantic_complete__:  # type: ignore[attr-defined]
            _build_validators()
        try:
            validated(self, *args, **kwargs)
        except ValidationError as error:
            raise InvalidInputError(_sentence(cls, error)) from None

    _constructors[cls] = __init__
    cls.__init__ = __init__  # type: ignore[assignment, method-assign]
    return cls


_constructors: dict[type[Any], Callable[..., None]] = {}


def _build_validators() -> None:
    """Build what was deferred, once, and put our constructors back, which building replaces."""
    # Building imports parts of pydantic.
    with importing:
        for cls in _constructors:
            rebuild_dataclass(cls)
        for cls, constructor in _constructors.items():
            cls.__init__ = constructor


def _sentence(cls: type[Any], error: ValidationError) -> str:
    first, name = error.errors(include_url=False)[0], cls.__name__
    try:
        where = shown(".".join(str(part) for part in _named(cls, first["loc"])), 80)
        return f"{name}.{where}: {first['msg']}, found {shown(first.get('input'), 80)}"
    except Exception:  # noqa: BLE001 - Python refuses to spell out huge integers, and any object may refuse to describe itself
        return f"{name}: {first['msg']}"


def _named(cls: type[Any], where: tuple[int | str, ...]) -> tuple[int | str, ...]:
    # An argument given by position is known to pydantic by its number only.
    names = [each.name for each in fields(cls)]
    known = bool(where) and isinstance(where[0], int) and where[0] < len(names)
    return (names[int(where[0])], *where[1:]) if known else where
