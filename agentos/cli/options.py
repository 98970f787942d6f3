"""Options that several verbs share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from agentos._text import shown
from agentos.errors import StoreUnavailableError

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager

DEFAULT_DB = "store/registry.sqlite"

db_option = click.option("--db", default=DEFAULT_DB, show_default=True, metavar="PATH", help="The registry's file.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


def open_existing(db: str, base: str | None = None) -> CheckpointManager:
    """A manager on a registry that is there: a question must not create what it asks about."""
    from agentos.core.checkpoints import CheckpointManager  # noqa: PLC0415 - help needs neither
    from agentos.core.checkpoints.verifier import absolute  # noqa: PLC0415

    path = absolute(db, "--db")
    if not os.path.exists(path):
        raise StoreUnavailableError(
            f"{shown(path)}: no registry here", hint="go to the project's folder, or name the file with --db"
        )

    return CheckpointManager(db, base)
