"""Evidence that is measured instead of claimed: `Evidence.capture_*` look now and claim what was seen.

Whoever captures cannot be wrong about a hash. What could not be seen is not claimed: it raises, and says why.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentos._fork import importing

if TYPE_CHECKING:
    from agentos.core.checkpoints.models import Evidence
    from agentos.core.checkpoints.running import Command, CommandRun

# Seconds a command may take, and bytes of the end of each of its streams that are kept.
TIMEOUT = 600.0
MAX_OUTPUT = 1 << 20


class Captures:
    """What `Evidence` can make by looking. Each takes a `description`, and a `base_path` from which relative paths start.

    Each raises `EvidenceUnavailableError` for what is not there or cannot be seen, with the reason.
    """

    @classmethod
    def capture_file(cls, path: str | Path, *, base_path: str | Path | None = None, description: str = "") -> Evidence:
        """Measure the file now and claim what was measured: its SHA-256 and size."""
        return _captured("file_content", path, description, base_path=base_path)

    @classmethod
    def capture_git(cls, repo: str | Path = ".", *, base_path: str | Path | None = None, description: str = "") -> Evidence:
        """Look where the repository stands now and claim that: its commit, and its branch if it is on one.

        That nothing uncommitted lies around is another claim, which needs nothing measured: `git_clean`.
        """
        return _captured("git_commit", repo, description, base_path=base_path)

    @classmethod
    def capture_prefix(cls, path: str | Path, *, base_path: str | Path | None = None, description: str = "") -> Evidence:
        """Measure what the file holds by now, and claim that it stays the beginning of it: for files that are appended to."""
        return _captured("file_beginning", path, description, base_path=base_path)

    @classmethod
    def capture_tree(
        cls,
        path: str | Path,
        *,
        exclude: Sequence[str] = (),
        gitignore: bool = False,
        base_path: str | Path | None = None,
        description: str = "",
    ) -> Evidence:
        """Measure everything beneath the folder now and claim what was measured.

        Args:
            exclude: lines, as in a `.gitignore`, of what is left out; they are part of the claim.
            gitignore: what the `.gitignore` files in the tree leave out is left out too, and so is `.git`.
        """
        more = {"gitignore": gitignore, "description": description}
        return _captured("directory_tree", path, exclude, base_path=base_path, **more)

    @classmethod
    def capture_row(
        cls,
        table: str,
        where: dict[str, Any],
        *,
        columns: Sequence[str] | None = None,
        db_path: str | Path | None = None,
        base_path: str | Path | None = None,
        description: str = "",
    ) -> Evidence:
        """Look for the one row that `where` names and claim what it holds now, in these columns or in all.

        Raises:
            EvidenceUnavailableError: there is none, there are several, or a column holds what no claim can carry.
        """
        return _captured("row_values", table, where, columns, db_path, description, base_path=base_path)

    @classmethod
    def capture_json(
        cls, path: str | Path, pointer: str, *, base_path: str | Path | None = None, description: str = ""
    ) -> Evidence:
        """Look up what a JSON file has at the pointer (RFC 6901) now, and claim that value."""
        return _captured("json_value", path, pointer, description, base_path=base_path)

    @classmethod
    def capture_process(cls, pid: int | None = None, *, description: str = "") -> Evidence:
        """Look at a process (default: this one) and claim that it still runs: it, and not another that gets its pid later."""
        return _captured("process", os.getpid() if pid is None else pid, description, base_path=None)

    @classmethod
    def capture_container(cls, name: str, *, runtime: str = "docker", description: str = "") -> Evidence:
        """Look up the container of this name and claim that this very run of it goes on: its id, image and start."""
        return _captured("running_container", name, runtime, description, base_path=None)

    @classmethod
    def capture_command(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        products: Sequence[str | Path] = (),
        base_path: str | Path | None = None,
        description: str = "",
        exit_code: int = 0,
        max_output: int = MAX_OUTPUT,
        sensitive: bool = False,
    ) -> Evidence:
        """Run a command, once and now, and claim that it ended with this exit code, by the record of how it did end.

        One that ended otherwise, was killed, or left no product gives evidence that fails. It is never run again: what is
        verified later is the record. There is no shell, and what the command leaves running is ended with it.

        Args:
            argv: the program and its arguments.
            cwd: the folder it runs in (default: `base_path`).
            env: variables beside those of this process; the record has their names alone.
            timeout: seconds after which it is killed, with everything that it started.
            products: files it leaves behind, whose SHA-256 the record is to hold.
            exit_code: what it must end with.
            max_output: bytes of the end of its output to keep, of which the record has the last 4,096 at most.
            sensitive: keep neither the arguments nor what it said.

        Raises:
            InvalidInputError: an argument is refused; nothing was run.
            EvidenceUnavailableError: it could not be started.
        """
        with importing:
            from agentos.core.checkpoints.running import command_of  # noqa: PLC0415 - few processes run commands

        command = command_of(
            argv,
            cwd=cwd,
            env=env,
            timeout=timeout,
            products=products,
            base_path=base_path,
            description=description,
            exit_code=exit_code,
            max_output=max_output,
            sensitive=sensitive,
        )
        return run(command).evidence


def run(command: Command) -> CommandRun:
    """Run it, once and now."""
    with importing:
        from agentos import wiring  # noqa: PLC0415 - as below

    return wiring.ran(command)


def _captured(what: str, *arguments: Any, base_path: str | Path | None, **options: Any) -> Evidence:
    with importing:
        from agentos import wiring  # noqa: PLC0415 - looking at the world is wired in lazily
        from agentos.core.checkpoints import wanted  # noqa: PLC0415 - it is about evidence, which is made of this

    return wiring.captured(getattr(wanted, what)(*arguments, **options), base_path)
