"""Being root without root's way past permissions, for as long as it is wanted, in this thread."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None, use_errno=True)
_VERSION = 0x20080522
# What lets root read, list, enter and write whatever the mode says.
_PAST_MODES = 1 << 1 | 1 << 2


@contextmanager
def without_powers() -> Iterator[None]:
    """Modes count here, as they do for everybody else."""
    head = (ctypes.c_uint32 * 2)(_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    assert _LIBC.capget(head, data) == 0, os.strerror(ctypes.get_errno())
    before = list(data)
    data[0] &= ~_PAST_MODES
    assert _LIBC.capset(head, data) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        assert _LIBC.capset(head, (ctypes.c_uint32 * 6)(*before)) == 0, os.strerror(ctypes.get_errno())
