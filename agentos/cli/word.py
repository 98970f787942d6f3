"""A person's word: who says it, and why. Both are kept with what was decided."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

# What stands for the reason in what is offered to be typed.
_PLACEHOLDER = "…"


def word_options(function: F) -> F:
    """`--reason` and `--by`."""
    by = click.option("--by", metavar="NAME", callback=_who, help="Who says so (default: the login name).")
    reason = click.option("--reason", required=True, metavar="TEXT", callback=_why, help="Why; it is kept with the decision.")
    return reason(by(function))


def _who(ctx: click.Context, param: click.Parameter, value: str | None) -> str:  # noqa: ARG001 - click's signature
    if value is not None:
        return value
    import getpass  # noqa: PLC0415 - help asks for nobody's name

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a user that has no name.
        return f"uid {os.getuid()}"


def _why(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value.strip() in ("", _PLACEHOLDER):
        raise click.BadParameter("say why in your own words", ctx, param)
    return value
