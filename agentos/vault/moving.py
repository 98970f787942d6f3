"""Move a name to another one only if nothing has that yet: in one call, so that nobody can come in between."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

_NO_REPLACE = 1
_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def move(from_folder: int, name: str, to_folder: int, new_name: str) -> None:
    """Rename, below open folders; nothing is ever replaced and no link followed.

    Raises:
        FileExistsError: something has the new name.
    """
    call = _renameat2()
    if call is None:
        _linked(from_folder, name, to_folder, new_name)
        return
    if call(from_folder, os.fsencode(name), to_folder, os.fsencode(new_name), _NO_REPLACE) == 0:
        return
    problem = ctypes.get_errno()
    if problem in _NOT_HERE:
        _linked(from_folder, name, to_folder, new_name)
        return
    raise OSError(problem, os.strerror(problem), name, None, new_name)


def _linked(from_folder: int, name: str, to_folder: int, new_name: str) -> None:
    # A second name refuses to replace anything too; a crash in between leaves the thing under both.
    os.link(name, new_name, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
    os.unlink(name, dir_fd=from_folder)


@cache
def _renameat2() -> Any:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return call
