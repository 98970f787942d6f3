"""Plans: what would be done, measured now and changing nothing; and what cannot be put back, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentos.core.checkpoints.restores import NOTHING, Action, Kind, RestorePlan, Thing
from agentos.errors import RestoreRefusedError
from agentos.vault.planning import plan
from agentos.vault.vault import Vault
from tests.unit.vault.conftest import Keep
from tests.unit.vault.workspaces import ABOUT, FOLDER, Item, file, make, tree

LINK = Thing(Kind.LINK, target="elsewhere")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def planned(root: Path, vault: Vault, targets: dict[str | bytes, Thing]) -> RestorePlan:
    before = tree(root)
    made = plan(str(root), targets, vault, ABOUT)
    assert before == tree(root)
    return made


def why(made: RestorePlan) -> dict[str, str]:
    return {each.subject: each.why for each in made.cannot}


def test_each_path_gets_what_it_needs_and_no_more(root: Path, vault: Vault, keep: Keep):
    """Create, overwrite, delete, set executable, and leave alone what is as it is to be or was not named."""
    keep(b"wanted")
    there: dict[str, Item | bytes] = {
        "over": b"old",
        "gone": b"x",
        "run": b"wanted",
        "same": b"wanted",
        "other": b"y",
        "link": "a",
    }
    make(root, there)
    made = planned(
        root,
        vault,
        {
            "deep/er/new": file(b"wanted"), "over": file(b"wanted"), "gone": NOTHING, "run": file(b"wanted", executable=True),
            "same": file(b"wanted"), "never": NOTHING, "link": LINK,
        },
    )  # fmt: skip
    assert ["deep", "deep/er", "deep/er/new"] == made.paths(Action.CREATE)
    assert (["link", "over"], ["gone"], ["run"]) == tuple(
        made.paths(action) for action in (Action.OVERWRITE, Action.DELETE, Action.SET_EXECUTABLE)
    )
    assert (2, 12, True) == (made.left_alone, made.bytes, made.is_complete)


def test_names_may_be_any_bytes(root: Path, vault: Vault, keep: Keep):
    """No text, newlines, a leading dash."""
    keep(b"wanted")
    names = [b"\xff\xfe", b"two\nlines", b"-rf", b" blank"]
    made = planned(root, vault, {name: file(b"wanted") for name in names})
    assert sorted(map(os.fsdecode, names)) == sorted(made.paths(Action.CREATE))


@pytest.mark.parametrize("path", ["../x", "a/../x", "/etc/x", "", "a//b", "a/./b", ".", "a\0b"])
def test_a_path_that_leads_out_is_refused(root: Path, vault: Vault, path: str):
    """Whoever wrote the manifest."""
    assert ["no path beneath the folder; what names it is damaged or forged"] == list(
        why(planned(root, vault, {path: NOTHING, "b": NOTHING})).values()
    )


def test_content_that_is_not_there_or_damaged_is_named(root: Path, vault: Vault, keep: Keep):
    """And the rest of the plan stands."""
    damaged = keep(os.urandom(500))
    with open(vault.path_of(damaged), "r+b") as stored:
        stored.seek(100)
        stored.write(b"damage")
    keep(b"wanted")
    made = planned(root, vault, {"a": file(b"never kept"), "b": Thing(Kind.FILE, damaged), "c": file(b"wanted")})
    assert {"a": "its content was not kept", "b": "its content is damaged in the vault"} == why(made)
    assert ["c"] == made.paths(Action.CREATE)


def test_a_special_file_is_left_alone(root: Path, vault: Vault, keep: Keep):
    """In the way, or on the way; nobody waits for it."""
    keep(b"wanted")
    os.mkfifo(root / "pipe")
    made = planned(root, vault, {"pipe": file(b"wanted"), "pipe/below": file(b"wanted")})
    assert {
        "pipe": "a special file is in the way",
        "pipe/below": "pipe, in which it lies, cannot be put back",
    } == why(made)


def test_what_stands_on_the_way_and_may_not_go_stops_it(root: Path, vault: Vault, keep: Keep, tmp_path: Path):
    """A link is not followed, and a file that nobody named is not replaced by a folder."""
    keep(b"wanted")
    (tmp_path / "outside").mkdir()
    make(root, {"link": str(tmp_path / "outside"), "file": b"somebody's"})
    made = planned(root, vault, {"link/a": file(b"wanted"), "file/a": file(b"wanted"), "link/b": NOTHING, "file/b": NOTHING})
    assert ["file/a", "link/a", "link/b"] == sorted(why(made))
    assert "a link to" in why(made)["link/a"]
    assert "a symbolic link stands on the way to it" == why(made)["link/b"]
    assert (1, ()) == (made.left_alone, made.operations)


def test_a_link_that_took_the_place_of_a_folder_is_replaced_by_one(root: Path, vault: Vault, keep: Keep, tmp_path: Path):
    """What lies behind the link is not looked at."""
    keep(b"wanted")
    make(tmp_path / "outside", {"a": b"theirs"})
    make(root, {"folder": str(tmp_path / "outside")})
    made = planned(root, vault, {"folder": FOLDER, "folder/a": file(b"wanted"), "folder/b": NOTHING})
    assert (["folder"], ["folder/a"], ()) == (made.paths(Action.OVERWRITE), made.paths(Action.CREATE), made.cannot)


def test_a_folder_goes_only_with_everything_in_it(root: Path, vault: Vault, keep: Keep):
    """Something in it that nobody named keeps it, and the folders above it."""
    keep(b"wanted")
    make(root, {"a/b/mine": b"1", "a/b/yours": b"2", "c/mine": b"3"})
    made = planned(root, vault, {"a": NOTHING, "a/b": NOTHING, "a/b/mine": NOTHING, "c": file(b"wanted"), "c/mine": NOTHING})
    assert {"a": "the folder holds b, which is not to go", "a/b": "the folder holds yours, which is not to go"} == why(made)
    assert (["a/b/mine", "c/mine"], ["c"]) == (made.paths(Action.DELETE), made.paths(Action.OVERWRITE))


def test_what_somebody_else_claims_is_left_alone(root: Path, vault: Vault, keep: Keep):
    """With the name of who does; folders on the way too."""
    keep(b"wanted")
    make(root, {"theirs": b"1", "fine": b"wanted"})
    claimed = {"theirs": "task other claims it", "new": "task third claims it", "fine": "task other claims it"}
    targets: dict[str | bytes, Thing] = {"theirs": NOTHING, "new/x": file(b"wanted"), "fine": file(b"wanted")}
    made = plan(str(root), targets, vault, ABOUT, protected=lambda path, _: claimed.get(path, ""))
    assert {"theirs": "task other claims it", "new/x": "task third claims it"} == why(made)
    assert (1, ()) == (made.left_alone, made.operations)


def test_a_file_with_another_name_is_not_made_executable_through_it(root: Path, vault: Vault, tmp_path: Path):
    """It is written anew under this name, even if its content was never kept."""
    make(tmp_path / "outside", {"file": b"shared"})
    (root / "here").hardlink_to(tmp_path / "outside" / "file")
    made = planned(root, vault, {"here": file(b"shared", executable=True)})
    assert (["here"], True) == (made.paths(Action.OVERWRITE), made.is_complete)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_named(root: Path, vault: Vault, keep: Keep):
    """It is not known what it is, so it cannot be kept."""
    keep(b"wanted")
    make(root, {"closed": b"x"})
    (root / "closed").chmod(0)
    assert "cannot be looked at: Permission denied" == why(plan(str(root), {"closed": file(b"wanted")}, vault, ABOUT))["closed"]


def test_twins_are_two_where_case_counts(root: Path, vault: Vault, keep: Keep):
    """They are told apart by the file system, so they are by the plan."""
    keep(b"wanted")
    (root / "some").touch()
    if (root / "SOME").exists():
        pytest.skip("this file system does not tell case")
    assert ["A", "a"] == planned(root, vault, {"a": file(b"wanted"), "A": file(b"wanted")}).paths(Action.CREATE)


def test_a_folder_that_is_not_there_is_refused(root: Path, vault: Vault):
    """An unmounted disk is no lost work."""
    with pytest.raises(RestoreRefusedError, match="the folder to restore in cannot be opened"):
        plan(str(root / "missing"), {}, vault, ABOUT)


def test_what_a_restore_under_way_needs_is_no_target(root: Path, vault: Vault):
    """Its folder is nobody's but its own."""
    assert {".agentos-restore-1/out-0": "it belongs to a restore that is under way"} == why(
        planned(root, vault, {".agentos-restore-1/out-0": NOTHING})
    )
