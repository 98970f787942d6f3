"""What a verb is given: the registry it is about, and how it answers.

Data goes to standard output, everything else to standard error. Nothing of the rules is loaded before a registry is opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from agentos._text import shown
from agentos.cli import where
from agentos.cli.streams import aside
from agentos.errors import StoreUnavailableError

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager


# What the log and its index take before anything is recorded, and a little more.
_LEAST_SPACE = 256 << 10


class Door:
    """One call of one verb.

    Args:
        db: what `--db` says.
        as_json: whether the answer is to be one JSON document.
    """

    def __init__(self, db: str | None, *, as_json: bool) -> None:
        self.db = db
        self.as_json = as_json
        # Where the registry is, for a command that is told; known once one was started.
        self.path = ""
        # What `--base` said, once a manager was asked for with it.
        self.base: str | None = None

    # The registry.

    def looking(self, base: str | None = None) -> CheckpointManager:
        """A manager that only reads: for a question, which changes nothing on whatever disk."""
        self.base = base
        return _manager(where.existing(self.db), base, readonly=True)

    def takes_anything(self) -> bool:
        """Whether anything can be written to the registry, as far as can be told without trying."""
        path = where.existing(self.db)
        return os.access(path, os.W_OK) and not _is_full(path)

    def measuring(self, base: str | None = None) -> CheckpointManager:
        """A manager that records what it measures, or, where nothing can be written, measures all the same."""
        self.base = base
        path = where.existing(self.db)
        why = "the disk is full" if _is_full(path) else "this user may not write to it"
        if self.takes_anything():
            try:
                return _manager(path, base)
            except StoreUnavailableError as error:
                why = error.message
        manager = _manager(path, base, readonly=True)
        note(f"{shown(path)}: what is found will not be recorded: {why}")
        return manager

    def acting(self, base: str | None = None) -> CheckpointManager:
        """A manager on a registry that is there."""
        self.base = base
        return _manager(where.existing(self.db), base)

    def starting(self, base: str | None = None) -> CheckpointManager:
        """A manager on a registry that is created if it is not there: for what begins a task."""
        self.path = where.absolute_registry(self.db)
        return _manager(self.path, base)

    # The answer.

    def answer(self, document: dict[str, Any], lines: Iterable[str]) -> None:
        """Say it: the document with `--json`, else the lines."""
        if self.as_json:
            import json  # noqa: PLC0415 - help says nothing as JSON

            click.echo(json.dumps(document, indent=2 if sys.stdout.isatty() else None, allow_nan=False))
            return
        for line in lines:
            click.echo(line)

    def offer(self, text: str) -> str:
        """The same for a list of what can be done, with what each does."""
        from agentos._ways import Way  # noqa: PLC0415 - help offers nothing
        from agentos.cli.typed import offered  # noqa: PLC0415 - as above

        return offered(text, self.db, self.base) if isinstance(text, Way) else text

    def say(self, text: str) -> str:
        """The same text, and what can be done as it is typed here."""
        from agentos._ways import Way  # noqa: PLC0415 - help names nothing that can be done

        if not isinstance(text, Way):
            return text
        from agentos.cli.typed import commands_of  # noqa: PLC0415 - as above

        return text.said(lambda act: commands_of(act, self.db, self.base))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Go on only if that was agreed to.

        Raises:
            UsageError: nobody is there to be asked.
        """
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError(f"{question} Nobody is there to be asked: give --yes.")
        if not click.confirm(question, err=True):
            raise click.exceptions.Abort


base_option = click.option("--base", default=None, metavar="PATH", help="Where the workspace is now, if it moved.")
yes_option = click.option("--yes", is_flag=True, help="Do it without being asked.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would happen.")


def note(text: str) -> None:
    """Something beside the answer."""
    aside(f"agentos: {text}")


def _is_full(path: str) -> bool:
    """Whether there is no space to record anything: then nothing is begun that could not be ended."""
    try:
        status = os.statvfs(os.path.dirname(path))
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _LEAST_SPACE


def _manager(path: str, base: str | None, *, readonly: bool = False) -> CheckpointManager:
    from agentos.core.checkpoints import CheckpointManager  # noqa: PLC0415 - help needs neither

    return CheckpointManager(path, base, readonly=readonly)
