"""A command that is run once, when it is asked for, and the evidence of how it ended.

Everything that can be refused is refused before it runs. It is run by probes/running.py; how its record is judged is decided in
kinds/commands.py. Pure: nothing is run or looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentos._text import MASKED, shown, without_credentials
from agentos.core.checkpoints import codec, wanted
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.kinds.command_record import HIGHEST_EXIT_CODE, sealed
from agentos.core.checkpoints.kinds.commands import command_line
from agentos.core.checkpoints.kinds.kind import LONGEST_WAIT
from agentos.core.checkpoints.kinds.places import from_base
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.verifier import absolute
from agentos.core.checkpoints.wanted import Wanted
from agentos.errors import InvalidInputError

# Bytes of the end of each stream that a record holds; whoever ran the command gets more of it.
MOST_RECORDED = 4096


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be run, and what is asked of it."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    timeout: float
    max_output: int
    products: tuple[Wanted, ...]
    base_path: str
    description: str
    exit_code: int
    sensitive: bool

    @property
    def line(self) -> str:
        """The command for people and records: without the passwords of addresses, and nothing of it if it is sensitive."""
        return MASKED if self.sensitive else without_credentials(command_line(list(self.argv)))


@dataclass(frozen=True, slots=True)
class Said:
    """What came through one stream: how much, its SHA-256, and the end of it."""

    sha256: str
    size: int
    end: bytes


@dataclass(frozen=True, slots=True)
class Happened:
    """How it went. `products` are as a record holds them; what it said is None if nobody listened."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    started_at: str
    ended_at: str
    duration: float
    host: str
    stdout: Said | None
    stderr: Said | None
    products: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A command that was run. `exit_code` is None if it was killed, by `signal` or because its time was over.

    `stdout` and `stderr` are what it said, or the end of it where it said more than was to be kept; `evidence` is the claim
    about it.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    # Not for a log: it is much, and may be sensitive.
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    # Seconds.
    duration: float
    evidence: Evidence = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether it ended with the exit code that was asked for."""
        asked: int = self.evidence.expected["exit_code"]
        return self.exit_code == asked

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are no UTF-8 are written as backslash escapes."""
        return _text(self.stdout)


def command_of(
    argv: Sequence[str],
    *,
    cwd: str | Path | None,
    env: Mapping[str, str] | None,
    timeout: float,
    products: Sequence[str | Path],
    base_path: str | Path | None,
    description: str,
    exit_code: int,
    max_output: int,
    sensitive: bool,
) -> Command:
    """The command, checked.

    Raises:
        InvalidInputError: an argument is refused, by name; nothing was run.
    """
    _refuse_no_argv(argv)
    _refuse_no_numbers(timeout, exit_code, max_output)
    if type(sensitive) is not bool or type(description) is not str:
        given, name = (sensitive, "sensitive") if type(sensitive) is not bool else (description, "description")
        raise InvalidInputError(
            f"{name} must be {'text' if given is description else 'true or false'}, found {shown(given, 60)}"
        )
    base = absolute(base_path)
    about = without_credentials(description) or (f"a command {MASKED}" if sensitive else shown(command_line(list(argv)), 120))
    codec.encode(about, "description")
    return Command(
        tuple(argv),
        absolute(cwd, "cwd", base) if cwd is not None else base,
        _environment(env),
        timeout,
        max_output,
        product_claims(products),
        base,
        _described(description) or (f"a command {MASKED}" if sensitive else shown(command_line(list(argv)), 120)),
        exit_code,
        sensitive,
    )


def _described(description: object) -> str:
    if type(description) is not str:
        raise InvalidInputError(f"description must be text, found {shown(description, 60)}")
    codec.encode(description, "description")
    return without_credentials(description)


def _refuse_no_argv(argv: object) -> None:
    hint = 'a program and its arguments, such as ["pytest", "-q"]; there is no shell'
    if not isinstance(argv, (list, tuple)) or not argv:
        raise InvalidInputError(f"argv must be a list of text that is not empty, found {shown(argv, 80)}", hint=hint)
    for number, word in enumerate(argv):
        if type(word) is not str:
            raise InvalidInputError(f"argv[{number}] must be text, found {shown(word, 80)}", hint=hint)
        if "\0" in word:
            raise InvalidInputError(f"argv[{number}] holds a NUL, which no argument can: {shown(word, 80)}")
    if not argv[0]:
        raise InvalidInputError("argv[0] is empty and names no program", hint=hint)
    codec.encode(list(argv), "argv")


def _refuse_no_numbers(timeout: object, exit_code: object, max_output: object) -> None:
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not 0 < timeout <= LONGEST_WAIT:
        raise InvalidInputError(f"timeout must be a number of seconds up to a day, found {shown(timeout, 60)}")
    if type(exit_code) is not int or not 0 <= exit_code <= HIGHEST_EXIT_CODE:
        raise InvalidInputError(
            f"exit_code must be an integer from 0 to {HIGHEST_EXIT_CODE}, found {shown(exit_code, 60)}",
            hint="a command that is killed by a signal has no exit code, and never ends as claimed",
        )
    if type(max_output) is not int or max_output < 0:
        raise InvalidInputError(f"max_output must be a number of bytes, found {shown(max_output, 60)}")


def _environment(env: object) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise InvalidInputError(f"env must be a dict of text, found {shown(env, 80)}")
    for name, value in env.items():
        # The value may be a secret: it is not shown.
        if type(name) is not str or not name or "=" in name or "\0" in name:
            raise InvalidInputError(f"env: {shown(name, 80)} is no name of a variable")
        if type(value) is not str or "\0" in value:
            raise InvalidInputError(f"env[{shown(repr(name), 80)}] must be text without a NUL")
    codec.encode(sorted(env), "env")
    return dict(env)


def product_claims(products: object) -> tuple[Wanted, ...]:
    """The content of each of these files, to be measured.

    Raises:
        InvalidInputError: this is no list of paths, or no file can have one of them.
    """
    if not isinstance(products, (list, tuple)):
        raise InvalidInputError(f"products must be a list of paths, found {shown(products, 80)}")
    found = {}
    for path in products:
        claim = wanted.file_content(path)
        assert claim.otherwise is not None
        kind_of(claim.otherwise).refuse_malformed(claim.otherwise)
        found[claim.evidence.expected["path"]] = claim
    return tuple(found.values())


def run_of(command: Command, happened: Happened) -> CommandRun:
    """What became of it, with the evidence."""
    argv = [MASKED] if command.sensitive else [without_credentials(word) for word in command.argv]
    record = sealed(
        {
            "argv": argv,
            "cwd": from_base(command.cwd, command.base_path),
            # The names alone: the values are where secrets are.
            "env": sorted(command.env),
            "host": happened.host,
            "started_at": happened.started_at,
            "ended_at": happened.ended_at,
            "duration_ms": round(happened.duration * 1000, 3),
            "exit_code": happened.exit_code,
            "signal": happened.signal,
            "timed_out": happened.timed_out,
            "stdout": _stream(happened.stdout, command),
            "stderr": _stream(happened.stderr, command),
            "products": happened.products,
        }
    )
    metadata: dict[str, Any] = {"record": record}
    # Without it a claim is about its description.
    metadata.update({"sensitive": True} if command.sensitive else {"command": command_line(argv)})
    evidence = Evidence(EvidenceType.COMMAND_EXIT, command.description, {"exit_code": command.exit_code}, metadata)
    return CommandRun(
        happened.exit_code,
        happened.signal,
        happened.timed_out,
        b"" if happened.stdout is None else happened.stdout.end,
        b"" if happened.stderr is None else happened.stderr.end,
        happened.duration,
        evidence,
    )


def _stream(said: Said | None, command: Command) -> dict[str, Any] | None:
    if said is None:
        return None
    end = said.end[-min(command.max_output, MOST_RECORDED) :] if command.max_output else b""
    if len(end) < said.size:
        # The first line of an end is half a line, and its first character may be half of one.
        _, newline, rest = end.partition(b"\n")
        end = rest if newline and rest else end
    tail = MASKED if command.sensitive and end else without_credentials(_text(end))
    return {"sha256": said.sha256, "bytes": said.size, "tail": tail}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
