"""When something was saved: whole microseconds since 1970 in UTC on disk, aware datetimes for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> int:
    """This moment."""
    return time.time_ns() // 1000


def moment(microseconds: int) -> datetime:
    """That moment; whole numbers all the way, because a float would round."""
    return _EPOCH + timedelta(microseconds=microseconds)
