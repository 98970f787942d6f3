"""Run agentos from a checkout: the demo, or whatever command is given.

    python3 scripts/run.py                  the demo
    python3 scripts/run.py verify CHECKPOINT --json  any agentos command

It prepares the environment if that is needed, and stays in the folder it was called from.
"""

import sys

import _boot

if __name__ == "__main__":
    # -P: a file named like a module in the caller's folder must not be imported instead of it.
    _boot.become(_boot.ensure(), "-P", "-m", "agentos", *(sys.argv[1:] or ["demo"]))
