"""What was kept is written into a folder of its own: whole or not at all, over nothing, through no link."""

import os
import re
import signal
import stat
from pathlib import Path

import pytest

from agentos.core.checkpoints.restores import Kind, Thing
from agentos.errors import InvalidInputError, StoreUnavailableError
from agentos.vault.copying import copy_out
from agentos.vault.vault import Vault
from tests.support import start
from tests.unit.vault.conftest import Keep

FOLDER = Thing(Kind.DIRECTORY)


def file(digest: str, *, executable: bool | None = None) -> Thing:
    return Thing(Kind.FILE, digest, executable=executable)


def test_files_folders_and_links_are_written_as_they_were(vault: Vault, keep: Keep, tmp_path: Path):
    """Content, what may be executed, the text of a link wherever it leads, a folder with nothing in it."""
    large = os.urandom(3 << 20)
    targets = {
        "a": file(keep(b"one")),
        "deep/er/run": file(keep(b"#!"), executable=True),
        "deep/large": file(keep(large)),
        "empty": FOLDER,
        "link": Thing(Kind.LINK, target="../../etc/passwd"),
        os.fsdecode(b"\xff name\n"): file(keep(b"odd")),
    }
    out = tmp_path / "out"
    copied = copy_out(vault, str(out), targets)
    assert (str(out), 5, 3 + 2 + len(large) + 3, ()) == (copied.folder, copied.files, copied.bytes, copied.cannot)
    assert [b"one", b"#!", large, b"odd"] == [
        (out / name).read_bytes() for name in ("a", "deep/er/run", "deep/large", os.fsdecode(b"\xff name\n"))
    ]
    assert (True, False) == tuple(bool((out / name).stat().st_mode & stat.S_IXUSR) for name in ("deep/er/run", "a"))
    assert ("../../etc/passwd", True, True) == (os.readlink(out / "link"), (out / "empty").is_dir(), copied.is_complete)
    assert sorted(["a", "deep", "empty", "link", os.fsdecode(b"\xff name\n")]) == sorted(os.listdir(out))
    assert [out.name] == [path.name for path in tmp_path.iterdir() if path.name != "vault"]


def test_what_cannot_be_had_is_named_and_the_rest_is_there(vault: Vault, keep: Keep, tmp_path: Path):
    """Never kept, damaged, a path that leads out, a thing beneath a file or a link: none of it, and none of it elsewhere."""
    damaged = keep(b"soon damaged" * 100)
    path = Path(vault.path_of(damaged))
    path.write_bytes(path.read_bytes()[:-1])
    one = file(keep(b"one"))
    targets = {
        "a": one,
        "a/beneath": one,
        "gone": file("0" * 64),
        "hurt": file(damaged),
        "link": Thing(Kind.LINK, target=str(tmp_path)),
        "link/through": one,
        "../out-of-it": one,
        "/absolute": one,
        "x/../../y": one,
        "": one,
    }
    copied = copy_out(vault, str(tmp_path / "out"), targets)
    assert {"a", "link"} == set(os.listdir(tmp_path / "out"))
    assert set(targets) - {"a", "link"} == {each.subject for each in copied.cannot}
    why = {each.subject: each.why for each in copied.cannot}
    assert ("its content was not kept", "its content is damaged in the vault") == (why["gone"], why["hurt"])
    assert {"out", "vault"} == set(os.listdir(tmp_path))


def test_nothing_that_is_there_is_written_over(vault: Vault, keep: Keep, tmp_path: Path):
    """A folder with something in it, a file, a link to an empty folder, a place in nothing."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    targets = {"a": file(keep(b"one"))}
    for name in ("full", "full/mine", "link", "gone/out"):
        with pytest.raises(InvalidInputError):
            copy_out(vault, str(tmp_path / name), targets)
    assert ("mine", []) == ((tmp_path / "full/mine").read_text(), list((tmp_path / "empty").iterdir()))
    copy_out(vault, str(tmp_path / "empty"), targets)
    assert "one" == (tmp_path / "empty/a").read_text()


_COPY = """
import os, resource, signal, sys
from agentos.core.checkpoints.restores import Kind, Thing
from agentos.errors import StoreUnavailableError
import agentos.vault.copying as copying
from agentos.vault.vault import Vault
how, vault, out, *digests = sys.argv[1:]
if how == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
else:
    real, left = os.open, int(how)
    def opened(path, flags, *more, **places):
        global left
        if flags & os.O_CREAT:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
        return real(path, flags, *more, **places)
    os.open = opened
try:
    copying.copy_out(Vault(vault), out, {f"f{n}": Thing(Kind.FILE, each) for n, each in enumerate(digests)})
except StoreUnavailableError as error:
    print(error.message)
"""


def test_a_full_disk_leaves_nothing_of_it(vault: Vault, keep: Keep, tmp_path: Path):
    """The write that fails takes everything with it; the folder is not there."""
    digests = [keep(b"small"), keep(os.urandom(5000))]
    with start(_COPY, "full", vault.root, tmp_path / "out", *digests) as process:
        said, errors = process.communicate(timeout=60)
    assert ("", True) == (errors, "cannot be written: File too large" in said)
    assert ["vault"] == os.listdir(tmp_path)


def test_killed_on_the_way_the_folder_is_not_there_and_the_next_copy_is_whole(vault: Vault, keep: Keep, tmp_path: Path):
    """At whichever file: half a copy never has the name that was asked for."""
    digests = [keep(os.urandom(100)) for _ in range(3)]
    for files in range(3):
        with start(_COPY, files, vault.root, tmp_path / "out", *digests) as process:
            process.communicate(timeout=60)
        assert (-signal.SIGKILL, False) == (process.returncode, (tmp_path / "out").exists())
    assert 3 == copy_out(vault, str(tmp_path / "out"), {f"f{n}": file(each) for n, each in enumerate(digests)}).files
    left = [name for name in os.listdir(tmp_path) if name not in ("out", "vault")]
    assert all(re.fullmatch(r"\.out\.[0-9a-f]{12}", name) for name in left)
    assert 3 == len(left)


def test_who_comes_first_keeps_the_name(vault: Vault, keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Somebody puts something there while the copy is written: theirs stays, and the copy leaves nothing."""
    real, targets = os.rename, {"a": file(keep(b"one"))}

    def late(*names: str) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out/theirs").write_text("theirs")
        real(*names)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(StoreUnavailableError, match="not empty"):
        copy_out(vault, str(tmp_path / "out"), targets)
    assert ["theirs"] == os.listdir(tmp_path / "out")
    assert {"out", "vault"} == set(os.listdir(tmp_path))
