"""What finding the answer costs: `recover` over a long timeline, against looking at the same subjects with the verifier alone.

Every step of the timeline rewrites and proves one of the files, so the world of the newest checkpoint is as many claims as
there are files, spread over as many packs. Both contenders hash every file once; what `recover` costs more is folding the world
and explaining the answer. Memory is the peak of what Python allocates in one call, with large snapshots: walking back past many
candidates may not need more of it than standing at the first.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack
from benchmarks.place import Bench
from benchmarks.results import Bar, Row
from benchmarks.rounds import Turn, interleaved
from benchmarks.states import encoded_size, state

TASK = "bench"
LENGTH = 10_000
MOST = 1.5
# Of a task with so many checkpoints for each file.
_PER_FILE = 10
_SNAPSHOT = 204_800
_WALKED = 20


def rows(bench: Bench) -> Iterator[Row]:
    """Time, and memory."""
    with bench.folder("recovery") as folder:
        yield _time(bench, folder)
    with bench.folder("walk") as folder:
        yield _memory(folder)


def _time(bench: Bench, folder: Path) -> Row:
    length = bench.counts.checkpoints_on_disk * LENGTH // 2_000
    files = length // _PER_FILE
    claims = _timeline(folder, length, files)
    turns = {"recover": _recovering(folder, length), "verifier": _observing(folder, claims)}
    measured = interleaved(turns, bench.counts.rounds)
    ms = {name: measured.median(name) * 1e3 for name in turns}
    return Row(
        f"recover, {length:,} checkpoints, {files:,} files",
        "the verifier on those files",
        round(measured.ratio("recover", "verifier"), 3),
        bar=Bar("at most", MOST) if length == LENGTH else None,
        detail=f"{ms['recover']:,.1f} ms against {ms['verifier']:,.1f}; quartiles {measured.spread('recover', 'verifier')}",
        raw={"ms": round(ms["recover"], 2), "baseline_ms": round(ms["verifier"], 2)},
    )


def _timeline(folder: Path, length: int, files: int) -> list[Evidence]:
    """A task of this length over so many files; the newest claim about each."""
    newest: dict[int, Evidence] = {}
    with _manager(folder) as manager:
        for number in range(length):
            step_id = manager.begin_step(TASK, "tool_executed", state(2_000, number % 8))
            name = f"{number % files:05}.txt"
            (folder / name).write_text(f"{name} as step {number} left it\n" * 40, encoding="ascii")
            newest[number % files] = Evidence.capture_file(name, base_path=folder)
            assert manager.commit_step(step_id, EvidencePack([newest[number % files]])).verified
    return list(newest.values())


def _recovering(folder: Path, length: int) -> Turn:
    def take() -> float:
        # As after a restart: nothing of the registry is in this manager's memory.
        with _manager(folder) as manager:
            started = time.perf_counter()
            found = manager.recover(TASK)
            taken = time.perf_counter() - started
        assert (found.verdict, found.checkpoint and found.checkpoint.sequence_number) == ("resume", length), found.explain()
        return taken

    return take


def _observing(folder: Path, claims: list[Evidence]) -> Turn:
    def take() -> float:
        with _manager(folder) as manager:
            pack = EvidencePack([Evidence(claim.evidence_type, claim.description, claim.expected) for claim in claims])
            started = time.perf_counter()
            assert manager.verifier.verify_evidence_pack(pack)
            return time.perf_counter() - started

    return take


def _memory(folder: Path) -> Row:
    """One file that every step rewrites: put back to what an early step left, all later ones are walked back past."""
    path, contents = folder / "report.md", [f"as step {number} left it\n" for number in range(_WALKED + 2)]
    with _manager(folder) as manager:
        for number, content in enumerate(contents):
            step_id = manager.begin_step(TASK, "tool_executed", state(_SNAPSHOT, number))
            path.write_text(content, encoding="ascii")
            proof = Evidence.capture_file(path.name, base_path=folder)
            assert manager.commit_step(step_id, EvidencePack([proof])).verified
    last = len(contents)
    # The first answer also loads what every answer needs.
    standing = [_peak(folder, last) for _ in range(2)][-1]
    path.write_text(contents[last - _WALKED - 1], encoding="ascii")
    walking = [_peak(folder, last - _WALKED) for _ in range(2)][-1]
    size = encoded_size(state(_SNAPSHOT))
    return Row(
        f"recover, {_WALKED} candidates walked back past: memory",
        "the newest one holds",
        round((walking - standing) / size, 3),
        "snapshots",
        bar=Bar("below", 1),
        detail=f"peak {walking / 1024:,.0f} KiB against {standing / 1024:,.0f}; a snapshot is {size / 1024:,.0f}",
        raw={"peak_bytes": walking, "baseline_peak_bytes": standing, "snapshot_bytes": size},
    )


def _peak(folder: Path, right: int) -> int:
    with _manager(folder) as manager:
        tracemalloc.start()
        try:
            found = manager.recover(TASK)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert found.checkpoint is not None
    assert right == found.checkpoint.sequence_number, found.explain()
    return peak


def _manager(folder: Path) -> closing[CheckpointManager]:
    return closing(CheckpointManager(folder / "registry.sqlite", folder, durability="relaxed"))
