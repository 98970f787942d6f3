"""Write requirements.lock anew from the ranges in pyproject.toml, for every platform and Python that is supported.

    python3 scripts/lock.py                         keep what is pinned, add and remove what the ranges ask for
    python3 scripts/lock.py --upgrade               the newest of everything
    python3 scripts/lock.py --upgrade-package ruff  the newest of one

The result names no package index: where packages come from is each machine's business.
"""

import os
import sys

import _boot

COMPILE = (
    *("pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--all-extras", "--no-header", "--no-annotate", "pyproject.toml", "--output-file", "requirements.lock"),
)


if __name__ == "__main__":
    uv = _boot.ensure_uv()
    os.environ.update(_boot.settings())
    os.chdir(_boot.ROOT)
    _boot.become(uv, *COMPILE, *_boot.cache_options(), *sys.argv[1:])
