"""A task that works in a folder proves and keeps all of it with every step, whatever changed it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager, Task, Verdict
from agentos.errors import InvalidInputError, NotSafeToResumeError, WorkspaceTakenError


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def task(manager: CheckpointManager, work: Path):
    (work / "src").mkdir()
    (work / "src/main").write_text("as it was found")
    with manager.task("t", workspace="src") as task:
        yield task


def shell(task: Task, command: str, **state) -> None:
    with task.step("tool_executed", state):
        subprocess.run(command, shell=True, check=True, cwd=task.manager.base_path)


def test_the_first_resume_commits_the_workspace_as_it_was_found(task: Task):
    assert {"n": 0} == task.resume({"n": 0})
    assert task.recovery is not None
    assert Verdict.FRESH == task.recovery.verdict
    [baseline] = task.checkpoints()
    assert (True, {"n": 0}) == (baseline.verified, baseline.snapshot_data)
    [claim] = baseline.evidence_pack.evidence_list
    assert ("directory_tree", 1, True) == (claim.evidence_type, claim.expected["files"], claim.metadata["kept"])


def test_a_folder_that_is_not_there_is_made(manager: CheckpointManager, work: Path):
    task = manager.task("t", workspace="a/b")
    task.resume({})
    assert (work / "a/b").is_dir()


def test_a_folder_that_was_removed_is_filled_again(task: Task, work: Path):
    """It may as well be a disk that is not mounted, so a person must make it; that is said, and then all of it comes back."""
    task.resume({})
    shell(task, "echo one > a; mkdir deep; echo two > deep/b", n=1)
    before = contents(work / "src")
    task.release()
    shutil.rmtree(work / "src")
    found = task.manager.recover("t")
    assert Verdict.BLOCKED is found.verdict
    assert any("if it was removed: make the folder again, empty, and " in option for option in found.options)
    (work / "src").mkdir()
    assert {"n": 1} == task.resume({}, repair=True)
    assert before == contents(work / "src")


def test_what_shell_commands_changed_is_put_back_like_everything_else(task: Task, work: Path):
    """Edited, created, deleted, renamed, made executable, linked: all of it, and what came since is taken away."""
    task.resume({})
    shell(task, "echo one > a; mkdir -p deep/er; echo two > deep/er/b; ln -s a link; echo x > run; chmod +x run", n=1)
    before = contents(work / "src")
    subprocess.run(
        "echo half >> a; rm deep/er/b; mv main moved; chmod -x run; ln -sf nowhere link; echo new > deep/c; mkdir left",
        shell=True,
        check=True,
        cwd=work / "src",
    )
    task.release()
    assert {"n": 1} == task.resume({}, repair=True)
    assert before == contents(work / "src")
    assert os.access(work / "src/run", os.X_OK)
    assert not (work / "src/left").exists()


def test_a_step_that_never_ended_is_taken_back_to_the_baseline(task: Task, work: Path):
    task.resume({"n": 0})
    task.manager.begin_step("t", "tool_executed", {"n": 1}, lease=task.lease)
    (work / "src/main").write_text("half")
    task.release()
    assert {"n": 0} == task.resume({}, repair=True)
    assert "as it was found" == (work / "src/main").read_text()


def test_what_the_rules_leave_out_is_never_touched(manager: CheckpointManager, work: Path):
    """`.gitignore` files in the folder, what the caller excludes, and what git keeps for itself."""
    (work / ".gitignore").write_text("*.log\n")
    (work / ".git").mkdir()
    for name in ("a", "x.log", "cache", ".git/HEAD"):
        (work / name).write_text("1")
    task = manager.task("t", workspace=work, exclude=["/cache"])
    task.resume({})
    for name in ("a", "x.log", "cache", ".git/HEAD"):
        (work / name).write_text("2")
    task.release()
    task.resume({}, repair=True)
    assert {".git/HEAD": "2", ".gitignore": "*.log\n", "a": "1", "cache": "2", "x.log": "2"} == contents(work)


@pytest.mark.parametrize(
    "spoil", ["rm .gitignore sub/.gitignore", "echo half > .gitignore", "mv .gitignore gone", "echo '!*' > sub/.gitignore"]
)
def test_what_was_left_out_when_it_was_committed_is_never_touched(manager: CheckpointManager, work: Path, spoil: str):
    """Whoever was killed while a `.gitignore` was written has not taken away what it named."""
    (work / "sub").mkdir()
    (work / ".gitignore").write_text("*.log\n/venv/\n")
    (work / "sub/.gitignore").write_text("*.tmp\n")
    ignored = ["x.log", "sub/x.log", "sub/y.tmp", "venv/bin/python", "venv/sub/z.txt"]
    for name in ("a", "y.tmp", *ignored):
        (work / name).parent.mkdir(exist_ok=True, parents=True)
        (work / name).write_text("1")
    task = manager.task("t", workspace=work)
    task.resume({})
    before = contents(work)
    subprocess.run(f"{spoil}; echo 2 | tee a new {' '.join(ignored)}", shell=True, check=True, cwd=work)
    task.release()
    plan = manager.plan_restore(task.checkpoints()[0].checkpoint_id)
    assert "new" in plan.paths("delete")
    assert not set(ignored) & {each.path for each in plan.operations}
    task.resume({}, repair=True)
    assert {**before, **dict.fromkeys(ignored, "2\n")} == contents(work)


@pytest.mark.parametrize("rules", ["true", "rm .gitignore"])
def test_a_new_folder_that_holds_what_is_left_out_keeps_nobody_from_going_on(task: Task, work: Path, rules: str):
    """It cannot go without what must not be touched; all else in it goes, and nothing is claimed of the rest."""
    src = work / "src"
    (src / ".gitignore").write_text("__pycache__/\n")
    task.resume({})
    shell(task, "mkdir -p old/__pycache__; echo 1 > old/__pycache__/m.pyc", n=1)
    before = contents(src)
    subprocess.run(
        f"mkdir -p new/deep/__pycache__ new/empty cloned/.git; echo 1 | tee new/m.py new/deep/m.py"
        f" new/deep/__pycache__/m.pyc cloned/.git/HEAD cloned/README; {rules}",
        shell=True,
        check=True,
        cwd=src,
    )
    task.release()
    assert {"n": 1} == task.resume({}, repair=True)
    left = {"new/deep/__pycache__/m.pyc": "1\n", "cloned/.git/HEAD": "1\n"}
    assert {**before, **left} == contents(src)
    assert not (src / "new/empty").exists()
    task.release()
    assert ({"n": 1}, ()) == (task.resume({}, repair=True), task.recovery.restored)
    shell(task, "echo 1 > new/m.py", n=2)
    # One that is empty, or holds something else, is still one too many.
    task.release()
    (src / "other").mkdir()
    assert "repair" == task.manager.recover("t").verdict


def test_restores_of_one_resume_are_taken_back_last_one_first(task: Task, work: Path):
    """What a `.gitignore` of now hides shows once that is gone, and is put back in a second round."""
    task.resume({})
    shell(task, "echo 1 > a; echo '*.log' > .gitignore; echo 1 > b.tmp", n=1)
    subprocess.run("echo 2 | tee a b.tmp; echo '*.tmp' > .gitignore", shell=True, check=True, cwd=work / "src")
    spoiled = contents(work / "src")
    task.release()
    task.resume({}, repair=True)
    assert task.recovery is not None
    restored = task.recovery.restored
    assert (2, True) == (len(restored), "begins with the last one" in task.recovery.explain())
    task.release()
    for each in restored[::-1]:
        task.manager.undo_restore(each.restore_id)
    assert spoiled == contents(work / "src")


def test_where_nobody_knows_what_was_left_out_nothing_is_taken_away(db: Path, work: Path):
    (work / ".gitignore").write_text("*.log\n")
    (work / "x.log").write_text("1")
    with CheckpointManager(db, base_path=work, keep_limit=3) as manager:
        task = manager.task("t", workspace=work)
        task.resume({})
        task.release()
        (work / ".gitignore").unlink()
        with pytest.raises(NotSafeToResumeError) as refusal:
            task.resume({}, repair=True)
        plan = manager.plan_restore(task.checkpoints()[0].checkpoint_id)
    assert {"x.log": "1"} == contents(work)
    said = "what .gitignore left out is not known: it was not kept, or is damaged"
    assert {"x.log": said, ".gitignore": "its content was not kept"} == {each.subject: each.why for each in plan.cannot}
    assert f"x.log cannot be put back: {said}" in refusal.value.recovery.explain()


def test_what_the_rules_of_now_leave_out_is_never_touched_though_it_was_claimed(manager: CheckpointManager, work: Path):
    """It differs by the rules that it was committed with, and nobody overwrites what is somebody's own business by now."""
    for name in ("a", "b.log", "cache", "named"):
        (work / name).write_text("1")
    with manager.task("t", workspace=work) as task:
        task.resume({"n": 0})
        with task.step("tool_executed", {"n": 1}) as step:
            step.proves_file("named")
    (work / ".gitignore").write_text("*.log\nnamed\n")
    for name in ("a", "b.log", "cache", "named"):
        (work / name).write_text("2")
    with manager.task("t", workspace=work, exclude=["/cache", "/named"]) as task:
        with pytest.raises(NotSafeToResumeError) as refusal:
            task.resume({}, repair=True)
        said = refusal.value.recovery.explain()
        assert all(
            f"{name} cannot be put back: the rules that are there now leave it out" in said for name in ("b.log", "cache")
        )
        plan = manager.plan_restore(task.checkpoints()[0].checkpoint_id)
    assert (["a", "named"], [".gitignore"]) == (plan.paths("overwrite"), plan.paths("delete"))
    assert ["b.log", "cache"] == sorted(each.subject for each in plan.cannot)
    assert {".gitignore": "*.log\nnamed\n", **dict.fromkeys(("a", "b.log", "cache", "named"), "2")} == contents(work)
    # What is gone stands in nobody's way.
    for name in ("b.log", "cache"):
        (work / name).unlink()
    with manager.task("t", workspace=work, exclude=["/cache", "/named"]) as task:
        assert {"n": 1} == task.resume({}, repair=True)
    assert dict.fromkeys(("a", "b.log", "cache", "named"), "1") == contents(work)


def test_registry_and_vault_inside_the_workspace_are_left_out(work: Path):
    with CheckpointManager(work / "st*re/registry.sqlite") as manager:
        task = manager.task("t", workspace=work)
        task.resume({})
        (work / "a").write_text("1")
        shell(task, "echo 2 > b")
        (work / "b").unlink()
        task.release()
        task.resume({}, repair=True)
        assert {"a": "1", "b": "2\n"} == {name: text for name, text in _texts(work).items() if "st*re" not in name}
        assert "st*re" not in str(task.checkpoints()[0].evidence_pack.evidence_list[0].result)


@pytest.mark.parametrize(("registry", "workspace"), [("real", "alias"), ("alias", "real")])
def test_registry_and_vault_are_left_out_by_whatever_name_the_workspace_is_called(work: Path, registry: str, workspace: str):
    (work / "real").mkdir()
    (work / "alias").symlink_to("real")
    with CheckpointManager(work / registry / "memory.sqlite") as manager:
        task = manager.task("t", workspace=work / workspace)
        task.resume({})
        shell(task, "echo 1 > a")
        assert 1 == task.checkpoints()[0].evidence_pack.evidence_list[0].expected["files"]
        assert {"a"} == set(manager.plan_restore(task.checkpoints()[-1].checkpoint_id).paths("delete"))


def _texts(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file() and "st*re" not in str(p)}


def test_a_file_proven_by_name_is_never_ignored(manager: CheckpointManager, work: Path):
    (work / ".gitignore").write_text("*.log\n")
    task = manager.task("t", workspace=work)
    task.resume({})
    with task.step("tool_executed", {}) as step:
        (work / "x.log").write_text("1")
        step.proves_file("x.log")
    (work / "x.log").write_text("2")
    task.release()
    task.resume({}, repair=True)
    assert "1" == (work / "x.log").read_text()


def test_a_workspace_that_moved_is_one_argument(manager: CheckpointManager, work: Path):
    (work / "old").mkdir()
    with manager.task("t", workspace="old") as task:
        task.resume({})
        shell(task, "echo 1 > a", n=1)
    (work / "old").rename(work / "new")
    (work / "new/a").write_text("half")
    with manager.task("t", workspace="new") as task:
        assert {"n": 1} == task.resume({}, repair=True)
    assert "1\n" == (work / "new/a").read_text()


@pytest.mark.parametrize("other", ["src", "src/deep", "."])
def test_a_second_task_in_an_overlapping_workspace_is_refused(task: Task, work: Path, other: str):
    task.resume({})
    second = task.manager.at(work).task("second", workspace=other)
    with pytest.raises(WorkspaceTakenError, match="task t works in"):
        second.resume({})
    with pytest.raises(WorkspaceTakenError), second.step("tool_executed", {}):
        pass
    assert [] == second.checkpoints()
    task.finish()
    second.resume({})


@pytest.mark.parametrize("other", ["alias", "alias/deep"])
def test_a_link_is_no_other_workspace(task: Task, work: Path, other: str):
    (work / "alias").symlink_to("src")
    task.resume({})
    with pytest.raises(WorkspaceTakenError, match="task t works in"):
        task.manager.at(work).task("second", workspace=other).resume({})


def test_tasks_that_say_so_share_a_workspace(manager: CheckpointManager, work: Path):
    """Whoever comes second must say it; whoever was there first is not kept out by that."""
    with manager.task("one", workspace="src") as one:
        one.resume({})
    manager.task("two", workspace="src", shared=True).resume({})
    for name in ("src", "src/deep"):
        with pytest.raises(WorkspaceTakenError):
            manager.task("three", workspace=name).resume({})
    with manager.task("one", workspace="src") as one:
        one.resume({})
    manager.finish_task("one")
    with pytest.raises(WorkspaceTakenError, match="task two works in"):
        manager.task("three", workspace="src").resume({})


@pytest.mark.parametrize("bad", ["*.log", [1], None, 3])
def test_rules_are_a_list_of_lines(manager: CheckpointManager, bad: object):
    with pytest.raises(InvalidInputError, match="exclude must be a list of lines"):
        manager.task("t", workspace="src", exclude=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["", "# nothing", "!", "a\nb", "***a*b*", "\udcff"])
def test_a_line_that_leaves_nothing_out_is_refused_before_anything_is_written_down(manager: CheckpointManager, line: str):
    with pytest.raises(InvalidInputError, match="exclude: "):
        manager.task("t", workspace="src", exclude=[line])
    manager.task("second", workspace="src").resume({})


def test_without_repair_it_says_what_it_would_do(task: Task, work: Path):
    task.resume({})
    (work / "src/main").write_text("!")
    task.release()
    with pytest.raises(NotSafeToResumeError) as refusal:
        task.resume({})
    said = refusal.value.recovery.explain()
    assert "overwrite main" in said
    assert "repair=True" in said


# A person's word on a part of it.


def last(task: Task, command: str, **state: int) -> None:
    """The last thing that the task does before it lets go."""
    shell(task, command, **state)
    task.release()


def accept(manager: CheckpointManager, *paths: str) -> list[str]:
    taken = manager.accept("t", by="ada", reason="I looked", subjects=list(paths))
    found: list[str] = taken.metadata["accepted"]["what"]
    return found


def test_one_edited_file_is_accepted_and_the_rest_is_put_back(task: Task, manager: CheckpointManager, work: Path):
    """What a person changed stays, what a killed step left half-written goes back; all of it is still one world."""
    task.resume({})
    last(task, "echo done > report; echo milk > notes; mkdir docs; echo one > docs/a", n=1)
    (work / "src/report").write_text("half")
    (work / "src/notes").write_text("bread")
    assert ["accepted: notes"] == accept(manager, "./notes")
    assert ["report"] == [each.path for each in plan_of(manager)]
    assert {"n": 1} == manager.resume("t", {}, repair=True)
    assert ("done\n", "bread") == ((work / "src/report").read_text(), (work / "src/notes").read_text())
    (work / "src/notes").write_text("changed again")
    (work / "src/docs/a").write_text("changed too")
    assert ["docs/a", "notes"] == [each.path for each in plan_of(manager)]


def plan_of(manager: CheckpointManager) -> list:
    found = manager.recover("t")
    assert (Verdict.REPAIR, True) == (found.verdict, found.plan is not None)
    return sorted(found.plan.operations, key=lambda each: each.path) if found.plan else []


def test_a_folder_that_came_or_went_is_accepted_with_everything_in_it(task: Task, manager: CheckpointManager, work: Path):
    """Files that came, went and changed beneath it; what lies elsewhere is not accepted with it."""
    task.resume({})
    last(task, "mkdir docs; echo one > docs/a; echo two > docs/b; echo x > other", n=1)
    change = "rm docs/a; echo 2 > docs/b; mkdir docs/new; echo > docs/new/c; echo y > other"
    subprocess.run(change, shell=True, check=True, cwd=work / "src")
    assert {"accepted: docs/a", "accepted: docs/b", "accepted: docs/new", "accepted: docs/new/c"} == set(
        accept(manager, "docs")
    )
    assert ["other"] == [each.path for each in plan_of(manager)]
    accept(manager, "other")
    assert Verdict.RESUME == manager.recover("t").verdict


def test_a_path_at_which_nothing_differs_is_a_mistake(task: Task, manager: CheckpointManager, work: Path):
    """A name that is typed wrong is not accepted as gone."""
    task.resume({})
    last(task, "echo milk > notes", n=1)
    (work / "src/notes").write_text("bread")
    for wrong in ("notse", "main", "../src/notes", "notes/x"):
        with pytest.raises(InvalidInputError, match="nothing differs there"):
            accept(manager, "notes", wrong)
    assert 2 == len(manager.list_checkpoints("t"))


def test_all_of_it_is_accepted_and_kept(task: Task, manager: CheckpointManager, work: Path):
    """What was accepted can be put back in its turn: the next crash finds it in the vault."""
    task.resume({})
    last(task, "echo milk > notes", n=1)
    (work / "src/notes").write_text("bread")
    (work / "src/more").write_text("more")
    assert ["accepted: tree:."] == accept(manager, ".")
    accepted = contents(work / "src")
    (work / "src/notes").write_text("half")
    assert {"n": 1} == manager.resume("t", {}, repair=True)
    assert accepted == contents(work / "src")
