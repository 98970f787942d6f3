"""Matchers: what a value must be, as JSON can say it.

A plain value means equal, by type: 1 is neither true nor "1". Everything else is an object of one or more operators, and all of
them must hold. A list or an object to be equal to is wrapped, {"equals": [...]}: a bare one could be meant as "contains", and a
claim with two meanings is a claim with none. An empty matcher would match anything, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from agentos._text import MASKED, listed, shown
from agentos.core.checkpoints.kinds.kind import Schema, is_sensitive, refuse, told
from agentos.core.checkpoints.models import Evidence

_SCALARS = (str, int, float, bool, type(None))
_NUMBERS = (int, float)
_ORDERED: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "gt": ("more than", lambda found, want: found > want),
    "ge": ("at least", lambda found, want: found >= want),
    "lt": ("less than", lambda found, want: found < want),
    "le": ("at most", lambda found, want: found <= want),
}
_OTHERS = ("equals", "not", "in", "contains", "prefix", "suffix")
OPERATORS = (*_ORDERED, *_OTHERS)
_MOST = 2**63 - 1

_OPERANDS: dict[str, Schema] = {
    **{name: {"type": "number"} for name in _ORDERED},
    "equals": {},
    "not": {},
    "in": {"type": "array", "minItems": 1},
    "contains": {},
    "prefix": {"type": "string", "minLength": 1},
    "suffix": {"type": "string", "minLength": 1},
}
MATCHER: Schema = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "object", "properties": _OPERANDS, "additionalProperties": False, "minProperties": 1},
    ]
}
_SAID: Schema = {"type": "string"}
_BEGUN: Schema = {"type": "string", "minLength": 1}
# The same where what is found is always text: of anything else it could never hold, or never fail.
TEXT: Schema = {
    "anyOf": [
        _SAID,
        {
            "type": "object",
            "properties": {
                **dict.fromkeys(("equals", "not", "contains"), _SAID),
                **dict.fromkeys(("prefix", "suffix"), _BEGUN),
                "in": {"type": "array", "items": _SAID, "minItems": 1},
            },
            "additionalProperties": False,
            "minProperties": 1,
        },
    ]
}
_COUNTED: dict[str, Schema] = {name: {"type": "integer", "minimum": 0} for name in (*_ORDERED, "equals", "not")}
# At least one operator must leave some number out: see `_claims_nothing`.
_LEAVES_OUT: tuple[tuple[str, Schema], ...] = (
    *(("gt", {}), ("equals", {}), ("ge", {"minimum": 1})),
    *(("le", {"maximum": _MOST - 1}), ("lt", {"maximum": _MOST}), ("not", {"maximum": _MOST})),
)
COUNT: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {
            "type": "object",
            "properties": _COUNTED,
            "additionalProperties": False,
            "anyOf": [{"properties": {name: bound}, "required": [name]} for name, bound in _LEAVES_OUT],
        },
    ]
}


def check_matcher(evidence: Evidence, where: str, matcher: Any) -> None:
    """Refuse what is no matcher, with the place where it stands."""
    if type(matcher) in _SCALARS:
        return
    if type(matcher) is not dict or not matcher:
        refuse(evidence, f"{where} must be a value or operators, found {told(evidence, matcher)}", _HINT)
    unknown = [name for name in matcher if name not in OPERATORS]
    if unknown:
        # Of an object that was to be equal to, these are its keys.
        named = MASKED if is_sensitive(evidence) else listed(unknown)
        refuse(evidence, f"{where}: unknown operator {named}", _HINT)
    for name, operand in matcher.items():
        problem = _problem(name, operand)
        if problem:
            refuse(evidence, f"{where}[{name!r}] {problem}, found {told(evidence, operand)}")


def are_texts(value: Any) -> bool:
    """Whether this is a list of text."""
    return type(value) is list and all(type(each) is str for each in value)


def fits_text(operator: str, operand: Any) -> bool:
    """Whether this operator of a matcher says something about text."""
    return are_texts(operand) if operator == "in" else type(operand) is str


def check_text(evidence: Evidence, where: str, matcher: Any) -> None:
    """Refuse what is no matcher of text."""
    check_matcher(evidence, where, matcher)
    operators = matcher.items() if type(matcher) is dict else [("equals", matcher)]
    if not all(fits_text(*each) for each in operators):
        refuse(
            evidence, f"{where} is compared with text, found {told(evidence, matcher)}", 'such as "7" or {"prefix": "text/"}'
        )


def check_count(evidence: Evidence, where: str, matcher: Any) -> None:
    """The same for a number of things."""
    operands = matcher.items() if type(matcher) is dict else [("equals", matcher)]
    if not operands:
        refuse(evidence, f"{where} is empty and would match any number", 'such as 3 or {"ge": 1}')
    for name, operand in operands:
        if name not in _COUNTED:
            named = MASKED if is_sensitive(evidence) else shown(name, 40)
            refuse(evidence, f"{where}: unknown operator {named}", f"one of: {listed([*_COUNTED])}")
        if type(operand) is not int or operand < 0:
            refuse(evidence, f"{where} must be a number of things, found {told(evidence, operand)}", 'such as 3 or {"ge": 1}')
    if all(_claims_nothing(name, operand) for name, operand in operands):
        refuse(evidence, f"{where} matches any number, so it claims nothing", 'such as 3 or {"ge": 1}')
    if not _is_met_by_some(dict(operands)):
        refuse(evidence, f"{where} matches no number of things, so it never holds", 'such as 3 or {"ge": 1}')


def _is_met_by_some(operands: dict[str, int]) -> bool:
    """Whether there is a number that meets them all: if so, none or one beside a bound does."""
    near = {0, *(bound + step for bound in operands.values() for step in (-1, 0, 1))}
    # Beside a number that must not be, there may be another such number; each operator is there once, so two steps do.
    near |= {number + step for number in near for step in (-1, 1)}
    return any(matches(operands, number) for number in near if 0 <= number <= _MOST)


def _claims_nothing(name: str, operand: int) -> bool:
    """Whether every number of things is so: there are never fewer than none, and never more than can be counted."""
    if name == "ge":
        return operand == 0
    return (name == "le" and operand >= _MOST) or (name in ("lt", "not") and operand > _MOST)


_HINT = (
    f'a plain value means equal; operators: {listed([*OPERATORS], len(OPERATORS))}; a list to be equal to is {{"equals": […]}}'
)


def _problem(name: str, operand: Any) -> str:
    if name in _ORDERED:
        return "" if type(operand) in _NUMBERS and math.isfinite(operand) else "must be a number"
    if name in ("prefix", "suffix"):
        return "" if type(operand) is str and operand else "must be text that is not empty"
    if name == "in":
        return "" if type(operand) is list and operand else "must be a list that is not empty"
    return ""


def matches(matcher: Any, found: Any) -> bool:
    """Whether this value is as it must be."""
    if type(matcher) is not dict:
        return equal(matcher, found)
    return all(_holds(name, operand, found) for name, operand in matcher.items())


def equal(want: Any, found: Any) -> bool:
    """Equal by type and value, all the way down: a number is never text, true or false; 1 and 1.0 are the same number."""
    if type(want) in _NUMBERS and type(found) in _NUMBERS:
        return bool(want == found)
    if type(want) is not type(found):
        return False
    if type(want) is dict:
        return want.keys() == found.keys() and all(equal(value, found[key]) for key, value in want.items())
    if type(want) is list:
        return len(want) == len(found) and all(map(equal, want, found))
    return bool(want == found)


def _holds(name: str, operand: Any, found: Any) -> bool:
    if name in _ORDERED:
        return type(found) in _NUMBERS and _ORDERED[name][1](found, operand)
    if name in ("prefix", "suffix"):
        return type(found) is str and (found.startswith(operand) if name == "prefix" else found.endswith(operand))
    if name == "in":
        return any(equal(each, found) for each in operand)
    if name == "contains":
        return _contains(found, operand)
    return equal(operand, found) is (name == "equals")


def _contains(found: Any, operand: Any) -> bool:
    if type(found) is str:
        return type(operand) is str and operand in found
    if type(found) is list:
        return any(equal(operand, each) for each in found)
    return type(found) is dict and type(operand) is str and operand in found


def described(matcher: Any) -> str:
    """The matcher in words, for a message."""
    if type(matcher) is not dict:
        return shown(repr(matcher), 80)
    return " and ".join(_words(name, operand) for name, operand in matcher.items())


def _words(name: str, operand: Any) -> str:
    said = _ORDERED[name][0] if name in _ORDERED else {"equals": "", "in": "one of", "prefix": "starting with"}.get(name, name)
    return f"{said} {shown(repr(operand), 80)}".strip()
