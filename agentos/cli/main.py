"""The `agentos` command: finds the verb, and turns errors into a sentence and an exit code.

A verb is imported only when it is used, so that `agentos --help` stays quick.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from agentos.cli.marks import show_anything
from agentos.errors import (
    AgentosError,
    CheckpointNotFoundError,
    EvidenceMismatchError,
    EvidenceUnavailableError,
    SchemaTooNewError,
    StepNotFoundError,
    StoreBusyError,
    StoreError,
)

VERBS = {
    "demo": "Watch an agent die, be tampered with, and resume from what can be proven.",
    "migrate": "Bring a registry to the schema this version needs.",
    "timeline": "Show the checkpoints of a task, newest first, and the steps that never ended.",
    "verify": "Measure the world again for one checkpoint.",
}

# The first class that fits decides; the numbers are part of the interface.
_EXIT_CODES: tuple[tuple[type[AgentosError], int], ...] = (
    (SchemaTooNewError, 7),
    (StoreBusyError, 5),
    (StoreError, 6),
    (EvidenceMismatchError, 4),
    (EvidenceUnavailableError, 8),
    (CheckpointNotFoundError, 3),
    (StepNotFoundError, 3),
)


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"agentos.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 - click's signature
    if value:
        import agentos  # noqa: PLC0415 - only this option needs the package itself

        click.echo(f"agentos {agentos.__version__}")
        ctx.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show the version.")
def agentos_command() -> None:
    """Resume long agent tasks only from what can be proven."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; never ends in a traceback for anything a user can cause."""
    show_anything()
    try:
        # Outside of its standalone mode click hands the code of an Exit back; a verb itself returns nothing.
        code = agentos_command.main(args=arguments, prog_name="agentos", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except AgentosError as error:
        click.echo(f"agentos: {error}", err=True)
        sys.exit(exit_code(error))
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        click.echo(f"agentos: the output cannot be written: {error.strerror}", err=True)
        sys.exit(1)
    sys.exit(code or 0)


def exit_code(error: AgentosError) -> int:
    """The exit code of this error; 1 when no other fits."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1)
