"""`agentos completion SHELL`: what a shell needs to complete verbs, options and the names of tasks."""

from __future__ import annotations

import click

from agentos.cli.door import Door
from agentos.cli.verb import verb

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_AGENTOS_COMPLETE"

SHAPE = {"shell": "the shell", "script": "what it must read"}


@verb("completion", SHAPE)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(door: Door, shell: str) -> None:
    """Print what SHELL must read to complete verbs, options and ids.

    For this session: `eval "$(agentos completion bash)"`, the same with zsh, or `agentos completion fish | source`.
    For all: put that line into the shell's own settings.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only who sets a shell up

    from agentos.cli.main import agentos_command  # noqa: PLC0415 - it finds this verb by its name

    made = get_completion_class(shell)
    assert made is not None, "click comes with these three"
    # Not `source()`: it starts a bash to ask for its version, and where there is none it prints a warning into the script.
    complete = made(agentos_command, {}, "agentos", _VARIABLE)
    script = complete.source_template % complete.source_vars()
    door.answer({"shell": shell, "script": script}, [script])
