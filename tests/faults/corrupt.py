"""Damage bytes the way disks, copies and stray writers do, reproducibly.

A damage follows from (seed, index) and the size of what it hits, says in one line what it did, and always changes at
least one byte. Offsets are drawn over the whole content, so the larger part of a file is hit more often.
Whether the damage was noticed is not decided here: the caller reads the damaged store and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

SECTOR = 512
PAGE = 4096

_Damaged = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Damage:
    """Damaged content and the line that tells what was done to it."""

    kind: str
    description: str
    content: bytes


def damage(content: bytes, seed: int, index: int, page: int = PAGE) -> Damage:
    """The damage number `index` of `seed`. Raises ValueError for content that is empty, which nothing can damage."""
    if not content:
        raise ValueError("there is nothing to damage in 0 bytes")
    rng = Random(f"{seed}:{index}")
    kind = rng.choice(list(KINDS))
    damaged, what = KINDS[kind](content, rng, page)
    if damaged == content:
        # Zeroing zeros changes nothing; a flip always does.
        kind, (damaged, what) = "bit flip", _bit_flip(content, rng, page)
    return Damage(kind, f"damage(seed={seed}, index={index}): {kind}, {what}, of {len(content)} bytes", damaged)


def damages(content: bytes, seed: int, count: int, page: int = PAGE) -> Iterator[Damage]:
    """The first `count` damages of `seed`, each to the whole content."""
    return (damage(content, seed, index, page) for index in range(count))


def damage_file(path: Path, seed: int, index: int, page: int = PAGE) -> Damage:
    """Damage a file where it lies."""
    done = damage(path.read_bytes(), seed, index, page)
    path.write_bytes(done.content)
    return done


def _replaced(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def _block(content: bytes, rng: Random, size: int) -> tuple[int, int]:
    at = rng.randrange(0, len(content), size)
    return at, min(size, len(content) - at)


def _bit_flip(content: bytes, rng: Random, page: int) -> _Damaged:
    at, bit = rng.randrange(len(content)), rng.randrange(8)
    return _replaced(content, at, bytes([content[at] ^ 1 << bit])), f"bit {bit} of byte {at}"


def _byte_set(content: bytes, rng: Random, page: int) -> _Damaged:
    at, value = rng.randrange(len(content)), rng.choice([0, 255, rng.randrange(256)])
    return _replaced(content, at, bytes([value])), f"byte {at} from {content[at]} to {value}"


def _sector_zero(content: bytes, rng: Random, page: int) -> _Damaged:
    at, size = _block(content, rng, SECTOR)
    return _replaced(content, at, bytes(size)), f"{size} zeros at {at}"


def _page_zero(content: bytes, rng: Random, page: int) -> _Damaged:
    at, size = _block(content, rng, page)
    return _replaced(content, at, bytes(size)), f"{size} zeros at {at}"


def _page_swap(content: bytes, rng: Random, page: int) -> _Damaged:
    whole = len(content) // page
    if whole < 2:
        return content, "no two pages to swap"
    one, other = (number * page for number in rng.sample(range(whole), 2))
    swapped = _replaced(content, one, content[other : other + page])
    return _replaced(swapped, other, content[one : one + page]), f"pages at {one} and {other}"


def _truncation(content: bytes, rng: Random, page: int) -> _Damaged:
    # Half of them at a page, where a size check alone sees nothing odd.
    size = rng.randrange(len(content)) if rng.random() < 0.5 else rng.randrange(0, len(content), page)
    return content[:size], f"cut to {size} bytes"


def _page_random(content: bytes, rng: Random, page: int) -> _Damaged:
    at, size = _block(content, rng, page)
    return _replaced(content, at, rng.randbytes(size)), f"{size} random bytes at {at}"


KINDS: dict[str, Callable[[bytes, Random, int], _Damaged]] = {
    "bit flip": _bit_flip,
    "byte set": _byte_set,
    "sector zero": _sector_zero,
    "page zero": _page_zero,
    "page swap": _page_swap,
    "truncation": _truncation,
    "random page": _page_random,
}
