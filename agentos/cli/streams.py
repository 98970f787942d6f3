"""The three streams that every program has, unless somebody closed them (`>&-`).

A file that is opened next would get the number of the one that is closed: the registry would be some command's standard output.
So what is closed is given the null device; and without a standard output nothing is done, for nobody would hear of it.
"""

from __future__ import annotations

import os
import sys

import click

_STANDARD = (0, 1, 2)


def can_answer() -> bool:
    """Whether there is a standard output; says so if there is none."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, which is this one. What is run by us is to have it too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - the system's signature
    if sys.stdout is not None:
        return True
    if sys.stderr is not None:
        sys.stderr.write("agentos: standard output is closed, and nothing was done\n  -> >/dev/null if nobody is to read it\n")
    return False


def aside(text: str) -> None:
    """Say it on standard error. Where nobody can hear it, the answer and the exit code are what they are all the same."""
    try:
        click.echo(text, err=True)
    except OSError:
        to_nowhere(2)


def to_nowhere(number: int) -> None:
    """Nobody reads this stream: what is buffered for it would be written, and fail, once more when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
