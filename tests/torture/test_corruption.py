"""Corruption: bits, bytes, sectors and pages of the registry changed behind its back, and its end cut off.

After each damage a manager is asked everything it can be asked (history.py). Each answer is the right one, or one of our
errors: never another value, never None or an empty list for what is there, never a bare error of SQLite. A log that is damaged
is another matter: SQLite takes the commits before the damage for all there were, as after a power cut. Then all answers are
those of one earlier moment.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.corrupt import Damage, damage
from tests.faults.replay import FASTEST_SCRATCH
from tests.torture import history
from tests.torture.agent import registry_of
from tests.torture.history import ERROR

LOG_HEADER, FRAME_HEADER = 32, 24


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A place where opening a registry hundreds of times costs no wear; its name says nothing about durability here."""
    fast = FASTEST_SCRATCH if FASTEST_SCRATCH.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(prefix="damaged-", dir=fast) as directory:
        yield Path(directory)


def put(path: Path, content: bytes, log: bytes = b"") -> None:
    for beside, data in (("", content), ("-wal", log), ("-shm", b"")):
        file = path.with_name(path.name + beside)
        file.unlink(missing_ok=True)
        if data:
            file.write_bytes(data)


def damages(content: bytes, seed: int, count: int) -> Iterator[Damage]:
    """So many damages that leave something: a file cut to nothing is one that was never written, and is taken for it."""
    index = done = 0
    while done < count:
        made = damage(content, seed, index)
        index += 1
        if made.content:
            done += 1
            yield made


def test_a_damaged_registry_never_answers_wrong(scratch: Path, seed: int, count):
    """Each answer after each damage is the right one or an error; and a good part of the damages is noticed."""
    known = history.make(scratch)
    path = registry_of(scratch)
    whole = path.read_bytes()
    right = history.answers(scratch, known)
    assert ERROR not in right.values()
    put(path, whole)
    right |= history.rollbacks(scratch, known)
    found, noticed, given = [], 0, right
    for done in damages(whole, seed, count(200, 1000)):
        put(path, done.content)
        given = history.answers(scratch, known)
        put(path, done.content)
        given |= history.rollbacks(scratch, known)
        noticed += ERROR in (given[name] for name in given if right[name] != ERROR)
        found += [f"{name} | {done.description}" for name in history.wrong(given, right)]
    assert [] == found
    assert noticed > count(200, 1000) / 3
    print(f"{count(200, 1000)} damages, {len(given)} answers each, refused by some answer in {noticed}")


def commits(log: bytes) -> Iterator[int]:
    """Where each commit ends: the frame that carries the size of the database after it, if its checksum was right once."""
    page = int.from_bytes(log[8:12], "big")
    for end in range(LOG_HEADER + FRAME_HEADER + page, len(log) + 1, FRAME_HEADER + page):
        start = end - FRAME_HEADER - page
        if any(log[start + 4 : start + 8]):
            yield end


def test_a_damaged_log_is_an_earlier_moment_or_an_error(scratch: Path, seed: int, count):
    """Damage to the log of an agent that died: no answer is a mixture of moments, and none is of no moment at all."""
    path = registry_of(scratch)
    died: list[bytes] = []
    known = history.make(scratch, lambda: died.extend(path.with_name(path.name + part).read_bytes() for part in ("", "-wal")))
    content, log = died
    rights = []
    for end in [0, *commits(log)]:
        put(path, content, log[:end])
        rights.append(history.answers(scratch, known))
    found, earlier = [], 0
    for done in damages(log, seed, count(60, 300)):
        put(path, content, done.content)
        given = history.answers(scratch, known)
        fits = [number for number, right in enumerate(rights) if not history.wrong(given, right)]
        earlier += bool(fits) and fits[-1] < len(rights) - 1
        found += [] if fits else [done.description]
    assert [] == found
    assert earlier
    print(f"{count(60, 300)} damages of the log, an earlier moment in {earlier}")
