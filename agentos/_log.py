"""Warnings of agentos, through the standard library's logging, under `agentos.*` and without values.

`logging` is imported when there is something to say: most processes never pay for it.
"""

from __future__ import annotations


def warn(area: str, message: str, *details: object) -> None:
    """Log a warning as `agentos.<area>`."""
    import logging  # noqa: PLC0415 - two milliseconds at every restart of an agent

    logging.getLogger(f"agentos.{area}").warning(message, *details)
