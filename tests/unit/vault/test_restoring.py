"""Restores: the folder is as it was, wholly, and what that took away can be put back; or nothing happened."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints.restores import NOTHING, Action, Kind, Operation, Restored, RestorePlan, Thing
from agentos.core.checkpoints.stored import StoredRestore
from agentos.errors import RestoreFailedError, RestoreInterruptedError, RestoreRefusedError, VaultFullError
from agentos.store.durability import Durability
from agentos.store.registry.sqlite.registry import SQLiteRegistry
from agentos.vault import moving
from agentos.vault.beneath import Root
from agentos.vault.journal import entry_of, needed_by, operations_of
from agentos.vault.planning import plan
from agentos.vault.restoring import Restorer
from agentos.vault.vault import Vault
from agentos.vault.working import Work
from tests.unit.vault.workspaces import ABOUT, Item, Tree, file, keep_all, make, sha, targets, tree

Items = dict[str, "Item | bytes"]


class Meddler:
    """The journal of a registry, and somebody who does something when everything lies ready to be moved."""

    def __init__(self, journal: SQLiteRegistry, act: Callable[[], object]) -> None:
        self._journal, self._act = journal, act

    def begin_restore(self, stored: StoredRestore) -> None:
        self._journal.begin_restore(stored)

    def update_restore(self, stored: StoredRestore) -> None:
        self._journal.update_restore(stored)
        if stored.state == "applying":
            self._act()

    def restore(self, restore_id: str) -> StoredRestore | None:
        return self._journal.restore(restore_id)


class PowerCutError(BaseException):
    """Nobody tidies up after this."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def restorer(vault: Vault, journal: SQLiteRegistry) -> Restorer:
    return Restorer(vault, journal)


def prepared(root: Path, vault: Vault, there: Items, wanted: Items) -> tuple[RestorePlan, Tree, Tree]:
    """A plan from one tree to another, and both."""
    make(root, wanted)
    after = tree(root)
    keep_all(vault, after)
    make(root, there)
    before = tree(root)
    return plan(str(root), targets(after, before), vault, ABOUT), before, after


def entry(journal: SQLiteRegistry) -> StoredRestore:
    return journal.restores("task")[-1]


THERE: Items = {
    "over": b"old", "gone": b"gone", "run": b"run", "link": "old", "file-to-folder": b"x", "folder-to-file/deep/x": b"y",
    "folder-to-link/x": b"z", "link-to-folder": "/nowhere", "full/of/things": b"1", "empty": None, "a\nb": b"line",
}  # fmt: skip
WANTED: Items = {
    "over": b"new", "made/in/folders": b"made", "run": (b"run", True), "link": "new", "file-to-folder/x": b"x2",
    "folder-to-file": b"y2", "folder-to-link": "over", "link-to-folder/x": b"z2", "made-empty": None, "a\nb": b"line 2",
}  # fmt: skip


def test_everything_becomes_as_it_was(root: Path, vault: Vault, journal: SQLiteRegistry, restorer: Restorer):
    """Files, links, folders and bits, each from each; nothing of the restore itself is left."""
    made, _, wanted = prepared(root, vault, THERE, WANTED)
    done = restorer.apply(made)
    assert wanted == tree(root)
    assert (True, "done", True) == (done.verified, entry(journal).state, entry(journal).ended_at is not None)


def test_a_restore_can_be_undone_and_that_too(root: Path, vault: Vault, restorer: Restorer):
    """Back and forth, byte for byte."""
    made, before, wanted = prepared(root, vault, THERE, WANTED)
    undone = restorer.undo(restorer.apply(made).restore_id)
    assert (before, True) == (tree(root), undone.verified)
    assert made.task_id == undone.plan.task_id
    assert wanted == (restorer.undo(undone.restore_id), tree(root))[1]


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ITEMS = st.one_of(
    st.none(), st.sampled_from(["a", "../b", "/"]), st.tuples(st.sampled_from([b"", b"1", b"2" * 300]), st.booleans())
)


def whole(drawn: dict[str, Item]) -> Items:
    """Without what lies beneath a file or a link."""
    shut = {path for path, item in drawn.items() if item is not None}
    above = {path: ["/".join(path.split("/")[:n]) for n in range(1, len(path.split("/")))] for path in drawn}
    return {path: item for path, item in drawn.items() if not shut.intersection(above[path])}


@given(there=st.dictionaries(PATHS, ITEMS, max_size=8).map(whole), wanted=st.dictionaries(PATHS, ITEMS, max_size=8).map(whole))
def test_every_tree_becomes_every_other_and_goes_back(there: Items, wanted: Items):
    """Whatever stands where."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Vault(f"{folder}/vault", synced=False)
        journal = SQLiteRegistry(f"{folder}/registry.sqlite", Durability.RELAXED, 30.0)
        restorer, root = Restorer(vault, journal), Path(folder) / "root"
        made, before, after = prepared(root, vault, there, wanted)
        done = restorer.apply(made)
        assert (after, True) == (tree(root), done.verified)
        assert (before, True) == (restorer.undo(done.restore_id).verified and tree(root), True)
        journal.close()


def test_permissions_stay_as_they_were(root: Path, vault: Vault, restorer: Restorer):
    """Of a file that is overwritten, and of one that comes back; a bit is added for whoever may read."""
    made, _, _ = prepared(root, vault, {"kept": b"1", "bit": b"2"}, {"kept": b"3", "bit": (b"2", True)})
    (root / "kept").chmod(0o640)
    (root / "bit").chmod(0o640)
    made = plan(str(root), {"kept": file(b"3"), "bit": file(b"2", executable=True)}, vault, ABOUT)
    done = restorer.apply(made)
    assert [0o640, 0o750] == [stat.S_IMODE((root / name).stat().st_mode) for name in ("kept", "bit")]
    restorer.apply(plan(str(root), {"kept": NOTHING, "bit": NOTHING}, vault, ABOUT))
    restorer.undo(done.restore_id)
    assert [0o640, 0o640] == [stat.S_IMODE((root / name).stat().st_mode) for name in ("kept", "bit")]


def test_what_is_linked_elsewhere_stays_as_it_is_there(root: Path, vault: Vault, restorer: Restorer, tmp_path: Path):
    """Neither content nor the bit of a file outside changes through a name inside."""
    make(tmp_path / "outside", {"one": b"shared", "two": b"bit"})
    keep_all(vault, {"": (b"wanted", False)})
    make(root, {})
    (root / "one").hardlink_to(tmp_path / "outside" / "one")
    (root / "two").hardlink_to(tmp_path / "outside" / "two")
    before = tree(tmp_path / "outside")
    done = restorer.apply(plan(str(root), {"one": file(b"wanted"), "two": file(b"bit", executable=True)}, vault, ABOUT))
    assert ({"one": (b"wanted", False), "two": (b"bit", True)}, before) == (tree(root), tree(tmp_path / "outside"))
    assert done.verified


def test_everything_that_goes_is_kept_whatever_its_size(root: Path, vault: Vault, restorer: Restorer, journal: SQLiteRegistry):
    """And the journal says under which digest, so that nobody collects it."""
    large = os.urandom(9 << 20)
    made, _, _ = prepared(root, vault, {"large": large, "gone": b"gone"}, {"large": b"small"})
    done = restorer.apply(made)
    assert {sha(large), sha(b"gone"), sha(b"small")} == set(needed_by(entry(journal)))
    restorer.undo(done.restore_id)
    assert large == (root / "large").read_bytes()


def test_what_does_not_fit_into_the_vault_is_not_overwritten(root: Path, vault: Vault, journal: SQLiteRegistry):
    """The budget is no reason to lose something."""
    made, before, _ = prepared(root, vault, {"a": os.urandom(5000)}, {"a": b"new"})
    with pytest.raises(VaultFullError):
        Restorer(Vault(vault.root, limit=1000), journal).apply(made)
    assert (before, []) == (tree(root), journal.restores("task"))


def test_what_is_damaged_in_the_vault_is_no_safety_copy(root: Path, vault: Vault, restorer: Restorer):
    """It was kept earlier and is not whole any more: what is in place may be the last of it, and is kept instead."""
    content = os.urandom(500)
    made, before, _ = prepared(root, vault, {"a": content}, {"a": b"new"})
    keep_all(vault, before)
    with open(vault.path_of(sha(content)), "r+b") as stored:
        stored.truncate(100)
    done = restorer.apply(made)
    assert content == vault.read(sha(content))
    restorer.undo(done.restore_id)
    assert before == tree(root)


def move_content(root: Path) -> None:
    (root / "over").write_bytes(b"bad")


def move_bit(root: Path) -> None:
    (root / "run").chmod(0o600)


def move_into_the_way(root: Path) -> None:
    (root / "made").touch()


def move_into_a_folder(root: Path) -> None:
    (root / "empty").rmdir()


@pytest.mark.parametrize("change", [move_content, move_bit, move_into_the_way, move_into_a_folder])
def test_a_world_that_moved_since_the_plan_is_left_alone(
    root: Path, vault: Vault, restorer: Restorer, journal: SQLiteRegistry, change: Callable[[Path], None]
):
    """Same size or not, made or gone: somebody else is at work."""
    made, _, _ = prepared(root, vault, THERE, WANTED)
    change(root)
    before = tree(root)
    with pytest.raises(RestoreRefusedError, match="changed since the plan was made"):
        restorer.apply(made)
    assert (before, []) == (tree(root), journal.restores("task"))


# Somebody is faster.


def apply_while(
    root: Path, vault: Vault, journal: SQLiteRegistry, act: Callable[[], object], state: str = "applying"
) -> Restored:
    made = plan(str(root), {"a": file(b"new"), "m": NOTHING, "z": file(b"new")}, vault, ABOUT)
    return Restorer(vault, Meddler(journal, act)).apply(made)


@pytest.fixture
def three(root: Path, vault: Vault) -> Tree:
    make(root, {"a": b"old a", "m": b"old m", "z": b"old z"})
    keep_all(vault, {"": (b"new", False)})
    return tree(root)


@pytest.mark.parametrize("theirs", [b"edited", None, "link", "pipe"])
def test_an_edit_in_the_middle_stays_and_all_else_is_as_before(
    root: Path, vault: Vault, journal: SQLiteRegistry, three: Tree, theirs: Item | bytes
):
    """What was taken away is not what was planned: it is given back."""

    def edit() -> None:
        (root / "z").unlink()
        if theirs == "pipe":
            os.mkfifo(root / "z")
        elif isinstance(theirs, bytes):
            (root / "z").write_bytes(theirs)
        elif isinstance(theirs, str):
            (root / "z").symlink_to(theirs)
        else:
            (root / "z").mkdir()
            (root / "z" / "inside").write_bytes(b"inside")

    with pytest.raises(RestoreFailedError, match="everything is as it was before"):
        apply_while(root, vault, journal, edit)
    found = tree(root)
    assert {"a": three["a"], "m": three["m"]} == {path: found[path] for path in ("a", "m")}
    expected: dict[object, Item] = {b"edited": (b"edited", False), None: None, "link": "link", "pipe": "special 10000"}
    assert (expected[theirs], "undone") == (found["z"], entry(journal).state)
    assert {"a", "m", "z"} == {path.partition("/")[0] for path in found}


def test_what_turns_up_in_an_empty_place_is_not_replaced(root: Path, vault: Vault, journal: SQLiteRegistry):
    """A place is taken only if nothing is there."""
    make(root, {})
    keep_all(vault, {"": (b"new", False)})
    with pytest.raises(RestoreFailedError, match=r"z: .*File exists; everything is as it was before, except .* z"):
        apply_while(root, vault, journal, lambda: (root / "z").write_bytes(b"theirs"))
    assert {"z": (b"theirs", False)} == tree(root)


def test_a_way_that_became_a_link_is_not_followed(root: Path, vault: Vault, journal: SQLiteRegistry, tmp_path: Path):
    """Swapped in the middle; nothing outside is touched, and all that was moved goes back."""
    make(tmp_path / "outside", {"z": b"theirs"})
    make(root, {"a": b"old", "sub/z": b"old z"})
    keep_all(vault, {"": (b"new", False)})

    def swap() -> None:
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to(tmp_path / "outside")

    made = plan(str(root), {"a": file(b"new"), "sub/z": file(b"new")}, vault, ABOUT)
    with pytest.raises(RestoreFailedError, match="a symbolic link stands on the way"):
        Restorer(vault, Meddler(journal, swap)).apply(made)
    assert {"z": (b"theirs", False)} == tree(tmp_path / "outside")
    assert ((b"old", False), (b"old z", False)) == (tree(root)["a"], tree(root)["moved/z"])


def test_what_is_written_through_an_open_descriptor_is_kept(root: Path, vault: Vault, journal: SQLiteRegistry, three: Tree):
    """After it was taken away and measured: the journal names what was written last, and undoing brings that back."""
    made = plan(str(root), {"a": file(b"new"), "z": file(b"new")}, vault, ABOUT)
    with (root / "a").open("ab") as writer:
        moves = Work.move

        class Late(Work):
            def move(self) -> None:
                moves(self)
                writer.write(b" and more")
                writer.flush()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("agentos.vault.restoring.Work", Late)
            done = Restorer(vault, journal).apply(made)
    assert sha(b"old a and more") == done.plan.operations[0].before.sha256
    Restorer(vault, journal).undo(done.restore_id)
    assert ((b"old a and more", False), three["z"]) == (tree(root)["a"], tree(root)["z"])


# Something fails.


def test_what_fails_before_the_first_move_changes_nothing(root: Path, vault: Vault, journal: SQLiteRegistry, three: Tree):
    """Everything new lies ready before the first thing is moved."""
    made = plan(str(root), {"a": file(b"new"), "z": file(b"new")}, vault, ABOUT)
    os.unlink(vault.path_of(sha(b"new")))
    with pytest.raises(RestoreFailedError, match=r"a: cannot be put back: .* not in the vault; everything is as it was"):
        Restorer(vault, journal).apply(made)
    assert (three, "undone") == (tree(root), entry(journal).state)


def cut() -> None:
    raise PowerCutError


def interrupt(root: Path, vault: Vault, journal: SQLiteRegistry, monkeypatch: pytest.MonkeyPatch) -> StoredRestore:
    """A restore that died after it moved everything, before that was written down."""
    made = plan(str(root), {"a": file(b"new"), "m": NOTHING, "z": file(b"new")}, vault, ABOUT)
    with monkeypatch.context() as patch:
        patch.setattr(Restorer, "_take_back", lambda *_: None)
        patch.setattr(Work, "settle_names", lambda _: cut())
        with pytest.raises(PowerCutError):
            Restorer(vault, journal).apply(made)
    return entry(journal)


def test_what_was_done_and_not_written_down_is_ended(
    root: Path, vault: Vault, journal: SQLiteRegistry, restorer: Restorer, three: Tree, monkeypatch: pytest.MonkeyPatch
):
    """Everything is in place already; settling again changes nothing."""
    died = interrupt(root, vault, journal, monkeypatch)
    assert "applying" == died.state
    for _ in range(2):
        assert "done" == restorer.settle(died.restore_id).state
        assert {"a": (b"new", False), "z": (b"new", False)} == tree(root)
    restorer.undo(died.restore_id)
    assert three == tree(root)


@pytest.mark.parametrize("lost", ["out-0", "out-1", "out-2", "everything"])
def test_what_is_not_wholly_done_is_taken_back(
    root: Path,
    vault: Vault,
    journal: SQLiteRegistry,
    restorer: Restorer,
    three: Tree,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
):
    """Even if the staging folder lost what it had: the vault has it."""
    died = interrupt(root, vault, journal, monkeypatch)
    (root / "z").unlink()
    if lost == "everything":
        shutil.rmtree(root / died.staging)
    else:
        (root / died.staging / lost).unlink()
    assert ("undone", three) == (restorer.settle(died.restore_id).state, tree(root))
    assert ("undone", three) == (restorer.settle(died.restore_id).state, tree(root))


def test_what_somebody_did_before_it_was_settled_stays(
    root: Path, vault: Vault, journal: SQLiteRegistry, restorer: Restorer, three: Tree, monkeypatch: pytest.MonkeyPatch
):
    """What is nobody's is not replaced by what was there before."""
    died = interrupt(root, vault, journal, monkeypatch)
    (root / "a").write_bytes(b"edited")
    assert "undone" == restorer.settle(died.restore_id).state
    assert {**three, "a": (b"edited", False)} == tree(root)
    assert b"old a" == vault.read(operations_of(entry(journal))[0].before.sha256)


def test_a_living_restore_is_not_settled(root: Path, vault: Vault, journal: SQLiteRegistry, restorer: Restorer, three: Tree):
    """Whoever works in the folder holds its lock."""
    refused: list[str] = []

    def settle() -> None:
        with pytest.raises(RestoreRefusedError, match="a living process is at work in it"):
            restorer.settle(entry(journal).restore_id)
        refused.append(entry(journal).state)

    assert apply_while(root, vault, journal, settle).verified
    assert ["applying"] == refused


def test_what_cannot_be_taken_back_yet_is_said_to_be_in_the_middle(
    root: Path, vault: Vault, journal: SQLiteRegistry, restorer: Restorer, three: Tree, monkeypatch: pytest.MonkeyPatch
):
    """The content it needs cannot be read; when it can, settling ends it."""
    died = interrupt(root, vault, journal, monkeypatch)
    shutil.rmtree(root / died.staging)
    (root / "a").unlink()
    kept = vault.path_of(sha(b"old a"))
    os.rename(kept, f"{kept}.away")
    with pytest.raises(RestoreInterruptedError, match="could not be taken back yet"):
        restorer.settle(died.restore_id)
    os.rename(f"{kept}.away", kept)
    assert ("undone", three) == (restorer.settle(died.restore_id).state, tree(root))


def test_a_link_in_place_of_the_staging_folder_is_not_entered(
    root: Path,
    vault: Vault,
    journal: SQLiteRegistry,
    restorer: Restorer,
    three: Tree,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    """Whatever it leads to is not cleared away."""
    died = interrupt(root, vault, journal, monkeypatch)
    make(tmp_path / "outside", {"out-0": b"theirs"})
    shutil.rmtree(root / died.staging)
    (root / died.staging).symlink_to(tmp_path / "outside")
    with pytest.raises(RestoreRefusedError, match="found what cannot be opened as one"):
        restorer.settle(died.restore_id)
    assert {"out-0": (b"theirs", False)} == tree(tmp_path / "outside")


def test_what_nobody_here_put_into_the_staging_folder_stays(
    root: Path, vault: Vault, journal: SQLiteRegistry, restorer: Restorer, three: Tree, monkeypatch: pytest.MonkeyPatch
):
    """And so does the folder; whoever takes it away lets the restore end."""
    died = interrupt(root, vault, journal, monkeypatch)
    (root / died.staging / "mine").write_bytes(b"mine")
    assert (None, b"mine") == (restorer.settle(died.restore_id).ended_at, (root / died.staging / "mine").read_bytes())
    (root / died.staging / "mine").unlink()
    assert restorer.settle(died.restore_id).ended_at is not None
    assert {"a", "z"} == tree(root).keys()


# What is refused.


def test_only_what_was_done_can_be_undone(root: Path, vault: Vault, journal: SQLiteRegistry, restorer: Restorer, three: Tree):
    """Not what was taken back, and nothing that never was."""
    with pytest.raises(RestoreFailedError):
        apply_while(root, vault, journal, lambda: (root / "z").write_bytes(b"edited"))
    with pytest.raises(RestoreRefusedError, match="expected one that was done, this one is undone"):
        restorer.undo(entry(journal).restore_id)
    for call in (restorer.undo, restorer.settle):
        with pytest.raises(RestoreRefusedError, match="there is none"):
            call("restore_x")


def test_undoing_keeps_what_was_edited_since(root: Path, vault: Vault, restorer: Restorer, three: Tree):
    """It is put back by undoing the undoing."""
    made = plan(str(root), {"a": file(b"new")}, vault, ABOUT)
    done = restorer.apply(made)
    (root / "a").write_bytes(b"edited since")
    undone = restorer.undo(done.restore_id)
    assert three == tree(root)
    restorer.undo(undone.restore_id)
    assert (b"edited since", False) == tree(root)["a"]


def test_part_of_a_plan_can_be_followed(root: Path, vault: Vault, restorer: Restorer, three: Tree):
    """What is not in it stays."""
    made = plan(str(root), {"a": file(b"new"), "m": NOTHING, "z": file(b"new")}, vault, ABOUT)
    assert restorer.apply(made.only("m")).verified
    assert {"a": three["a"], "z": three["z"]} == tree(root)


def test_a_plan_that_cannot_do_all_is_not_verified(root: Path, vault: Vault, restorer: Restorer, three: Tree):
    """What it can is done."""
    made = plan(str(root), {"a": file(b"new"), "z": file(b"never kept")}, vault, ABOUT)
    assert not restorer.apply(made).verified
    assert {**three, "a": (b"new", False)} == tree(root)


def test_a_forged_entry_leads_nowhere(root: Path, vault: Vault, restorer: Restorer, journal: SQLiteRegistry, tmp_path: Path):
    """A path in it that leaves the folder is left alone when it is settled."""
    make(root, {})
    make(tmp_path / "outside", {"x": b"theirs"})
    keep_all(vault, {"": (b"theirs", False)})
    theirs = replace(file(b"theirs"), size=6)
    forged = RestorePlan("task", "c", str(root), (Operation("../outside/x", Action.CREATE, NOTHING, theirs),), (), 0)
    begun = entry_of(forged)
    begun.state = "applying"
    journal.begin_restore(begun)
    restorer.settle(begun.restore_id)
    assert {"x": (b"theirs", False)} == tree(tmp_path / "outside")
    with pytest.raises(RestoreRefusedError, match="no path beneath a folder"):
        restorer.apply(forged)


@pytest.mark.parametrize("staging", ["../outside", "..", ".", "sub", ".agentos-restore-a/../../outside"])
def test_a_forged_entry_does_not_say_where_things_are_cleared_away(
    root: Path, vault: Vault, restorer: Restorer, journal: SQLiteRegistry, tmp_path: Path, staging: str
):
    """What looks like left behind by a restore is not removed from a folder that is none of a restore's."""
    make(root, {"sub/out-0": b"ours"})
    make(tmp_path / "outside", {"out-0": b"theirs"})
    for theirs in (b"ours", b"theirs"):
        begun = entry_of(RestorePlan("task", "c", str(root), (Operation("x", Action.DELETE, file(theirs), NOTHING),), (), 0))
        begun.state, begun.staging = "done", staging
        journal.begin_restore(begun)
        with pytest.raises(RestoreRefusedError, match="expected the name of a restore's folder"):
            restorer.settle(begun.restore_id)
    assert ({"out-0": (b"theirs", False)}, (b"ours", False)) == (tree(tmp_path / "outside"), tree(root)["sub/out-0"])


def test_moving_never_replaces(root: Path, monkeypatch: pytest.MonkeyPatch):
    """With the system's own call and without it; a link is moved and not followed."""
    make(root, {"a": b"a", "b": b"b", "link": "nowhere"})
    for known in (moving._renameat2, lambda: None):
        monkeypatch.setattr(moving, "_renameat2", known)
        with Root(str(root)) as held:
            with pytest.raises(FileExistsError):
                moving.move(held.descriptor, "a", held.descriptor, "b")
            moving.move(held.descriptor, "link", held.descriptor, "new")
            moving.move(held.descriptor, "new", held.descriptor, "link")
    assert {"a": (b"a", False), "b": (b"b", False), "link": "nowhere"} == tree(root)


def test_a_thing_is_not_written_with_more_rights_than_it_had(root: Path, vault: Vault, restorer: Restorer):
    """A bit that gives somebody else's rights does not come back."""
    make(root, {"a": b"a"})
    (root / "a").chmod(0o4755)
    done = restorer.apply(plan(str(root), {"a": NOTHING}, vault, ABOUT))
    restorer.undo(done.restore_id)
    assert 0o755 == stat.S_IMODE((root / "a").stat().st_mode)
    assert Thing(Kind.FILE, sha(b"a"), 1, executable=True, mode=0o4755) == done.plan.operations[0].before
