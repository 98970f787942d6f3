"""Read JSON that somebody else may have written, and refuse what two readers could read differently.

Refused are bytes that are not UTF-8, NaN and infinities, a key that is there twice, lone surrogates, integers of more than
4,300 digits, and nesting beyond a limit. What the values mean is not known here.
"""

from __future__ import annotations

import json
from typing import Any

from agentos._text import shown


def parse(data: bytes | str, depth: int) -> Any:
    """The value that these bytes stand for.

    Raises:
        ValueError: they do not stand for exactly one; says why.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_refuse_twice)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError(f"nested more than {depth} levels deep") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate, which UTF-8 cannot carry") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {shown(str(error), 120)}") from None
    if _deeper_than(value, depth):
        raise ValueError(f"nested more than {depth} levels deep")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{shown(text, 40)} is larger than any number here")
    return number


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth + 1):
        level = [part for part in level if type(part) in (dict, list)]
        if not level:
            return False
        level = [inner for part in level for inner in (part.values() if type(part) is dict else part)]
    return True
