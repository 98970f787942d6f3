"""What a step proves is kept, so that it can be put back; and what is not kept says so."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack
from agentos.errors import EvidenceDefinitionError, InvalidInputError, VaultFullError
from agentos.vault.keeping import Keeping
from agentos.vault.vault import Vault
from tests.support import environment


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kept(manager: CheckpointManager, data: bytes) -> bytes | None:
    return manager._hands().content(digest_of(data))


def claims(manager: CheckpointManager, task: str = "t") -> list[Evidence]:
    return manager.list_checkpoints(task)[0].evidence_pack.evidence_list


def test_a_file_that_a_step_proves_is_kept_as_it_was(manager: CheckpointManager, work: Path):
    with manager.task("t").step("tool_executed", {}) as step:
        (work / "a").write_bytes(b"one")
        step.proves_file("a")
    assert b"one" == kept(manager, b"one")
    assert claims(manager)[0].metadata["kept"] is True


def test_a_file_beyond_the_limit_is_proven_and_not_kept_and_says_so(db: Path, work: Path):
    with CheckpointManager(db, keep_limit=10) as manager:
        with manager.task("t").step("tool_executed", {}) as step:
            (work / "a").write_bytes(b"x" * 11)
            step.proves_file("a")
        assert step.checkpoint is not None
        assert step.checkpoint.verified
        assert claims(manager)[0].metadata["kept"] is False
        assert kept(manager, b"x" * 11) is None


def test_what_is_proven_and_not_kept_is_said_wherever_that_matters(db: Path, work: Path):
    """In the report of the checkpoint, before anything is lost, when it is, and in the plan."""
    (work / "small").write_bytes(b"small")
    (work / "a\nbig").write_bytes(b"x" * 11)
    with CheckpointManager(db, keep_limit=10) as manager, manager.task("t", workspace=work) as task:
        task.resume({})
        with task.step("tool_executed", {"n": 1}) as step:
            step.proves_file("small", keep=False)
        note = (
            "proven and not kept (larger than keep_limit, or not what was claimed, when it was committed), "
            "so not to be put back from here: a\\x0abig"
        )
        newest = task.checkpoints()[0]
        report, remembered = (manager.verification_report(newest.checkpoint_id, look=look) for look in (True, False))
        assert [[], [note]] == [item.notes for item in report.items] == [item.notes for item in remembered.items]
        assert f"note: {note}" in report.table()
        assert "proven and not kept" in report.markdown()
        task.release()
        assert (note,) == manager.recover("t").notes
        (work / "a\nbig").write_bytes(b"y" * 11)
        (work / "small").unlink()
        found = manager.recover("t")
        assert note in found.notes
        assert "a\\x0abig cannot be put back: its content was not kept" in found.explain()
        assert {"file:small": True, "tree:.": False} == {each.subject: each.restorable for each in found.differences}
        plan = manager.plan_restore(newest.checkpoint_id)
        assert {"a\nbig": "its content was not kept"} == {each.subject: each.why for each in plan.cannot}
        assert "cannot: a\\x0abig: its content was not kept" in plan.explain()
        assert ["small"] == plan.paths("create")


def test_what_is_asked_for_by_name_is_kept_whatever_its_size_and_what_is_not_wanted_is_not(db: Path, work: Path):
    with CheckpointManager(db, keep_limit=10) as manager:
        with manager.task("t").step("tool_executed", {}) as step:
            (work / "a").write_bytes(b"x" * 11)
            (work / "b").write_bytes(b"b")
            step.proves_file("a", keep=True)
            step.proves_file("b", keep=False)
        assert b"x" * 11 == kept(manager, b"x" * 11)
        assert kept(manager, b"b") is None
        assert [True, None] == [each.metadata.get("kept") for each in claims(manager)]


def test_in_the_style_of_packs_a_claim_asks_to_be_kept(manager: CheckpointManager, work: Path):
    for name in ("a", "b"):
        (work / name).write_bytes(name.encode())
    pack = EvidencePack([Evidence("file_sha256", n, {"path": n, "sha256": digest_of(n.encode())}) for n in ("a", "b")])
    pack.evidence_list[0].metadata["keep"] = True
    manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
    assert (b"a", None) == (kept(manager, b"a"), kept(manager, b"b"))


def test_a_manager_that_keeps_keeps_every_file_that_is_claimed(db: Path, work: Path):
    (work / "a").write_bytes(b"a")
    with CheckpointManager(db, keep=True) as manager:
        pack = EvidencePack([Evidence.capture_file("a")])
        manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
        assert b"a" == kept(manager, b"a")
        assert "kept" not in pack.evidence_list[0].metadata


def test_only_what_was_claimed_is_kept(db: Path, work: Path):
    """A claim that does not hold keeps nothing: what is there is not what is claimed."""
    (work / "a").write_bytes(b"other")
    with CheckpointManager(db, keep=True) as manager:
        pack = EvidencePack([Evidence("file_sha256", "a", {"path": "a", "sha256": digest_of(b"claimed")})])
        found = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
        assert not found.verified
        assert found.evidence_pack.evidence_list[0].metadata["kept"] is False
        assert not list(manager._hands().sizes())


def test_a_budget_that_is_spent_refuses_the_commit_and_stores_nothing(db: Path, work: Path):
    with CheckpointManager(db, vault_limit=1000) as manager:
        (work / "a").write_bytes(os.urandom(3200))
        step = manager.task("t").step("tool_executed", {})
        step.proves_file("a")
        with pytest.raises(VaultFullError, match="1,000 bytes"), step:
            pass
        assert [] == manager.list_checkpoints("t")
        assert [step.step_id] == [each.step_id for each in manager.list_open_steps("t")]
        assert [] == list(manager._hands().sizes())


@pytest.mark.parametrize("keep", [1, "yes", 0])
def test_keep_is_true_false_or_nothing(manager: CheckpointManager, keep: object):
    with pytest.raises(InvalidInputError, match="keep must be true, false or None"):
        manager.task("t").step("tool_executed", {}).proves_file("a", keep=keep)  # type: ignore[arg-type]
    item = Evidence("artifact_absent", "a", {"path": "a"}, {"keep": keep})
    with pytest.raises(EvidenceDefinitionError, match="metadata\\['keep'\\] must be true or false"):
        manager.commit_step(manager.begin_step("t", "tool_executed", {}), EvidencePack([item]))


# A tree whose content is kept.


def tree_of(manager: CheckpointManager, name: str, **content: str) -> Evidence:
    """A step that proves and keeps a folder with these files; its claim."""
    folder = manager.base_path / name
    folder.mkdir(exist_ok=True)
    for path, text in content.items():
        (folder / path).write_text(text)
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_tree(name, keep=True)
    return claims(manager)[0]


def test_a_small_manifest_lies_beside_its_claim_and_a_large_one_in_the_vault(manager: CheckpointManager):
    """A file for a few bytes would take a block of the disk and a sync of its own."""
    small, large = tree_of(manager, "small", a="a"), tree_of(manager, "large", **{f"n{n}": f"{n}" for n in range(200)})
    hands = manager._hands()
    assert (True, False) == ("manifest" in small.metadata, hands.has(small.expected["digest"]))
    assert (False, True) == ("manifest" in large.metadata, hands.has(large.expected["digest"]))
    assert [True, True] == [small.metadata["kept"], large.metadata["kept"]]
    collected = manager.collect()
    assert ((), 0, 202) == (collected.missing, collected.contents, collected.kept)


def test_a_tree_that_is_known_to_be_kept_is_looked_at_and_not_kept_again(manager: CheckpointManager, monkeypatch):
    """Its content is measured like that of any other; that the vault has it is known as long as nothing was removed."""
    many = {f"n{n}": f"{n}" for n in range(50)}
    tree_of(manager, "out", **many)
    asked: list[set[str]] = []
    real = Keeping.lacking

    def lacking(self: Keeping, digests: set[str]) -> set[str]:
        asked.append(digests)
        return real(self, digests)

    monkeypatch.setattr(Keeping, "lacking", lacking)
    assert (True, 0) == (tree_of(manager, "out").metadata["kept"], len(asked))
    assert (True, 1) == (tree_of(manager, "out", n0="changed").metadata["kept"], len(asked))
    manager.collect()
    assert (True, 2) == (tree_of(manager, "out").metadata["kept"], len(asked))


def test_a_new_process_keeps_differences_to_what_the_one_before_kept(db: Path, work: Path):
    """Each step in a process of its own: of files and of trees only what changed is kept, and all of it comes back."""
    lines = [hashlib.sha256(bytes([number])).hexdigest() for number in range(250)]
    versions = {}
    for number in range(6):
        lines[number] = f"changed {number}"
        versions[number] = "\n".join(lines).encode()
        for name in ("alone", "out/inside"):
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_bytes(versions[number] + name.encode())
        for more in range(40):
            (work / f"out/{more}").write_text(f"{more}")
        with CheckpointManager(db) as manager, manager.task("t").step("tool_executed", {}) as step:
            step.proves_file("alone")
            step.proves_tree("out")
    with CheckpointManager(db) as manager:
        trees = [each.evidence_pack.evidence_list[1].expected["digest"] for each in manager.list_checkpoints("t")]
        vault = Vault(manager._hands().place)
        for name in ("alone", "out/inside"):
            digests = [digest_of(version + name.encode()) for version in versions.values()]
            assert list(range(6)) == [vault.header(digest).place for digest in digests]
            assert [version + name.encode() for version in versions.values()] == [vault.read(digest) for digest in digests]
        assert list(range(6)) == [vault.header(digest).place for digest in trees[::-1]]


def test_a_vault_that_was_taken_away_under_a_running_agent_is_filled_again(manager: CheckpointManager, db: Path):
    """What was known of the other one is not believed of this one."""
    tree_of(manager, "out", a="a")
    shutil.rmtree(db.parent / "vault")
    assert tree_of(manager, "out").metadata["kept"] is True
    assert b"a" == kept(manager, b"a")


def test_a_tree_may_ask_for_everything_or_nothing(db: Path, work: Path):
    (work / "out").mkdir()
    (work / "out/a").write_bytes(b"x" * 11)
    with CheckpointManager(db, keep_limit=10) as manager:
        for keep, found in ((True, True), (False, None), (None, ["a"])):
            with manager.task("t").step("tool_executed", {}) as step:
                step.proves_tree("out", keep=keep)
            assert found == claims(manager)[0].metadata.get("kept")
            manager.prune("t", keep_verified=1)
            manager.collect()
            assert (b"x" * 11 if keep else None) == kept(manager, b"x" * 11)
        with pytest.raises(InvalidInputError, match="keep must be true, false or None"):
            manager.task("t").step("tool_executed", {}).proves_tree("out", keep="yes")  # type: ignore[arg-type]


# What a step is about to change.


def test_what_a_step_touches_is_kept_before_it_begins_and_put_back_by_a_repair(manager: CheckpointManager, work: Path):
    """Nobody ever claimed it, and still the step that is run again finds it as it was."""
    (work / "input").write_bytes(b"as it was")
    with manager.task("t").step("tool_executed", {"n": 1}) as step:
        (work / "a").write_bytes(b"a")
        step.proves_file("a")
    manager.begin_step("t", "tool_executed", {"n": 2}, touches=["input", "new"])
    (work / "input").write_bytes(b"half")
    (work / "new").write_bytes(b"half")
    (work / "a").write_bytes(b"half")
    assert {"n": 1} == manager.resume("t", {}, repair=True)
    assert (b"as it was", b"a", False) == (
        (work / "input").read_bytes(),
        (work / "a").read_bytes(),
        (work / "new").exists(),
    )


def test_what_a_step_touches_is_put_back_although_nothing_else_differs(manager: CheckpointManager, work: Path):
    """The world of the checkpoint holds, and what was touched is no part of it; what is claimed stays as it is claimed."""
    (work / "input").write_bytes(b"as it was")
    with manager.task("t").step("tool_executed", {"n": 1}) as step:
        (work / "a").write_bytes(b"claimed")
        step.proves_file("a")
    (work / "a").write_bytes(b"changed before the step began")
    manager.begin_step("t", "tool_executed", {"n": 2}, touches=["input", "new", "a"])
    (work / "a").write_bytes(b"claimed")
    (work / "input").write_bytes(b"half")
    (work / "new").write_bytes(b"half")
    task = manager.task("t")
    assert {"n": 1} == task.resume({}, repair=True)
    assert (b"as it was", b"claimed", False) == (
        (work / "input").read_bytes(),
        (work / "a").read_bytes(),
        (work / "new").exists(),
    )
    assert task.recovery is not None
    assert [["input"]] == [each.plan.paths("overwrite") for each in task.recovery.restored]


def test_what_the_first_step_touches_is_put_back(manager: CheckpointManager, work: Path):
    """Nothing was committed yet, and the step that runs again finds what it changed as it was."""
    (work / "input").write_bytes(b"as it was")
    manager.begin_step("t", "tool_executed", {"n": 1}, touches=["input"])
    (work / "input").write_bytes(b"half")
    assert {} == manager.resume("t", {})
    assert b"half" == (work / "input").read_bytes()
    manager.begin_step("u", "tool_executed", {"n": 1}, touches=["input"])
    (work / "input").write_bytes(b"half of it")
    task = manager.task("u")
    assert {} == task.resume({}, repair=True)
    assert b"half" == (work / "input").read_bytes()
    assert task.recovery is not None
    assert "to what was there before the first checkpoint" in task.recovery.explain()


def test_what_a_step_touches_through_a_link_is_put_back_where_it_lies(manager: CheckpointManager, work: Path):
    """Both what the link leads to and the link are as they were: a restore goes through none, and makes no file of one."""
    (work / "deep").mkdir()
    (work / "deep/input").write_text("as it was")
    (work / "deep/other").write_text("as it was")
    (work / "link").symlink_to("deep/input")
    (work / "folder").symlink_to("deep")
    manager.begin_step("t", "tool_executed", {"n": 1}, touches=["link", "folder/other", "folder"])
    (work / "link").write_text("half")
    (work / "folder/other").write_text("half")
    for name in ("link", "folder"):
        (work / name).unlink()
        (work / name).symlink_to("elsewhere")
    assert {} == manager.task("t").resume({}, repair=True)
    assert ("deep/input", "deep") == (os.readlink(work / "link"), os.readlink(work / "folder"))
    assert ("as it was", "as it was") == ((work / "deep/input").read_text(), (work / "deep/other").read_text())


def test_what_cannot_be_looked_at_is_not_begun(manager: CheckpointManager, work: Path):
    os.mkfifo(work / "pipe")
    with pytest.raises(InvalidInputError, match="touches: pipe: expected a file"):
        manager.begin_step("t", "tool_executed", {}, touches=["pipe"])
    with pytest.raises(InvalidInputError, match="touches must be a list of paths"):
        manager.begin_step("t", "tool_executed", {}, touches="pipe")
    assert [] == manager.list_open_steps("t")


# Two processes.

AGENT = """
import sys
from pathlib import Path
from agentos.core.checkpoints import CheckpointManager

lines = [f"line {number}" for number in range(100)]
with CheckpointManager(sys.argv[1]) as manager, manager.task("t", workspace="work") as task:
    task.resume({})
    for number in range(int(sys.argv[2])):
        # Few contents, so that they are let go of, removed, and met again.
        lines[number % 3] = f"changed {number % 5}"
        with task.step("tool_executed", {"number": number}):
            Path("work/text").write_text("\\n".join(lines))
        manager.prune("t", keep_verified=2)
        print(number, flush=True)
"""


def test_what_one_process_commits_the_collections_of_another_leave(tmp_path: Path, count: Callable[[int, int], int]):
    """One keeps, commits and lets go, the other removes what nothing needs all the while: whatever is committed is whole."""
    registry, steps, collections = tmp_path / "registry.sqlite", count(25, 300), 0
    command = [sys.executable, "-c", AGENT, str(registry), str(steps)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment()) as agent:
        assert agent.stdout is not None
        # From here on the registry is there.
        assert "0\n" == agent.stdout.readline()
        with CheckpointManager(registry) as manager:
            while agent.poll() is None:
                assert () == manager.collect().missing
                collections += 1
    assert (0, True) == (agent.returncode, collections > 0)
    with CheckpointManager(registry) as manager:
        assert () == manager.collect().missing
        (tmp_path / "work/text").unlink()
        newest = manager.list_checkpoints("t")[0]
        assert manager.restore(manager.plan_restore(newest.checkpoint_id)).verified
        for checkpoint in manager.list_checkpoints("t"):
            assert manager.plan_restore(checkpoint.checkpoint_id).is_complete
