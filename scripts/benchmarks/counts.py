"""How much is measured: enough for a figure, for a glance, or only to see that every row still runs."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Counts:
    """The sizes of one run."""

    name: str
    # How often contenders take turns.
    rounds: int
    # Seconds that the turns of one contender may take in all, where a turn is as many cycles as fit.
    contender_seconds: float
    # Cycles under the recorder, per durability.
    recorded_cycles: int
    # Checkpoints of one task, ascending; the first is the baseline.
    timelines: tuple[int, ...]
    lookups: int
    # Seconds that processes or threads write, and how many there are.
    writing_seconds: float
    writing_rounds: int
    writers: tuple[int, ...]
    hashed_bytes: int
    hashing_rounds: int
    interpreters: int
    checkpoints_on_disk: int
    # A tree of so many small files; and so many bytes in each of eight large ones.
    tree_files: int
    large_bytes: int
    items: int
    # A workspace of so many small files, how often it is put back, and versions of one text.
    workspace_files: int
    restores: int
    versions: int


FULL = Counts(
    "full",
    15,
    6.0,
    300,
    (1_000, 10_000, 100_000, 1_000_000),
    300,
    5.0,
    2,
    (1, 2, 4, 8),
    1 << 30,
    5,
    21,
    2_000,
    20_000,
    256 * MEBIBYTE,
    100,
    2_000,
    7,
    1_000,
)
QUICK = Counts(
    "quick",
    5,
    0.25,
    60,
    (1_000, 10_000),
    100,
    0.5,
    1,
    (1, 2, 8),
    64 * MEBIBYTE,
    3,
    5,
    200,
    2_000,
    16 * MEBIBYTE,
    100,
    500,
    3,
    100,
)
TINY = Counts("tiny", 1, 0.01, 8, (10, 30), 5, 0.1, 1, (1, 2), MEBIBYTE, 1, 1, 20, 20, MEBIBYTE, 5, 20, 1, 5)
