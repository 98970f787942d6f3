"""`agentos migrate`: bring a registry to today's schema, as every process does when it boots."""

from __future__ import annotations

import click

from agentos.cli.options import db_option
from agentos.store import ensure_migrations


@click.command("migrate")
@db_option
def command(db: str) -> None:
    """Bring the registry to the schema this version needs; create it if it is not there."""
    applied = ensure_migrations(db)
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("up to date")
