"""git_clean: git compares, and neither it nor what is in a repository decides what it does."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from random import Random

import pytest

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.observing import Observation, Seen, Unseen
from agentos.probes import git_config, git_view
from tests.unit.probes.repositories import ALONE, committed, git, repository


def found(seen: Observation) -> tuple[int, int, list[str]]:
    assert isinstance(seen, Seen), seen
    codec.encode(seen.facts)
    return seen.facts["changed"], seen.facts["untracked"], seen.facts["names"]


def code(seen: Observation) -> str:
    assert isinstance(seen, Unseen), seen
    return seen.code


CLEAN: tuple[int, int, list[str]] = (0, 0, [])


@pytest.fixture
def repo(base: Path) -> Path:
    """With files `a` and `b/c`, at the base."""
    repository(base, "a", "b/c")
    return base


def everything(folder: Path) -> dict[str, tuple[int, ...]]:
    """Every file with what would give away that it was written to."""
    found: dict[str, tuple[int, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_every_way_not_to_be_clean_is_found(look, repo):
    """Changed, deleted, staged, renamed, of another mode or kind, conflicting, and beside what is tracked."""
    assert found(look("git_clean", repo=".")) == CLEAN
    (repo / "a").write_text("x")
    (repo / "new").write_text("")
    assert found(look("git_clean", repo=".")) == (1, 1, ["a", "new"])
    assert found(look("git_clean", repo=".", untracked="no")) == (1, 0, ["a"])
    git(repo, "add", "--all")
    assert found(look("git_clean", repo=".")) == (2, 0, ["a", "new"])
    committed(repo)
    assert found(look("git_clean", repo=".")) == CLEAN
    (repo / "a").chmod(0o755)
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    (repo / "a").unlink()
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    (repo / "a").symlink_to("new")
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    (repo / "a").unlink()
    os.mkfifo(repo / "a")
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    (repo / "a").unlink()
    git(repo, "checkout", "--quiet", "a")
    git(repo, "mv", "a", "moved")
    assert found(look("git_clean", repo=".")) == (2, 0, ["a", "moved"])


def test_before_the_first_commit_and_where_there_is_nothing(look, base):
    """An empty repository is clean; what is staged in it is not. A folder that is none is told."""
    git(base, "init", "--quiet")
    assert found(look("git_clean", repo=".")) == CLEAN
    (base / "a").write_text("")
    git(base, "add", "a")
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    (base / "folder").mkdir()
    assert look("git_clean", repo="folder") == Seen({"exists": False})


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("format_", ["sha1", "sha256"])
def test_every_format_of_an_index_is_read(look, base, version, format_):
    """And names of every length, of every byte, and with a line break."""
    names = ["a", "b" * 200, "n\nl", "tab\there", "é", "deep/" * 20 + "x", *(f"f{'x' * number}" for number in range(12))]
    repository(base, *names, options=(f"--object-format={format_}",))
    with open(os.fsencode(base) + b"/\xff", "wb"):
        pass
    committed(base)
    git(base, "update-index", "--index-version", version)
    assert found(look("git_clean", repo=".")) == CLEAN
    with open(os.fsencode(base) + b"/\xff", "wb") as file:
        file.write(b"x")
    (base / "n\nl").write_text("")
    (base / "new\nline").write_text("")
    assert found(look("git_clean", repo=".")) == (2, 1, ["n\nl", "\\xff", "new\nline"])


def test_nothing_of_the_repository_is_written(look, repo):
    """Not even the index, which git would like to refresh; and the private folder is gone."""
    os.utime(repo / "a")
    (repo / "new").write_text("")
    before, temporary = everything(repo), set(os.listdir("/tmp"))
    look("git_clean", repo=".")
    assert everything(repo) == before
    assert not [name for name in set(os.listdir("/tmp")) - temporary if name.startswith("agentos-") and "pytest" not in name]


def test_an_edit_that_leaves_no_trace_in_the_status_is_found(look, repo):
    """Same size, same times, and an index that remembers exactly those: every file is read all the same."""
    git(repo, "config", "core.checkStat", "minimal")
    git(repo, "config", "core.trustctime", "false")
    stamp = 1_600_000_000 * 10**9
    os.utime(repo / "a", ns=(stamp, stamp))
    git(repo, "update-index", "--refresh")
    (repo / "a").write_text("b\n")
    os.utime(repo / "a", ns=(stamp, stamp))
    os.utime(repo / ".git/index")
    assert git(repo, "status", "--porcelain") == ""
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])


@pytest.mark.parametrize("told", ["--assume-unchanged", "--skip-worktree"])
def test_what_git_was_told_to_overlook_is_looked_at(look, repo, told):
    """Git says clean; the look reads the file, and says of which files git says nothing."""
    git(repo, "update-index", told, "a")
    seen = look("git_clean", repo=".")
    assert (found(seen), seen.facts["overlooked"]) == (CLEAN, ["a"])
    (repo / "a").write_text("edited")
    assert git(repo, "status", "--porcelain") == ""
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    (repo / "a").unlink()
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])


HOSTILE = {
    "core.fsmonitor": "[core]\n\tfsmonitor = {run}\n",
    "core.fsmonitor, quoted and continued": '[CORE]\n\tfsMonitor = "{run}" \\\n # and so on\n',
    "core.fsmonitor, overruled": "[core]\n\tfsmonitor = {run}\n[core]\n\tfsmonitor = false\n",
    "core.fsmonitor on the line of its section": "[core] fsmonitor = {run}\n",
    "filter.clean": '[filter "x"]\n\tclean = {run}\n',
    "filter.clean in the old spelling": "[filter.x]\n\tclean = {run}\n",
    "filter with dots": '[filter "a.\\"b\\n"]\n\tclean = {run}\n',
    "filter.process": '[filter "x"]\n\tprocess = {run}\n\trequired\n',
    "include": "[include]\n\tpath = ../hostile\n",
    "includeIf": '[includeIf "gitdir:/"]\n\tpath = ../hostile\n',
    "core.sshCommand": "[core]\n\tsshCommand = {run}\n",
    "textconv": '[diff "x"]\n\ttextconv = {run}\n',
    "diff.external": "[diff]\n\texternal = {run}\n",
    "core.worktree": "[core]\n\tworktree = /tmp\n",
}


def arm(repo: Path, settings: str = "") -> Path:
    """Make everything hostile at once; the file that appears if anything of it runs."""
    marker = repo.parent / "ran"
    program = repo.parent / "hostile.sh"
    program.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    program.chmod(0o755)
    (repo / "hostile").write_text(f"[core]\n\tfsmonitor = {program}\n")
    (repo / ".gitattributes").write_text("* filter=x diff=x\n")
    committed(repo)
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-commit", "query-watchman"):
        (repo / ".git/hooks").mkdir(exist_ok=True)
        shutil.copy(program, repo / ".git/hooks" / hook)
    with open(repo / ".git/config", "a") as file:
        file.write(settings.replace("{run}", str(program)))
    # Of the same size: only its content can tell, and that is what filters are asked for.
    (repo / "a").write_text("z\n")
    return marker


@pytest.mark.parametrize("settings", HOSTILE.values(), ids=HOSTILE)
def test_settings_that_run_programs_are_refused(look, repo, settings):
    """Nothing of it runs, however it is spelled."""
    marker = arm(repo, settings)
    seen = look("git_clean", repo=".")
    assert (code(seen), marker.exists()) == ("UNSAFE_REPO_CONFIG", False)


@pytest.mark.parametrize("settings", [*HOSTILE.values(), "[alias]\n\tstatus = !{run}\n[core]\n\thooksPath = {run}/..\n"])
def test_nothing_runs_even_if_nothing_were_refused(look, repo, settings, monkeypatch):
    """Git never reads the settings of the repository: what is slipped in after they were read has no effect either."""
    marker = arm(repo, settings)
    monkeypatch.setattr(git_config, "_refuse_unsafe", lambda *_: None)
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    assert not marker.exists()


def test_the_hostile_repository_is_hostile(repo):
    """A plain `git status` runs what the look does not: the tests above are able to fail."""
    marker = arm(repo, '[filter "x"]\n\tclean = {run}\n')
    git(repo, "status")
    assert marker.exists()


def test_a_monitor_that_is_a_switch_and_settings_of_no_concern_are_no_harm(look, repo):
    """`core.fsmonitor = true` names no program; what git would run at other times it is not run for here."""
    with open(repo / ".git/config", "a") as file:
        file.write('[core]\n\tfsmonitor = true ; the one that is built in\n\thooksPath = .husky\n[user]\n\tname = "a # b" \n')
        file.write('[remote "o"]\r\n\turl = ssh://x/y\r\n\tfetch = +refs/heads/*:refs/remotes/o/*\r\n')
    assert found(look("git_clean", repo=".")) == CLEAN


def test_a_program_in_the_environment_is_not_run(look, repo, monkeypatch):
    """Nor does a variable lead git to another repository; a git in the folder that is looked at is not taken for git."""
    marker = arm(repo)
    committed(repo)
    marker.unlink()  # the hook of that commit
    hostile = str(repo.parent / "hostile.sh")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", hostile)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", hostile)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    shutil.copy(hostile, repo / "git")
    monkeypatch.setenv("PATH", f".::{ALONE['PATH']}")
    monkeypatch.chdir(repo)
    assert found(look("git_clean", repo=".")) == (0, 1, ["git"])
    assert not marker.exists()


@pytest.mark.parametrize(
    "said", ["[core\n", '[core]\n\tx = "open\n', "key = 1\n", "[core]\n\tx = \\z\n", "[core]\n\t= 1\n", "\0", "[]\n"]
)
def test_settings_that_are_not_understood_are_not_skipped(look, repo, said):
    """What follows might run a program."""
    (repo / ".git/config").write_text(said)
    assert code(look("git_clean", repo=".")) == "DAMAGED_REPO"


@pytest.mark.parametrize("piece", [" ", "a", '"a', "#\n", "\\n", " #"])
@pytest.mark.parametrize("before", ["", "[core]\n\tx =", "[core]\n\t", "[core"])
def test_settings_that_are_hard_to_read_hold_nobody_up(before, piece):
    """A reader that tries every way to read a line would take hours for this one."""
    started = time.monotonic()
    git_config.parsed(f"{before}{piece * 333_000}\x00\\z")
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("[core]\n\tsparseCheckout\n", "UNSUPPORTED_REPO"),
        ("[core]\n\trepositoryformatversion = 7\n", "UNSUPPORTED_REPO"),
        ("[extensions]\n\tnewFormat = yes\n", "UNSUPPORTED_REPO"),
        ("[extensions]\n\trefStorage = reftable\n", "UNSUPPORTED_REPO"),
        ("[core]\n\tautocrlf = perhaps\n", "DAMAGED_REPO"),
    ],
)
def test_what_is_not_known_here_is_not_guessed_at(look, repo, settings, reason):
    """A part of the files, a newer format, other refs: each is told by name."""
    with open(repo / ".git/config", "a") as file:
        file.write(settings)
    assert code(look("git_clean", repo=".")) == reason


def test_settings_of_one_worktree_are_read_too(look, repo):
    """They are in a file of their own, where they may be."""
    (repo / ".git/config.worktree").write_text("[core]\n\tfsmonitor = /bin/true\n")
    assert found(look("git_clean", repo=".")) == CLEAN
    git(repo, "config", "extensions.worktreeConfig", "true")
    assert code(look("git_clean", repo=".")) == "UNSAFE_REPO_CONFIG"


def test_a_split_index_is_told(look, repo):
    """Half of it lies elsewhere."""
    git(repo, "update-index", "--split-index")
    assert code(look("git_clean", repo=".")) == "UNSUPPORTED_REPO"


def test_line_endings_and_modes_are_compared_as_the_repository_says(look, repo):
    """Its own settings that are about content count."""
    (repo / "a").write_bytes(b"a\r\n")
    assert found(look("git_clean", repo=".")) == (1, 0, ["a"])
    git(repo, "config", "core.autocrlf", "true")
    assert found(look("git_clean", repo=".")) == CLEAN
    (repo / "a").chmod(0o755)
    git(repo, "config", "core.fileMode", "false")
    assert found(look("git_clean", repo=".")) == CLEAN


def test_what_is_ignored_does_not_count(look, repo):
    """By a committed file, or by the list of the repository that is in none."""
    (repo / ".gitignore").write_text("*.log\nbuild/\n")
    committed(repo)
    (repo / "x.log").write_text("")
    (repo / "build").mkdir()
    (repo / "build/x").write_text("")
    (repo / ".git/info/exclude").write_text("mine\n")
    (repo / "mine").write_text("")
    assert found(look("git_clean", repo=".")) == CLEAN


@pytest.mark.parametrize("inside", ["b", "new"])
def test_a_repository_inside_hides_nothing(look, repo, inside):
    """Neither beside tracked files nor in a folder of its own; it is not asked what it thinks of its files."""
    repository(repo / inside, "x")
    (repo / "b/c").write_text("z\n")
    assert found(look("git_clean", repo=".")) == (1, 1, ["b/c", "b/x" if inside == "b" else "new/"])


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".git/objects/info/alternates"])
def test_what_git_waits_for_is_waited_for_no_longer_than_allowed(look, repo, name):
    """Git opens a FIFO in place of a file, and would wait for ever."""
    os.mkfifo(repo / name)
    assert code(look("git_clean", repo=".", around={"timeout": 0.4})) == "TIMED_OUT"


def test_submodules_are_refused_or_left_aside(look, base):
    """They are repositories of their own, and git would go into them with their own settings."""
    repository(base / "inner")
    repository(base / "outer", "a")
    git(base / "outer", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(base / "inner"), "sub")
    committed(base / "outer")
    seen = look("git_clean", repo="outer")
    assert (code(seen), "sub" in seen.message) == ("SUBMODULES", True)
    assert found(look("git_clean", repo="outer", submodules="ignore")) == CLEAN
    assert found(look("git_clean", repo="outer/sub")) == CLEAN
    (base / "outer/sub/a").write_text("x")
    assert found(look("git_clean", repo="outer/sub")) == (1, 0, ["a"])
    git(base / "outer", "rm", "--quiet", "--cached", "sub")
    assert found(look("git_clean", repo="outer"))[0] == 1


def test_a_linked_worktree_is_compared_with_its_own_commit(look, base):
    """Each has a HEAD and an index of its own."""
    repository(base / "main")
    git(base / "main", "worktree", "add", "--quiet", "-b", "side", str(base / "side"))
    (base / "side/new").write_text("")
    committed(base / "side")
    assert found(look("git_clean", repo="side")) == CLEAN
    assert found(look("git_clean", repo="main")) == CLEAN
    git(base, "clone", "--quiet", "--bare", "main", "bare")
    assert code(look("git_clean", repo="bare")) == "UNSUPPORTED_REPO"


def test_nothing_leads_out_of_the_allowed_roots(look, base, tmp_path):
    """A `.git` that is a link or a file to another place, and objects that are."""
    repository(tmp_path / "outside", "a")
    (base / "linked").mkdir()
    (base / "linked/.git").symlink_to(tmp_path / "outside/.git")
    assert code(look("git_clean", repo="linked")) == "PATH_ESCAPES"
    (base / "led").mkdir()
    (base / "led/.git").write_text(f"gitdir: {tmp_path}/outside/.git\n")
    assert code(look("git_clean", repo="led", around={"allowed_roots": (str(base),)})) == "PATH_ESCAPES"
    repository(base / "r")
    os.rename(base / "r/.git/objects", base / "objects")
    (base / "r/.git/objects").symlink_to(base / "objects")
    assert code(look("git_clean", repo="r")) == "UNSUPPORTED_REPO"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", [".", ".git"])
def test_a_repository_of_somebody_else_is_refused(look, repo, name):
    """Its owner decides what git does in it."""
    os.chown(repo / name, 12345, 12345)
    assert code(look("git_clean", repo=".")) == "FOREIGN_REPO"


def test_a_damaged_repository_is_not_a_difference(look, repo):
    """A commit, a tree or an index that is torn says nothing about the files."""
    index = (repo / ".git/index").read_bytes()
    (repo / ".git/index").write_bytes(index[:40])
    assert code(look("git_clean", repo=".")) == "GIT_FAILED"
    (repo / ".git/index").write_bytes(index)
    tree = git(repo, "rev-parse", "HEAD^{tree}")
    (repo / ".git/objects" / tree[:2] / tree[2:]).unlink()
    seen = look("git_clean", repo=".")
    assert (code(seen), seen.message.startswith(".: git could not compare it: ")) == ("GIT_FAILED", True)


def test_without_git_nothing_is_known(look, repo, monkeypatch):
    """And the reason says what to do."""
    monkeypatch.setenv("PATH", str(repo / "b"))
    seen = look("git_clean", repo=".")
    assert (code(seen), seen.hint) == ("NO_GIT", "install git")


@pytest.mark.parametrize("place", ["b", "gone"])
def test_nothing_temporary_is_made_in_what_is_looked_at(look, repo, monkeypatch, place):
    """It would be a new file in it; and where none can be made, that is the reason."""
    monkeypatch.setattr("tempfile.tempdir", str(repo / "b" if place == "b" else repo.parent / "gone"))
    before = everything(repo)
    assert code(look("git_clean", repo=".")) == "NO_PRIVATE_FOLDER"
    assert everything(repo) == before


def test_git_and_the_look_agree_whatever_is_done(look, base, seed, count):
    """Random work in a repository, and after every piece of it the same answer as `git status` gives."""
    rng, names = Random(seed), ["a", "b", "c d", "e/f", "e/g", "h\ni", "é"]
    repository(base, *names)
    for number in range(count(60, 1500)):
        path, other = base / rng.choice([*names, "new", "e/new"]), base / rng.choice([*names, "moved"])
        match rng.randrange(8):
            case 0 | 1:
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"{rng.randrange(3)}\n")
            case 2 if path.exists():
                path.unlink()
            case 3 if path.exists():
                path.chmod(rng.choice([0o644, 0o755]))
            case 4 if path.exists() and other.parent.exists():
                path.replace(other)
            case 5:
                git(base, "add", "--all", *rng.sample(["e", "a", "b"], 1), check=False)
            case 6:
                git(base, "reset", "--quiet", *rng.choice([("--hard",), ("--soft",), ("--mixed",)]))
            case _:
                if not rng.randrange(4):
                    committed(base)
        said = git(base, "status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all").split("\0")[:-1]
        changed, untracked, listed = found(look("git_clean", repo="."))
        expected = [record.split(" ", 1 if record.startswith("?") else 8)[-1] for record in said]
        assert (len(expected), sorted(expected)[:20]) == (changed + untracked, sorted(listed)), number


def test_files_that_change_while_they_are_compared_are_no_answer(look, repo, monkeypatch):
    """Each could be clean when its turn comes, and all of them never."""
    real, edits = git_view.View.status, iter(["a", "b/c"])

    def status(view, take, *options):
        real(view, take, *options)
        for name in edits:
            (repo / name).write_text(f"{name}\n")
            break

    monkeypatch.setattr(git_view.View, "status", status)
    seen = look("git_clean", repo=".")
    assert found(seen) == CLEAN
    assert [each["code"] for each in seen.attempts] == ["CHANGED_WHILE_READING"] * 2


def slow_git(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of git a program that says who it is, and its child, and never ends."""
    tools = repo.parent / "tools"
    tools.mkdir()
    (tools / "git").write_text(f"#!/bin/sh\nsleep 600 &\necho $$ $! > {tools}/new\nmv {tools}/new {tools}/pids\nsleep 600\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{ALONE['PATH']}")
    return tools / "pids"


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def all_gone(pids: Path) -> bool:
    until = time.monotonic() + 5
    while not all(gone(int(pid)) for pid in pids.read_text().split()):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_a_git_that_never_ends_is_ended_with_its_children(look, repo, monkeypatch):
    """At the time limit, all of its group."""
    pids = slow_git(repo, monkeypatch)
    assert code(look("git_clean", repo=".", around={"timeout": 0.5})) == "TIMED_OUT"
    assert all_gone(pids)


def test_a_look_that_is_called_off_ends_its_git(look, repo, monkeypatch):
    """Whoever waits for others does not wait for this one."""
    pids, cancel = slow_git(repo, monkeypatch), Cancel()
    seen: list[Observation] = []
    thread = threading.Thread(target=lambda: seen.append(look("git_clean", repo=".", around={"cancel": cancel})))
    thread.start()
    until = time.monotonic() + 10
    while not pids.exists() and time.monotonic() < until:
        time.sleep(0.01)
    cancel.set()
    thread.join(10)
    assert not thread.is_alive()
    assert code(seen[0]) == "GIT_FAILED"
    assert all_gone(pids)
