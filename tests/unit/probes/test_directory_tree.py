"""directory_tree: a digest of exactly one state of exactly one folder, or none."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from agentos import _descriptors as descriptors
from agentos.core.checkpoints.ignoring import is_left_out
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen, Surroundings, Unseen
from agentos.core.checkpoints.packing import decoded
from agentos.core.checkpoints.trees import EXECUTABLE, FILE, FOLDER, LINK, Rules, digest_of, serialised
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.probes import PROBES, large_files, tree_files, tree_walk
from agentos.probes.directory_tree import DirectoryTree
from tests.unit.probes.databases import Look
from tests.unit.probes.test_permissions import unprivileged

MIB = 1 << 20


@pytest.fixture
def tree(base: Path) -> Path:
    folder = base / "tree"
    folder.mkdir()
    return folder


def facts(look: Look, *, metadata: dict[str, Any] | None = None, around: Any = None, **more: Any) -> dict[str, Any]:
    seen = look("directory_tree", path="tree", metadata=metadata, around=around, **more)
    assert isinstance(seen, Seen), seen
    return seen.facts


def names(look: Look, **more: Any) -> list[str]:
    return [os.fsdecode(path) for path, *_ in decoded(facts(look, **more)["manifest"]).entries]


def reason(look: Look, **more: Any) -> Unseen:
    seen = look("directory_tree", path="tree", **more)
    assert isinstance(seen, Unseen), seen
    return seen


@pytest.mark.parametrize("size", [10, 2 * MIB])
def test_a_look_leaves_nothing_behind(look: Look, tree: Path, size: int):
    """No circle holds what it read until somebody collects garbage: that may be a million names."""
    (tree / "x").write_bytes(bytes(size))
    facts(look)
    gc.collect()
    gc.disable()
    try:
        facts(look)
        mine = (tree_walk.TreeWalk, tree_files.TreeFiles, large_files.LargeFiles, descriptors.Readings)
        assert [] == [each for each in gc.get_objects() if isinstance(each, mine)]
    finally:
        gc.enable()


def test_a_tree_is_what_lies_beneath_it(look: Look, tree: Path):
    """Names, kinds, executable bits, contents and sizes; empty folders count, and links are read and not followed."""
    (tree / "d" / "empty").mkdir(parents=True)
    (tree / "a").write_bytes(b"hello")
    (tree / "d" / "run").write_bytes(b"")
    (tree / "d" / "run").chmod(0o744)
    (tree / "link").symlink_to("../../nowhere")
    (tree / "away").symlink_to("/etc")
    sha = {text: hashlib.sha256(text).digest() for text in (b"hello", b"", b"../../nowhere", b"/etc")}
    entries = [
        (b"a", FILE, sha[b"hello"], 5),
        (b"away", LINK, sha[b"/etc"], 4),
        (b"d", FOLDER, b"", 0),
        (b"d/empty", FOLDER, b"", 0),
        (b"d/run", EXECUTABLE, sha[b""], 0),
        (b"link", LINK, sha[b"../../nowhere"], 13),
    ]
    found = facts(look)
    assert entries == decoded(found["manifest"]).entries
    assert digest_of(serialised(Rules(), entries)) == found["digest"]
    counts = {"files": 2, "executables": 1, "links": 2, "folders": 2, "bytes": 5}
    assert counts == {name: found[name] for name in counts}


def test_an_empty_folder_is_a_tree(look: Look, tree: Path):
    """Nothing in it is something that can be claimed."""
    assert digest_of(serialised(Rules(), [])) == facts(look)["digest"]


@pytest.mark.parametrize("size", [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
def test_the_digest_covers_every_byte_of_a_file(look: Look, tree: Path, size: int):
    """Sizes around the limits at which files are read another way."""
    data = os.urandom(size)
    (tree / "x").write_bytes(data)
    assert [(b"x", FILE, hashlib.sha256(data).digest(), size)] == decoded(facts(look)["manifest"]).entries


def test_many_files_large_and_small_are_all_there(look: Look, tree: Path):
    """More than one batch, and more large ones than are kept waiting."""
    for number in range(200):
        (tree / f"{number % 7}").mkdir(exist_ok=True)
        (tree / f"{number % 7}" / f"{number}").write_bytes(b"%d" % number * (MIB if number < 25 else 1))
    found = {path: (digest, size) for path, kind, digest, size in decoded(facts(look)["manifest"]).entries if kind == FILE}
    assert 200 == len(found)
    for path, (digest, size) in found.items():
        data = (tree / os.fsdecode(path)).read_bytes()
        assert (hashlib.sha256(data).digest(), len(data)) == (digest, size)


def test_what_is_no_folder_is_seen_and_not_opened(look: Look, base: Path):
    """A file, nothing, and a link to a folder inside the base, which is that folder."""
    assert {"exists": False, "type": None, "near": []} == look("directory_tree", path="tree").facts
    (base / "tree").write_bytes(b"")
    assert {"exists": True, "type": "file"} == look("directory_tree", path="tree").facts
    (base / "real").mkdir()
    (base / "real" / "x").write_bytes(b"")
    (base / "tree").unlink()
    (base / "tree").symlink_to("real")
    assert ["x"] == names(look)


def test_the_base_itself_is_a_tree(look: Look, base: Path):
    """Its path is a dot."""
    (base / "x").write_bytes(b"")
    assert 1 == look("directory_tree", path=".").facts["files"]


# Names.


def test_any_name_that_a_folder_can_hold_is_told_apart(look: Look, tree: Path):
    """Line feeds, control characters, what is no UTF-8, case twins, and texts that look alike."""
    odd = [b"a\nb", b"\x1b[2J", b"\xff\xfe", b"\x01", b"case", b"CASE", "é".encode(), "e\u0301".encode(), b"*", b"-rf", b"\\0"]
    for name in odd:
        (tree / os.fsdecode(name)).write_bytes(name)
    assert sorted(odd) == [path for path, *_ in decoded(facts(look)["manifest"]).entries]


def test_a_name_cannot_imitate_two_files(look: Look, tree: Path):
    """Line by line listings fall for this one."""
    (tree / "a").write_bytes(b"1")
    (tree / "b").write_bytes(b"2")
    two = facts(look)["digest"]
    (tree / "b").unlink()
    (tree / f"a\n{hashlib.sha256(b'2').hexdigest()}  b").write_bytes(b"1")
    assert two != facts(look)["digest"]


@contextmanager
def deep(tree: Path, levels: int, name: str) -> Iterator[None]:
    """Folders within folders, a file beside each; taken away by hand, because few tools can."""
    here = os.open(tree, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)
    try:
        yield
    finally:
        subprocess.run(["rm", "-rf", str(tree)], check=True)


@pytest.mark.parametrize("name", ["d", "a long name"])
def test_a_thousand_folders_within_folders_are_walked(look: Look, tree: Path, monkeypatch, name: str):
    """With few of them open, and paths longer than the system takes at once."""
    most = 0
    real = tree_walk.TreeWalk._list

    def listed(self: Any, folder: Any) -> None:
        nonlocal most
        most = max(most, len(os.listdir("/dev/fd")))
        real(self, folder)

    monkeypatch.setattr(tree_walk.TreeWalk, "_list", listed)
    with deep(tree, 1000, name):
        found = facts(look)
        assert (1000, 1000) == (found["folders"], found["files"])
        assert 250 > most
        assert "TOO_LARGE" == reason(look, metadata={"max_depth": 1000}).code


def test_folders_beside_a_deep_way_are_walked_on_the_way_back(look: Look, tree: Path):
    """The walk climbs to folders that it had let go of."""
    path = tree
    for _ in range(150):
        path /= "d"
        path.mkdir()
        (path / "beside").mkdir()
        (path / "beside" / "x").write_bytes(b"")
    assert (150, 300) == (facts(look)["files"], facts(look)["folders"])


# What no tree can hold.


def test_a_fifo_is_refused_and_never_opened(look: Look, tree: Path):
    """It would hold the look up for ever."""
    os.mkfifo(tree / "fifo")
    found = reason(look)
    assert ("SPECIAL_FILE", False) == (found.code, found.transient)
    assert "tree/fifo" in found.message
    assert [] == names(look, exclude=["fifo"])


def test_a_socket_is_refused(look: Look, tree: Path, monkeypatch):
    """A tree with a running service in it cannot be claimed whole."""
    monkeypatch.chdir(tree)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert "SPECIAL_FILE" == reason(look).code


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused(look: Look, tree: Path):
    """Reading from it may never end."""
    try:
        os.mknod(tree / "zero", 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices can be made here")
    assert "SPECIAL_FILE" == reason(look).code


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_another_file_system_beneath_the_tree_is_refused(look: Look, tree: Path):
    """What lies on it is no part of the folder; left out, the rest is a tree."""
    (tree / "mnt").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(tree / "mnt")], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert "CROSSES_MOUNT" == reason(look).code
        assert [] == names(look, exclude=["/mnt"])
    finally:
        subprocess.run(["umount", str(tree / "mnt")], check=True)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fdinfo"), reason="there is no /proc here")
def test_files_that_are_made_up_when_they_are_read_are_no_tree(look: Look):
    """Their size says nothing about what they hold."""
    found = look("directory_tree", path="/proc/self/fdinfo")
    assert isinstance(found, Unseen)
    assert found.code in ("GENERATED_FILE", "CHANGED_WHILE_READING")


def test_what_may_not_be_looked_at_is_not_known(look: Look, monkeypatch):
    """A folder that may not be listed, and a file that may not be read."""
    import tempfile

    with tempfile.TemporaryDirectory() as open_to_all:
        base = Path(open_to_all)
        base.chmod(0o755)
        for name in ("tree", "tree/closed", "tree2"):
            (base / name).mkdir()
        (base / "tree2" / "x").write_bytes(b"")
        (base / "tree" / "closed").chmod(0o000)
        (base / "tree2" / "x").chmod(0o000)
        with unprivileged():
            for path, where in (("tree", "tree/closed"), ("tree2", "tree2/x")):
                found = look("directory_tree", path=path, around={"base_path": open_to_all})
                assert isinstance(found, Unseen)
                assert ("UNREADABLE", True) == (found.code, where in found.message)
        (base / "tree" / "closed").chmod(0o700)


@pytest.mark.parametrize(("limit", "most"), [("max_files", 4), ("max_bytes", 9), ("max_depth", 1)])
def test_more_than_a_look_takes_upon_itself_is_not_looked_at(look: Look, tree: Path, limit: str, most: int):
    """One more and it would do; the limit is named."""
    (tree / "d").mkdir()
    for name in ("a", "b", "c", "d/e"):
        (tree / name).write_bytes(b"xxx" if name < "d" else b"x")
    found = reason(look, metadata={limit: most})
    assert ("TOO_LARGE", f"metadata['{limit}']") == (found.code, found.hint[-len(f"metadata['{limit}']") :])
    facts(look, metadata={limit: most + 1})


def test_a_huge_listing_ends_at_the_limit(look: Look, tree: Path, monkeypatch):
    """Not when the folder ends: the rest of it is not even listed."""

    class Endless:
        def __init__(self) -> None:
            self.count = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def __iter__(self):
            return self

        def __next__(self):
            self.count += 1
            assert 12 > self.count
            return entry

    (tree / "x").write_bytes(b"")
    with os.scandir(tree) as found:
        entry = next(found)
    monkeypatch.setattr("agentos.probes.tree_walk.os.scandir", lambda _: Endless())
    assert "TOO_LARGE" == reason(look, metadata={"max_files": 10}).code


def test_a_deadline_ends_the_walk(look: Look, tree: Path):
    """What was not read by then is not known."""
    for number in range(300):
        (tree / f"{number}").mkdir()
    assert "TIMED_OUT" == reason(look, around={"timeout": 0.0001}).code
    (tree / "large").write_bytes(bytes(8 * MIB))
    assert "TIMED_OUT" == reason(look, around={"timeout": 0.0001}).code


def test_a_deadline_ends_the_matching_of_names(look: Look, tree: Path, monkeypatch):
    """Whoever writes a tree may also write its rules, and could keep a look for hours."""
    real, asked = is_left_out, []

    def slowly(*arguments: Any, **options: Any) -> bool:
        asked.append(arguments)
        time.sleep(0.005)
        return real(*arguments, **options)

    monkeypatch.setattr(tree_walk, "is_left_out", slowly)
    for number in range(300):
        (tree / f"x{number}").write_bytes(b"")
    assert "TIMED_OUT" == reason(look, exclude=["x*", "!x*"], around={"timeout": 0.2}).code
    assert 300 > len(asked)


# Attacks while it is read.


def when(monkeypatch: pytest.MonkeyPatch, method: str, attack: Callable[[], object], *, after: bool, at: int = 1) -> None:
    """Run the attack once, before or after the method of the walk is called for the `at`-th time."""
    real, calls = getattr(tree_walk.TreeWalk, method), [0]

    def attacked(self: Any, *arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == at and not after:
            attack()
        answer = real(self, *arguments)
        if calls[0] == at and after:
            attack()
        return answer

    monkeypatch.setattr(tree_walk.TreeWalk, method, attacked)


def test_a_folder_that_becomes_a_link_is_not_followed(look: Look, base: Path, tree: Path, monkeypatch, opened):
    """Between its listing and its opening it was swapped for a link that leads out."""
    (base / "secret").mkdir()
    (base / "secret" / "key").write_bytes(b"")
    (tree / "d").mkdir()

    def attack() -> None:
        os.rename(tree / "d", tree / "was")
        os.symlink("../secret", tree / "d")

    when(monkeypatch, "_opened", attack, after=False)
    probe, claim = PROBES["directory_tree"], Evidence("directory_tree", "x", {"path": "tree"})
    found = probe.observe(claim, Surroundings(base_path=str(base)))
    assert isinstance(found, Unseen)
    assert ("CHANGED_WHILE_READING", True) == (found.code, found.transient)
    assert "key" not in opened


def test_a_folder_swapped_while_the_walk_is_beneath_it_is_noticed(look: Look, base: Path, tree: Path, monkeypatch):
    """On the way back `..` leads to where the folder is now; that is not where the walk came from."""
    monkeypatch.setattr(tree_walk, "_HELD_OPEN", 1)
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (base / "other").mkdir()
    when(monkeypatch, "_leave", lambda: os.rename(tree / "a" / "b", base / "other" / "b"), after=False)
    probe, claim = PROBES["directory_tree"], Evidence("directory_tree", "x", {"path": "tree"})
    found = probe.observe(claim, Surroundings(base_path=str(base)))
    assert isinstance(found, Unseen)
    assert "CHANGED_WHILE_READING" == found.code


@pytest.mark.parametrize("what", ["appears", "goes", "is written to", "is replaced", "gets its times back", "may be executed"])
def test_what_happens_after_something_was_read_is_noticed(look: Look, base: Path, tree: Path, monkeypatch, what: str):
    """The tree that is claimed was there as a whole, at one moment."""
    for name in ("a/x", "b/x"):
        (tree / name).parent.mkdir()
        (tree / name).write_bytes(b"before")
    x, new = tree / "a" / "x", base / "new"
    new.write_bytes(b"BEFORE")
    times = x.stat()

    def secretly() -> None:
        x.write_bytes(b"after!")
        os.utime(x, ns=(times.st_atime_ns, times.st_mtime_ns))

    attacks: dict[str, Callable[[], object]] = {
        "appears": lambda: (tree / "a" / "y").write_bytes(b""),
        "goes": x.unlink,
        "is written to": lambda: x.write_bytes(b"after!"),
        "is replaced": lambda: os.rename(new, x),
        "gets its times back": secretly,
        "may be executed": lambda: x.chmod(0o755),
    }
    # After all three folders were read: whichever came first, this is later.
    when(monkeypatch, "_list", attacks[what], after=True, at=3)
    probe, claim = PROBES["directory_tree"], Evidence("directory_tree", "x", {"path": "tree"})
    found = probe.observe(claim, Surroundings(base_path=str(base)))
    assert isinstance(found, Unseen)
    assert ("CHANGED_WHILE_READING", True) == (found.code, found.transient)


@pytest.mark.parametrize("size", [10, 100_000, 2 * MIB])
@pytest.mark.parametrize("what", ["fifo", "link", "folder", "nothing"])
def test_a_file_that_becomes_something_else_before_it_is_opened_is_noticed(look: Look, tree: Path, monkeypatch, what, size):
    """Nothing is followed, nothing blocks, and nothing is said of what was listed."""
    x = tree / "x"
    x.write_bytes(bytes(size))
    real = tree_files.TreeFiles.read
    become: dict[str, Callable[[], object]] = {
        "fifo": lambda: os.mkfifo(x),
        "link": lambda: x.symlink_to("/dev/zero"),
        "folder": x.mkdir,
        "nothing": lambda: None,
    }

    def attacked(self: Any, names: list[str], directory: int, above: bytes) -> None:
        if names:
            x.unlink()
            become[what]()
        real(self, names, directory, above)

    monkeypatch.setattr(tree_files.TreeFiles, "read", attacked)
    found = DirectoryTree().observe(Evidence("directory_tree", "x", {"path": "tree"}), Surroundings(str(tree.parent)))
    assert isinstance(found, Unseen)
    assert "CHANGED_WHILE_READING" == found.code


@pytest.mark.parametrize("module", [large_files, tree_files])
def test_a_file_that_is_rewritten_while_it_is_hashed_has_no_digest(look: Look, tree: Path, monkeypatch, module):
    """Large ones in their threads, and those between small and large."""
    x = tree / "x"
    x.write_bytes(bytes(2 * MIB if module is large_files else 100_000))
    name = "read_still" if module is large_files else "measure"
    real = getattr(module, name)

    def attacked(*arguments: Any) -> Any:
        with open(x, "r+b") as file:
            file.write(b"changed")
        return real(*arguments)

    monkeypatch.setattr(module, name, attacked)
    found = DirectoryTree().observe(Evidence("directory_tree", "x", {"path": "tree"}), Surroundings(str(tree.parent)))
    assert isinstance(found, Unseen)
    assert "CHANGED_WHILE_READING" == found.code


def test_a_tree_that_is_swapped_for_another_is_noticed(look: Look, base: Path, tree: Path, monkeypatch):
    """What was read must still be what the path names."""
    (base / "other").mkdir()

    def attack() -> None:
        os.rename(tree, base / "was")
        os.rename(base / "other", tree)

    when(monkeypatch, "_refuse_moved", attack, after=True)
    probe, claim = PROBES["directory_tree"], Evidence("directory_tree", "x", {"path": "tree"})
    found = probe.observe(claim, Surroundings(base_path=str(base)))
    assert isinstance(found, Unseen)
    assert "CHANGED_WHILE_READING" == found.code


def test_a_reader_that_breaks_is_heard_of(look: Look, tree: Path, monkeypatch):
    """In a thread of its own nobody would notice, and the file would be missing from the tree."""

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    (tree / "large").write_bytes(bytes(2 * MIB))
    monkeypatch.setattr(large_files, "read_still", broken)
    assert "INTERNAL" == reason(look).code


# Locks.

TAKE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("taken")
    except OSError:
        print("locked")
"""


def other_process_finds(path: Path) -> str:
    return subprocess.run([sys.executable, "-c", TAKE, str(path)], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("size", [10, 100_000, 2 * MIB])
@pytest.mark.parametrize("answered", [True, False])
def test_a_lock_that_this_process_holds_in_the_tree_is_kept(look: Look, tree: Path, monkeypatch, size: int, answered: bool):
    """Whatever the file's size; with the answer switched off the lock is gone, so the test is able to fail."""
    (tree / "other").write_bytes(b"")
    (tree / "x").write_bytes(bytes(size))
    if not answered:
        monkeypatch.setattr(descriptors, "_foreign", lambda: iter(()))
        monkeypatch.setattr(descriptors, "held", lambda status: [])
    with open(tree / "x", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        found = facts(look)
        assert ("locked" if answered else "taken") == other_process_finds(tree / "x")
    assert {"x": hashlib.sha256(bytes(size)).digest(), "other": hashlib.sha256(b"").digest()} == {
        os.fsdecode(path): digest for path, _, digest, _ in decoded(found["manifest"]).entries
    }


def test_a_lock_that_is_taken_while_the_file_is_read_is_kept(look: Look, tree: Path, monkeypatch):
    """The descriptor of the look is parked until nobody else has the file open."""
    (tree / "x").write_bytes(b"x")
    real = tree_files.TreeFiles._read
    files: list[IO[bytes]] = []

    def attacked(self: Any, *opened: Any) -> None:
        real(self, *opened)
        if not files:
            files.append(open(tree / "x", "r+b"))  # noqa: SIM115 - it stays open
            fcntl.lockf(files[0], fcntl.LOCK_EX)

    monkeypatch.setattr(tree_files.TreeFiles, "_read", attacked)
    facts(look)
    assert "locked" == other_process_finds(tree / "x")
    files[0].close()
    assert "taken" == other_process_finds(tree / "x")


# What is left out.


def test_rules_leave_out_what_they_say_and_are_part_of_the_digest(look: Look, tree: Path):
    """Leaving out nothing by other rules is another claim."""
    for name in ("a.o", "a.c", "build/x", "keep.o"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes(b"")
    assert ["a.c", "keep.o"] == names(look, exclude=["*.o", "!keep.o", "/build"])
    assert 3 == len({facts(look, **more)["digest"] for more in ({}, {"exclude": ["none"]}, {"gitignore": True})})


def test_what_is_left_out_is_not_looked_at(look: Look, tree: Path, monkeypatch):
    """A FIFO in it, or a folder that nobody may list, is no hindrance."""
    (tree / "tmp").mkdir()
    os.mkfifo(tree / "tmp" / "fifo")
    assert [] == names(look, exclude=["tmp/"])
    assert [] == names(look, around={"aside": frozenset({"tmp"})})
    assert ["tmp"] == names(look, around={"aside": frozenset({"tmp/fifo"})})
    assert ["tmp"] == facts(look, around={"aside": frozenset({"tmp"})})["aside"]


def test_gitignore_files_of_the_tree_count_and_are_listed(look: Look, tree: Path):
    """In every folder for what lies beneath it; also one that leaves out itself, because the claim depends on it."""
    for name in ("a.log", "d/a.log", "d/b.log", "d/x.tmp", "e/x.tmp", ".git/config"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes(b"")
    (tree / ".gitignore").write_text("*.log\n")
    (tree / "d" / ".gitignore").write_text("!b.log\n*.tmp\n.gitignore\n")
    assert [".gitignore", "d", "d/.gitignore", "d/b.log", "e", "e/x.tmp"] == names(look, gitignore=True)
    before = facts(look, gitignore=True)["digest"]
    (tree / "d" / ".gitignore").write_text("!b.log\n*.tmp\n.gitignore\n# changed\n")
    assert before != facts(look, gitignore=True)["digest"]


def test_a_gitignore_that_is_a_link_is_a_link(look: Look, base: Path, tree: Path):
    """Rules are not read from anywhere else."""
    (base / "rules").write_text("*\n")
    (tree / ".gitignore").symlink_to("../rules")
    (tree / "x").write_bytes(b"")
    assert [".gitignore", "x"] == names(look, gitignore=True)


def test_a_gitignore_that_cannot_be_read_is_no_rule(look: Look, tree: Path):
    """A line that says nothing, or more than rules may have: what is claimed would not be known."""
    (tree / ".gitignore").write_text("!\n")
    assert "RULES_UNREADABLE" == reason(look, gitignore=True).code
    (tree / ".gitignore").write_text("#\n" * 40_000)
    assert "RULES_UNREADABLE" == reason(look, gitignore=True).code
    assert [".gitignore"] == names(look)


def test_a_gitignore_that_this_process_has_open_counts_too(look: Look, tree: Path):
    """Files that are open here are read another way, and rules in them are rules all the same."""
    (tree / ".gitignore").write_text("x\n")
    (tree / "x").write_bytes(b"")
    with open(tree / ".gitignore", "rb"):
        assert [".gitignore"] == names(look, gitignore=True)


# In company.


def test_a_pack_of_trees_and_files_is_verified_side_by_side(base: Path, tree: Path):
    """A tree says how much there is to read, and holds up nobody."""
    (tree / "large").write_bytes(bytes(5 * MIB))
    claim = Evidence("directory_tree", "x", {"path": "tree", "digest": "0" * 64})
    assert 4 * MIB < DirectoryTree().size(claim, Surroundings(base_path=str(base)))
    seen = EvidenceVerifier(base).observe(claim, Surroundings(base_path=str(base)))
    assert isinstance(seen, Seen)
    claim.expected.update(digest=seen.facts["digest"], bytes=5 * MIB)
    result = EvidenceVerifier(base).verify_multiple([claim, Evidence("artifact_exists", "y", {"path": "tree/large"})])
    assert result["all_passed"], claim.verification_error
