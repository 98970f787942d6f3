"""Count the matches of a regular expression, as a program in a process of its own.

An expression can take for ever, and nothing in a process can stop it but the process's end. So this needs nothing but the
standard library, takes no more memory than it was given, and ends by itself when nobody is left to end it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from typing import Any

_ROOM = 1 << 30
# Text takes up to four bytes for each that it was read from, beside those.
_FOR_EACH_BYTE = 6


def counted(order: dict[str, Any], content: bytes) -> dict[str, Any]:
    """`count`, or `problem`: `not_text`, with what is wrong, or `memory`. Matches of nothing do not count."""
    encoding, pattern = order["encoding"], order["pattern"]
    try:
        if encoding is None:
            found = re.compile(pattern.encode(), order["flags"]).finditer(content)
            return {"count": sum(match.end() > match.start() for match in found)}
        text = content.decode(encoding)
        return {"count": sum(match.end() > match.start() for match in re.compile(pattern, order["flags"]).finditer(text))}
    except UnicodeDecodeError as error:
        return {"problem": "not_text", "why": f"{error.reason} at byte {error.start}"}
    except MemoryError:
        return {"problem": "memory"}


def _limit(seconds: float, size: int) -> None:
    import resource  # noqa: PLC0415 - only the child process limits itself

    cpu = int(seconds) + 2
    for what, most in ((resource.RLIMIT_CPU, cpu), (resource.RLIMIT_AS, _ROOM + _FOR_EACH_BYTE * size)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


def main(arguments: list[str]) -> None:
    """Read the order and the content from an inherited descriptor, and say as JSON what was found."""
    with open(int(arguments[0]), "rb") as file:
        order = json.loads(file.readline())
        _limit(order["seconds"], os.fstat(file.fileno()).st_size)
        answer = counted(order, file.read())
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
