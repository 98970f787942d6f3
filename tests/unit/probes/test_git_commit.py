"""git_commit: where a repository stands is read from its files, and nothing in it leads the reader astray."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.observing import Observation, Seen, Unseen
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.errors import EvidenceUnavailableError
from agentos.probes import PROBES, git_refs
from tests.unit.probes.repositories import committed, git, repository


def facts(seen: Observation) -> tuple[str | None, str | None, str | None]:
    assert isinstance(seen, Seen), seen
    codec.encode(seen.facts)
    return seen.facts["commit"], seen.facts["branch"], seen.facts["object"]


def code(seen: Observation) -> str:
    assert isinstance(seen, Unseen), seen
    return seen.code


@pytest.mark.parametrize("format_", ["sha1", "sha256"])
def test_a_branch_is_read_loose_and_packed(look, base, format_):
    """The commit and the branch are those that git tells, wherever git keeps them."""
    commit = repository(base / "r", options=(f"--object-format={format_}",))
    assert facts(look("git_commit", repo="r")) == (commit, "main", "loose")
    git(base / "r", "pack-refs", "--all")
    git(base / "r", "gc", "--quiet")
    assert not (base / "r/.git/refs/heads/main").exists()
    assert facts(look("git_commit", repo="r")) == (commit, "main", "packed")
    newer = committed(base / "r")
    assert facts(look("git_commit", repo="r")) == (newer, "main", "loose")


def test_head_on_no_branch_and_on_one_with_a_strange_name(look, base):
    """A detached HEAD has no branch; a name that is not UTF-8 is told without breaking the facts."""
    commit = repository(base)
    git(base, "checkout", "--quiet", "--detach")
    assert facts(look("git_commit", repo=".")) == (commit, None, "loose")
    (base / ".git" / "HEAD").write_bytes(b"ref: refs/heads/\xff\xc3\xa9\n")
    name = os.fsencode(base / ".git" / "refs/heads") + b"/\xff\xc3\xa9"
    with open(name, "w") as file:
        file.write(commit)
    assert facts(look("git_commit", repo=".")) == (commit, "\\xffé", "loose")


def test_before_the_first_commit_and_where_there_is_no_repository(look, base):
    """Neither is damage: the one has no commit, the other is none."""
    git(base, "init", "--quiet", "--initial-branch=trunk")
    assert facts(look("git_commit", repo=".")) == (None, "trunk", None)
    (base / "folder").mkdir()
    (base / "file").write_text("")
    for name in ("folder", "file", "gone", "gone/deeper"):
        assert look("git_commit", repo=name) == Seen({"exists": False})


def test_a_linked_worktree_and_a_bare_repository(look, base, tmp_path):
    """A `.git` file leads on to HEAD, and from there to the refs that all worktrees share."""
    commit = repository(base / "main")
    git(base / "main", "worktree", "add", "--quiet", "-b", "side", str(base / "side"))
    newer = committed(base / "side")
    git(base / "side", "pack-refs", "--all")
    assert facts(look("git_commit", repo="side")) == (newer, "side", "loose")
    assert facts(look("git_commit", repo="main")) == (commit, "main", "loose")
    git(base, "clone", "--quiet", "--bare", "main", "bare")
    assert facts(look("git_commit", repo="bare"))[:2] == (commit, "main")
    (base / "side/.git").write_text(f"gitdir: {tmp_path}/gone\n")
    assert code(look("git_commit", repo="side")) == "REPO_OUT_OF_SIGHT"


def test_a_relative_way_to_the_repository(look, base):
    """As submodules have, and worktrees may."""
    commit = repository(base / "r")
    os.rename(base / "r/.git", base / "kept")
    (base / "r/.git").write_text("gitdir: ../kept\n")
    assert facts(look("git_commit", repo="r")) == (commit, "main", "loose")


def test_nothing_leads_out_of_the_allowed_roots(look, base, tmp_path):
    """Neither a `.git` that is a link or a file, nor what a worktree shares, nor a folder of refs."""
    outside = tmp_path / "outside"
    repository(outside)
    bounded = {"allowed_roots": (str(base / "roots"),)}
    (base / "linked").mkdir()
    (base / "linked/.git").symlink_to(outside / ".git")
    assert code(look("git_commit", repo="linked")) == "PATH_ESCAPES"
    (base / "led").mkdir()
    (base / "led/.git").write_text(f"gitdir: {outside}/.git\n")
    assert code(look("git_commit", repo="led", around=bounded)) == "PATH_ESCAPES"
    repository(base / "shares")
    (base / "shares/.git/commondir").write_text(f"{outside}/.git\n")
    assert code(look("git_commit", repo="shares", around=bounded)) == "PATH_ESCAPES"
    repository(base / "refs")
    os.rename(base / "refs/.git/refs", base / "refs/.git/gone")
    (base / "refs/.git/refs").symlink_to(outside / ".git/refs")
    assert code(look("git_commit", repo="refs")) == "PATH_ESCAPES"


@pytest.mark.parametrize(
    "said",
    [
        b"ref: refs/heads/../../../../outside/secret\n",
        b"ref: refs/heads/..\n",
        b"ref: refs/heads/.hidden\n",
        b"ref: refs//main\n",
        b"ref: /etc/passwd\n",
        b"ref: HEAD\n",
        b"ref: refs/heads/a\0b\n",
        b"ref: refs/heads/main\nref: refs/heads/side\n",
        b"ref: refs/heads/" + b"a" * 5000,
        b"ref: \n",
        b"ref: refs/heads/a" + b" " * 60_000 + b"b",
        b"",
        b"\0" * 41,
        b"12345678\n",
        b"x" * 100_000,
    ],
)
def test_a_head_that_git_never_wrote_is_damage(look, base, said):
    """A torn HEAD, or one that names what no ref is called, is neither followed nor read as "no commit yet"."""
    repository(base)
    (base / ".git/HEAD").write_bytes(said)
    assert code(look("git_commit", repo=".")) == "DAMAGED_REPO"


@pytest.mark.parametrize("said", [b"", b"\0" * 41, b"7898192\n", b"<<<<<<< HEAD\n", b"ref: refs/heads/main\n"])
def test_a_torn_ref_is_damage(look, base, said):
    """What a power cut leaves of a ref, and one that leads in a circle."""
    repository(base)
    (base / ".git/refs/heads/main").write_bytes(said)
    assert code(look("git_commit", repo=".")) == "DAMAGED_REPO"


def test_a_ref_that_names_another_is_followed(look, base):
    """The branch is the one that HEAD names."""
    commit = repository(base)
    (base / ".git/refs/heads/alias").write_text("ref: refs/heads/main\n")
    (base / ".git/HEAD").write_text("ref: refs/heads/alias\n")
    assert facts(look("git_commit", repo=".")) == (commit, "alias", "loose")


def test_what_is_no_file_is_never_opened(look, base):
    """A FIFO would hold the look up for ever, and a link could lead anywhere."""
    commit = repository(base)
    main = base / ".git/refs/heads/main"
    main.unlink()
    os.mkfifo(main)
    assert code(look("git_commit", repo=".")) == "DAMAGED_REPO"
    main.unlink()
    (base / "elsewhere").write_text(commit)
    main.symlink_to(base / "elsewhere")
    assert code(look("git_commit", repo=".")) == "DAMAGED_REPO"
    (base / "fifo").mkdir()
    os.mkfifo(base / "fifo/.git")
    assert code(look("git_commit", repo="fifo")) == "DAMAGED_REPO"


def test_packed_refs_may_be_large_but_not_endless(look, base):
    """The name is found at the end of many, also across the pieces it is read in; a file without end ends at the time limit."""
    commit = repository(base)
    git(base, "pack-refs", "--all")
    packed = base / ".git/packed-refs"
    for more in (26_000, 26_001, 60_000):
        lines = "".join(f"{'1' * 40} refs/heads/branch-{number:06}\n" for number in range(more))
        packed.write_text(f"# pack-refs with: peeled fully-peeled sorted \n{lines}{commit} refs/heads/main\n^{'2' * 40}")
        assert facts(look("git_commit", repo=".")) == (commit, "main", "loose")
    packed.write_text(f"{'1' * 40} refs/heads/main2\n{'1' * 40} refs/heads/a/refs/heads/main\n")
    assert facts(look("git_commit", repo=".")) == (None, "main", None)
    packed.write_text("torn refs/heads/main\n")
    assert code(look("git_commit", repo=".")) == "DAMAGED_REPO"
    packed.write_bytes(b"\0" * 100)
    assert code(look("git_commit", repo=".")) == "DAMAGED_REPO"
    with open(packed, "w") as file:
        file.write("x" * 100)
        file.truncate(2 << 40)
    assert code(look("git_commit", repo=".")) == "DAMAGED_REPO"


def test_a_commit_that_is_gone_or_torn_is_told(look, base):
    """A ref may survive a power cut that its newest commit does not."""
    commit = repository(base)
    loose = base / ".git/objects" / commit[:2] / commit[2:]
    content = loose.read_bytes()
    loose.chmod(0o600)
    for torn in (b"", content[:-4], b"\0" * len(content)):
        loose.write_bytes(torn)
        assert facts(look("git_commit", repo=".")) == (commit, "main", "damaged")
    git(base, "init", "--quiet", "other")
    loose.unlink()
    assert facts(look("git_commit", repo=".")) == (commit, "main", "missing")
    (base / ".git/objects/info").mkdir(exist_ok=True)
    (base / ".git/objects/info/alternates").write_text("/elsewhere\n")
    assert facts(look("git_commit", repo=".")) == (commit, "main", None)


def test_an_index_of_a_pack_that_is_torn_proves_nothing(look, base):
    """Then nobody says that the commit is gone, nor that it is there."""
    commit = repository(base)
    git(base, "gc", "--quiet")
    [index] = (base / ".git/objects/pack").glob("*.idx")
    index.chmod(0o600)
    content = index.read_bytes()
    for size in (0, 5, 8, 500, 1031):
        index.write_bytes(content[:size])
        assert facts(look("git_commit", repo=".")) == (commit, "main", None)
    index.write_bytes(content[:1032])
    assert facts(look("git_commit", repo=".")) == (commit, "main", "missing")


def test_refs_in_tables_are_not_guessed_at(look, base):
    """Such a repository says so in its HEAD, and the reader says what to do."""
    repository(base)
    (base / ".git/HEAD").write_text("ref: refs/heads/.invalid\n")
    seen = look("git_commit", repo=".")
    assert (code(seen), "refs migrate" in seen.hint) == ("UNSUPPORTED_REPO", True)


def test_a_branch_switched_while_it_is_looked_at_is_no_answer(look, base, monkeypatch):
    """HEAD is read again at the end; the next look finds the new branch."""
    commit = repository(base)
    git(base, "branch", "side")
    real, switches = git_refs._said_of, iter(["side"])

    def switched(*arguments: object) -> bytes | None:
        for branch in switches:
            git(base, "checkout", "--quiet", branch)
            break
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(git_refs, "_said_of", switched)
    seen = look("git_commit", repo=".")
    assert facts(seen) == (commit, "side", "loose")
    assert [each["code"] for each in seen.attempts] == ["CHANGED_WHILE_READING"]


def test_no_program_is_started_and_nothing_is_written(look, base, monkeypatch):
    """The look reads: every way to start a process is blocked, and the repository is what it was."""
    repository(base)
    before = {path: path.lstat() for path in (base / ".git").rglob("*")}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    for module, name in ((os, "posix_spawn"), (os, "fork"), (subprocess, "Popen")):
        monkeypatch.setattr(module, name, refuse)
    look("git_commit", repo=".")
    assert {path: path.lstat().st_mtime_ns for path in (base / ".git").rglob("*")} == {
        path: status.st_mtime_ns for path, status in before.items()
    }


def test_what_is_captured_holds_until_something_is_committed(base):
    """The claim names the commit and the branch, and fails the moment HEAD moves."""
    commit = repository(base / "r")
    claim = Evidence.capture_git("r", base_path=base)
    assert claim == Evidence(EvidenceType.GIT_COMMIT, "commit of r", {"repo": "r", "commit": commit, "branch": "main"})
    verifier = EvidenceVerifier(base, probes=PROBES)
    assert verifier.verify_evidence(claim)
    newer = committed(base / "r")
    assert not verifier.verify_evidence(claim)
    assert claim.verification_error == f"r: expected commit {commit[:12]}, found {newer[:12]} on branch main"
    git(base / "r", "checkout", "--quiet", "--detach", commit)
    assert not verifier.verify_evidence(claim)
    assert Evidence.capture_git("r", base_path=base).expected == {"repo": "r", "commit": commit}


@pytest.mark.parametrize(("make", "reason"), [(False, "REPO_MISSING"), (True, "NO_COMMIT")])
def test_nothing_is_captured_where_there_is_no_commit(base: Path, make: bool, reason: str):
    """Evidence of a commit that is not there would be a guess."""
    if make:
        git(base, "init", "--quiet")
    with pytest.raises(EvidenceUnavailableError) as refused:
        Evidence.capture_git(base_path=base)
    assert refused.value.diagnostics()["code"] == reason
