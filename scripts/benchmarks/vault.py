"""What keeping costs, and putting back.

A step that commits a workspace against hashing its files one after the other: once with nothing changed, and once with one file
changed, for which the keeping of that file alone is taken off. Putting all files back against writing them by hand as a careful
person would: each into a temporary file, synced and renamed, and each folder synced at the end. And the space that versions of
one text take in the vault, in blocks of the disk and with the vault's folders, against copies of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointManager, Task
from benchmarks.place import Bench
from benchmarks.results import Bar, Row
from benchmarks.rounds import Rounds, Turn, interleaved

MOST_FOR_COMMIT, MOST_FOR_RESTORE, MOST_FOR_VERSIONS = 1.5, 2.0, 0.1
_SMALL, _PER_FOLDER, _TEXT, _LINE = 4096, 100, 100 << 10, 80
_BLOCK = 512

# What is to be timed, once everything for it is there.
Work = Callable[[], Callable[[], None]]


def rows(bench: Bench) -> Iterator[Row]:
    """Commits of a workspace, its way back, and versions of a text."""
    with bench.folder("vault") as folder:
        yield from _commits(bench, folder)
    with bench.folder("vault") as folder:
        yield from _restores(bench, folder)
    for name, workspace in (("proven by name", False), ("in a workspace", True)):
        with bench.folder("vault") as folder:
            yield _versions(bench, folder, name, workspace=workspace)


def _commits(bench: Bench, folder: Path) -> Iterator[Row]:
    paths = _filled(folder / "work", bench.counts.workspace_files)
    with _task(folder) as task:
        task.resume({})
        works: dict[str, Work] = {
            "hashlib": lambda: lambda: _hash(paths),
            "unchanged": lambda: _step_of(task),
            "changed": lambda: _step_of(task, paths[len(paths) // 2]),
            "keep": lambda: _keep_of(task),
        }
        processor: dict[str, list[float]] = {name: [] for name in works}
        turns = {name: _twice_timed(work, processor[name]) for name, work in works.items()}
        measured = interleaved(turns, bench.counts.rounds)
    yield _commit_row("unchanged", measured, Rounds(processor), len(paths))
    yield _commit_row("one file changed", measured, Rounds(processor), len(paths), "changed", less=["keep"])


def _commit_row(
    what: str, measured: Rounds, processor: Rounds, count: int, name: str = "unchanged", less: Sequence[str] = ()
) -> Row:
    compared, spent = (_less(each, name, less) for each in (measured, processor))
    spread = compared.spread("ours", "hashlib")
    return Row(
        f"commit of a workspace of {count:,} files of 4 KiB, {what}",
        "open().read() and sha256 of each" + (", and keeping that file" if less else ""),
        round(compared.ratio("ours", "hashlib"), 3),
        bar=Bar("at most", MOST_FOR_COMMIT),
        detail=f"{_ms(measured, name)} against {_ms(measured, 'hashlib')}"
        + "".join(f" and {_ms(measured, each)}" for each in less)
        + f"; quartiles {spread}; of the processor alone {spent.ratio('ours', 'hashlib'):.2f}",
        raw={f"{each}_ms": round(measured.median(each) * 1e3, 3) for each in (name, "hashlib", *less)},
    )


def _less(measured: Rounds, name: str, less: Sequence[str]) -> Rounds:
    """A contender without what others took in the same round."""
    columns = [measured.measured[name], *([-each for each in measured.measured[one]] for one in less)]
    return Rounds({"ours": [sum(figures) for figures in zip(*columns, strict=True)], "hashlib": measured.measured["hashlib"]})


def _restores(bench: Bench, folder: Path) -> Iterator[Row]:
    paths = _filled(folder / "work", bench.counts.workspace_files)
    contents = [path.read_bytes() for path in paths]
    beside = [folder / "beside" / path.relative_to(folder / "work") for path in paths]
    with _task(folder) as task:
        task.resume({})
        checkpoint = task.checkpoints()[0].checkpoint_id

        def restored(spoil: Callable[[], object]) -> Turn:
            def take() -> float:
                spoil()
                os.sync()
                started = time.perf_counter()
                done = task.manager.restore(task.manager.plan_restore(checkpoint), lease=task.lease)
                taken = time.perf_counter() - started
                assert done.verified, done.plan.explain()
                return taken

            return take

        def by_hand() -> float:
            shutil.rmtree(folder / "beside", ignore_errors=True)
            os.sync()
            started = time.perf_counter()
            _write_by_hand(beside, contents)
            return time.perf_counter() - started

        turns = {
            "by hand": by_hand,
            "gone": restored(lambda: _empty(folder / "work")),
            "rewritten": restored(lambda: _rewrite(*paths)),
        }
        measured = interleaved(turns, bench.counts.restores)
    for name, what in (("gone", "all of them gone"), ("rewritten", "all of them rewritten, and kept first")):
        yield Row(
            f"plan and restore of {len(paths):,} files of 4 KiB, {what}",
            "temporary file, sync, rename each; sync of the folders",
            round(measured.ratio(name, "by hand"), 3),
            bar=Bar("at most", MOST_FOR_RESTORE) if name == "gone" else None,
            detail=f"{_ms(measured, name)} against {_ms(measured, 'by hand')}; quartiles {measured.spread(name, 'by hand')}",
            raw={f"{each.replace(' ', '_')}_ms": round(measured.median(each) * 1e3, 3) for each in (name, "by hand")},
        )


def _versions(bench: Bench, folder: Path, name: str, *, workspace: bool) -> Row:
    lines = [os.urandom(_LINE // 2).hex()[:-1] + "\n" for _ in range(_TEXT // _LINE)]
    work, steps = folder / "work", bench.counts.versions
    work.mkdir()
    given: dict[str, Any] = {"workspace": work} if workspace else {}
    with (
        CheckpointManager(folder / "registry.sqlite", work, durability="relaxed") as manager,
        manager.task("t", **given) as task,
    ):
        for number in range(steps):
            lines[number * 7919 % len(lines)] = os.urandom(_LINE // 2).hex()[:-1] + "\n"
            with task.step("tool_executed", {"n": number}) as step:
                (work / "text").write_text("".join(lines))
                if not workspace:
                    step.proves_file("text")
        content = manager.vault_report().bytes
    taken = sum(
        os.lstat(os.path.join(at, each)).st_blocks * _BLOCK
        for at, dirs, files in os.walk(folder / "vault")
        for each in dirs + files
    )
    copies = steps * len("".join(lines))
    return Row(
        f"{steps:,} versions of a text of 100 KB, a line changed in each, {name}",
        "as many copies",
        round(taken / copies, 4),
        bar=Bar("at most", MOST_FOR_VERSIONS),
        detail=f"{taken / 1e6:.1f} MB of disk against {copies / 1e6:.1f}; {content / 1e6:.1f} MB of content",
        raw={"bytes_on_disk": taken, "bytes_of_content": content, "bytes_of_copies": copies},
    )


def _filled(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"{number // _PER_FOLDER}" / f"{number}.txt" for number in range(count)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    _rewrite(*paths)
    return paths


def _rewrite(*paths: Path) -> None:
    for path in paths:
        path.write_bytes(os.urandom(_SMALL))


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each)


def _hash(paths: list[Path]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            hashlib.sha256(file.read()).digest()


def _task(folder: Path) -> Task:
    return CheckpointManager(folder / "registry.sqlite").task("t", workspace=folder / "work")


def _twice_timed(prepared: Work, processor: list[float]) -> Turn:
    """A turn that takes its time, and notes that of the processor: how long it waits depends on who else uses the disk."""

    def take() -> float:
        work = prepared()
        started, busy = time.perf_counter(), time.process_time()
        work()
        processor.append(time.process_time() - busy)
        return time.perf_counter() - started

    return take


def _step_of(task: Task, *changed: Path) -> Callable[[], None]:
    """A whole step with nothing in it: its intent, the look at everything, what is kept, and its end."""
    _rewrite(*changed)

    def step() -> None:
        with task.step("tool_executed", {}):
            pass

    return step


def _keep_of(task: Task) -> Callable[[], None]:
    """What is kept of such a step: one new content, durable."""
    data = os.urandom(_SMALL)

    def keep() -> None:
        with task.manager._hands().keeping() as kept:  # noqa: SLF001 - it is the measured thing
            kept.bytes(data)
            kept.settle()

    return keep


def _write_by_hand(paths: list[Path], contents: list[bytes]) -> None:
    for path, data in zip(paths, contents, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    for folder in {path.parent for path in paths}:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)


def _ms(measured: Rounds, name: str) -> str:
    return f"{measured.median(name) * 1e3:,.1f} ms"
