"""Run the tests; preparing the environment if that is needed.

    python3 scripts/test.py                 the suite
    python3 scripts/test.py --full          the same tests with the large counts, crash loops and all
    python3 scripts/test.py -k rollback     any option of pytest

The exit code is pytest's.
"""

import os
import sys

import _boot

# Options with which tests must stay in one process, or that choose the number of processes themselves.
ONE_PROCESS = ("-n", "--numprocesses", "--dist", "--pdb", "--trace", "-s", "--capture=no", "--collect-only", "--co")


def workers(arguments: "list[str]") -> "list[str]":
    """Spread the tests over two processes, unless what was asked for does not go with that."""
    chosen = any(argument.startswith(ONE_PROCESS) or argument == "no:xdist" for argument in arguments)
    return [] if chosen else ["-n", "2", "--dist", "loadgroup"]


if __name__ == "__main__":
    python = _boot.ensure("dev")
    os.chdir(_boot.ROOT)
    # Tests start hundreds of processes: without byte code each of them would compile everything anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _boot.become(python, "-m", "pytest", *workers(sys.argv[1:]), *sys.argv[1:])
