"""Open a folder by its name in an open one: never through a link, and never onto what is mounted there.

A folder of the same file system may be mounted elsewhere too, which its device does not tell. Linux tells it to whoever asks
while opening; elsewhere the device is all there is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The number of openat2 is the same on every machine that Linux runs on.
_OPENAT2 = 437
_NOT_ACROSS_MOUNTS, _NOT_THROUGH_LINKS, _BENEATH = 0x01, 0x04, 0x08
# Older kernels do not know the call, and some sandboxes forbid it.
_NOT_HERE = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)


def enter(folder: int, name: str) -> int:
    """A descriptor of the folder of this name.

    Raises:
        OSError: there is none; EXDEV: something is mounted there; ELOOP or ENOTDIR: it is a link, or anything else.
    """
    descriptor = _asked(folder, name)
    if descriptor is not None:
        return descriptor
    descriptor = os.open(name, FOLDER, dir_fd=folder)
    if os.fstat(descriptor).st_dev != os.fstat(folder).st_dev:
        os.close(descriptor)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    return descriptor


def _asked(folder: int, name: str) -> int | None:
    """The same in one call; None if the system does not know it."""
    call = _openat2()
    if call is None:
        return None
    sys.audit("open", name, None, FOLDER)
    how = (ctypes.c_uint64 * 3)(FOLDER, 0, _NOT_ACROSS_MOUNTS | _NOT_THROUGH_LINKS | _BENEATH)
    descriptor: int = call(_OPENAT2, folder, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how))
    if descriptor >= 0:
        return descriptor
    problem = ctypes.get_errno()
    if problem in _NOT_HERE:
        return None
    raise OSError(problem, os.strerror(problem), name)


@cache
def _openat2() -> Any:
    if sys.platform != "linux":
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    call.restype = ctypes.c_long
    return call
