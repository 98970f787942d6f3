"""The doctor and what is wrong: bits, bytes, sectors, pages of a registry, of a run store in its file, and of kept content.

After each damage everything that anybody could read is read (stored.py), and the doctor is asked. What reads differently must
be found; a damage that changes nothing anybody reads, in a page that is free or a byte that is not used, may go unnoticed.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import StoreError
from tests.faults.corrupt import damage
from tests.faults.replay import FASTEST_SCRATCH
from tests.support import dump, execute
from tests.torture import stored
from tests.unit.cli.program import agentos


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with its vault, in which nothing is wrong."""
    return stored.make(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A place where copying a registry hundreds of times costs no wear."""
    fast = FASTEST_SCRATCH if FASTEST_SCRATCH.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=fast) as directory:
        yield Path(directory)


def copied(whole: Path, scratch: Path) -> Path:
    shutil.rmtree(scratch / "store", ignore_errors=True)
    shutil.copytree(whole.parent, scratch / "store")
    return scratch / "store" / whole.name


def finds(path: Path, *, deep: bool) -> bool:
    """Whether the doctor, or whoever opens the registry for it, says that something is wrong."""
    try:
        with CheckpointManager(path, readonly=True) as manager:
            return not manager.check(deep).is_sound
    except StoreError:
        return True


def test_what_is_whole_is_sound(whole: Path):
    """A doctor who finds something everywhere finds nothing."""
    assert [False, False] == [finds(whole, deep=deep) for deep in (False, True)]


def test_every_damage_that_changes_data_is_found(whole: Path, scratch: Path, seed: int, count):
    """Two of three hit the registry, the others one kept content; some contents are gone."""
    keys = stored.keys_of(whole)
    right = {**stored.read(whole), **stored.look_up(whole, keys)}
    rng = Random(seed)
    missed, changed, quick, unchanged, index = [], 0, 0, 0, 0
    while changed < count(50, 300):
        path = copied(whole, scratch)
        objects = sorted((path.parent / "vault" / "objects").rglob("??*/*"))
        target = path if rng.random() < 2 / 3 else rng.choice(objects)
        index += 1
        if target != path and rng.random() < 0.1:
            target.unlink()
            what = f"{target.name} is gone"
        else:
            done = damage(target.read_bytes(), seed, index)
            target.write_bytes(done.content)
            what = f"{target.name}: {done.description}"
        now = {**stored.read(path), **stored.look_up(path, keys)}
        found = finds(path, deep=True)
        if now == right:
            unchanged += 1
            continue
        changed += 1
        quick += finds(path, deep=False)
        if not found:
            missed.append((what, sorted(name for name in right if now.get(name) != right[name])[:5]))
    assert [] == missed
    print(f"{index} damages, {changed} of them changed data: all found, {quick} by a quick look; {unchanged} changed nothing")


# What vanished without a trace in any seal.

NEWEST = "(select max(place) from steps where task_id = 'named' and place < 1000)"
VANISHED = {
    "a checkpoint": "delete from steps where task_id = 'named' and place = 6",
    "the newest checkpoint": f"delete from steps where task_id = 'named' and place = {NEWEST}",
    "a task": "delete from tasks where task_id = 'named'",
    "the task of a workspace": "delete from tasks where task_id = 'ws'",
    "an open step": "delete from steps where task_id = 'left' and state = 'begun'",
    "a state": "delete from snapshots where snapshot_id = (select max(snapshot_id) from snapshots)",
    "a name": "delete from names where checkpoint_id = 'name-3'",
    "a claim": "delete from claims where task_id = 'named' and sequence = 9",
    "all claims": "delete from claims",
    "a look": "delete from verifications where number = 2",
    "an earlier decision": "delete from decisions where task_id = 'named' and number = 1",
    "what was applied": "delete from schema_version where component = 'runs'",
    "the row of settlement": "delete from settlement",
    "a run": "delete from runs where run_id = 'run-2'",
    "a node": "delete from run_nodes where node_id = 'node-5'",
    "the bytes of a node": "delete from run_data where node_id = 'node-5'",
}


@pytest.mark.parametrize("what", VANISHED)
def test_rows_that_vanished_are_missed(whole: Path, scratch: Path, what: str):
    """Nothing is left whose seal would not fit; what it belonged to misses it, also at a quick look."""
    path = copied(whole, scratch)
    assert execute(path, VANISHED[what])
    assert finds(path, deep=False)


def test_every_column_of_every_row_counts(whole: Path, scratch: Path, seed: int):
    """Any value of any table that is another than was written, with every index kept in step: found at a quick look."""
    rng, unseen, tried = Random(seed), [], 0
    with closing(sqlite3.connect(f"file://{whole}?immutable=1", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        columns = {table: [row[1] for row in connection.execute(f"pragma table_info({table})")] for table in tables}
        rows = {table: connection.execute(f"select * from {table}").fetchall() for table in tables}
    for table, names in columns.items():
        for number, name in enumerate(names):
            row = rng.choice(rows[table])
            path = copied(whole, scratch)
            changed(path, table, names, row, number)
            tried += 1
            if not finds(path, deep=False):
                unseen.append(f"{table}.{name}")
    assert [] == [name for name in unseen if name not in UNREAD]
    print(f"{tried} columns")


# When a migration was applied and how often something was settled: nobody reads them.
UNREAD = ["schema_version.applied_at", "settlement.settled"]


# Far enough from what was there to be nobody else's key.
_OTHER: dict[type, Callable[[Any], Any]] = {
    int: lambda old: old + 1_000_000,
    float: lambda old: old + 1,
    str: lambda old: f"{old}1",
    bytes: lambda old: old + b"1",
}


def changed(path: Path, table: str, names: list[str], row: tuple[Any, ...], number: int) -> None:
    """Change one value of one row, as somebody with a database tool would."""
    old = row[number]
    new = _OTHER.get(type(old), lambda _: "x")(old)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("pragma ignore_check_constraints = on")
        where = " and ".join(f"{name} is ?" for name in names)
        done = connection.execute(f"update {table} set {names[number]} = ? where {where}", (new, *row)).rowcount
    assert 1 == done


def test_the_doctor_changes_nothing_and_its_exit_code_says_what_it_found(whole: Path, scratch: Path):
    """0 for what is whole, 1 for what is damaged, 6 for what cannot be opened; not a byte of the file differs afterwards."""
    path = copied(whole, scratch)
    before, listed = path.read_bytes(), sorted(scratch.rglob("*"))
    assert 0 == agentos("doctor", "--deep", "--db", path).returncode
    assert (before, listed) == (path.read_bytes(), sorted(scratch.rglob("*")))
    execute(path, "update steps set verified = 1 - verified where task_id = 'named' and place = 6")
    damaged = dump(path)
    ended = agentos("doctor", "--db", path)
    assert (1, damaged) == (ended.returncode, dump(path))
    path.write_bytes(path.read_bytes()[:5000])
    assert 6 == agentos("doctor", "--db", path).returncode
