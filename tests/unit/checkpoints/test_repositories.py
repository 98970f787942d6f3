"""Claims about repositories: what is refused, what each is about, and when it holds."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.errors import EvidenceDefinitionError

SHA, OTHER = "ab" * 20, "cd" * 20


def commit(**expected: Any) -> Evidence:
    return Evidence("git_commit", "d", {"repo": "r", "commit": SHA, **expected})


def judged(claim: Evidence, **facts: Any) -> tuple[str, str, str]:
    verdict = kind_of(claim).judge(claim, facts)
    return verdict.outcome.value, verdict.code, verdict.message


def seen(**more: Any) -> dict[str, Any]:
    return {"exists": True, "commit": SHA, "branch": "main", "object": "loose", **more}


@pytest.mark.parametrize(
    ("claim", "says"),
    [
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
