"""What every verb shares: its common options, one answer on standard output, and errors as a sentence and an exit code.

A verb is a function that is given its `Door` and what was typed, and that returns how it ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from agentos._text import shown
from agentos.cli import exits
from agentos.cli.door import Door
from agentos.cli.exits import Exit
from agentos.cli.streams import aside, to_nowhere
from agentos.errors import AgentosError

# Set by the shell's part of the completion: see completion.py.
_COMPLETING = "_AGENTOS_COMPLETE"

# How it ends: in a code of ours, or in that of a command that it ran.
Function = Callable[..., int | None]


class Verb(click.Command):
    """A command, and the shape of what it says with `--json`: key to description."""

    shape: Mapping[str, str]


def verb(name: str, shape: Mapping[str, str]) -> Callable[[Function], Verb]:
    """Make a verb of a function `(door, **what was typed)`."""

    def decorate(function: Function) -> Verb:
        def callback(*, db: str | None, as_json: bool, debug: bool, **typed: Any) -> int:
            door = Door(db, as_json=as_json)
            return ended(lambda: function(door, **typed), door, debug=debug)

        callback.__doc__ = function.__doc__
        callback.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        for option in reversed(_COMMON):
            option(callback)
        # A decorator nearer to the function comes later in the list; the common ones are shown last.
        params = callback.__click_params__  # type: ignore[attr-defined]
        own = params[: len(params) - len(_COMMON)]
        callback.__click_params__ = [*params[len(own) :], *own]  # type: ignore[attr-defined]
        made = click.command(name, cls=Verb)(callback)
        made.shape = shape
        _complete(made)
        return made

    return decorate


_COMMON = (
    click.option("--db", metavar="PATH", help="The registry's file, instead of the one that is found."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output."),
    click.option("--debug", is_flag=True, help="Show where in agentos an error came from."),
)
# Their names, for whoever lists what a verb has of its own.
COMMON_OPTIONS = ("db", "as_json", "debug")


def _complete(made: Verb) -> None:
    """Let a shell complete the ids that the verb takes."""
    if _COMPLETING not in os.environ:
        return
    from agentos.cli.completing import KINDS, ids_of  # noqa: PLC0415 - only a shell that completes pays for it

    for param in made.params:
        kind = KINDS.get((param.metavar or "").strip("[]."))
        if kind is not None:
            # click takes it where a parameter is made, and these are made in the files of their verbs.
            param._custom_shell_complete = ids_of(kind)  # noqa: SLF001


def ended(work: Callable[[], int | None], door: Door, *, debug: bool) -> int:
    """Run it; how it ends. Nothing that a user can cause ends in a traceback."""
    try:
        return work() or Exit.SAFE
    except AgentosError as error:
        return _refused(error, exits.of_error(error), error.diagnostics(), door, debug=debug)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Before click sees it, which ends with the code of a world that differs.
        return cut_off()
    except (click.ClickException, click.exceptions.Exit, click.exceptions.Abort, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an answer
        message = f"{type(error).__name__}: {shown(str(error), 400)}"
        told = {"error": type(error).__name__, "message": message, "hint": "this is a bug in agentos: please report it"}
        return _refused(error, Exit.UNCHECKED, told, door, debug=debug)


def _refused(error: Exception, code: Exit, told: dict[str, Any], door: Door, *, debug: bool) -> Exit:
    if debug:
        import traceback  # noqa: PLC0415 - only who asks for it

        aside("".join(traceback.format_exception(error)).rstrip())
    told = {**told, "hint": door.say(told["hint"])}
    hint = f"\n  -> {told['hint']}" if told["hint"] else ""
    aside(f"agentos: {told['message']}{hint}")
    if door.as_json:
        from agentos.cli.documents import refusal  # noqa: PLC0415 - as above

        click.echo(refusal(told, code, door.say))
    return code


def cut_off() -> Exit:
    """Nobody reads what is still to be said."""
    to_nowhere(sys.stdout.fileno())
    return Exit.CUT_OFF


def main_of(command: click.Command, arguments: list[str] | None) -> int:
    """Run the whole command; how it ends."""
    stdout = sys.stdout
    try:
        try:
            # Outside of its standalone mode click hands on what the verb returned, and the code of an Exit.
            code = command.main(args=arguments, prog_name="agentos", standalone_mode=False)
        except click.ClickException as error:
            code = _mistyped(error, as_json=_wants_json(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return cut_off()
    except SystemExit:
        # Where nobody reads its help, click puts another stream there and ends with 1, which says here that the world differs.
        if sys.stdout is stdout:
            raise
        return cut_off()
    except OSError as error:
        aside(f"agentos: {shown(str(error), 300)}")
        try:
            sys.stdout.flush()
        except OSError:
            # What is buffered would be written, and fail, once more when Python ends, with a code of its own.
            to_nowhere(stdout.fileno())
        return Exit.UNCHECKED
    return int(code or 0)


def _wants_json(arguments: list[str]) -> bool:
    """Whether a document was asked for, as far as can be told of what is not typed as it must be."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _mistyped(error: click.ClickException, *, as_json: bool) -> int:
    code = Exit.USAGE if isinstance(error, click.UsageError) else Exit.UNCHECKED
    try:
        error.show()
    except OSError:
        to_nowhere(2)
    if not as_json:
        return code
    from agentos.cli.documents import refusal  # noqa: PLC0415 - people read sentences

    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = "" if context is None else f"`{context.command_path} --help` says how it is typed"
    told = {"error": type(error).__name__, "message": error.format_message(), "hint": hint}
    click.echo(refusal(told, code, str))
    return code
