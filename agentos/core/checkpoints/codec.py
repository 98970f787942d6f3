"""JSON that comes back exactly as it went in, or is refused with the path of the value.

Accepted are the exact types dict (str keys), list, str, int, float, bool and None: no subclasses, tuples, NaN, infinities,
lone surrogates, no more than 64 levels, no integers over 4,300 digits. Every value is decoded again before it is accepted, so a
difference is found at save and not at three in the morning. Nothing that was stored is ever unpickled, evaluated or imported.

Stored bytes are plain JSON. Integers beyond 64 bits need Python's own parser; such a document starts with `#`.
"""

from __future__ import annotations

import json
import marshal
import math
from typing import Any

import orjson

from agentos._text import shown
from agentos.errors import SnapshotError, StoreCorruptError

MAX_DEPTH = 64
MAX_DIGITS = 4300
_BIG = b"#"
_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
# orjson itself refuses what is nested deeper than this. A value is written inside so many lists that what is too deep for us is
# too deep for it: counting levels any other way costs as much as writing.
_DEEPEST = 254
_AROUND = _DEEPEST - MAX_DEPTH
_SLOT = object()
_EXACT = frozenset({dict, list, str, int, float, bool, type(None)})


def encode(value: Any, what: str = "snapshot") -> bytes:
    """The stored form of `value`.

    Raises:
        SnapshotError: some part of it would not come back equal; names the path.
    """
    return encode_checked(value, what)[0]


def encode_checked(value: Any, what: str = "snapshot", *, small: bool = False) -> tuple[bytes, Any]:
    """The stored form, and the copy that was decoded from it to prove that it comes back.

    Args:
        small: it is a few hundred bytes, usually; any size is right, and a large one costs more.
    """
    try:
        data = _written_flat(value) if small else _written(value)
        copy = orjson.loads(data)
        # Equality alone lets str and int enums pass, which come back plain; marshal writes exact types only.
        if copy == value and marshal.dumps(value):
            return data, copy
    except (TypeError, ValueError, RecursionError):
        pass
    return _encode_slowly(value, what)


def decode(data: bytes) -> Any:
    """The value that was stored.

    Raises:
        StoreCorruptError: these bytes were never written by `encode`.
    """
    try:
        if data[:1] == _BIG:
            return json.loads(data[1:])
        return orjson.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreCorruptError(f"stored JSON cannot be read back: {shown(str(error), 120)}") from error


def _within_lists(count: int) -> Any:
    inner: Any = _SLOT
    for _ in range(count):
        inner = [inner]
    return inner


_LISTS = _within_lists(_AROUND)


def _written(value: Any) -> bytes:
    """The value as orjson writes it. An error means: look closely; it may be nested too deep."""

    def fill(part: Any) -> Any:
        if part is _SLOT:
            return value
        raise TypeError

    return orjson.dumps(_LISTS, fill, _OPTIONS)[_AROUND:-_AROUND]


def _written_flat(value: Any) -> bytes:
    """The same, faster for what has few brackets, those in text included: then it cannot be nested too deep."""
    data = orjson.dumps(value, None, _OPTIONS)
    return data if data.count(b"{") + data.count(b"[") <= MAX_DEPTH else _written(value)


def _encode_slowly(value: Any, what: str) -> tuple[bytes, Any]:
    _refuse_what_json_changes(value, what)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    copy = json.loads(text)
    if copy != value:
        raise SnapshotError(f"{what}: does not come back equal from JSON", hint="give plain data")
    data = text.encode()
    try:
        # Not by equality: orjson reads an integer beyond 64 bits as a float, and some of those are equal.
        same = repr(orjson.loads(data)) == repr(value)
    except ValueError:
        same = False
    return (data if same else _BIG + data), copy


def _refuse_what_json_changes(value: Any, what: str) -> None:
    """Walk the value without recursion and raise at the first part that would be lost or changed, with its path."""
    waiting: list[tuple[str, Any, int]] = [(what, value, 0)]
    while waiting:
        path, part, depth = waiting.pop()
        problem = _problem(part, depth)
        if problem:
            raise SnapshotError(f"{path}: {problem}", hint=_HINT, path=path)
        if type(part) is dict:
            for key, inner in part.items():
                if type(key) is not str:
                    raise SnapshotError(f"{path}: key {_brief(key)} is {_named(key)}, keys must be str", hint=_HINT, path=path)
                _refuse_surrogates(f"{path}: key", key, path)
                waiting.append((f"{path}[{shown(repr(key), 60)}]", inner, depth + 1))
        elif type(part) is list:
            waiting.extend((f"{path}[{index}]", inner, depth + 1) for index, inner in enumerate(part))
        elif type(part) is str:
            _refuse_surrogates(path, part, path)


_HINT = "allowed are dict with str keys, list, str, int, float, bool and None, up to 64 levels deep"


def _problem(part: Any, depth: int) -> str:
    kind = type(part)
    if kind not in _EXACT:
        return f"{_named(part)} is not allowed"
    if kind is float and not math.isfinite(part):
        return f"{part} is not allowed"
    if kind is int and part.bit_length() > _MAX_BITS and not _few_digits(part):
        return f"an integer of more than {MAX_DIGITS:,} digits is not allowed"
    if depth >= MAX_DEPTH and kind in (dict, list):
        return f"nested more than {MAX_DEPTH} levels deep"
    return ""


# Below this many bits an integer surely has fewer digits than the limit, without converting it.
_MAX_BITS = int((MAX_DIGITS - 1) * math.log2(10))


def _few_digits(number: int) -> bool:
    return bool(abs(number) < 10**MAX_DIGITS)


def _refuse_surrogates(where: str, text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SnapshotError(
            f"{where}: {shown(text, 60)} holds a lone surrogate, which UTF-8 cannot carry",
            hint="decode the text properly, or replace what cannot be decoded",
            path=path,
        ) from None


def _brief(key: Any) -> str:
    try:
        return shown(key, 60)
    except Exception:  # noqa: BLE001 - Python refuses to spell out huge integers, and any object may refuse to describe itself
        return "(beyond description)"


def _named(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
