"""Write the pages of the documentation that are generated: docs/specs/COMMAND_LINE.md, from the commands themselves.

    python3 scripts/pages.py          write them
    python3 scripts/pages.py --check  write nothing; end with 1 if one is not what it would be

It prepares the environment if that is needed and runs itself there; the pages are made in scripts/generated/.
"""

import sys
from pathlib import Path

import _boot


def main() -> int:
    """Run in the project's environment, and there write."""
    if Path(sys.prefix).resolve() != _boot.location().resolve():
        _boot.become(_boot.ensure(), __file__, *sys.argv[1:])
    from generated.program import main as write  # noqa: PLC0415  # the environment is there only now

    return write(_boot.ROOT, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
