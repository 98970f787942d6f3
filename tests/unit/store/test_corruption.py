"""What was read is what was written, or reading raises: no damaged byte, row or index is ever served."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager
from agentos.core.checkpoints.overviews import TaskOverview
from agentos.errors import CheckpointError, CheckpointNotFoundError, StepNotFoundError, StoreCorruptError, StoreError
from tests.faults.corrupt import damage
from tests.support import content, execute, exists

Count = Callable[[int, int], int]
SEALED = ("tasks", "steps", "snapshots", "verifications")


class Registry:
    """A registry with one of everything, closed, and what it answers when nothing is wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "registry.sqlite"
        (folder / "out.txt").write_text("one")
        with CheckpointManager(self.path, folder) as manager:
            self.first = self._commit(manager, "tool_executed", content("out.txt", "one"))
            self.named = self._commit(manager, "iteration_end", exists("out.txt"), "a name", {"after": [1]})
            self.failed = self._commit(manager, "tool_executed", exists("gone.txt"))
            self.superseded = self._commit(manager, "llm_response", exists("out.txt"))
            manager.verify_checkpoint(self.first)
            manager.verify_checkpoint(self.named)
            manager.verify_checkpoint(self.failed)
            self.other = self._commit(manager, "tool_executed", exists("out.txt"), task="other")
            self.steps = [each.step_id for each in manager.list_checkpoints("t")]
            self.open = manager.begin_step("t", "tool_executed", {"open": True}, "item", {"m": 1})
            manager.note_error(self.open, ValueError("interrupted"))
        self.right = self.answers(self.path)

    def _commit(self, manager: CheckpointManager, kind: str, pack: Any, name=None, after=None, task="t") -> str:
        step = manager.begin_step(task, kind, {"before": kind}, "item", {"m": 1})
        return manager.commit_step(step, pack, name, snapshot=after).checkpoint_id

    def questions(self, manager: CheckpointManager) -> dict[str, Callable[[], Any]]:
        asked: dict[str, Callable[[], Any]] = {
            "list": lambda: manager.list_checkpoints("t", include_superseded=True),
            "list of a type": lambda: manager.list_checkpoints("t", 10, "tool_executed"),
            "list of the other": lambda: manager.list_checkpoints("other"),
            "last": lambda: manager.get_last_verified_checkpoint("t"),
            "last of a type": lambda: manager.get_last_verified_checkpoint("t", "tool_executed"),
            "open": lambda: manager.list_open_steps("t"),
            "tasks": lambda: intact(manager.list_tasks().tasks),
            "log": lambda: intact(manager.task_log("t", limit=100).events),
            "looks": lambda: unless_gone(manager.verification_history, self.first),
            "changes": lambda: unless_gone(manager.compare_checkpoints, self.named),
        }
        for name in (self.first, self.named, self.failed, self.superseded, self.other):
            asked[f"get {name}"] = partial(manager.get_checkpoint, name)
        for step in (*self.steps, self.open):
            asked[f"step {step}"] = partial(manager.get_step, step)
        return asked

    def answers(self, path: Path) -> dict[str, Any]:
        """What each question gives: an answer, or the error of a damaged store."""
        given: dict[str, Any] = {}
        try:
            with CheckpointManager(path, self.folder) as manager:
                for name, ask in self.questions(manager).items():
                    try:
                        given[name] = ask()
                    except StoreError as error:
                        given[name] = error
        except StoreError as error:
            given["open the file"] = error
        return given

    def copy(self, to: Path) -> Path:
        to.parent.mkdir(exist_ok=True)
        shutil.copyfile(self.path, to)
        return to


def unless_gone(ask: Callable[[str], Any], checkpoint_id: str) -> Any:
    """The answer, or None where no such checkpoint is known."""
    try:
        return ask(checkpoint_id)
    except CheckpointNotFoundError:
        return None


def intact(page: Sequence[Any]) -> list[Any]:
    """A page for people, of which nothing is said to be damaged; without what only a walk over everything could miss."""
    damaged = [each for each in page if "damaged" in (getattr(each, "status", ""), getattr(each, "state", ""))]
    if damaged:
        raise StoreCorruptError(f"{damaged[0]}")
    if page and isinstance(page[0], TaskOverview):
        return [replace(each, interrupted=0) for each in page]
    return [each for each in page if each.kind != "step"]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return Registry(tmp_path_factory.mktemp("registry"))


def compare(registry: Registry, path: Path) -> tuple[list[str], list[StoreError]]:
    """The questions that were answered wrongly, and the errors that were raised."""
    given = registry.answers(path)
    errors = [answer for answer in given.values() if isinstance(answer, StoreError)]
    wrong = [name for name, answer in given.items() if not isinstance(answer, StoreError) and answer != registry.right[name]]
    return wrong, errors


def test_the_registry_of_these_tests_answers_everything(registry: Registry, tmp_path: Path):
    """Nothing is damaged, nothing raises: what the tests below compare with is whole."""
    assert ([], []) == compare(registry, registry.copy(tmp_path / "copy.sqlite"))
    assert 4 == len(registry.right["list"])


def columns(registry: Registry) -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(registry.path)) as connection:
        for table in SEALED:
            for row in connection.execute(f"pragma table_info({table})").fetchall():
                yield table, row[1]


def changes(value: Any) -> list[Any]:
    """Other values that a column could come to hold: of its own type, of another, and none."""
    if isinstance(value, bytes):
        flipped = value[:-1] + bytes([value[-1] ^ 1]) if value else b"x"
        return [flipped, value.hex(), value.decode(errors="replace"), None]
    if isinstance(value, str):
        return [value[:-1] + chr(ord(value[-1]) ^ 1), value.encode(), None, b"\xff\xfe"]
    if isinstance(value, int):
        return [value + 1, value ^ (1 << 40), str(value), None]
    return ["text", b"blob", 1]


def test_every_column_of_every_sealed_row_is_watched(registry: Registry, tmp_path: Path):
    """Each column of tasks, steps, snapshots and verifications is changed, one at a time: reading raises, or is still right."""
    path = tmp_path / "damaged.sqlite"
    unnoticed = []
    for table, column in columns(registry):
        with closing(sqlite3.connect(registry.path)) as connection:
            key = {"tasks": "task_id", "steps": "step_id", "snapshots": "snapshot_id", "verifications": "step_id"}[table]
            rows = connection.execute(f"select {key}, {column} from {table}").fetchall()
        for identity, value in rows[: 2 if table == "steps" else 1]:
            for other in changes(value):
                registry.copy(path)
                if not changed(path, table, column, other, key, identity):
                    continue
                wrong, errors = compare(registry, path)
                where = f"{table}.{column}: {value!r} -> {other!r}"
                if column == "step_key":
                    # SQL moves the row in the table and in every index: then it is gone under its own name, and only there.
                    wrong = [name for name in wrong if not name.startswith(("get", "step", "looks", "changes"))]
                assert not wrong, f"{where}: served {wrong}"
                # The seal spells bytes in hexadecimal: the same bytes as text are no accident, and are served as nothing else.
                spelled = isinstance(value, bytes) and other == value.hex()
                noticed = spelled or any(isinstance(error, StoreCorruptError) for error in errors)
                unnoticed += [] if noticed else [where]
    assert [] == unnoticed


def changed(path: Path, table: str, column: str, value: Any, key: str, identity: Any) -> bool:
    """Whether SQLite took the other value, and it is another."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma ignore_check_constraints = on")
        sql = f"update {table} set {column} = ? where {key} = ? and {column} is not ?"
        try:
            with connection:
                count = connection.execute(sql, (value, identity, value)).rowcount
            stored = connection.execute(f"select {column} from {table}").fetchall()
        except sqlite3.Error:
            # A column that cannot be null, or a key that cannot be text: SQLite itself refuses.
            return False
    return count == 1 and any(type(each) is type(value) and each == value for (each,) in stored)


VANISHED = {
    "the newest checkpoint": "delete from steps where task_id = 't' and place = 4",
    "a checkpoint in the middle": "delete from steps where task_id = 't' and place = 2",
    "the oldest checkpoint": "delete from steps where task_id = 't' and place = 1",
    "every checkpoint": "delete from steps where task_id = 't' and state = 'committed'",
    "the task": "delete from tasks where task_id = 't'",
    "the first snapshot": "delete from snapshots where snapshot_id = (select min(snapshot_id) from snapshots)",
    "every snapshot": "delete from snapshots",
    "a verification": "delete from verifications where number = 2",
    "every verification": "delete from verifications",
}


@pytest.mark.parametrize("what", VANISHED)
def test_a_row_that_vanished_is_noticed(registry: Registry, tmp_path: Path, what: str):
    """Rows deleted behind our back: the timeline raises, and what is still answered is right."""
    path = registry.copy(tmp_path / "damaged.sqlite")
    assert execute(path, VANISHED[what]) >= 1
    with CheckpointManager(path, registry.folder) as manager:
        raised = 0
        for name, ask in registry.questions(manager).items():
            try:
                answer = ask()
            except StoreCorruptError:
                raised += 1
                continue
            # A row that is gone from the table and every index of it cannot be asked for by name any more.
            assert answer in (registry.right[name], None), name
        assert raised >= 1
        if "checkpoint" in what:
            with pytest.raises(StoreCorruptError):
                manager.list_checkpoints("t")


def test_a_vanished_task_is_not_begun_anew(registry: Registry, tmp_path: Path):
    """A task row that is gone while its steps are there is damage: no second task starts counting at 1."""
    path = registry.copy(tmp_path / "damaged.sqlite")
    execute(path, "delete from tasks where task_id = 't'")
    with CheckpointManager(path, registry.folder) as manager:
        for call in (lambda: manager.begin_step("t", "tool_executed", {}), lambda: manager.finish_task("t")):
            with pytest.raises(StoreCorruptError, match="task t: the registry is damaged"):
                call()
        with pytest.raises(StoreCorruptError):
            manager.commit_step(registry.open, exists("out.txt"))


@pytest.mark.parametrize("column", ["sequence", "head", "status"])
def test_nothing_is_written_on_top_of_a_damaged_task(registry: Registry, tmp_path: Path, column: str):
    """A counter that was changed draws no number: the commit raises, and the step stays begun."""
    path = registry.copy(tmp_path / "damaged.sqlite")
    execute(path, f"update tasks set {column} = ? where task_id = 't'", "completed" if column == "status" else 1)
    with CheckpointManager(path, registry.folder) as manager:
        with pytest.raises(StoreCorruptError):
            manager.commit_step(registry.open, exists("out.txt"))
        step = manager.get_step(registry.open)
    assert step is not None
    assert "begun" == step.state


@pytest.mark.parametrize("table", ["steps", "tasks"])
def test_damage_under_a_running_manager_is_found_by_it(tmp_path: Path, table: str):
    """What a process remembers of a row hides no damage: the next read, or the next write, finds it."""
    (tmp_path / "out.txt").write_text("one")
    path = tmp_path / "registry.sqlite"
    with CheckpointManager(path, tmp_path) as manager:
        manager.commit_step(manager.begin_step("t", "tool_executed", {}), exists("out.txt"))
        step = manager.begin_step("t", "tool_executed", {})
        column = "host" if table == "steps" else "created_at"
        execute(path, f"update {table} set {column} = 'somewhere else'")

        def go_on() -> None:
            manager.commit_step(step, exists("out.txt"))
            manager.list_checkpoints("t")
            manager.get_last_verified_checkpoint("t")

        with pytest.raises(StoreCorruptError):
            go_on()


@pytest.mark.parametrize(
    "sql",
    [
        "update claims set item = 99",
        "update claims set item = -1",
        "update claims set item = 'x'",
        "delete from claims",
    ],
)
def test_a_damaged_index_of_claims_explains_less_and_breaks_nothing(tmp_path: Path, sql: str):
    """The claims are derived from the packs: when they are damaged, a rollback is refused as before, without the recorder."""
    path = tmp_path / "registry.sqlite"
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(path, tmp_path) as manager:
        first = manager.commit_step(manager.begin_step("t", "tool_executed", {}), content("out.txt", "one"))
        (tmp_path / "out.txt").write_text("two")
        manager.commit_step(manager.begin_step("t", "tool_executed", {}), content("out.txt", "two"))
        execute(path, sql)
        with pytest.raises(CheckpointError, match=r"does not hold: out.txt: expected sha256") as error:
            manager.rollback_to_checkpoint(first.checkpoint_id)
    assert "recorded what is there now" not in error.value.message


def test_rows_that_changed_places_are_noticed(registry: Registry, tmp_path: Path):
    """Two whole rows with each other's keys: each is intact, and neither is what was written there."""
    for table, column, first, second in (
        ("snapshots", "snapshot_id", 1, 3),
        ("steps", "place", 1, 3),
        ("tasks", "task_id", "t", "other"),
    ):
        path = registry.copy(tmp_path / "damaged.sqlite")
        for old, new in ((first, "swap"), (second, first), ("swap", second)):
            value = {"swap": 987_654 if isinstance(first, int) else "swap"}
            extra = " and task_id = 't'" if table == "steps" else ""
            execute(
                path,
                f"update {table} set {column} = ? where {column} = ?{extra}",
                value.get(str(new), new),
                value.get(str(old), old),
            )
        wrong, errors = compare(registry, path)
        assert [] == wrong, table
        assert any(isinstance(error, StoreCorruptError) for error in errors), table


def test_an_older_version_of_a_row_is_noticed(tmp_path: Path):
    """A row put back as it was before, whole and sealed, does not fit what stands around it."""
    path = tmp_path / "registry.sqlite"
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(path, tmp_path) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        with closing(sqlite3.connect(path)) as connection:
            before = connection.execute("select * from steps").fetchone()
        manager.commit_step(step, exists("out.txt"))
        execute(path, f"insert or replace into steps values ({', '.join('?' * len(before))})", *before)
        with pytest.raises(StoreCorruptError):
            manager.list_checkpoints("t")
        with pytest.raises(StoreCorruptError):
            manager.get_last_verified_checkpoint("t")


def test_random_damage_to_the_file_is_never_served(registry: Registry, tmp_path: Path, seed: int, count: Count):
    """Bits, bytes, sectors and pages of the file are damaged, one at a time: an answer is the right one or an error of ours."""
    pristine = registry.path.read_bytes()
    path = tmp_path / "damaged.sqlite"
    for index in range(count(150, 5000)):
        done = damage(pristine, seed, index)
        if not done.content:
            # An empty file is a new one: there is nothing in it that could tell.
            continue
        for beside in ("-wal", "-shm"):
            Path(f"{path}{beside}").unlink(missing_ok=True)
        path.write_bytes(done.content)
        wrong, _ = compare(registry, path)
        assert not wrong, f"{done.description} (--seed={seed}, index {index}): served {wrong}"


def test_a_step_that_never_was_is_unknown_and_not_damage(registry: Registry):
    """Asking for what is not there is an ordinary answer, however much the id looks like one of ours."""
    with CheckpointManager(registry.path, registry.folder) as manager:
        for name in ("nope", "01ARZ3NDEKTSV4RRFFQ69G5FAV", registry.open.removeprefix("step_")):
            assert manager.get_checkpoint(name) is None
            with pytest.raises(CheckpointNotFoundError):
                manager.verify_checkpoint(name)
        assert manager.get_step("step_01ARZ3NDEKTSV4RRFFQ69G5FAV") is None
        with pytest.raises(StepNotFoundError):
            manager.commit_step("step_01ARZ3NDEKTSV4RRFFQ69G5FAV", exists("out.txt"))
