"""Folders are entered from open ones: never through a link, never onto what is mounted there."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.core.checkpoints.restores import NOTHING, Thing
from agentos.errors import RestoreRefusedError
from agentos.vault import entering
from agentos.vault.beneath import Root
from agentos.vault.planning import plan
from agentos.vault.vault import Vault
from tests.unit.vault.workspaces import ABOUT, FOLDER, file, keep_all, make, tree


@pytest.fixture(params=["asked", "not asked"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A folder with a folder, a file and a link in it, where the system can be asked and where it cannot."""
    if request.param == "not asked":
        monkeypatch.setattr(entering, "_openat2", lambda: None)
    make(tmp_path / "root", {"folder/x": b"x", "file": b"y", "link": "folder"})
    descriptor = os.open(tmp_path / "root", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("name", ["link", "file", "nothing"])
def test_only_a_folder_is_entered(root: int, name: str):
    descriptor = entering.enter(root, "folder")
    assert ["x"] == os.listdir(descriptor)
    os.close(descriptor)
    with pytest.raises(OSError, match=name) as refused:
        entering.enter(root, name)
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A workspace in which a folder of the same file system is mounted."""
    make(tmp_path / "elsewhere", {"a": b"theirs", "empty": None})
    make(tmp_path / "work", {"sub": None, "b": b"ours"})
    place = tmp_path / "work" / "sub"
    try:
        done = subprocess.run(["mount", "--bind", tmp_path / "elsewhere", place], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"mounting was refused: {done.stderr.strip()}")
    yield tmp_path / "work"
    subprocess.run(["umount", "--lazy", place], check=True, capture_output=True)


def test_nothing_is_put_onto_what_is_mounted_of_the_same_file_system(mounted: Path, vault: Vault, tmp_path: Path):
    """Neither files nor folders; the folder that it is mounted on stays, and the rest is put back."""
    if entering._openat2() is None:
        pytest.skip("this system does not tell")
    keep_all(vault, {"": (b"wanted", False)})
    before = tree(tmp_path / "elsewhere")
    wanted: dict[str | bytes, Thing] = {"sub/a": file(b"wanted"), "sub/new": FOLDER, "sub/empty": NOTHING, "b": file(b"wanted")}
    made = plan(str(mounted), wanted, vault, ABOUT)
    assert ["b"] == [each.path for each in made.operations]
    assert {"sub/a", "sub/new", "sub/empty"} == {each.subject for each in made.cannot}
    assert all("mounted" in each.why for each in made.cannot)
    [cannot] = plan(str(mounted), {"sub": NOTHING}, vault, ABOUT).cannot
    assert ("sub", "something is mounted there") == (cannot.subject, cannot.why)
    with Root(str(mounted)) as held, pytest.raises(RestoreRefusedError, match="lies on what is mounted"):
        held.look("sub/a")
    assert before == tree(tmp_path / "elsewhere")
