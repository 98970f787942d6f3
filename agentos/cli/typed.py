"""What can be done next as it is typed: quoted for a shell, with the options that led to this registry and this folder."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentos._ways import Act, Command, Way

# The verbs that measure, and so ask where the workspace is now.
BASED = frozenset({"verify", "recover", "resume", "restore", "rollback", "accept", "resolve"})


def commands_of(act: Act, db: str | None = None, base: str | None = None) -> str:
    """What does it, or what each of its choices does."""
    return " or ".join(command_line(command, db, base) for command in act.commands)


def offered(way: Way, db: str | None = None, base: str | None = None) -> str:
    """What can be done as an item of a list: each choice on a line, and what it does beneath."""
    acts = [part for part in way.parts if not isinstance(part, str)]
    said = way.said(lambda act: "\n      or ".join(command_line(each, db, base) for each in act.commands))
    # A sentence around it says what it is for.
    return f"{said}\n        {acts[0].does}" if list(way.parts) == acts[:1] else said


def command_line(command: Command, db: str | None = None, base: str | None = None) -> str:
    """The command as it is typed.

    Args:
        db: what `--db` said.
        base: what `--base` said.
    """
    options = [*command.options, *([] if db is None else ["--db", db])]
    if base is not None and command.verb in BASED and "--base" not in options:
        options += ["--base", base]
    looks_like_an_option = any(name.startswith("-") for name in command.names)
    rest = [*options, "--", *command.names] if looks_like_an_option else [*command.names, *options]
    return " ".join(map(quoted, ["agentos", command.verb, *rest]))


def typed(db: str | None, verb: str, *names: str, options: tuple[str, ...] = ()) -> str:
    """The command with this verb about these names, as it is typed."""
    from agentos._ways import Command  # noqa: PLC0415 - as above

    return command_line(Command(verb, names, options), db)


def quoted(word: str) -> str:
    """The word as a shell reads it back, whatever is in it; nothing that drives a terminal."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(sign: str) -> str:
    if sign in "'\\":
        return f"\\{sign}"
    return sign if sign.isprintable() else "".join(f"\\x{byte:02x}" for byte in sign.encode(errors="surrogateescape"))
