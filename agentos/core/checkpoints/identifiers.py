"""What callers may pass as ids, types and limits. Refused with a sentence before anything is written."""

from __future__ import annotations

import math
import re
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.lease import Lease
from agentos.errors import InvalidInputError

MAX_ID = 512
CHECKPOINT_TYPES = (
    "iteration_start",
    "iteration_end",
    "tool_executed",
    "llm_response",
    "approval_point",
    "state_transition",
    "manual_checkpoint",
    "error_boundary",
)
_KNOWN_TYPES = frozenset(CHECKPOINT_TYPES)
_CUSTOM_TYPE = re.compile(r"custom:[A-Za-z0-9_.-]{1,64}")


def check_id(name: str, value: Any) -> str:
    """A non-empty text of at most 512 characters that every store can keep."""
    if type(value) is not str or not value:
        raise InvalidInputError(f"{name} must be a non-empty string, found {shown(value, 80)}")
    if len(value) > MAX_ID:
        raise InvalidInputError(f"{name} has {len(value):,} characters, at most {MAX_ID} are allowed")
    if not value.isascii() or "\0" in value:
        _refuse_unstorable(name, value)
    return value


def _refuse_unstorable(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{name} {shown(value, 80)} holds a lone surrogate, which UTF-8 cannot carry") from None
    if "\0" in value:
        raise InvalidInputError(f"{name} {shown(value, 80)} holds a NUL character")


def check_optional_id(name: str, value: Any) -> str | None:
    """The same, or None."""
    return None if value is None else check_id(name, value)


def check_type(value: Any) -> str:
    """One of the known checkpoint types, or `custom:<name>`."""
    if type(value) is str and (value in _KNOWN_TYPES or _CUSTOM_TYPE.fullmatch(value)):
        return value
    raise InvalidInputError(
        f"checkpoint_type {shown(value, 80)} is unknown",
        hint=f"one of: {', '.join(CHECKPOINT_TYPES)}, or custom:<name> with 1 to 64 of A-Z a-z 0-9 _ . -",
    )


def check_lease(value: Any) -> Lease | None:
    """What `claim_task` returned, or None."""
    if value is None:
        return None
    if not isinstance(value, Lease):
        raise InvalidInputError(f"lease must be what claim_task() returned, found {shown(value, 80)}")
    return value


def check_words(name: str, value: Any) -> str:
    """What a person says: some words."""
    if type(value) is not str or not value.strip():
        raise InvalidInputError(f"{name} must say something, found {shown(value, 80)}", hint="it is kept with the decision")
    _refuse_unstorable(name, value)
    return value


def check_optional_words(name: str, value: Any) -> str:
    """The same, or nothing."""
    return "" if type(value) is str and not value else check_words(name, value)


def check_limit(value: Any, name: str = "limit") -> int:
    """A whole number from 1."""
    if type(value) is not int or value < 1:
        raise InvalidInputError(f"{name} must be a whole number from 1, found {shown(value, 60)}")
    return value


def check_ttl(ttl: object) -> float | None:
    """Seconds that a claim lasts without being renewed, or None: for as long as its process lives.

    Raises:
        InvalidInputError: not a positive finite number.
    """
    if ttl is None:
        return None
    if type(ttl) in {int, float}:
        try:
            seconds = float(ttl)  # type: ignore[arg-type]
        except OverflowError:
            seconds = math.inf
        if 0 < seconds < math.inf:
            return seconds
    raise InvalidInputError(f"ttl must be a positive number of seconds or None, found {shown(ttl, 80)}")


def check_flag(name: str, value: Any) -> bool:
    """True or false, and nothing that is only taken for one of them."""
    if type(value) is not bool:
        raise InvalidInputError(f"{name} must be true or false, found {shown(value, 60)}")
    return value
