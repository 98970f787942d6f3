"""zstd, wherever this Python has it. Loaded when something is compressed or read back: most processes do neither."""

from __future__ import annotations

from functools import cache
from typing import Any

from agentos._fork import importing


@cache
def zstd() -> Any:
    """The module: of the standard library from Python 3.14 on, of its backport before."""
    with importing:
        try:
            from compression import zstd as module  # type: ignore[import-not-found] # noqa: PLC0415
        except ImportError:
            from backports import zstd as module  # noqa: PLC0415
    return module
