"""What the file says of its own schema, against the migrations: components, numbers, checksums, the text of every table.

A damaged schema is refused when the file is opened; here it is looked at once more together with what opening does not ask:
the run stores that share the file, names, and the row that makes writes durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.checkup import Findings
from agentos.store.schema import REGISTRY, Migration, differs, load

_RUNS = "runs"
_WHERE = "schema_version"


def examine(execute: Any, checks: Mapping[str, str], findings: Findings) -> None:
    """Compare it with what this version knows."""
    known = {component: load(component) for component in (REGISTRY, _RUNS)}
    expected = {(each.component, each.number): each for migrations in known.values() for each in migrations}
    applied = set()
    for component, number, name, checksum, at in execute(checks["schema_version"]):
        where = f"{_WHERE}: {shown(component, 40)} {shown(number, 40)}"
        migration = expected.get((component, number))
        if migration is None or (migration.name, migration.checksum) != (name, checksum) or not _is_time(at):
            findings.add("schema", where, "no migration of this version was applied as this row says")
        applied.add((component, number))
    objects = {name for (name,) in execute(checks["objects"])}
    for component, migrations in known.items():
        there = component == REGISTRY or "run_nodes" in objects or any(name == component for name, _ in applied)
        if there:
            _compare(component, migrations, applied, text_differs=differs(execute, migrations), findings=findings)
    if execute(checks["version"]).fetchone()[0] != known[REGISTRY][-1].number:
        findings.add("schema", "user_version", "it is not the number of the newest migration")
    rows = execute(checks["settlement"]).fetchall()
    if len(rows) != 1 or rows[0][0] != 1 or type(rows[0][1]) is not int:
        findings.add("lost", "settlement", "the row that makes earlier writes durable is not as it must be")


def _compare(
    component: str, migrations: list[Migration], applied: set[tuple[Any, Any]], *, text_differs: bool, findings: Findings
) -> None:
    for migration in migrations:
        if (component, migration.number) not in applied:
            findings.add("lost", f"{_WHERE}: {component} {migration.number}", "a migration that was applied is not noted")
    if text_differs:
        findings.add("schema", component, "its tables are not what its migrations made them")


def _is_time(text: Any) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except (TypeError, ValueError):
        return False
