"""Claims about a git repository: at which commit it stands, and that its files are those of that commit.

These are two facts, and each stands until it is claimed anew: a commit is claimed after many a step, and must not end the claim
that nothing uncommitted lies around, nor the other way round. So each has a subject of its own: `repo:` for where HEAD stands,
and `worktree:` for the files that are checked out. Both go on with the path of the folder that holds `.git`, so both lie
beneath trees as every path does, and no path is taken for another one's worktree.
"""

from __future__ import annotations

import re
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Filled, Kind, Lifetime, Verdict, refuse, told
from agentos.core.checkpoints.kinds.places import PATH, check_path, from_base
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.results import Outcome

_COMMIT = re.compile(r"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")
_BRANCH = re.compile(r"[^\x00-\x20\x7f]+")
_ABBREVIATED = 12
# The first of each is what is meant if nothing is said.
UNTRACKED = ("all", "no")
SUBMODULES = ("none", "ignore")
_MOST_SHOWN = 8
_TRUST = "nobody vouches for what is checked out now; check out the recorded commit, or fall back to an earlier checkpoint"
_DIRTY = "commit or undo it; a step that leaves such things lets go of the claim, or claims it for its own length only"
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
    # A claim that named a commit and no branch does not come to name one.
    named = facts["branch"] is not None and ("branch" in evidence.expected or "commit" not in evidence.expected)
    branch = {"branch": facts["branch"]} if named else {}
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


def _check_clean(evidence: Evidence) -> None:
    check_path(evidence, "repo")
    for key, allowed in (("untracked", UNTRACKED), ("submodules", SUBMODULES)):
        given = evidence.expected.get(key, allowed[0])
        if given not in allowed:
            refuse(evidence, f"expected['{key}'] is {told(evidence, given)}", f"one of: {', '.join(allowed)}")


def worktree_subject(evidence: Evidence, base_path: str) -> str:
    """`worktree:` and the folder."""
    return f"worktree:{from_base(evidence.expected['repo'], base_path)}"


def _what_is_compared(evidence: Evidence) -> tuple[str, ...]:
    expected = evidence.expected
    return expected["repo"], expected.get("untracked", UNTRACKED[0]), expected.get("submodules", SUBMODULES[0])


def _judge_clean(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    repo = shown(evidence.expected["repo"])
    if not facts["exists"]:
        return _no_repository(repo)
    counts = [f"{facts[name]:,} {name}" for name in ("changed", "untracked") if facts[name]]
    if not counts:
        return HOLDS
    more = facts["changed"] + facts["untracked"] - len(facts["names"])
    names = listed(facts["names"], _MOST_SHOWN) if not more else f"{', '.join(_few(facts['names']))}, …"
    overlooked = sorted(set(facts["overlooked"]) & set(facts["names"]))
    told_to = f"; git was told to overlook {listed(overlooked, _MOST_SHOWN)}" if overlooked else ""
    return Verdict(Outcome.FAILED, "NOT_CLEAN", f"{repo}: {', '.join(counts)}: {names}{told_to}", _DIRTY)


def _few(names: list[str]) -> list[str]:
    return [shown(name, 80) for name in names[:_MOST_SHOWN]]


def _fill_clean(evidence: Evidence, seen: Seen) -> Filled | None:
    facts = seen.facts
    return (evidence.expected, evidence.metadata) if facts["exists"] and not facts["changed"] + facts["untracked"] else None


GIT_CLEAN = Kind(
    {"repo": PATH, "untracked": {"enum": list(UNTRACKED)}, "submodules": {"enum": list(SUBMODULES)}},
    frozenset({"repo"}),
    Lifetime.LASTING,
    _check_clean,
    worktree_subject,
    _judge_clean,
    effort=Effort.READ,
    fill=_fill_clean,
    look_key=_what_is_compared,
)
