"""`agentos migrate`: bring a registry to today's schema, as every process does when it boots."""

from __future__ import annotations

from agentos.cli import where
from agentos.cli.door import Door
from agentos.cli.verb import verb

SHAPE = {
    "registry": "the path of the registry",
    "applied": "the migrations that this call applied, in order; empty if it was up to date",
}


@verb("migrate", SHAPE)
def command(door: Door) -> None:
    """Bring the registry to the schema this version needs; create it if it is not there."""
    from agentos.store import ensure_migrations  # noqa: PLC0415 - help needs no store

    path = where.absolute_registry(door.db)
    applied = ensure_migrations(path)
    lines = [f"applied {name}" for name in applied] or ["up to date"]
    door.answer({"registry": path, "applied": applied}, lines)
