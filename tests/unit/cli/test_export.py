"""export and import: a task moves with all that it needs, wholly or not at all; hostile archives are refused."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.cli.exits import Exit
from agentos.core.checkpoints import CheckpointManager, EvidencePack
from agentos.errors import ArchiveRefusedError
from agentos.store import ensure_migrations
from tests.support import dump, execute
from tests.torture import stored
from tests.unit.cli.program import agentos, on_a_terminal

ROWS, MANIFEST = "agentos-task/rows.jsonl", "agentos-task/manifest.json"
Files = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry with something of everything in it, and an archive of each of its tasks beside it."""
    path = stored.make(tmp_path_factory.mktemp("whole"))
    for task in ("ws", "named", "pruned", "left"):
        assert 0 == agentos("export", task, path.parent / f"{task}.tar", "--db", path).returncode
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """An empty registry."""
    path = tmp_path / "other" / "registry.sqlite"
    ensure_migrations(path)
    return path


def seen(path: Path, task: str) -> list[object]:
    """All that the manager tells of a task, and which of its contents can be put back."""
    with CheckpointManager(path, readonly=True) as manager:
        checkpoints = [each.to_dict() for each in manager.list_checkpoints(task, include_superseded=True)]
        plans = [manager.plan_restore(each["checkpoint_id"]).cannot for each in checkpoints if each["superseded_by"] is None]
        steps = [each.step_id for each in manager.list_open_steps(task)]
        last = manager.get_last_verified_checkpoint(task)
        return [checkpoints, plans, steps, last and last.checkpoint_id, len(manager.restores(task))]


@pytest.mark.parametrize("task", ["ws", "named", "pruned", "left"])
def test_a_task_is_the_same_where_it_comes_to(whole: Path, other: Path, task: str):
    """Checkpoints, evidence, history, open steps, restores, kept contents; and the doctor finds nothing, there or here."""
    before = dump(whole)
    ended = agentos("import", whole.parent / f"{task}.tar", "--db", other, "--json")
    told = json.loads(ended.stdout)
    assert (0, "", task, []) == (ended.returncode, ended.stderr, told["task_id"], told["missing"])
    assert seen(whole, task) == seen(other, task)
    assert 0 == agentos("doctor", "--deep", "--db", other).returncode
    assert before == dump(whole)


def test_several_come_into_one_registry(whole: Path, other: Path):
    """Their states get numbers of their own there, and all of it is sound."""
    for task in ("ws", "named", "pruned", "left"):
        assert 0 == agentos("import", whole.parent / f"{task}.tar", "--db", other).returncode
    assert 0 == agentos("doctor", "--deep", "--db", other).returncode
    assert [seen(whole, task) for task in ("ws", "named")] == [seen(other, task) for task in ("ws", "named")]


def test_an_imported_task_goes_on(whole: Path, other: Path):
    """Nobody holds it, its state is measured where its files are, and it takes steps."""
    agentos("import", whole.parent / "named.tar", "--db", other)
    with CheckpointManager(other) as manager:
        state = manager.resume("named", {}, repair=True)
        assert {"number", "text"} == set(state)
        manager.begin_step("named", "tool_executed", state)


def test_a_task_that_is_here_is_never_overwritten(whole: Path, other: Path):
    """Not by the same one, not by another history of it; exit code 5, and not a row differs."""
    archive = whole.parent / "named.tar"
    before = dump(whole)
    ended = agentos("import", archive, "--db", whole)
    assert (Exit.CONFLICT, before) == (ended.returncode, dump(whole))
    assert "task named: is here already; nothing was changed" in ended.stderr
    with CheckpointManager(other) as manager:
        manager.begin_step("named", "tool_executed", {"mine": 1})
    before = dump(other)
    assert (Exit.CONFLICT, before) == (agentos("import", archive, "--db", other).returncode, dump(other))


def test_a_name_or_a_key_that_is_taken_is_refused(whole: Path, other: Path):
    """What a caller named here stays what it is; nothing comes in."""
    with CheckpointManager(other) as manager:
        manager.commit_step(manager.begin_step("mine", "tool_executed", {}), EvidencePack(), "name-3")
        manager.once("paid", {}, lambda: 1)
    before = dump(other)
    for task in ("named", "left"):
        ended = agentos("import", whole.parent / f"{task}.tar", "--db", other)
        assert (Exit.CONFLICT, before) == (ended.returncode, dump(other)), ended.stderr


def test_a_folder_that_another_task_works_in_is_refused(whole: Path, other: Path, tmp_path: Path):
    """As it is for a task that begins here."""
    with CheckpointManager(other) as manager:
        manager.task("mine", workspace=whole.parents[1]).resume({})
        ended = agentos("import", whole.parent / "ws.tar", "--db", other)
    assert (Exit.CONFLICT, True) == (ended.returncode, "task mine works in " in ended.stderr)


def test_the_archive_is_replaced_only_after_a_yes(whole: Path, tmp_path: Path):
    """Never without a word."""
    archive = tmp_path / "a.tar"
    archive.write_text("precious")
    ended = agentos("export", "named", archive, "--db", whole)
    assert (Exit.USAGE, "precious") == (ended.returncode, archive.read_text())
    code, said = on_a_terminal("export", "na", archive, "--db", whole, typed="y\n")
    assert (0, True) == (code, "task named, 17 steps, 16 kept contents" in said)
    assert 0o600 == archive.stat().st_mode & 0o777


def test_on_a_terminal_import_says_what_came(whole: Path, other: Path):
    """And what to do next."""
    code, said = on_a_terminal("import", whole.parent / "left.tar", "--db", other)
    assert (0, True) == (code, "`agentos recover left` says from where it may go on" in said)


def test_a_damaged_task_is_refused_and_an_intact_one_leaves(whole: Path, tmp_path: Path):
    """What other tasks lost is no matter of this one."""
    shutil.copytree(whole.parent, tmp_path / "store")
    path = tmp_path / "store" / whole.name
    execute(path, "update steps set verified = 1 - verified where task_id = 'named' and place = 6")
    ended = agentos("export", "named", tmp_path / "n.tar", "--db", path)
    assert (Exit.UNAVAILABLE, False) == (ended.returncode, (tmp_path / "n.tar").exists())
    assert "task named: steps: " in ended.stderr
    assert 0 == agentos("export", "ws", tmp_path / "w.tar", "--db", path).returncode


def test_kept_content_that_is_gone_is_named_and_the_rest_moves(whole: Path, other: Path, tmp_path: Path):
    """Exit code 1 for who exports; who imports gets what there is, told what is missing."""
    shutil.copytree(whole.parent, tmp_path / "store")
    path = tmp_path / "store" / whole.name
    with CheckpointManager(path, readonly=True) as manager:
        newest = manager.list_checkpoints("pruned")[0]
    gone = newest.evidence_pack.evidence_list[0].expected["sha256"]
    (tmp_path / "store" / "vault" / "objects" / gone[:2] / gone[2:]).unlink()
    archive = tmp_path / "a.tar"
    ended = agentos("export", "pruned", archive, "--db", path)
    assert (Exit.DIFFERS, True) == (ended.returncode, f"missing: {gone}" in ended.stdout)
    told = json.loads(agentos("import", archive, "--db", other, "--json").stdout)
    assert ([gone], 2) == (told["missing"], told["contents"])


# Hostile archives.


def files(archive: Path) -> Files:
    with tarfile.open(archive) as tar:
        return [(each, (tar.extractfile(each) or io.BytesIO()).read()) for each in tar]


def info(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, target, size
    return made


def edited(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Files], Files]:
    return lambda found: [(each, edit(data) if each.name == name else data) for each, data in found]


def added(
    name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, target: str = "", at: int = -1
) -> Callable[[Files], Files]:
    return lambda found: [*found[:at], (info(name, kind, target), data if kind == tarfile.REGTYPE else b""), *found[at:]]


def first_content(found: Files) -> int:
    return next(number for number, (each, _) in enumerate(found) if "/contents/" in each.name)


def lied(found: Files) -> Files:
    at = first_content(found)
    return [*found[:at], (found[at][0], found[at][1] + b"x"), *found[at + 1 :]]


def left_out(found: Files) -> Files:
    at = first_content(found)
    return found[:at] + found[at + 1 :]


def row_changed(data: bytes) -> bytes:
    return data.replace(b'"verified": 1', b'"verified": 0', 1)


def manifest(**told: object) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps({**json.loads(data), **told}).encode()


def row_added(line: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data + line + b"\n"


def named(name: str, key: object) -> bytes:
    return json.dumps({"table": "names", "row": {"checkpoint_id": name, "step_key": key}}).encode()


def told_right(found: Files) -> Files:
    """With a manifest that speaks of what is there, as whoever means harm would write it."""
    rows = next((data for each, data in found if each.name == ROWS), b"")
    contents = [data for each, data in found if "/contents/" in each.name and each.isreg()]
    right = manifest(rows_sha256=hashlib.sha256(rows).hexdigest(), contents=len(contents), bytes=sum(map(len, contents)))
    return edited(MANIFEST, right)(found)


def without_lines(table: str) -> Callable[[bytes], bytes]:
    wanted = f'{{"table": "{table}"'.encode()
    return lambda data: b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(wanted))


OF_X = hashlib.sha256(b"x").hexdigest()
NAME = "agentos-task/contents/" + "0" * 64
HOSTILE: dict[str, Callable[[Files], Files]] = {
    "a path out of it": added("agentos-task/../../evil"),
    "an absolute path": added("/tmp/evil"),
    "a path with a backslash": added("agentos-task\\evil"),
    "a name with a control character": added("agentos-task/\x1b[2J"),
    "a symbolic link": added(NAME, kind=tarfile.SYMTYPE, target="/etc/passwd"),
    "a hard link": added(NAME, kind=tarfile.LNKTYPE, target=ROWS),
    "a device": added(NAME, kind=tarfile.CHRTYPE),
    "a pipe": added(NAME, kind=tarfile.FIFOTYPE),
    "a sparse file": added(NAME, kind=tarfile.GNUTYPE_SPARSE),
    "a stranger's file": added("agentos-task/evil.sh"),
    "a content under a name that is no digest": added("agentos-task/contents/evil"),
    "a content of another digest": added(NAME),
    "a content that was changed": lied,
    "a content that is gone": left_out,
    "a content that nothing needs": added(f"agentos-task/contents/{OF_X}"),
    "rows twice": lambda found: [*found[:1], *found],
    "a content twice": lambda found: [*found[:2], *found[1:]],
    "no rows": lambda found: found[1:],
    "no manifest": lambda found: found[:-1],
    "a file behind the manifest": lambda found: [*found[:-1], found[-1], (info(NAME), b"")],
    "a row that was changed": edited(ROWS, row_changed),
    "no claims": edited(ROWS, without_lines("claims")),
    "no states": edited(ROWS, without_lines("snapshots")),
    "no task": edited(ROWS, without_lines("tasks")),
    "rows that are no JSON": edited(ROWS, lambda data: data + b"{\n"),
    "rows that are cut off": edited(ROWS, lambda data: data[:-20]),
    "a key twice": edited(ROWS, row_added(b'{"table": "names", "table": "names", "row": {}}')),
    "a row of another table": edited(ROWS, row_added(b'{"table": "sqlite_master", "row": {}}')),
    "a row with another column": edited(ROWS, row_added(b'{"table": "names", "row": {"checkpoint_id": "x", "evil": 1}}')),
    "a row with a list": edited(ROWS, row_added(b'{"table": "names", "row": {"checkpoint_id": [], "step_key": 1}}')),
    "a name of a step that is not there": edited(ROWS, row_added(named("x", 1))),
    "a huge number": edited(ROWS, row_added(named("x", 10**99))),
    "a nest of lists": edited(ROWS, lambda data: data + b"[" * 100_000 + b"\n"),
    "another task in the manifest": edited(MANIFEST, manifest(task_id="other")),
    "another count in the manifest": edited(MANIFEST, manifest(contents=1)),
    "another format": edited(MANIFEST, manifest(format="agentos-task-2")),
    "a manifest that is no object": edited(MANIFEST, lambda _: b"[]"),
    "a manifest that misses nothing it can name": edited(MANIFEST, manifest(missing="all")),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_refused_and_changes_nothing(whole: Path, other: Path, tmp_path: Path, monkeypatch, what: str):
    """Not a row, not a content, not a file anywhere else."""
    archive = tmp_path / "hostile.tar"
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        hostile = HOSTILE[what](files(whole.parent / "named.tar"))
        for each, data in hostile if "manifest" in what or "format" in what else told_right(hostile):
            each.size = len(data)
            tar.addfile(each, io.BytesIO(data))
    said = check_refused(archive, other, tmp_path, monkeypatch)
    # It was read that far: for what it does, and not because it is no tar of ours.
    assert "no archive of agentos" not in said


def check_refused(archive: Path, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    rows, there = dump(other), sorted(tmp_path.rglob("*"))
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with CheckpointManager(other) as manager, pytest.raises(ArchiveRefusedError) as refusal:
        manager.import_task(archive)
    assert [] == list(scratch.iterdir())
    scratch.rmdir()
    assert (rows, there) == (dump(other), sorted(tmp_path.rglob("*")))
    print(refusal.value.message)
    return refusal.value.message


def test_a_refused_archive_ends_with_its_exit_code(whole: Path, other: Path, tmp_path: Path):
    """The code of what is not as it was exported, a sentence, and a document for a program."""
    archive = tmp_path / "x.tar"
    archive.write_bytes((whole.parent / "named.tar").read_bytes()[:5000])
    ended = agentos("import", archive, "--db", other, "--json")
    assert (Exit.DIFFERS, "ArchiveRefusedError") == (ended.returncode, json.loads(ended.stdout)["error"]["error"])
    assert ended.stderr.startswith("agentos: the archive is cut off\n  -> ")


@pytest.mark.parametrize(
    ("what", "edit"),
    [
        ("cut in the middle", lambda data: data[: len(data) // 2]),
        ("cut before its end", lambda data: data[: len(data) // 512 * 512 - 1024]),
        ("empty", lambda data: b""),
        ("not an archive", lambda data: b"hello" * 1000),
        ("compressed", gzip.compress),
        ("something behind it", lambda data: data + b"x"),
        ("a size that no disk has", lambda data: data[:124] + b"\x80" + b"\x7f" * 11 + data[136:]),
        ("a header that was changed", lambda data: b"b" + data[1:]),
    ],
)
def test_a_file_that_is_no_archive_is_refused(
    whole: Path, other: Path, tmp_path: Path, monkeypatch, what: str, edit: Callable[[bytes], bytes]
):
    """Cut off, packed, foreign or damaged: the same."""
    archive = tmp_path / "x.tar"
    archive.write_bytes(edit((whole.parent / "named.tar").read_bytes()))
    check_refused(archive, other, tmp_path, monkeypatch)


def test_an_archive_that_is_not_there(other: Path, tmp_path: Path):
    """A sentence with its name."""
    ended = agentos("import", tmp_path / "no.tar", "--db", other)
    assert (Exit.UNAVAILABLE, True) == (ended.returncode, "no.tar: cannot be read" in ended.stderr)
