"""Check everything a change must pass: lint, format, types, tests.

Every check runs, also after one has failed, so that one look shows all there is to mend.
Options, such as --full, go to the tests.
"""

import os
import shlex
import subprocess
import sys

import _boot


def checks(python: str, arguments: "list[str]") -> "list[list[str]]":
    """List the commands, quick ones first."""
    return [
        [python, "-m", "ruff", "check", "."],
        [python, "-m", "ruff", "format", "--check", "."],
        [python, "-m", "mypy"],
        [sys.executable, "scripts/test.py", *arguments],
    ]


def main() -> None:
    """Run the checks and exit with 1 if one failed."""
    python = str(_boot.ensure("dev"))
    os.chdir(_boot.ROOT)
    failed = []
    for command in checks(python, sys.argv[1:]):
        shown = shlex.join(command).replace(f"{_boot.ROOT}/", "")
        print(f"$ {shown}", flush=True)
        if subprocess.run(command, check=False).returncode:
            failed.append(shown)
    if failed:
        sys.exit("\n".join(f"failed: {command}" for command in failed))
    print("all checks passed")


if __name__ == "__main__":
    main()
