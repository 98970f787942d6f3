"""Damaged run stores: what is served is what was saved, or the store says that it is damaged.

Bit flips, zeroed and swapped pages, cut files and swapped files, each drawn from the run's seed and named in a finding. A file
store refuses every change of a node's file; in a database a change may also hit what nobody reads.
"""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agentos.errors import CheckpointNotFoundError, StoreCorruptError, StoreError
from agentos.store import CheckpointStore, FileStore, SQLiteStore
from agentos.store.runs import nodefile, rows
from tests.faults.corrupt import PAGE, damage

Count = Callable[[int, int], int]
RUNS = ["run 1", "run 2", "run 3"]
# Small, so that rows and headers are hit as often as bytes; and one that takes several pages.
SIZES = [*range(0, 330, 30), 9000]
SAVED = {(run, f"node {size}"): Random(f"{run} {size}").randbytes(size) for run in RUNS for size in SIZES}


def fill(store: CheckpointStore) -> None:
    for (run, node), data in SAVED.items():
        store.save(run, node, data)
    store.save("forgotten", "node", b"x" * 9000)
    store.delete_run("forgotten")


def asked(call: Callable[[], object]) -> object:
    """What the store says; None if it says that it is damaged."""
    try:
        return call()
    except CheckpointNotFoundError:
        return "not found"
    except StoreError:
        return None
    except (TypeError, OverflowError):
        # Only when a check was left out on purpose: the damage went further than it should.
        return "nonsense"


def wrongly_served(store: CheckpointStore) -> list[str]:
    """A sentence for each answer that is neither right nor a refusal."""
    found = [f"load{place}" for place, data in SAVED.items() if asked(partial(store.load, *place)) not in [data, None]]
    expected = [(f"node {size}", number, size) for number, size in enumerate(SIZES, start=1)]
    for run in RUNS:
        infos: Any = asked(partial(store.list, run))
        if infos is not None and (
            infos == "nonsense" or expected != [(each.node_id, each.sequence, each.size) for each in infos]
        ):
            found.append(f"list({run!r})")
    return found + (["list_runs()"] if asked(store.list_runs) not in [RUNS, None] else [])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A store at rest: everything is in the one file."""
    path = tmp_path / "runs.sqlite"
    with SQLiteStore(path) as store:
        fill(store)
    return path


def served_from_damaged(path: Path, seed: Any, count: int, around: bytes = b"") -> list[str]:
    """What is served wrongly after each of so many damages: to the whole file, or to the page that holds `around`."""
    whole = path.read_bytes()
    start = whole.index(around) // PAGE * PAGE
    end = start + PAGE if around else len(whole)
    found = []
    for index in range(count):
        done = damage(whole[start:end], seed, index)
        content = whole[:start] + done.content + whole[end:]
        for leftover in (Path(f"{path}-wal"), Path(f"{path}-shm")):
            leftover.unlink(missing_ok=True)
        path.write_bytes(content)
        if not content:
            # Nothing at all is what a new store looks like.
            continue
        try:
            with SQLiteStore(path) as store:
                found += [f"{what} | {done.description}" for what in wrongly_served(store)]
        except StoreError:
            continue
    path.write_bytes(whole)
    return found


def test_a_damaged_database_serves_nothing_wrong(database: Path, seed: int, count: Count, capfd):
    """Neither bytes nor lists, and what is not found was never there."""
    assert [] == served_from_damaged(database, seed, count(200, 1000))


def _unchecked_row(columns: Sequence[Any]) -> rows.Row:
    return rows.Row._make((*columns[:-1], rows.row_digest(columns[:-1])))


def _unchecked_bytes(self: rows.Tables, run_id: str, node_id: str) -> bytes | None:
    *_, data_id = self._execute(rows.SQL["row"], (run_id, node_id)).fetchone() or [None]
    held = self._execute(rows.SQL["data"], (data_id, run_id, node_id)).fetchone()
    return held[0] if held else None


ANY = RUNS[1], f"node {SIZES[3]}"
# As a row of run_nodes begins: run, node, sequence and size, each of these two in one byte.
ROW = "".join(ANY).encode() + bytes([4, SIZES[3]])
FAULTS = {
    "rows": (rows, "checked", _unchecked_row, ROW),
    "bytes": (rows.Tables, "load", _unchecked_bytes, SAVED[ANY]),
}


@pytest.mark.planted
@pytest.mark.parametrize("fault", FAULTS)
def test_a_check_that_is_left_out_is_found(database: Path, seed: int, monkeypatch, fault):
    """Without the seals of rows, or the digests of bytes, damage is served, and the torture says so."""
    owner, name, unchecked, around = FAULTS[fault]
    monkeypatch.setattr(owner, name, unchecked)
    assert any(served_from_damaged(database, f"{seed} {attempt}", 50, around) for attempt in range(10))


@pytest.mark.parametrize("fault", FAULTS)
def test_damage_where_it_hurts_serves_nothing_wrong(database: Path, seed: int, count: Count, fault):
    """The same places, with every check in place."""
    assert [] == served_from_damaged(database, seed, count(50, 500), FAULTS[fault][-1])


KEYS = {"without a key": None, "with a key": b"k" * 32}


@pytest.fixture(params=KEYS)
def filled(request, tmp_path: Path) -> tuple[Path, bytes | None]:
    path, key = tmp_path / "runs", KEYS[request.param]
    with FileStore(path, key=key) as store:
        fill(store)
    return path, key


def node_path(base: Path, run: str, node: str) -> Path:
    return base / nodefile.folder_name(run) / nodefile.file_name(node)


def refused_by(base: Path, key: bytes | None, places: list[tuple[str, str]]) -> list[str]:
    """A sentence for each of these nodes that is not refused with the name of its file, by load and by list."""
    found = []
    with FileStore(base, key=key) as store:
        for run, node in places:
            for what, call in (("load", lambda: store.load(run, node)), ("list", lambda: store.list(run))):  # noqa: B023
                try:
                    call()
                except StoreCorruptError as error:
                    if what == "load" and nodefile.file_name(node) not in error.message:
                        found.append(f"{what} does not name the file of {node}")
                else:
                    found.append(f"{what} of {run} {node}")
    return found


def damaged_data_only(content: bytes, changed: bytes) -> bool:
    """Whether the two lines at the beginning are whole: a list reads no further."""
    start = content.index(b"\n", content.index(b"\n") + 1) + 1
    return content[:start] == changed[:start]


def test_every_damaged_file_is_refused_with_its_name(filled, seed: int, count: Count):
    """Any bit, any cut, any page: of a node's file everything is under its seal."""
    base, key = filled
    found: list[str] = []
    for index in range(count(150, 800) // len(KEYS)):
        place = Random(f"{seed} {index}").choice(list(SAVED))
        path = node_path(base, *place)
        whole = path.read_bytes()
        done = damage(whole, seed, index)
        path.write_bytes(done.content)
        problems = refused_by(base, key, [place])
        if damaged_data_only(whole, done.content):
            problems = [problem for problem in problems if not problem.startswith("list of")]
        found += [f"{problem} | {done.description}" for problem in problems]
        path.write_bytes(whole)
    with FileStore(base, key=key) as store:
        assert [] == wrongly_served(store) + found


def test_every_swapped_file_is_refused_with_its_name(filled, seed: int, count: Count):
    """Two whole files that changed places, within a run or between two."""
    base, key = filled
    found: list[str] = []
    for index in range(count(50, 200) // len(KEYS)):
        one, other = Random(f"{seed} {index}").sample(list(SAVED), 2)
        paths = node_path(base, *one), node_path(base, *other)
        contents = [path.read_bytes() for path in paths]
        for path, content in zip(paths, reversed(contents), strict=True):
            path.write_bytes(content)
        found += [f"{problem} | {one} and {other}" for problem in refused_by(base, key, [one, other])]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
    assert [] == found


def test_swapped_folders_are_refused(filled):
    """A run is not another run because its folder has that one's name."""
    base, key = filled
    one, other = (base / nodefile.folder_name(run) for run in RUNS[:2])
    shutil.move(one, base / "aside")
    shutil.move(other, one)
    shutil.move(base / "aside", other)
    assert [] == refused_by(base, key, [place for place in SAVED if place[0] in RUNS[:2]])
