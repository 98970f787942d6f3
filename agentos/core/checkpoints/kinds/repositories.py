"""Claims about a git repository: at which commit it stands.

The subject is `repo:` and the path of the folder that holds `.git`, so it lies beneath trees as every path does.
"""

from __future__ import annotations

import re
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.kind import HOLDS, Filled, Kind, Lifetime, Verdict, refuse, told
from agentos.core.checkpoints.kinds.places import PATH, check_path, from_base
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome

_COMMIT = re.compile(r"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")
_BRANCH = re.compile(r"[^\x00-\x20\x7f]+")
_ABBREVIATED = 12
_TRUST = "nobody vouches for what is checked out now; check out the recorded commit, or fall back to an earlier checkpoint"
_BROKEN = "look at it with `git fsck`; fetch or restore the commit, or fall back to an earlier checkpoint"


def _check_commit(evidence: Evidence) -> None:
    check_path(evidence, "repo")
    commit, branch = evidence.expected["commit"], evidence.expected.get("branch")
    if type(commit) is not str or not _COMMIT.fullmatch(commit):
        said = f"expected['commit'] must be 40 or 64 hexadecimal digits, found {told(evidence, commit, 80)}"
        refuse(evidence, said, "`git rev-parse` spells it out; what is abbreviated may mean another commit tomorrow")
    if "branch" in evidence.expected and (type(branch) is not str or not _BRANCH.fullmatch(branch)):
        refuse(evidence, f"expected['branch'] must be the name of a branch, found {told(evidence, branch)}", "such as main")


def repo_subject(evidence: Evidence, base_path: str) -> str:
    """`repo:` and the folder."""
    return f"repo:{from_base(evidence.expected['repo'], base_path)}"


def _repo_of(evidence: Evidence) -> str:
    repo: str = evidence.expected["repo"]
    return repo


def _judge_commit(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    expected, repo = evidence.expected, shown(evidence.expected["repo"])
    if not facts["exists"]:
        return _no_repository(repo)
    want, got = expected["commit"].lower(), facts["commit"]
    if got is None:
        said = f"{repo}: expected commit {want[:_ABBREVIATED]}, found no commit yet on {shown(facts['branch'], 120)}"
        return Verdict(Outcome.FAILED, "NO_COMMIT", said, _TRUST)
    if want != got:
        said = f"{repo}: expected commit {want[:_ABBREVIATED]}, found {got[:_ABBREVIATED]} {_on(facts['branch'])}"
        return Verdict(Outcome.FAILED, "COMMIT_MISMATCH", said, _TRUST)
    if facts["object"] in ("missing", "damaged"):
        said = f"{repo}: HEAD names commit {want[:_ABBREVIATED]}, and that is {facts['object']}"
        return Verdict(Outcome.FAILED, f"COMMIT_{facts['object'].upper()}", said, _BROKEN)
    if "branch" in expected and expected["branch"] != facts["branch"]:
        said = f"{repo}: expected branch {shown(expected['branch'], 120)}, found it {_on(facts['branch'])}"
        return Verdict(Outcome.FAILED, "BRANCH_MISMATCH", said, _TRUST)
    return HOLDS


def _on(branch: str | None) -> str:
    return "on no branch" if branch is None else f"on branch {shown(branch, 120)}"


def _no_repository(repo: str) -> Verdict:
    said = f"{repo}: expected a git repository, found none"
    return Verdict(Outcome.FAILED, "REPO_MISSING", said, "name the folder that holds .git; it may have been moved or deleted")


def _fill_commit(evidence: Evidence, seen: Seen) -> Filled | None:
    facts = seen.facts
    if not facts.get("commit") or facts["object"] in ("missing", "damaged"):
        return None
    branch = {} if facts["branch"] is None else {"branch": facts["branch"]}
    return {"repo": evidence.expected["repo"], "commit": facts["commit"], **branch}, evidence.metadata


GIT_COMMIT = Kind(
    {
        "repo": PATH,
        "commit": {"type": "string", "pattern": "^(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"},
        "branch": {"type": "string", "pattern": "^[^\\u0000-\\u0020\\u007f]+$"},
    },
    frozenset({"repo", "commit"}),
    Lifetime.LASTING,
    _check_commit,
    repo_subject,
    _judge_commit,
    fill=_fill_commit,
    look_key=_repo_of,
)
