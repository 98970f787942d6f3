"""Read what a claim names, to its end and still, for whoever keeps it.

The same eye as the probes': the same way to the file, and no lock dropped. What it cannot read it does not guess.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from agentos.core.checkpoints.observing import Surroundings
from agentos.probes.cannot_see import CannotSee, Deadline
from agentos.probes.content import read_content
from agentos.probes.hashing import Take
from agentos.probes.paths import place_of

_NO_LIMIT = 1 << 62


def read_file(path: str, around: Surroundings, begin: Callable[[int], Take | None]) -> bool:
    """Ask `begin`, which is told about how many bytes there will be, for what takes them, and hand them to that.

    False if there is no such file, it did not hold still, or nobody wanted it: then what was handed on is worth nothing.
    """
    try:
        with place_of(path, around) as place:
            if place.status is None or not stat.S_ISREG(place.status.st_mode):
                return False
            take = begin(place.status.st_size)
            if take is None:
                return False
            read_content(place, Deadline(around.timeout), take, _NO_LIMIT, cancel=around.cancel)
    except CannotSee:
        return False
    return True


def read_link(path: str, around: Surroundings) -> bytes | None:
    """The text of the link at this path; None if there is none."""
    try:
        with place_of(path, around, follow=False) as place:
            if place.status is None or not stat.S_ISLNK(place.status.st_mode):
                return None
            return os.fsencode(os.readlink(place.name, dir_fd=place.directory))
    except (CannotSee, OSError):
        return None
