"""A file that has its name only once it is whole: what it is made of lies in a folder beside it until then.

    .<name>.<random>.part/    private and locked while its maker lives; what one that died left is removed by the next

So a crash leaves a folder that nobody takes for the file, and the file is either not there, or the old one, or the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentos._databases import refuse_database
from agentos._disk import unavailable
from agentos._folders import locked_folder, sync_path
from agentos._text import shown
from agentos.errors import InvalidInputError, StoreBusyError, StoreError

_END = ".part"
_AT_ONCE = 0.001


@contextmanager
def drafted(target: str, *, replace: bool) -> Iterator[str]:
    """The folder to make it in. Gone, with all that is in it, when the block is left.

    Raises:
        InvalidInputError: the file is there already, and is not to be replaced, or is a registry.
        StoreUnavailableError: nothing can be written there.
    """
    refuse_present(target, replace=replace)
    beside, name = os.path.split(target)
    try:
        _remove_leftovers(beside, name)
        folder = os.path.join(beside, f".{name}.{os.urandom(6).hex()}{_END}")
        with locked_folder(folder, 1.0, create=True):
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise unavailable(error, target, "be written") from error


def put_in_place(draft: str, target: str, *, replace: bool) -> None:
    """Give the file, which is on the disk, its name, durably."""
    refuse_present(target, replace=replace)
    os.rename(draft, target)
    sync_path(os.path.dirname(target))


def refuse_present(target: str, *, replace: bool) -> None:
    """Refuse what would be overwritten without a word, and what is no file."""
    if os.path.isdir(target):
        raise InvalidInputError(f"{shown(target)}: is a folder", hint="name a file that is to be written")
    if os.path.lexists(target) and not replace:
        raise InvalidInputError(f"{shown(target)}: is there already; nothing was written", hint="name another file")
    refuse_database(target)


def _remove_leftovers(beside: str, name: str) -> None:
    """Whoever holds no lock on its folder any more is dead."""
    for each in os.listdir(beside):
        if each.startswith(f".{name}.") and each.endswith(_END):
            folder = os.path.join(beside, each)
            with suppress(StoreBusyError, StoreError, FileNotFoundError), locked_folder(folder, _AT_ONCE):
                shutil.rmtree(folder, ignore_errors=True)
