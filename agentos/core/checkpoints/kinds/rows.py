"""Claims about the rows of a database: that one is there, that none is, and how many there are.

All are about the same subject, the rows that `where` names, so a later claim of any kind takes the place of an earlier one.
Which rows these are is for the database to say; `values` are compared by type: text never equals a number, true and false are 1
and 0, None is NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.kind import HOLDS, Filled, Kind, Lifetime, Schema, Verdict, refuse, told
from agentos.core.checkpoints.kinds.matchers import COUNT, check_count, described, matches
from agentos.core.checkpoints.kinds.places import from_base
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome
from agentos.errors import EvidenceUnavailableError

_SCALARS = (str, int, float, bool, type(None))
_INT64 = 2**63
# Databases that are reached by reference, and schemas of one: neither is looked into.
ELSEWHERE = ("dsn_ref", "schema")
_CHANGED = "the database no longer says what was claimed; look at who changed it, or fall back to an earlier checkpoint"
_CAME_BACK = "somebody put it there since; remove it, or fall back to an earlier checkpoint"


def _check_row(evidence: Evidence) -> None:
    expected = evidence.expected
    _check_rows(evidence)
    _check_columns(evidence, "values")
    _refuse_any_row(evidence)
    if type(expected.get("unique", False)) is not bool:
        refuse(evidence, f"expected['unique'] must be true or false, found {told(evidence, expected['unique'])}")


def _check_absent(evidence: Evidence) -> None:
    _check_rows(evidence)
    _refuse_any_row(evidence)


def _check_count(evidence: Evidence) -> None:
    _check_rows(evidence)
    check_count(evidence, "expected['count']", evidence.expected["count"])


def _refuse_any_row(evidence: Evidence) -> None:
    if not evidence.expected["where"]:
        refuse(evidence, "expected['where'] is empty and would match any row", "name the columns that identify the row")


def _check_rows(evidence: Evidence) -> None:
    expected = evidence.expected
    if type(expected["table"]) is not str or not expected["table"]:
        refuse(evidence, f"expected['table'] must be a name, found {told(evidence, expected['table'])}")
    _check_columns(evidence, "where")
    path = evidence.metadata.get("db_path")
    if "db_path" in evidence.metadata and (type(path) is not str or not path or "\0" in path):
        refuse(evidence, f"metadata['db_path'] must be a path, found {told(evidence, path)}")
    for name in ELSEWHERE:
        # Overlooked, they would let another database be looked into than was meant.
        if name in evidence.metadata:
            refuse(evidence, f"metadata['{name}'] names what is not looked into here", "a SQLite file by metadata['db_path']")


def _check_columns(evidence: Evidence, part: str) -> None:
    columns = evidence.expected.get(part, {})
    if type(columns) is not dict:
        refuse(evidence, f"expected['{part}'] must be a dict of column to value, found {told(evidence, columns)}")
    for name, value in columns.items():
        if type(value) not in _SCALARS:
            refuse(evidence, f"expected['{part}'][{shown(repr(name), 60)}] must be text, a number, true, false or null")
        if type(value) is int and not -_INT64 <= value < _INT64:
            refuse(evidence, f"expected['{part}'][{shown(repr(name), 60)}] does not fit a 64-bit column")


def subject(evidence: Evidence, base_path: str) -> str:
    """`row:`, the database (spelled as a file's subject is; our own registry has no name), the table and `where`."""
    where = json.dumps(evidence.expected["where"], sort_keys=True, ensure_ascii=False)
    path = evidence.metadata.get("db_path")
    return f"row:{from_base(path, base_path) if path else ''}#{evidence.expected['table']}?{where}"


def same(expected: Any, found: Any) -> bool:
    """Whether a stored value is the expected one."""
    if isinstance(expected, bool):
        return type(found) is int and found == int(expected)
    if isinstance(expected, (int, float)):
        return type(found) in (int, float) and found == expected
    return type(found) is type(expected) and found == expected


def _judge_row(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    if facts["problem"]:
        return _problem(evidence, facts)
    table, where = shown(evidence.expected["table"], 80), _pairs(evidence.expected["where"])
    if facts["candidates"] == 0:
        return Verdict(Outcome.FAILED, "ROW_MISSING", f"{table}: expected a row with {where}, found none", _CHANGED)
    if facts["matching"] == 0:
        said = f"{table}: row with {where} found, but {_difference(evidence, facts)}"
        return Verdict(Outcome.FAILED, "VALUES_DIFFER", said, _CHANGED)
    if evidence.expected.get("unique", False) and facts["matching"] > 1:
        return Verdict(
            Outcome.FAILED,
            "ROW_AMBIGUOUS",
            f"{table}: expected exactly one row with {where}, found several",
            "add a column to where, or drop unique",
        )
    return HOLDS


def _fill_row(evidence: Evidence, seen: Seen) -> Filled | None:
    facts, expected = seen.facts, evidence.expected
    if facts["problem"] or facts["candidates"] != 1:
        return None
    values, left_out = claimable(facts["row"])
    if left_out:
        # A claim without them would say less than was asked for, and nobody would know.
        raise EvidenceUnavailableError(
            f"{shown(expected['table'], 80)}: no claim can carry what is in {listed(left_out)}",
            hint="name the columns to claim, without those that hold blobs, broken text or infinity",
            code="NOT_CLAIMABLE",
        )
    return {"table": expected["table"], "where": expected["where"], "values": values}, evidence.metadata


def claimable(row: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values of a row that can be claimed, and the names of those that cannot."""
    values = {name: value for name, value in row.items() if type(value) in _SCALARS}
    return values, [name for name in row if name not in values]


def _fill_count(evidence: Evidence, seen: Seen) -> Filled | None:
    if seen.facts["problem"]:
        return None
    return {**evidence.expected, "count": seen.facts["count"]}, evidence.metadata


def _judge_absent(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    # No table has no rows either, and neither has no database; but it was not their end that was claimed.
    if facts["problem"]:
        return _problem(evidence, facts)
    if not facts["present"]:
        return HOLDS
    said = f"{shown(evidence.expected['table'], 80)}: expected no row with {_pairs(evidence.expected['where'])}, found one"
    return Verdict(Outcome.FAILED, "ROW_PRESENT", said, _CAME_BACK)


def _judge_count(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    if facts["problem"]:
        return _problem(evidence, facts)
    expected = evidence.expected
    if matches(expected["count"], facts["count"]):
        return HOLDS
    which = f" with {_pairs(expected['where'])}" if expected["where"] else ""
    said = f"{shown(expected['table'], 80)}: expected {described(expected['count'])} rows{which}, found {facts['count']:,}"
    return Verdict(Outcome.FAILED, "COUNT_DIFFERS", said, _CHANGED)


def _noted(judge: Callable[[Evidence, dict[str, Any]], Verdict]) -> Callable[[Evidence, dict[str, Any]], Verdict]:
    """The judgement, with a remark if it was found the slow way."""

    def noted(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
        verdict = judge(evidence, facts)
        return replace(verdict, notes=(_slow(evidence),)) if facts.get("scans") else verdict

    return noted


def _slow(evidence: Evidence) -> str:
    columns = listed(list(evidence.expected["where"]))
    return f"{shown(evidence.expected['table'], 80)}: read row by row, as no index serves this where; one on {columns} would"


def _problem(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    return Verdict(Outcome.FAILED, facts["problem"], _lacking(evidence, facts), _CHANGED)


def _lacking(evidence: Evidence, facts: dict[str, Any]) -> str:
    table = shown(evidence.expected["table"], 80)
    if facts["problem"] == "DATABASE_MISSING":
        return f"{shown(facts['database'])}: expected a database, found nothing"
    if facts["problem"] == "NO_SUCH_TABLE":
        return f"{shown(facts['database'])} has no table {table}; tables: {listed(facts['known'])}"
    return f"{table} has no column {listed(facts['missing'])}; columns: {listed(facts['known'])}"


def _difference(evidence: Evidence, facts: dict[str, Any]) -> str:
    row = facts["row"]
    for name, want in evidence.expected.get("values", {}).items():
        if not same(want, row.get(name)):
            return f"{shown(name, 60)}: expected {shown(repr(want), 80)}, found {shown(repr(row.get(name)), 80)}"
    return "no single row has all the expected values"


def _pairs(where: dict[str, Any]) -> str:
    return ", ".join(f"{shown(name, 60)}={shown(repr(value), 60)}" for name, value in where.items())


_VALUE = {"type": ["string", "number", "boolean", "null"]}
_COLUMNS = {"type": "object", "additionalProperties": _VALUE}
_TABLE = {"type": "string", "minLength": 1}
_NAMED = {"table": _TABLE, "where": {**_COLUMNS, "minProperties": 1}}
_DATABASE: dict[str, Schema] = {
    "db_path": {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$"},
    **{name: {"not": {}} for name in ELSEWHERE},
}

DB_ROW = Kind(
    {**_NAMED, "values": _COLUMNS, "unique": {"type": "boolean"}},
    frozenset({"table", "where"}),
    Lifetime.LASTING,
    _check_row,
    subject,
    _noted(_judge_row),
    metadata=_DATABASE,
    fill=_fill_row,
)
DB_ROW_ABSENT = Kind(
    _NAMED,
    frozenset({"table", "where"}),
    Lifetime.LASTING,
    _check_absent,
    subject,
    _noted(_judge_absent),
    metadata=_DATABASE,
)
DB_ROW_COUNT = Kind(
    {"table": _TABLE, "where": _COLUMNS, "count": COUNT},
    frozenset({"table", "where", "count"}),
    Lifetime.LASTING,
    _check_count,
    subject,
    _noted(_judge_count),
    metadata=_DATABASE,
    fill=_fill_count,
)
