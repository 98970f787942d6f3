"""Measure what agentos costs, as ratios to a raw baseline that runs interleaved with it on the same disk.

    python3 scripts/bench.py                  every row; about six minutes, and the fill of a million checkpoints on top
    python3 scripts/bench.py --quick          every row with small counts, in seconds
    python3 scripts/bench.py --only cycle     one family of rows; --list names them
    python3 scripts/bench.py --install        first install what agentos is compared with (the extra `bench`)
    python3 scripts/bench.py --write-docs     also write docs/benchmarks.md anew

It prepares the environment if that is needed and runs itself there; the rows live in scripts/benchmarks/.
"""

import sys
from pathlib import Path

import _boot

INSTALL = "--install"


def main() -> int:
    """Run in the project's environment, and there measure."""
    arguments = [argument for argument in sys.argv[1:] if argument != INSTALL]
    inside = Path(sys.prefix).resolve() == _boot.location().resolve()
    if INSTALL in sys.argv[1:]:
        _boot.become(_boot.ensure("bench"), __file__, *arguments)
    if not inside:
        _boot.become(_boot.ensure(), __file__, *arguments)
    from benchmarks.program import main as measure  # noqa: PLC0415  # the environment is there only now

    return measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
