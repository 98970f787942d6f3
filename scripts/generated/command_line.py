"""The page of the command line, from the commands: what each is for, its arguments and options, its JSON, the exit codes.

What is said of all of them at once is in command_line.md beside this; everything else is what the commands say of themselves.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from agentos.cli.exits import MEANINGS
from agentos.cli.main import VERBS, agentos_command
from agentos.cli.verb import COMMON_OPTIONS, Verb

# A sentence ends here, and the next begins.
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z`-])")

_PROSE = Path(__file__).with_suffix(".md")


def page() -> str:
    """The whole page."""
    exits = "".join(_table(["code", "meaning"], [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]))
    verbs = _table(["verb", "what it is for"], [(f"[`{name}`](#{name})", place.help) for name, place in VERBS.items()])
    details = (line for name in VERBS for line in _verb(name))
    said = _PROSE.read_text(encoding="utf-8").replace("{exits}", exits).replace("{verbs}", "".join([*verbs, *details]))
    return said.rstrip("\n") + "\n"


def _verb(name: str) -> Iterator[str]:
    command = agentos_command.get_command(click.Context(agentos_command), name)
    assert isinstance(command, Verb), f"{name} is no verb"
    context = click.Context(command, info_name=f"agentos {name}")
    yield f"\n### {name}\n\n"
    yield f"`agentos {name} {' '.join(command.collect_usage_pieces(context))}`\n\n"
    yield from _prose(command)
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in COMMON_OPTIONS]
    if options:
        yield from _table(["option", "what it does"], [_option(each, context) for each in options])
        yield "\n"
    yield from _table(["key of `--json`", "what it holds"], [(f"`{key}`", text) for key, text in command.shape.items()])


def _prose(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        said = " ".join(line.strip() for line in paragraph.splitlines())
        yield from (f"{sentence}\n" for sentence in _SENTENCE.split(said))
        yield "\n"


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    record = option.get_help_record(context)
    assert record is not None, "no option is hidden"
    return f"`{record[0]}`", record[1]


def _table(head: list[str], rows: list[tuple[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells)} |\n"
