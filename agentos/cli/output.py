"""Files that a verb writes because it was told to: whole or not at all; a state for this user alone."""

from __future__ import annotations

import os
import stat
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from agentos._databases import refuse_database
from agentos._disk import write_all, written
from agentos._text import shown
from agentos.cli.door import note
from agentos.errors import InvalidInputError, StoreUnavailableError

if TYPE_CHECKING:
    from agentos.core.checkpoints import CheckpointManager

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class _Folder:
    descriptor: int

    def close(self) -> None:
        os.close(self.descriptor)


def put(path: str, text: str, *, private: bool = False) -> None:
    """Put this text into a file, in place of what is there; a pipe or a device is written to, and so is standard output.

    Raises:
        InvalidInputError: a registry is there.
        StoreUnavailableError: it cannot be written; the file is as it was.
    """
    if path == STANDARD_OUTPUT:
        click.echo(text)
        return
    refuse_database(path)
    try:
        if _is_stream(path):
            with open(path, "wb", buffering=0) as stream:
                write_all(stream.fileno(), [text.encode()])
        else:
            _replace(os.path.realpath(path), text.encode(), 0o600 if private else 0o666 & ~_umask())
    except OSError as error:
        raise StoreUnavailableError(
            f"{shown(path)}: cannot be written: {error.strerror}; it is as it was", hint="choose another place, and ask again"
        ) from error
    note(f"wrote {shown(path)}")


def refuse_in_workspace(manager: CheckpointManager, task_id: str, path: str) -> None:
    """Refuse a place in the folder whose every file the task proves: what is put there would differ from then on.

    And one where a registry is, before anything is decided.
    """
    refuse_database(path)
    workspace = manager.workspace_of(task_id)
    if workspace is None or path == STANDARD_OUTPUT:
        return
    place = os.path.realpath(path)
    if os.path.commonpath([place, os.path.realpath(workspace)]) == os.path.realpath(workspace):
        raise InvalidInputError(
            f"{shown(path)}: lies in the workspace of task {shown(task_id, 80)}, all of which is proven",
            hint="choose a place outside of it",
        )


def _is_stream(path: str) -> bool:
    with suppress(FileNotFoundError):
        return not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path)
    return False


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _replace(path: str, data: bytes, mode: int) -> None:
    above, name = os.path.split(path)
    with closing(_Folder(os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))) as folder:
        draft = f".{name}.{os.urandom(6).hex()}"
        with written(folder.descriptor, draft, [data]):
            os.chmod(draft, mode, dir_fd=folder.descriptor)
            os.rename(draft, name, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
