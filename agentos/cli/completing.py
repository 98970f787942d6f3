"""Ids for a shell that completes: looked up as they are typed. Whatever goes wrong, there is nothing to complete."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

# What an argument of this name is an id of.
KINDS = {"TASK": "task", "CHECKPOINT": "checkpoint", "STEP": "step", "RESTORE": "restore"}
# More than fit on a screen help nobody.
_MOST = 100

Completing = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def ids_of(kind: str) -> Completing:
    """What completes an argument of this kind."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from agentos.cli.door import Door  # noqa: PLC0415 - nothing of a registry is needed before

        try:
            with Door(ctx.params.get("db"), as_json=False).looking() as manager:
                return [CompletionItem(each) for each in manager.find_ids(kind, incomplete, limit=_MOST)]
        except Exception:  # noqa: BLE001 - a shell that completes has nowhere to show an error
            return []

    return complete
