"""Claims about repositories: what is refused, what each is about, and when it holds."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints.kinds import as_claimed, kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.nesting import Entry, Overlays, endings
from agentos.errors import EvidenceDefinitionError, NotSafeToResumeError, NotVerifiedError
from tests.unit.probes.repositories import committed, git, repository

SHA, OTHER = "ab" * 20, "cd" * 20


def commit(**expected: Any) -> Evidence:
    return Evidence("git_commit", "d", {"repo": "r", "commit": SHA, **expected})


def judged(claim: Evidence, **facts: Any) -> tuple[str, str, str]:
    verdict = kind_of(claim).judge(claim, facts)
    return verdict.outcome.value, verdict.code, verdict.message


def seen(**more: Any) -> dict[str, Any]:
    return {"exists": True, "commit": SHA, "branch": "main", "object": "loose", **more}


def clean(**expected: Any) -> Evidence:
    return Evidence("git_clean", "d", {"repo": "r", **expected})


def compared(changed: int = 0, untracked: int = 0, names: tuple[str, ...] = (), overlooked: tuple[str, ...] = ()) -> Any:
    return {"exists": True, "changed": changed, "untracked": untracked, "names": list(names), "overlooked": list(overlooked)}


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (clean(untracked="some"), "untracked.*is 'some'"),
        (clean(untracked=True), "untracked.*is True"),
        (clean(submodules="all"), "submodules.*is 'all'"),
        (clean(submodules=["none"]), "submodules.*is "),
        (clean(repo="/x/../../\0"), "NUL"),
        (clean(commit=SHA), "unknown key in expected: commit"),
        (commit(commit="abc1234"), "40 or 64 hexadecimal digits"),
        (commit(commit="HEAD"), "40 or 64 hexadecimal digits"),
        (commit(commit="ab" * 25), "40 or 64 hexadecimal digits"),
        (commit(commit=None), "40 or 64 hexadecimal digits"),
        (commit(branch=""), "the name of a branch"),
        (commit(branch="a\nb"), "the name of a branch"),
        (commit(branch=None), "the name of a branch"),
        (commit(repo=""), "non-empty string"),
        (commit(repo="../r"), "leaves the base path"),
        (commit(clean=True), "unknown key in expected: clean"),
    ],
)
def test_what_could_never_be_checked_is_refused(claim, says):
    """Before anything is stored, and in words."""
    with pytest.raises(EvidenceDefinitionError, match=says):
        kind_of(claim).refuse_malformed(claim)


@pytest.mark.parametrize(
    ("facts", "code", "message"),
    [
        ({"exists": False}, "REPO_MISSING", "r: expected a git repository, found none"),
        (seen(commit=None, object=None), "NO_COMMIT", f"r: expected commit {SHA[:12]}, found no commit yet on main"),
        (seen(commit=OTHER), "COMMIT_MISMATCH", f"r: expected commit {SHA[:12]}, found {OTHER[:12]} on branch main"),
        (seen(commit=OTHER, branch=None), "COMMIT_MISMATCH", f"r: expected commit {SHA[:12]}, found {OTHER[:12]} on no branch"),
        (seen(object="missing"), "COMMIT_MISSING", f"r: HEAD names commit {SHA[:12]}, and that is missing"),
        (seen(object="damaged"), "COMMIT_DAMAGED", f"r: HEAD names commit {SHA[:12]}, and that is damaged"),
        (seen(branch="side"), "BRANCH_MISMATCH", "r: expected branch main, found it on branch side"),
        (seen(branch=None), "BRANCH_MISMATCH", "r: expected branch main, found it on no branch"),
    ],
)
def test_a_repository_that_stands_elsewhere_fails_and_says_where(facts, code, message):
    """Every way in which HEAD can be another one has a code of its own."""
    assert judged(commit(branch="main"), **facts) == ("failed", code, message)


@pytest.mark.parametrize("facts", [seen(), seen(object="packed"), seen(object=None), seen(branch="side"), seen(branch=None)])
def test_the_commit_is_what_counts_unless_a_branch_is_named(facts):
    """In whatever case it is written; where its object lies is not asked, if nothing says that it is gone."""
    assert judged(commit(commit=SHA.upper()), **facts) == ("verified", "VERIFIED", "")


def test_a_name_that_lies_to_a_terminal_is_escaped():
    """A branch comes from the world."""
    assert "\x1b" not in judged(commit(), **seen(commit=OTHER, branch="\x1b[2J"))[2]


@pytest.mark.parametrize(
    ("facts", "code", "message"),
    [
        ({"exists": False}, "REPO_MISSING", "r: expected a git repository, found none"),
        (compared(3, 1, ("a", "b", "c", "d")), "NOT_CLEAN", "r: 3 changed, 1 untracked: a, b, c, d"),
        (compared(0, 1, ("new",)), "NOT_CLEAN", "r: 1 untracked: new"),
        (compared(1, 0, ("a\n\x1b[2J",)), "NOT_CLEAN", "r: 1 changed: a\\x0a\\x1b[2J"),
        (compared(9, 0, tuple("abcdefghi")), "NOT_CLEAN", "r: 9 changed: a, b, c, d, e, f, g, h, and 1 more"),
        (compared(1200, 34, tuple("abcdefghij")), "NOT_CLEAN", "r: 1,200 changed, 34 untracked: a, b, c, d, e, f, g, h, …"),
        (compared(1, 0, ("a",), ("a", "b")), "NOT_CLEAN", "r: 1 changed: a; git was told to overlook a"),
    ],
)
def test_what_is_not_clean_is_counted_and_named(facts, code, message):
    """The first few by name, so that whoever reads it knows where to look."""
    assert judged(clean(), **facts) == ("failed", code, message)


def test_a_clean_worktree_holds_whatever_git_was_told_to_overlook():
    """Those files were read too."""
    assert judged(clean(), **compared(overlooked=("a",))) == ("verified", "VERIFIED", "")


@pytest.mark.parametrize("repo", ["r", "./r/", "/base/r", "/base/x/../r"])
def test_a_commit_and_a_clean_worktree_are_two_facts_of_one_place(repo):
    """So neither ends the claim of the other, and both lie where the folder lies."""
    subjects = [kind_of(claim).subject(claim, "/base") for claim in (commit(repo=repo), clean(repo=repo))]
    assert ["repo:r", "worktree:r"] == subjects
    assert ["repo:r", "worktree:r"] == [as_claimed(f"{kind}:{repo}", "/base") for kind in ("repo", "worktree")]


def test_what_is_compared_in_another_way_is_another_look():
    """What is said by default and what is spelled out is one look."""
    keys = [kind_of(claim).look_key(claim) for claim in (clean(), clean(untracked="all"), clean(untracked="no"))]  # type: ignore[misc]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("kind", ["repo", "worktree"])
def test_a_later_claim_beneath_a_tree_overlays_it_and_a_later_tree_replaces_it(kind):
    """As with every path."""
    inside = Entry(f"{kind}:out/r", 2, 0, "lasting", "/base")
    tree = Entry("tree:out", 1, 0, "lasting", "/base")
    assert frozenset({"r"}) == Overlays({"t": [tree], "r": [inside]}).aside("t", tree, 2)
    later: dict[Hashable, list[Entry]] = {"tree:out": [tree._replace(sequence=3)], inside.subject: [inside]}
    assert [(inside.subject, 3)] == [(end.subject, end.sequence) for _, end in endings(later, lambda *_: True)]


# With a manager.


@pytest.fixture
def repo(work: Path) -> Path:
    repository(work / "r", "a")
    return work / "r"


def test_a_block_proves_the_commit_it_ends_with(manager, repo):
    """Measured when the block ends; both claims stand until they are made anew."""
    task = manager.task("t")
    with task.step("tool_executed", {"n": 1}) as step:
        step.proves_git("r")
        (repo / "a").write_text("one")
        first = committed(repo)
    pack = step.checkpoint.evidence_pack
    assert [("git_commit", {"repo": "r", "commit": first, "branch": "main"}), ("git_clean", {"repo": "r"})] == [
        (item.evidence_type, item.expected) for item in pack.evidence_list
    ]
    with task.step("tool_executed", {"n": 2}) as step:
        committed(repo)
        step.proves_git(repo, clean=False)
    assert {"n": 2} == task.resume({})
    (repo / "a").write_text("torn by a crash")
    with pytest.raises(NotSafeToResumeError) as refused:
        task.resume({})
    assert "r: 1 changed: a" in str(refused.value.recovery)
    git(repo, "checkout", "--quiet", "a")
    assert {"n": 2} == task.resume({})


def test_a_block_may_let_go_of_a_worktree(manager, repo):
    """A step that leaves uncommitted work behind says so, however it spells the place; the commit still stands."""
    task = manager.task("t")
    with task.step("tool_executed", {"n": 1}) as step:
        step.proves_git("r")
    (repo / "a").write_text("work in progress")
    with task.step("tool_executed", {"n": 2}) as step:
        step.releases(f"worktree:{repo}/")
        step.proves_file("r/a")
    assert ["worktree:r"] == step.checkpoint.evidence_pack.releases
    assert {"n": 2} == task.resume({})
    committed(repo)
    with pytest.raises(NotSafeToResumeError):
        task.resume({})


def proven(manager, folder, *, clean: bool = True) -> None:
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_git(folder, clean=clean)


def test_a_block_that_leaves_a_worktree_unclean_is_not_verified(manager, repo):
    """The claim is stored, and fails; as it does where there is no repository at all."""
    (repo / "new").write_text("")
    with pytest.raises(NotVerifiedError, match="r: 1 untracked: new"):
        proven(manager, "r")
    with pytest.raises(NotVerifiedError, match="work: expected a git repository, found none"):
        proven(manager, repo.parent, clean=False)


def test_what_differs_in_a_repository_can_be_accepted(manager, repo):
    """Its commit as it is now; and of a worktree that is not clean no more than that."""
    task = manager.task("t")
    with task.step("tool_executed", {"n": 1}) as step:
        step.proves_git("r")
    newer = committed(repo)
    taken = manager.accept("t", by="ada", reason="mine")
    assert [{"repo": "r", "commit": newer, "branch": "main"}] == [item.expected for item in taken.evidence_pack.evidence_list]
    (repo / "new").write_text("")
    taken = manager.accept("t", by="ada", reason="mine")
    assert (["worktree:r"], ["git_commit"]) == (
        taken.evidence_pack.releases,
        [item.evidence_type for item in taken.evidence_pack.evidence_list],
    )
    assert {"n": 1} == task.resume({})
