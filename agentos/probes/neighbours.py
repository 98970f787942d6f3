"""Names beside one that is missing: `report.pdf.part` explains most of what `report.pdf: found nothing` leaves open.

A hint for people. Nothing is judged by it, so it looks at a bounded number of names and says nothing rather than fail.
"""

from __future__ import annotations

import itertools
import os

from agentos._text import shown
from agentos.probes.paths import Place

_MOST_LOOKED_AT = 2_000
_MOST_SHOWN = 3
_SHORTEST = 3


def near(place: Place) -> list[str]:
    """A few similarly named entries of the folder in which the place was expected."""
    name = os.path.basename(place.name.rstrip("/"))
    try:
        found = sorted(entry for entry in _entries(place) if _similar(entry, name))
    except OSError:
        return []
    return [shown(entry, 80) for entry in found[:_MOST_SHOWN]]


def _entries(place: Place) -> list[str]:
    if place.walk is None:
        return _listed(os.path.dirname(place.full.rstrip("/")) or "/")
    if place.directory is None:
        return []
    # The walk's descriptor may not be listed through, and must not be moved.
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.directory)
    try:
        return _listed(folder)
    finally:
        os.close(folder)


def _listed(folder: str | int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in itertools.islice(entries, _MOST_LOOKED_AT)]


def _similar(entry: str, name: str) -> bool:
    there, wanted = entry.casefold(), name.casefold()
    if there == wanted:
        return entry != name
    return len(wanted) >= _SHORTEST and wanted in there
