"""SQL lives in `.sql` files, statement by statement, each under a name.

`-- name: begin_step` opens a statement; comment lines inside it stay with it. Nothing is ever built from input.
"""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_queries(path: Path) -> dict[str, str]:
    """The statements of a file by name."""
    parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {name: sql.strip().rstrip(";") for name, sql in zip(parts[1::2], parts[2::2], strict=True)}
