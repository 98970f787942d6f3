"""Write every page that is generated, or say which one is stale."""

from collections.abc import Callable, Sequence
from pathlib import Path

from generated import command_line

CHECK = "--check"
PAGES: dict[str, Callable[[], str]] = {"docs/specs/COMMAND_LINE.md": command_line.page}


def main(root: Path, arguments: Sequence[str]) -> int:
    """How it ended: 1 if something is stale that was only to be checked."""
    if list(arguments) not in ([], [CHECK]):
        print(f"pages: takes {CHECK} or nothing, found {' '.join(arguments)}")
        return 2
    stale = [name for name, made in PAGES.items() if not _is_current(root / name, made())]
    for name in stale:
        if CHECK in arguments:
            print(f"{name} is stale: python3 scripts/pages.py writes it anew")
        else:
            (root / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"wrote {name}")
    return 1 if stale and CHECK in arguments else 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
