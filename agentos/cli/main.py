"""The `agentos` command: finds the verb in a table and imports it when it is used, so that `agentos --help` stays quick."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

import click

from agentos.cli.exits import MEANINGS, Exit
from agentos.cli.marks import show_anything
from agentos.cli.streams import can_answer
from agentos.cli.verb import main_of


class Place(NamedTuple):
    """Where a verb is, and what it is for."""

    function: str
    help: str


VERBS = {
    "demo": Place("demo:command", "Watch an agent die, be tampered with, and resume from what can be proven."),
    "tasks": Place("tasks:command", "Every task: last verified checkpoint, what was interrupted, who has it."),
    "log": Place("log:command", "What happened to a task, newest first."),
    "show": Place("show:command", "A checkpoint: its state, its evidence, and the looks at it over time."),
    "diff": Place("diff:command", "What changed between two checkpoints, in the state and in the files."),
    "verify": Place("verify:command", "Look at the world now: does it still match what was committed?"),
    "recover": Place("recover:command", "From where may a task go on, why not from later, and what can be done. Only looks."),
    "resume": Place("resume:command", "Go on from what is measured to hold: --repair puts back what differs."),
    "restore": Place("restore:command", "Put back the files that a checkpoint stands on, or copy them out; the plan first."),
    "undo": Place("undo:command", "Take a restore back: what it overwrote and deleted is kept."),
    "rollback": Place("rollback:command", "The snapshot of a checkpoint, if what it claimed holds now."),
    "run": Place("run:command", "Run any command as a step of a task: proven when it ended well, skipped when it is done."),
    "finish": Place("finish:command", "Say that a task is done: measured once more, it takes no further steps."),
    "steps": Place("steps:command", "The steps that began and never ended."),
    "resolve": Place("resolve:command", "Say whether an interrupted step landed."),
    "accept": Place("accept:command", "Take what differs as it is, on your word."),
    "restart": Place("restart:command", "Start a task over; everything is kept, and nothing of it is on the timeline."),
    "reopen": Place("reopen:command", "Let a finished task take steps again."),
    "free": Place("free:command", "Take a task from a holder that is gone and cannot be seen from here."),
    "prune": Place("prune:command", "Let old checkpoints go and give their space back; --dry-run only says what."),
    "vault": Place("vault:command", "Show what kept content takes and is needed for; --collect removes the rest."),
    "stats": Place("stats:command", "Evidence over time: what failed, could not be checked, was flaky."),
    "migrate": Place("migrate:command", "Bring a registry to the schema this version needs."),
    "doctor": Place("doctor:command", "Is everything that was stored still there, and as it was written? --deep reads it all."),
    "backup": Place("backup:command", "Copy registry and vault into one file, and prove that it is whole."),
    "export": Place("export:command", "Write one task with all that it needs into one file."),
    "import": Place("import_:command", "Take over a task that was exported elsewhere."),
    "completion": Place("completion:command", "Print what a shell must read to complete verbs, options and ids."),
}


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name].function.partition(":")
        command: click.Command = getattr(import_module(f"agentos.cli.{module}"), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - only who mistyped pays for it

            near = get_close_matches(args[0], VERBS, 3, 0.5)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in VERBS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in MEANINGS.items()])
        formatter.write_paragraph()
        formatter.write_text("So `agentos recover TASK && ./start-agent` starts the agent only if it is safe to.")
        formatter.write_text("`agentos run` hands on the exit code of its command; there too 0 is only said of what is proven.")
        formatter.write_paragraph()
        formatter.write_text(
            "The registry is what --db says, else AGENTOS_DB, else `db` in agentos.toml or in [tool.agentos] of "
            "pyproject.toml, found upwards from here, else store/registry.sqlite."
        )


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 - click's signature
    if value:
        import agentos  # noqa: PLC0415 - only this option needs the package's metadata

        click.echo(f"agentos {agentos.__version__}")
        ctx.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show the version.")
def agentos_command() -> None:
    """Resume long agent tasks only from what can be proven.

    When an agent died: `agentos tasks` shows them all, `agentos recover TASK` says from where one may go on and why not from
    later, and what can be done.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command; never ends in a traceback for anything a user can cause."""
    if not can_answer():
        sys.exit(Exit.USAGE)
    show_anything()
    sys.exit(main_of(agentos_command, arguments))
