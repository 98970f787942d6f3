"""What looking at many things costs.

Small files of a tree against hashing the same bytes one after another, large ones against two bare threads that hash, and the
items of a pack against the work of their probes alone.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentos.core.checkpoints import Evidence, EvidencePack, EvidenceVerifier
from agentos.probes import PROBES
from benchmarks.counts import MEBIBYTE
from benchmarks.hashing import timed, written
from benchmarks.place import Bench
from benchmarks.results import Bar, Row
from benchmarks.rounds import Turn, interleaved

MOST_FOR_SMALL, LEAST_FOR_LARGE, MOST_PER_ITEM = 1.5, 0.9, 50
_SMALL, _PER_FOLDER, _LARGE_FILES, _THREADS = 2048, 100, 8, 2


def rows(bench: Bench) -> Iterator[Row]:
    """A tree of small files, one of large files and the same as single claims, and packs of many items."""
    with bench.folder("small") as folder:
        yield _small(bench, folder)
    with bench.folder("large") as folder:
        yield from _large(bench, folder)
    with bench.folder("items") as folder:
        yield from _items(bench, folder)


def _small(bench: Bench, folder: Path) -> Row:
    paths = [folder / f"{number // _PER_FOLDER}" / f"{number}.txt" for number in range(bench.counts.tree_files)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(_SMALL))

    def one_after_another() -> None:
        for path in paths:
            with open(path, "rb") as file:
                hashlib.sha256(file.read()).digest()

    verified = _verified(folder, [Evidence.capture_tree(".", base_path=folder)])
    measured = interleaved({"hashlib": timed(one_after_another), "agentos": timed(verified)}, bench.counts.rounds)
    each = {name: measured.median(name) / len(paths) * 1e6 for name in ("agentos", "hashlib")}
    spread = measured.spread("agentos", "hashlib")
    return Row(
        f"directory_tree, {len(paths):,} files of 2 KiB",
        "open().read() and sha256 of each",
        round(measured.ratio("agentos", "hashlib"), 3),
        bar=Bar("at most", MOST_FOR_SMALL),
        detail=f"{each['agentos']:.1f} us a file against {each['hashlib']:.1f}; quartiles {spread}",
        raw={"us_per_file": round(each["agentos"], 2), "baseline_us_per_file": round(each["hashlib"], 2)},
    )


def _large(bench: Bench, folder: Path) -> Iterator[Row]:
    size = bench.counts.large_bytes
    paths = [folder / f"{number}.bin" for number in range(_LARGE_FILES)]
    claims = []
    for path in paths:
        digest = written(path, size)
        claims.append(Evidence("file_sha256", path.name, {"path": path.name, "sha256": digest, "size": size}))

    def digest_of(path: Path) -> str:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def two_threads() -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(digest_of, paths))

    turns = {
        "hashlib": timed(two_threads),
        "directory_tree": timed(_verified(folder, [Evidence.capture_tree(".", base_path=folder)])),
        "file_sha256": timed(_verified(folder, claims)),
    }
    measured = interleaved(turns, bench.counts.hashing_rounds)
    speeds = {name: size * len(paths) / measured.median(name) / 1e9 for name in turns}
    for name, what in (("directory_tree", "of"), ("file_sha256", "in a pack of")):
        yield Row(
            f"{name} {what} {len(paths)} files of {size // MEBIBYTE:,} MiB: speed",
            "hashlib.file_digest in two threads",
            round(measured.ratio("hashlib", name), 3),
            bar=Bar("at least", LEAST_FOR_LARGE),
            detail=f"{speeds[name]:.2f} GB/s against {speeds['hashlib']:.2f}",
            raw={"gb_per_s": round(speeds[name], 3), "baseline_gb_per_s": round(speeds["hashlib"], 3)},
        )


def _items(bench: Bench, folder: Path) -> Iterator[Row]:
    """The time of the processor that a pack takes, less that of the same looks alone, per item."""
    names = [f"{number}" for number in range(bench.counts.items)]
    for name in names:
        (folder / name).write_bytes(name.encode())
    packs = {
        "artifact_exists": [Evidence("artifact_exists", name, {"path": name}) for name in names],
        "file_sha256": [Evidence.capture_file(name, base_path=folder) for name in names],
    }
    for kind, claims in packs.items():
        turns = {"probes": _processor(_looks_alone(folder, claims)), "pack": _processor(_verified(folder, claims))}
        measured = interleaved(turns, bench.counts.lookups)
        each = {name: measured.median(name) / len(claims) * 1e6 for name in ("pack", "probes")}
        yield Row(
            f"a pack of {len(claims)} {kind}: beside the looks, an item",
            "the probes alone",
            round(each["pack"] - each["probes"], 1),
            "us",
            Bar("at most", MOST_PER_ITEM),
            f"{each['pack']:.1f} us an item against {each['probes']:.1f}",
            {"us_per_item": round(each["pack"], 2), "baseline_us_per_item": round(each["probes"], 2)},
        )


def _processor(work: Callable[[], None]) -> Turn:
    """The time of all threads: how long they wait for each other depends on who else uses the machine."""

    def take() -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    return take


def _looks_alone(folder: Path, claims: list[Evidence]) -> Callable[[], None]:
    around, looks = EvidenceVerifier(folder).around, [(PROBES[str(claim.evidence_type)], claim) for claim in claims]

    def look() -> None:
        for probe, claim in looks:
            probe.observe(claim, around)

    return look


def _verified(folder: Path, claims: list[Evidence]) -> Callable[[], None]:
    verifier, pack = EvidenceVerifier(folder), EvidencePack(claims)

    def verify() -> None:
        assert verifier.verify_evidence_pack(pack), [claim.verification_error for claim in claims if not claim.verified]

    return verify
