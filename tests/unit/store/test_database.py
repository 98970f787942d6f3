"""One SQLite file, used the way a recovery manager must: durable, private, patient, and safe between threads."""

import logging
import os
import shutil
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidenceType
from agentos.core.checkpoints.observing import Observation, Surroundings
from agentos.errors import (
    CheckpointError,
    EvidenceMismatchError,
    OutcomeUnknownError,
    SchemaTooNewError,
    StepAlreadyCommittedError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreReplacedError,
    StoreUnavailableError,
)
from agentos.probes import PROBES
from agentos.store import database, opening, waiting
from tests.support import dump, execute, exists, start


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


@pytest.fixture
def manager(db: Path, tmp_path: Path):
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path, lock_timeout=10) as manager:
        yield manager


def commit(manager: CheckpointManager, task: str = "t") -> int:
    return manager.commit_step(manager.begin_step(task, "tool_executed", {}), exists("out.txt")).sequence_number


def settled(db: Path) -> int:
    with closing(sqlite3.connect(db)) as connection:
        return int(connection.execute("select settled from settlement").fetchone()[0])


class Wrapped:
    """A connection whose statements can be made to fail: `before` and `after` see each statement."""

    def __init__(self, connection: sqlite3.Connection, before=lambda sql: None, after=lambda sql: None) -> None:
        self._connection = connection
        self._before = before
        self._after = after

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self._before(sql)
        cursor = self._connection.execute(sql, *parameters)
        self._after(sql)
        return cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.fixture
def wrap(monkeypatch):
    """From now on every new connection is wrapped with these two."""
    real = opening.connect

    def wrapper(**seen: Any) -> None:
        monkeypatch.setattr(opening, "connect", lambda *arguments: Wrapped(real(*arguments), **seen))

    return wrapper


def sqlite_error(code: int, text: str = "injected") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    error.sqlite_errorname = f"CODE_{code}"
    return error


SYNC_FAILED = sqlite3.SQLITE_IOERR | (4 << 8)


# Every connection is durable.


def test_every_connection_is_in_wal_mode_with_synchronous_full(manager: CheckpointManager):
    """Also the connection that is opened after a fork, and the one after a failure, has both settings read back."""
    database = manager._registry._database  # type: ignore[attr-defined]
    for reopen in (lambda: None, database._disconnect, lambda: (database.before_fork(), database.after_fork())):
        reopen()
        commit(manager)
        connection = database._connection
        assert ("wal", 2) == tuple(
            connection.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        )


def test_a_connection_that_will_not_sync_is_refused(db: Path, wrap, monkeypatch):
    """When SQLite does not take the setting, nothing that it acknowledges could be trusted: the file is not used."""

    class Deaf(Wrapped):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            return super().execute("select 1" if sql.startswith("pragma synchronous") else sql, *parameters)

    real = opening.connect
    monkeypatch.setattr(opening, "connect", lambda *arguments: Deaf(real(*arguments)))
    with pytest.raises(StoreUnavailableError, match="SQLite would not set synchronous"):
        CheckpointManager(db)


def test_a_file_system_without_a_write_ahead_log_is_refused(db: Path):
    """Another journal mode than WAL is no answer: the registry says where to put the file."""

    class Stubborn:
        def execute(self, sql: str) -> Any:
            return sqlite3.connect(":memory:").execute("select 'delete'")

    with pytest.raises(StoreUnavailableError, match=r"cannot hold a SQLite write-ahead log \(journal mode is delete\)"):
        opening.switch_to_wal(Stubborn(), str(db), 1.0)  # type: ignore[arg-type]


# The switch to WAL.


def test_a_switch_to_wal_that_answers_locked_is_tried_again():
    """Concurrent switches answer `locked` now and then in spite of any timeout; asking again is the answer."""
    answers = [sqlite_error(sqlite3.SQLITE_BUSY, "database is locked"), sqlite_error(sqlite3.SQLITE_LOCKED)]

    class Contended:
        def execute(self, sql: str) -> Any:
            assert "pragma journal_mode = wal" == sql
            if answers:
                raise answers.pop()
            return sqlite3.connect(":memory:").execute("select 'wal'")

    opening.switch_to_wal(Contended(), "x.sqlite", 5.0)  # type: ignore[arg-type]
    assert [] == answers


def test_many_openers_at_once_all_succeed(db: Path, tmp_path: Path):
    """Threads with managers of their own open one new file together; none of them is told `locked`."""
    barrier = threading.Barrier(12)
    troubles: list[BaseException] = []
    numbers: list[int] = []
    (tmp_path / "out.txt").write_text("one")

    def opener() -> None:
        try:
            barrier.wait()
            with CheckpointManager(db, tmp_path) as mine:
                numbers.append(commit(mine))
        except BaseException as error:  # noqa: BLE001 - a thread's error is reported by the test
            troubles.append(error)

    threads = [threading.Thread(target=opener) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == troubles
    assert list(range(1, 13)) == sorted(numbers)


# Private.


def test_the_database_is_private_and_its_folder_kept_out_of_version_control(tmp_path: Path):
    """0600 for the file and its log, 0700 and a .gitignore for each folder that was made, whatever the umask."""
    before = os.umask(0)
    try:
        with CheckpointManager(tmp_path / "a" / "b" / "registry.sqlite") as manager:
            manager.begin_step("t", "tool_executed", {})
            folder = tmp_path / "a" / "b"
            files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.name != ".gitignore"}
    finally:
        os.umask(before)
    assert {"registry.sqlite": 0o600, "registry.sqlite-wal": 0o600, "registry.sqlite-shm": 0o600} == files
    for made in (tmp_path / "a", folder):
        assert 0o700 == stat.S_IMODE(made.stat().st_mode)
        assert "*\n" == (made / ".gitignore").read_text()


def test_a_folder_that_was_there_is_left_as_it_is(tmp_path: Path):
    """Nobody's folder is made private or ignored behind their back."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    with CheckpointManager(folder / "registry.sqlite"):
        pass
    assert 0o755 == stat.S_IMODE(folder.stat().st_mode)
    assert ["registry.sqlite"] == [path.name for path in folder.iterdir()]


# A commit whose outcome is unknown.


@pytest.mark.parametrize("landed", [True, False])
def test_after_a_sync_error_the_same_call_commits_exactly_once(db: Path, tmp_path: Path, wrap, landed: bool):
    """The outcome is unknown, never acknowledged; calling again gives the one checkpoint, whichever way it went."""
    (tmp_path / "out.txt").write_text("one")
    CheckpointManager(db).close()
    failures: list[str] = []

    def fail(sql: str) -> None:
        if sql == "commit" and failures:
            failures.pop()
            raise sqlite_error(SYNC_FAILED, "disk I/O error")

    wrap(**{"after" if landed else "before": fail})
    with CheckpointManager(db, tmp_path) as manager:
        step = manager.begin_step("t", "tool_executed", {"n": 1})
        broken = manager._registry._database._connection  # type: ignore[attr-defined]
        failures.append("now")
        with pytest.raises(
            OutcomeUnknownError, match=r"the disk failed during a commit .*; it may or may not be stored"
        ) as error:
            manager.commit_step(step, exists("out.txt"), snapshot={"n": 2})
        assert "make the same call again" in error.value.hint
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            broken.execute("select 1")
        before = settled(db)
        checkpoint = manager.commit_step(step, exists("out.txt"), snapshot={"n": 2})
        assert before + 1 == settled(db)
        assert (1, {"n": 2}, True) == (checkpoint.sequence_number, checkpoint.snapshot_data, checkpoint.verified)
        assert [checkpoint] == manager.list_checkpoints("t")
        with pytest.raises(StepAlreadyCommittedError):
            manager.commit_step(step, exists("out.txt"))


def test_after_a_sync_error_any_next_write_settles_first(db: Path, tmp_path: Path, wrap):
    """Whoever writes next, with whatever durability, makes the unclear commit durable before anything else."""
    (tmp_path / "out.txt").write_text("one")
    CheckpointManager(db).close()
    failures: list[str] = []
    said: list[str] = []

    def watch(sql: str) -> None:
        said.append(sql)
        if sql == "commit" and failures:
            failures.pop()
            raise sqlite_error(SYNC_FAILED)

    wrap(after=watch)
    with CheckpointManager(db, tmp_path, durability="relaxed") as manager:
        step = manager.begin_step("t", "tool_executed", {})
        failures.append("now")
        with pytest.raises(OutcomeUnknownError):
            manager.commit_step(step, exists("out.txt"))
        said.clear()
        manager.begin_step("t", "tool_executed", {})
        writes = [sql.partition(" (")[0] for sql in said if sql.split()[0] in ("pragma", "begin", "update", "insert", "commit")]
        settle = writes.index("update settlement set settled = settled + 1")
        assert "pragma synchronous = 2" in writes[:settle]
        assert "insert into snapshots" not in writes[:settle]
        assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]


def test_a_settling_that_fails_leaves_the_outcome_unknown(db: Path, tmp_path: Path, wrap):
    """As long as no synced write succeeded, nobody is told that the commit is there."""
    (tmp_path / "out.txt").write_text("one")
    CheckpointManager(db).close()
    broken = False

    def fail(sql: str) -> None:
        if sql == "commit" and broken:
            raise sqlite_error(SYNC_FAILED)

    wrap(after=fail)
    with CheckpointManager(db, tmp_path) as manager:
        step = manager.begin_step("t", "tool_executed", {})
        broken = True
        for _ in range(3):
            with pytest.raises(OutcomeUnknownError):
                manager.commit_step(step, exists("out.txt"))
        broken = False
        assert 1 == manager.commit_step(step, exists("out.txt")).sequence_number


def test_a_refused_second_commit_is_settled_by_a_synced_write(manager: CheckpointManager, db: Path, tmp_path: Path):
    """`already committed` is an answer too: whoever gets it may take the checkpoint for durable."""
    step = manager.begin_step("t", "tool_executed", {})
    with CheckpointManager(db, tmp_path) as other:
        other.commit_step(step, exists("out.txt"))
    before = settled(db)
    with pytest.raises(StepAlreadyCommittedError):
        manager.commit_step(step, exists("out.txt"))
    assert before + 1 == settled(db)
    connection = manager._registry._database._connection  # type: ignore[attr-defined]
    assert 2 == connection.execute("pragma synchronous").fetchone()[0]


def test_a_settling_that_touched_nothing_is_no_settling(manager: CheckpointManager, db: Path):
    """If the row that a synced write touches is gone, nothing is written and nothing may be acknowledged."""
    step = manager.begin_step("t", "tool_executed", {})
    manager.commit_step(step, exists("out.txt"))
    execute(db, "delete from settlement")
    with pytest.raises(StoreCorruptError, match="settlement"):
        manager.commit_step(step, exists("out.txt"))


def test_settling_does_not_write_to_a_newer_schema(manager: CheckpointManager, db: Path):
    """The next write of a process that was overtaken is refused, also when that write only settles."""
    manager.begin_step("t", "tool_executed", {})
    execute(db, "pragma user_version = 31")
    before = settled(db)
    with pytest.raises(SchemaTooNewError):
        manager._registry.settle()
    assert before == settled(db)


def test_an_error_before_the_commit_stored_nothing(db: Path, tmp_path: Path, wrap):
    """A disk that fails in the middle of a transaction is another sentence: nothing was stored, and the next call works."""
    (tmp_path / "out.txt").write_text("one")
    CheckpointManager(db).close()
    failures: list[str] = []

    def fail(sql: str) -> None:
        if sql.startswith("insert into snapshots") and failures:
            failures.pop()
            raise sqlite_error(sqlite3.SQLITE_IOERR, "disk I/O error")

    wrap(before=fail)
    with CheckpointManager(db, tmp_path) as manager:
        failures.append("now")
        with pytest.raises(StoreUnavailableError, match=r"the disk failed during write .*; nothing was stored"):
            manager.begin_step("t", "tool_executed", {})
        assert [] == manager.list_open_steps("t")
        assert 1 == commit(manager)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("statement", ["begin immediate", "insert into snapshots", "update steps", "commit"])
def test_an_interrupt_anywhere_in_a_write_leaves_no_lock_behind(db: Path, tmp_path: Path, wrap, statement: str, when: str):
    """Control-C may hit between any two statements: other processes go on, and so does this one."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as first:
        commit(first)
    interrupts: list[str] = []

    def interrupt(sql: str) -> None:
        if sql.startswith(statement) and interrupts:
            interrupts.pop()
            raise KeyboardInterrupt

    wrap(**{when: interrupt})
    with CheckpointManager(db, tmp_path) as manager, CheckpointManager(db, tmp_path, lock_timeout=1) as other:
        step = manager.begin_step("t", "tool_executed", {})
        interrupts.append("now")
        with pytest.raises(KeyboardInterrupt):
            manager.commit_step(step, exists("out.txt"), snapshot={"n": 2})
        interrupts.clear()
        assert 1 <= commit(other)
        checkpoint = manager.commit_step(step, exists("out.txt"), snapshot={"n": 2})
        assert {1, 2, 3} == {each.sequence_number for each in manager.list_checkpoints("t")}
        assert checkpoint in manager.list_checkpoints("t")


def test_an_interrupted_read_leaves_the_connection_usable(db: Path, tmp_path: Path, wrap):
    """A read that was cut short holds no old view of the file."""
    (tmp_path / "out.txt").write_text("one")
    CheckpointManager(db).close()
    interrupts: list[str] = []

    def interrupt(sql: str) -> None:
        if sql == "begin" and interrupts:
            interrupts.pop()
            raise KeyboardInterrupt

    wrap(after=interrupt)
    with CheckpointManager(db, tmp_path) as manager:
        interrupts.append("now")
        with pytest.raises(KeyboardInterrupt):
            manager.list_checkpoints("t")
        with CheckpointManager(db, tmp_path) as other:
            commit(other)
        assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]
        assert 2 == commit(manager)


# A file that was replaced.


@pytest.mark.parametrize("how", ["removed", "replaced", "folder removed", "log removed"])
def test_a_file_replaced_under_a_running_process_is_never_acknowledged(tmp_path: Path, how: str):
    """What would go into a file that nobody can open any more is an error, not a checkpoint."""
    folder = tmp_path / "store"
    db = folder / "registry.sqlite"
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:
        commit(manager)
        step = manager.begin_step("t", "tool_executed", {})
        if how == "removed":
            db.unlink()
        elif how == "replaced":
            with CheckpointManager(tmp_path / "new.sqlite"):
                pass
            (tmp_path / "new.sqlite").replace(db)
        elif how == "folder removed":
            folder.rename(tmp_path / "gone")
            folder.write_text("now a file")
        else:
            Path(f"{db}-wal").unlink()
        with pytest.raises(StoreReplacedError, match="the file was removed or replaced while it was in use"):
            manager.commit_step(step, exists("out.txt"))


def test_a_folder_swapped_for_a_copy_of_the_same_age_is_noticed(tmp_path: Path):
    """A backup put in the place of a quiet folder has the same times and the same names; it is not the same file."""
    folder = tmp_path / "store"
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(folder / "registry.sqlite", tmp_path) as manager:
        commit(manager)
        os.utime(folder, (1_000_000_000, 1_000_000_000))
        commit(manager)
        commit(manager)
        shutil.copytree(folder, tmp_path / "copy")
        shutil.copystat(folder, tmp_path / "copy")
        folder.rename(tmp_path / "old")
        (tmp_path / "copy").rename(folder)
        step = ""
        with pytest.raises(StoreReplacedError):
            step = manager.begin_step("t", "tool_executed", {})
        assert "" == step


@pytest.mark.parametrize("how", ["target replaced", "link turned"])
def test_a_registry_behind_a_link_is_watched_too(tmp_path: Path, how: str):
    """Whether the link or what it leads to is replaced: nothing is acknowledged into a file that the name does not reach."""
    real, link, other = tmp_path / "real", tmp_path / "links" / "registry.sqlite", tmp_path / "other"
    (tmp_path / "out.txt").write_text("one")
    for folder in (real, other, link.parent):
        folder.mkdir()
    link.symlink_to(real / "registry.sqlite")
    CheckpointManager(other / "registry.sqlite").close()
    with CheckpointManager(link, tmp_path) as manager:
        for folder in (real, link.parent):
            os.utime(folder, (1_000_000_000, 1_000_000_000))
        commit(manager)
        commit(manager)
        if how == "target replaced":
            (other / "registry.sqlite").replace(real / "registry.sqlite")
        else:
            link.unlink()
            link.symlink_to(other / "registry.sqlite")
        with pytest.raises(StoreReplacedError):
            manager.begin_step("t", "tool_executed", {})


@pytest.mark.parametrize("call", ["read", "write"])
def test_a_file_removed_while_the_connection_was_closed_is_noticed_too(db: Path, tmp_path: Path, call: str):
    """After a fork the file is opened again: an empty new one in its place must not read as `nothing was ever done`."""
    (tmp_path / "out.txt").write_text("one")
    with CheckpointManager(db, tmp_path) as manager:
        commit(manager)
        database = manager._registry._database  # type: ignore[attr-defined]
        database.before_fork()
        database.after_fork()
        db.rename(tmp_path / "away.sqlite")
        with pytest.raises(StoreReplacedError, match="removed or replaced"):
            manager.list_checkpoints("t") if call == "read" else manager.begin_step("t", "tool_executed", {})
        assert not db.exists()


# Waiting for others.

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
connection.execute("rollback")
"""


@contextmanager
def held(db: Path) -> Iterator[int]:
    """Another process holds the write lock; its id."""
    with start(HOLDER, db) as holder:
        try:
            assert holder.stdout is not None
            assert "held\n" == holder.stdout.readline()
            yield holder.pid
        finally:
            holder.kill()


def test_a_lock_held_too_long_is_an_error_that_names_the_holder(db: Path, tmp_path: Path):
    """After lock_timeout the sentence says who has it, and nothing was stored."""
    with CheckpointManager(db, tmp_path, lock_timeout=0.2) as manager:
        before = dump(db)
        with (
            held(db) as pid,
            pytest.raises(StoreBusyError, match=r"the write lock was not free for 0.2 s; nothing was stored") as error,
        ):
            manager.begin_step("t", "tool_executed", {})
        assert f"Held by process {pid} (" in error.value.message
        assert "stopped" not in error.value.message
        assert before == dump(db)
        manager.begin_step("t", "tool_executed", {})


def test_a_stopped_holder_is_named_as_stopped(db: Path, tmp_path: Path):
    """A process under SIGSTOP keeps its lock for ever; whoever waits is told that it is stopped."""
    with CheckpointManager(db, tmp_path, lock_timeout=0.2) as manager, held(db) as pid:
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(StoreBusyError, match=rf"Held by process {pid} \(.*, stopped\)") as error:
            manager.begin_step("t", "tool_executed", {})
        assert "stop or continue that process, or raise lock_timeout" == error.value.hint


def test_a_lock_that_is_given_back_in_time_is_waited_for(db: Path, tmp_path: Path):
    """Waiting is not failing."""
    with CheckpointManager(db, tmp_path, lock_timeout=30) as manager:
        with held(db) as pid:
            timer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
            timer.start()
            started = time.monotonic()
            manager.begin_step("t", "tool_executed", {})
            waited = time.monotonic() - started
            timer.join()
        assert 0.05 < waited < 20


def test_reading_does_not_wait_for_a_writer(manager: CheckpointManager, db: Path):
    """In WAL mode what is committed can be read while somebody writes."""
    commit(manager)
    with held(db):
        assert [1] == [each.sequence_number for each in manager.list_checkpoints("t")]


def test_a_manager_opens_while_somebody_writes(manager: CheckpointManager, db: Path, tmp_path: Path):
    """Booting on a busy registry is reading; nobody waits for a lock to find out that the schema is up to date."""
    commit(manager)
    with held(db), CheckpointManager(db, tmp_path, lock_timeout=0.2) as other:
        assert 1 == len(other.list_checkpoints("t"))


def test_threads_wait_for_each_other_and_not_for_ever(manager: CheckpointManager):
    """A thread that finds the connection in use says so after lock_timeout."""
    inside = manager._registry._database  # type: ignore[attr-defined]
    inside._lock_timeout = 0.1
    entered, leave = threading.Event(), threading.Event()

    def stay(_: sqlite3.Connection) -> None:
        entered.set()
        leave.wait(10)

    thread = threading.Thread(target=inside.read, args=(stay,))
    thread.start()
    entered.wait(10)
    with pytest.raises(StoreBusyError, match=r"another thread of this process has used the registry for 0.1 s"):
        manager.list_checkpoints("t")
    leave.set()
    thread.join()


def test_only_busy_is_retried():
    """What another attempt cannot mend is raised at once, and a sync is never repeated."""
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(1)
        raise sqlite_error(SYNC_FAILED)

    with pytest.raises(sqlite3.OperationalError):
        waiting.patiently(attempt, "x", 5.0)
    assert [1] == attempts


# Threads.


def test_eight_threads_share_one_manager(manager: CheckpointManager):
    """8 threads of 50 steps each: no error, and the numbers are 1 to 400."""
    numbers: list[int] = []
    troubles: list[BaseException] = []

    def work() -> None:
        try:
            numbers.extend(commit(manager) for _ in range(50))
        except BaseException as error:  # noqa: BLE001 - a thread's error is reported by the test
            troubles.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == troubles
    assert list(range(1, 401)) == sorted(numbers)
    assert 400 == len(manager.list_checkpoints("t", 1000))


def test_one_step_committed_by_many_threads_at_once_is_committed_once(manager: CheckpointManager):
    """One of them gets the checkpoint, every other one the refusal."""
    step = manager.begin_step("t", "tool_executed", {})
    barrier = threading.Barrier(6)
    answers: list[str] = []

    def race() -> None:
        barrier.wait()
        try:
            manager.commit_step(step, exists("out.txt"))
            answers.append("committed")
        except StepAlreadyCommittedError:
            answers.append("refused")

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["committed", *["refused"] * 5] == sorted(answers)
    assert 1 == len(manager.list_checkpoints("t"))


# Verifications that race.


class Stalling:
    """Observes, and then keeps what it saw to itself until it may go on."""

    evidence_type = EvidenceType.ARTIFACT_EXISTS

    def __init__(self) -> None:
        self.seen, self.go_on = threading.Event(), threading.Event()

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        observation = PROBES[self.evidence_type].observe(evidence, around)
        self.seen.set()
        assert self.go_on.wait(30)
        return observation


@pytest.mark.parametrize("slow_sees", ["there", "gone"])
def test_a_slower_verification_never_overwrites_a_newer_one(db: Path, tmp_path: Path, slow_sees: str):
    """A observes and stalls; B observes the opposite and records it; A's late answer is kept on record and decides nothing."""
    out, away = tmp_path / "out.txt", tmp_path / "away.txt"
    out.write_text("one")
    with CheckpointManager(db, tmp_path) as slow, CheckpointManager(db, tmp_path) as quick:
        checkpoint = quick.commit_step(quick.begin_step("t", "tool_executed", {}), exists("out.txt"))
        if slow_sees == "gone":
            out.rename(away)
        probe = Stalling()
        slow.verifier._probes = {EvidenceType.ARTIFACT_EXISTS: probe}
        answers: list[bool] = []
        thread = threading.Thread(target=lambda: answers.append(slow.verify_checkpoint(checkpoint.checkpoint_id)))
        thread.start()
        assert probe.seen.wait(30)
        out.rename(away) if slow_sees == "there" else away.rename(out)
        assert (slow_sees == "gone") is quick.verify_checkpoint(checkpoint.checkpoint_id)
        probe.go_on.set()
        thread.join()
        stored = quick.get_checkpoint(checkpoint.checkpoint_id)
        assert stored is not None
        assert (slow_sees == "gone") is stored.verified
        assert [(2, 1), (3, 0)] == [(each[1], each[5]) for each in dump(db)["verifications"]]
        last = quick.get_last_verified_checkpoint("t")
        assert (slow_sees == "gone") is (last is not None)


def test_a_rollback_that_lost_the_race_still_measured_itself(db: Path, tmp_path: Path):
    """Rollback believes what it saw, not the flag: it refuses although a newer verification had passed."""
    out, away = tmp_path / "out.txt", tmp_path / "away.txt"
    out.write_text("one")
    with CheckpointManager(db, tmp_path) as slow, CheckpointManager(db, tmp_path) as quick:
        checkpoint = quick.commit_step(quick.begin_step("t", "tool_executed", {}), exists("out.txt"))
        out.rename(away)
        probe = Stalling()
        slow.verifier._probes = {EvidenceType.ARTIFACT_EXISTS: probe}
        raised: list[BaseException] = []

        def roll_back() -> None:
            try:
                slow.rollback_to_checkpoint(checkpoint.checkpoint_id)
            except EvidenceMismatchError as error:
                raised.append(error)

        thread = threading.Thread(target=roll_back)
        thread.start()
        assert probe.seen.wait(30)
        away.rename(out)
        assert quick.verify_checkpoint(checkpoint.checkpoint_id)
        probe.go_on.set()
        thread.join()
        assert 1 == len(raised)
        last = quick.get_last_verified_checkpoint("t")
        assert last is not None


# The bug in older SQLite.


@pytest.mark.parametrize(("version", "warned"), [((3, 51, 2), 1), ((3, 51, 3), 0), ((3, 60, 0), 0)])
def test_several_writers_on_an_old_sqlite_are_warned_about_once(
    db: Path, tmp_path: Path, monkeypatch, caplog, version, warned: int
):
    """When another process writes too and SQLite has the WAL-reset bug, one warning says what to do; alone there is none."""
    monkeypatch.setattr(database, "_warned_about_wal_reset", False)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    (tmp_path / "out.txt").write_text("one")

    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "agentos.store"]

    with caplog.at_level(logging.WARNING), CheckpointManager(db, tmp_path) as manager:
        for _ in range(40):
            commit(manager)
        assert [] == warnings()
        with CheckpointManager(db, tmp_path) as other:
            commit(other)
            for _ in range(80):
                commit(manager)
        assert warned == len(warnings())
    if warned:
        assert "use a Python linked to SQLite 3.51.3 or newer, or let one process write" in warnings()[0]


# Everything else SQLite can say.


@pytest.mark.parametrize("code", [1, 5, 7, 8, 10, 11, 13, 14, 21, 26])
def test_every_error_of_sqlite_becomes_a_sentence_that_names_the_file(db: Path, tmp_path: Path, wrap, code: int):
    """Whatever SQLite answers, while reading, writing or committing, the user sees our error and our sentence."""
    (tmp_path / "out.txt").write_text("one")
    CheckpointManager(db).close()
    failing: list[str] = []

    def fail(sql: str) -> None:
        if failing and sql.startswith(failing[0]):
            raise sqlite_error(code)

    wrap(before=fail)
    troubles: list[CheckpointError] = []
    with CheckpointManager(db, tmp_path, lock_timeout=0.01, durability="commit") as manager:
        calls: list[Callable[[], Any]] = [
            lambda: manager.list_checkpoints("t"),
            lambda: manager.begin_step("t", "tool_executed", {}),
            lambda: manager.commit_step("step_none", exists("out.txt")),
        ]
        for sql in ("begin", "begin immediate", "pragma synchronous", "pragma user_version", "select", "update", "commit"):
            for call in calls:
                failing.append(sql)
                try:
                    call()
                except CheckpointError as error:
                    troubles.append(error)
                failing.clear()
                commit(manager)
    stores = [error for error in troubles if isinstance(error, StoreError)]
    assert len(stores) > 7
    assert [] == [error for error in stores if str(db) not in error.message]
    assert {"StepNotFoundError"} >= {type(error).__name__ for error in troubles if error not in stores}
